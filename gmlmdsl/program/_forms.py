"""The one table of forms: every named construct that takes arguments, with its options and their documentation.

The checker validates calls against it, the language reference is printed from it, completion reads it, and
the rooms that build things look their builders up by its names.
"""

from __future__ import annotations

from dataclasses import dataclass

# What an option takes. The checker has one function per kind (`_arguments.py`).
NUMBER = "number"  # an expression of inputs (and of the axes' index names in a prior)
INTEGER = "integer"
BOOLEAN = "boolean"
SIZE = "size"  # an integer, or an index set whose size it is
SET = "set"
INPUT = "input"  # the name of an input array
VARIABLES = "variables"  # one or more variables of the model, or none: all
BLOCKS = "blocks"  # sets of cells, with `for`
RATE = "rate"  # a number or `uniform(a, b)`
NOISE = "noise"  # {hide: .., uniform: .., keep: ..}
NUMBERS = "numbers"  # [a, b, ..]
TEXT = "text"
TEXTS = "texts"
WORD = "word"  # one of `words`
EXPRESSION = "expression"
PROBABILITY = "probability"  # an array with its last axis open


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of a form: what it is called, what it takes, whether it must be given, and what it means."""

    name: str
    takes: str
    doc: str
    required: bool = True
    default: str = ""
    words: tuple[str, ...] = ()
    named: bool = False  # only as `name = value`


@dataclass(frozen=True, slots=True)
class Form:
    """One construct. `room` is graph, mask, sampler, network, distribution, type, gauge, function or kernel."""

    room: str
    name: str
    options: tuple[Option, ...]
    doc: str
    support: str = ""  # of a distribution: real, positive, unit or simplex
    since: str = "0.1"
    free: bool = False  # takes further named options, handed on as they are

    @property
    def signature(self) -> str:
        """`grid(n, m, wrap = false)`."""
        parts = []
        for o in self.options:
            many = ", .." if o.takes in (VARIABLES, BLOCKS, TEXTS) else ""
            parts.append(f"{o.name} = {o.default or '..'}" if o.named else o.name + many)
        return f"{self.name}({', '.join(parts + ['..'] * self.free)})"


def _named(name: str, takes: str, doc: str, default: str = "", required: bool = False, words: tuple[str, ...] = ()) -> Option:
    return Option(name, takes, doc, required, default, words, named=True)


_WRAP = _named("wrap", BOOLEAN, "join the last to the first along each axis", "false")
_VARIABLES = Option("variables", VARIABLES, "the variables whose cells it ranges over; none: every `var`", required=False)
_NOISE = _named("noise", NOISE, "what a network sees in the cells of K; probabilities that sum to 1", "{hide: 1}")

GRAPHS = (
    Form(
        "graph",
        "grid",
        (Option("n", SIZE, "rows"), Option("m", SIZE, "columns"), _WRAP),
        "The n by m lattice; nodes 0..nm-1 row-major; has `.rows` and `.columns`.",
    ),
    Form("graph", "chain", (Option("n", SIZE, "nodes"), _WRAP), "Nodes 0..n-1, each joined to the next."),
    Form("graph", "complete", (Option("nodes", SIZE, "nodes"),), "Every unordered pair of nodes."),
    Form(
        "graph",
        "bipartite",
        (Option("a", SIZE, "left nodes"), Option("b", SIZE, "right nodes")),
        "All pairs (i in a, j in b); has only `.edges`.",
    ),
    Form(
        "graph",
        "edges",
        (
            Option("pairs", INPUT, "an integer input of shape (number of edges, 2)"),
            _named("nodes", SIZE, "the nodes the pairs join", required=True),
        ),
        "The graph whose edges are bound from Python.",
    ),
)

DISTRIBUTIONS = (
    Form(
        "distribution",
        "normal",
        (Option("mean", NUMBER, "mean"), Option("sd", NUMBER, "standard deviation, above 0")),
        "Gaussian.",
        support="real",
    ),
    Form(
        "distribution",
        "laplace",
        (Option("mean", NUMBER, "location"), Option("scale", NUMBER, "scale, above 0")),
        "Double exponential.",
        support="real",
    ),
    Form(
        "distribution",
        "student_t",
        (
            Option("df", NUMBER, "degrees of freedom, above 0"),
            Option("mean", NUMBER, "location"),
            Option("scale", NUMBER, "scale, above 0"),
        ),
        "Student's t.",
        support="real",
    ),
    Form(
        "distribution",
        "gamma",
        (Option("shape", NUMBER, "shape, above 0"), Option("rate", NUMBER, "rate, above 0")),
        "Gamma; density unbounded at 0 for a shape below 1.",
        support="positive",
    ),
    Form(
        "distribution",
        "beta",
        (Option("a", NUMBER, "first shape, above 0"), Option("b", NUMBER, "second shape, above 0")),
        "Beta; density unbounded where a shape is below 1.",
        support="unit",
    ),
    Form(
        "distribution",
        "dirichlet",
        (Option("concentration", NUMBER, "of every entry, above 0"),),
        "Dirichlet on the last axis; unbounded for a concentration below 1.",
        support="simplex",
    ),
    Form(
        "distribution",
        "categorical",
        (Option("probabilities", PROBABILITY, "a simplex parameter or a normalised input with its last axis open"),),
        "On a variable: log p(z | parents).",
        support="cell",
    ),
)

MASKS = (
    Form(
        "mask",
        "subsets",
        (_VARIABLES, _named("size", INTEGER, "k, the number of cells", required=True), _NOISE),
        "Uniform over the subsets of k cells (Li et al. 2024, Definition 3).",
    ),
    Form("mask", "everything", (_VARIABLES, _NOISE), "All cells at once: maximum likelihood."),
    Form(
        "mask",
        "blocks",
        (Option("blocks", BLOCKS, "sets of cells, or `G.rows`, `G.columns`, `G.edges`"), _NOISE),
        "Uniform over the blocks.",
    ),
    Form(
        "mask",
        "bernoulli",
        (_VARIABLES, _named("rate", RATE, "a number, or `uniform(a, b)` drawn once per mask", required=True), _NOISE),
        "Every cell on its own with probability `rate`.",
    ),
    Form(
        "mask",
        "least_confident",
        (_VARIABLES, _named("count", INTEGER, "number of cells", required=True)),
        "The cells whose present value a `conditional` model gives the lowest probability; only under `independently`.",
    ),
)

SAMPLERS = (
    Form(
        "sampler",
        "refinement",
        (
            _named("steps", INTEGER, "passes", "4"),
            _named("lengths", INTEGER, "candidate lengths", "1"),
            _named("start", WORD, "what stands in the cells before the first pass", "hide", words=("hide", "uniform")),
            _named("remask", WORD, "which cells are drawn again", "none", words=("none", "stutter", "least_confident", "remdm")),
        ),
        "Parallel decoding by iterative refinement, for `conditional` models.",
    ),
)
KERNELS = (
    Form(
        "kernel",
        "temper",
        (_named("betas", NUMBERS, "inverse temperatures: distinct, at least 0, 1 among them", required=True),),
        "Runs its body on replicas of log p scaled by each beta, with exchange moves.",
    ),
)

_LAYERS = (
    _named("layers", INTEGER, "blocks", "4"),
    _named("heads", INTEGER, "attention heads", "8"),
    _named("width", INTEGER, "model width", "256"),
    _named("ffn", INTEGER, "inner width of the feed-forward part; none: 4 times the width", "4 * width"),
    _named("dropout", NUMBER, "dropout rate", "0"),
    _named("positional_attention", BOOLEAN, "weights from positions alone in the decoder", "false"),
)
NETWORKS = (
    Form("network", "transformer", _LAYERS[:5], "An encoder over the cells."),
    Form("network", "encoder_decoder", _LAYERS, "An encoder of the `given` array and a decoder of the predicted one."),
    Form(
        "network",
        "mlp",
        (_named("layers", INTEGER, "hidden layers", "2"), _named("width", INTEGER, "hidden width", "256")),
        "A perceptron on the one-hot cells.",
    ),
    Form(
        "network",
        "python",
        (Option("target", TEXT, '"package.module:Class"'),),
        "A class of the user's, called with the other options; loads only when the Python call allows it.",
        free=True,
    ),
)

TYPES = (
    Form("type", "range", (Option("q", SIZE, "number of values"),), "The integers 0..q-1."),
    Form("type", "letters", (Option("alphabet", TEXT, "one letter per value"),), "Unordered letters, in the order written."),
    Form("type", "labels", (Option("labels", TEXTS, "one text per value"),), "Unordered labels, in the order written."),
    Form(
        "type",
        "real",
        (_named("lower", NUMBER, "lower bound", "-infinity"), _named("upper", NUMBER, "upper bound", "infinity")),
        "Real numbers, perhaps bounded.",
    ),
    Form("type", "spin", (), "-1 or +1."),
    Form("type", "bit", (), "0 or 1."),
    Form("type", "positive", (), "Real numbers above 0."),
    Form("type", "simplex", (), "Non-negative, with sum 1 over the last axis."),
    Form("type", "int", (), "Integers (inputs only)."),
)

GAUGES = (
    Form("gauge", "zero_sum", (Option("parameter", EXPRESSION, "a parameter"),), "Sums over each axis that runs over a domain are zero."),
)

_X = (Option("a", EXPRESSION, "a number"),)
FUNCTIONS = (
    Form("function", "exp", _X, "e to the power a."),
    Form("function", "log", _X, "Natural logarithm; -infinity at 0."),
    Form("function", "sqrt", _X, "Square root."),
    Form("function", "abs", _X, "Absolute value."),
    Form("function", "sigmoid", _X, "1 / (1 + exp(-a))."),
    Form("function", "tanh", _X, "Hyperbolic tangent."),
    Form("function", "min", (Option("a", EXPRESSION, "a number"), Option("b", EXPRESSION, "a number")), "The smaller."),
    Form("function", "max", (Option("a", EXPRESSION, "a number"), Option("b", EXPRESSION, "a number")), "The larger."),
    Form("function", "spin", (Option("b", EXPRESSION, "0 or 1"),), "2 b - 1: a bit as a spin."),
    Form("function", "bit", (Option("s", EXPRESSION, "-1 or +1"),), "(s + 1) / 2: a spin as a bit."),
    Form("function", "sum", (Option("e", EXPRESSION, "what is added, followed by `for .. if ..`"),), "The sum of e over its `for`."),
)

FORMS: tuple[Form, ...] = (*GRAPHS, *DISTRIBUTIONS, *MASKS, *SAMPLERS, *KERNELS, *NETWORKS, *TYPES, *GAUGES, *FUNCTIONS)
_BY_NAME = {(f.room, f.name): f for f in FORMS}


def form(room: str, name: str) -> Form | None:
    """The form called `name` in `room`, or None."""
    return _BY_NAME.get((room, name))


def names(room: str) -> tuple[str, ...]:
    """The names of a room's forms, in the table's order."""
    return tuple(f.name for f in FORMS if f.room == room)
