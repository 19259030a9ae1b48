"""The only table of forms: named constructs with arguments, options and documentation.

The table has four users:

- The checker validates calls against it.
- The language reference is generated from it.
- Completion reads it.
- The packages that build objects find their builders by its names.
"""

from __future__ import annotations

from functools import partial

from ._form import BLOCKS as BLOCKS
from ._form import BOOLEAN as BOOLEAN
from ._form import CONFIDENCE as CONFIDENCE
from ._form import EXPRESSION as EXPRESSION
from ._form import INPUT as INPUT
from ._form import INTEGER as INTEGER
from ._form import NUMBER as NUMBER
from ._form import NUMBERS as NUMBERS
from ._form import PLANNER as PLANNER
from ._form import PROBABILITIES as PROBABILITIES
from ._form import PROBABILITY as PROBABILITY
from ._form import RATE as RATE
from ._form import SAMPLER as SAMPLER
from ._form import SCHEDULE as SCHEDULE
from ._form import SIZE as SIZE
from ._form import SIZES as SIZES
from ._form import TEXT as TEXT
from ._form import TEXTS as TEXTS
from ._form import VARIABLES as VARIABLES
from ._form import Form as Form
from ._form import Option as Option
from ._form import named
from ._network_forms import GUIDED, NETWORKS, SAMPLERS, SEEN, VALUES, VERIFIERS

_WRAP = named("wrap", BOOLEAN, "whether the last node is joined to the first along each axis; no second edge on an axis of 2", "false")
_VARIABLES = Option("variables", VARIABLES, "the variables whose cells it uses; by default every `var`", required=False)
_graph, _mask, _law = (partial(Form, group) for group in ("graph", "mask", "distribution"))
GRAPHS = (
    _graph(
        "grid",
        (
            Option("n", SIZE, "rows"),
            Option("m", SIZE, "columns"),
            Option("axes", SIZES, "the lengths of further axes", required=False),
            _WRAP,
        ),
        "The n by m lattice, or one with more axes. Nodes are 0..nm-1 in row-major order. With two axes, it has `.rows` and `.columns`.",
    ),
    _graph(
        "triangular",
        (Option("n", SIZE, "rows"), Option("m", SIZE, "columns"), _WRAP),
        "The n by m triangular lattice: `grid` with one more edge from each node, to the node one row below and one column to the right.",
    ),
    _graph("chain", (Option("n", SIZE, "nodes"), _WRAP), "A chain of nodes 0..n-1, each joined to the next."),
    _graph("complete", (Option("nodes", SIZE, "nodes"),), "Every unordered pair of nodes."),
    _graph(
        "bipartite",
        (Option("a", SIZE, "left nodes"), Option("b", SIZE, "right nodes")),
        "All pairs (i in a, j in b). It has only `.edges`.",
    ),
    _graph(
        "edges",
        (
            Option("pairs", INPUT, "an integer input of shape (number of edges, 2)"),
            named("nodes", SIZE, "the set of nodes", required=True),
        ),
        "The graph whose edges are an input.",
    ),
)

DISTRIBUTIONS = (
    _law(
        "normal",
        (Option("mean", NUMBER, "mean"), Option("sd", NUMBER, "standard deviation, above 0")),
        "Gaussian.",
        support="real",
    ),
    _law(
        "laplace",
        (Option("mean", NUMBER, "location"), Option("scale", NUMBER, "scale, above 0")),
        "Double exponential.",
        support="real",
    ),
    _law(
        "student_t",
        (
            Option("df", NUMBER, "degrees of freedom, above 0"),
            Option("mean", NUMBER, "location"),
            Option("scale", NUMBER, "scale, above 0"),
        ),
        "Student's t.",
        support="real",
    ),
    _law(
        "spike_slab",
        (
            Option("sd", NUMBER, "standard deviation of the slab, above 0"),
            Option("probability", NUMBER, "prior probability that an entry is nonzero", bounds=PROBABILITIES),
        ),
        "Normal around 0 with the given probability, otherwise exactly 0. `Model.posterior` samples it; `fit` does not accept it.",
        support="unbounded",
    ),
    _law(
        "half_normal",
        (Option("sd", NUMBER, "standard deviation of the unrestricted normal, above 0"),),
        "Normal around 0, restricted to numbers above 0. The parameter is `positive`.",
        support="positive",
    ),
    _law(
        "half_cauchy",
        (Option("scale", NUMBER, "scale of the unrestricted Cauchy, above 0"),),
        "Cauchy around 0, restricted to numbers above 0.",
        support="positive",
    ),
    _law("exponential", (Option("rate", NUMBER, "rate, above 0"),), "Exponential.", support="positive"),
    _law(
        "gamma",
        (Option("shape", NUMBER, "shape, above 0"), Option("rate", NUMBER, "rate, above 0")),
        "Gamma. The density is unbounded at 0 for a shape below 1.",
        support="positive",
    ),
    _law(
        "beta",
        (Option("a", NUMBER, "first shape, above 0"), Option("b", NUMBER, "second shape, above 0")),
        "Beta. The density is unbounded if a shape is below 1.",
        support="unit",
    ),
    _law(
        "dirichlet",
        (Option("concentration", NUMBER, "concentration of every entry, or a list with one for each, above 0"),),
        "Dirichlet on the last axis. The density is unbounded for a concentration below 1.",
        support="simplex",
    ),
    _law(
        "categorical",
        (
            Option(
                "probabilities",
                PROBABILITY,
                "a simplex parameter or a normalised input with its last axis open, or a list of probabilities; "
                "or `logits = e for a in domain`",
            ),
        ),
        "Distribution of a variable: log p(z | parents).",
        support="cell",
    ),
    _law(
        "bernoulli",
        (Option("probability", PROBABILITY, "probability of 1 (of +1 for a spin), or `logit = ..` with its log odds"),),
        "Distribution of a bit or spin: log p(z | parents).",
        support="cell",
    ),
    _law(
        "binomial",
        (
            Option("n", PROBABILITY, "number of trials, equal for all cells of the variable, whose type is `range(n + 1)`"),
            Option("probability", PROBABILITY, "probability of each success, or `logit = ..` with its log odds"),
        ),
        "Distribution of a range: the number of successes.",
        support="cell",
    ),
    _law(
        "ordered_logistic",
        (
            Option("location", PROBABILITY, "a number"),
            Option("cutpoints", PROBABILITY, "an increasing array with its last axis open, one entry fewer than the variable has values"),
        ),
        "Distribution of a range: the total probability of its first k + 1 values is sigmoid(cutpoints[k] - location).",
        support="cell",
    ),
)

MASKS = (
    _mask(
        "subsets",
        (_VARIABLES, named("size", INTEGER, "k, the number of cells", required=True), *SEEN),
        "A uniform draw of k cells (Li et al. 2024, Definition 3).",
        block_size="size",
    ),
    _mask(
        "stripes",
        (_VARIABLES, named("width", INTEGER, "k, the number of cells", required=True), *SEEN),
        "A uniform draw of k consecutive cells, in the order of the cells: x[0] to x[k - 1], x[1] to x[k], and so on.",
        block_size="width",
    ),
    _mask("everything", (_VARIABLES, *SEEN), "All cells at once: maximum likelihood."),
    _mask(
        "blocks",
        (
            Option("blocks", BLOCKS, "sets of cells, or `G.rows`, `G.columns`, `G.edges` if one variable runs over the nodes of `G`"),
            *SEEN,
        ),
        "A uniform draw of one of the blocks.",
    ),
    _mask(
        "bernoulli",
        (_VARIABLES, named("rate", RATE, "a number, or `uniform(a, b)` drawn once per mask", required=True), *SEEN),
        "Every cell independently with probability `rate`.",
    ),
    _mask(
        "percolation",
        (Option("edges", BLOCKS, "pairs of cells, or `G.edges`, of the one variable over the nodes of G"),),
        "The cluster of a random cell by bonds on these edges. It is redrawn among its images under symmetries of the factors (Wolff "
        "1989) and of each `require` (Kempe chains). Only for updates. `cluster` is another name.",
        synonym="cluster",
    ),
    _mask(
        "least_confident",
        (_VARIABLES, named("count", INTEGER, "number of cells", required=True)),
        "The cells whose present values have the lowest probabilities in a `conditional` model. Only with `independently`.",
        block_size="count",
    ),
    _mask(
        "visits",
        (Option("sampler", SAMPLER, "a decoder of the model whose choice of cells does not depend on drawn values"),),
        "The cells that a sampler hides in a random pass. The loss is a weighted sum over the cells that the pass settles: a bound of the "
        "sampler's own -log p, in nats per row. It fits a `conditional` model.",
    ),
)

KERNELS = (
    Form(
        "kernel",
        "temper",
        (named("betas", NUMBERS, "distinct inverse temperatures of at least 0, one of them 1: a list or an input", required=True),),
        "Replica exchange. The replica of each beta runs the body with beta log p, and neighbours exchange their states.",
    ),
)

TYPES = (
    Form("type", "range", (Option("q", SIZE, "number of values"),), "The integers 0..q-1. `range(a, b)` has the integers a..b-1."),
    Form("type", "letters", (Option("alphabet", TEXT, "one letter per value"),), "Unordered letters, in the order written."),
    Form("type", "labels", (Option("labels", TEXTS, "one string per value"),), "Unordered labels, in the order written."),
    Form(
        "type",
        "vocabulary",
        (Option("folder", TEXT, "the folder of the network `pretrained`"),),
        "The tokens of a pretrained model, by their ids.",
    ),
    Form(
        "type",
        "real",
        (named("lower", NUMBER, "lower bound", "-infinity"), named("upper", NUMBER, "upper bound", "infinity")),
        "Real numbers, optionally with bounds.",
    ),
    Form("type", "spin", (), "-1 or +1."),
    Form("type", "bit", (), "0 or 1."),
    Form("type", "positive", (), "Real numbers above 0."),
    Form("type", "simplex", (), "Non-negative, with sum 1 over the last axis."),
    Form("type", "ordered", (), "Increasing along the last axis (parameters only)."),
    Form("type", "int", (), "Integers (inputs only)."),
    Form("type", "nonnegative", (), "Real numbers of at least 0 (inputs and given variables only)."),
)

GAUGES = (
    Form("gauge", "zero_sum", (Option("parameter", EXPRESSION, "a parameter"),), "The sum over each axis that runs over a domain is zero."),
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
    Form("function", "cos", _X, "The cosine of an angle in radians."),
    Form("function", "sin", _X, "The sine of an angle in radians."),
    Form("function", "softplus", _X, "log(1 + exp(a)), without overflow for large a."),
    Form("function", "log1p", _X, "log(1 + a), accurate for small a."),
    Form("function", "expm1", _X, "exp(a) - 1, accurate for small a."),
    Form("function", "logit", _X, "log(a / (1 - a))."),
    Form(
        "function",
        "log_binomial",
        (Option("n", EXPRESSION, "trials"), Option("k", EXPRESSION, "successes")),
        "Logarithm of the number of ways to choose k of n.",
    ),
    Form("function", "spin", (Option("b", EXPRESSION, "0 or 1"),), "2 b - 1, which converts a bit to a spin."),
    Form("function", "bit", (Option("s", EXPRESSION, "-1 or +1"),), "(s + 1) / 2, which converts a spin to a bit."),
    *(
        Form("function", name, (Option("e", EXPRESSION, f"{what}, followed by `for .. if ..`"),), doc)
        for name, what, doc in (
            ("sum", "the number that is added", "The sum of e over its `for`."),
            ("prod", "the number that is multiplied", "The product of e over its `for`."),
            ("count", "a condition", "The number of times that e is true over its `for`."),
            ("any", "a condition", "Whether e is true at least once over its `for`."),
            ("all", "a condition", "Whether e is always true over its `for`."),
            ("all_different", "the value that differs", "Whether no two values of e over its `for` are equal."),
            ("logsumexp", "a number", "log of the sum of exp(e) over its `for`; `min(e for ..)` and `max(e for ..)` likewise."),
        )
    ),
)

FORMS: tuple[Form, ...] = (
    *GRAPHS,
    *DISTRIBUTIONS,
    *MASKS,
    *SAMPLERS,
    *GUIDED,
    *VERIFIERS,
    *VALUES,
    *KERNELS,
    *NETWORKS,
    *TYPES,
    *GAUGES,
    *FUNCTIONS,
)
_BY_NAME = {(f.room, name): f for f in FORMS for name in (f.name, f.synonym) if name}


def form(room: str, name: str) -> Form | None:
    """Return the form called `name` in the group `room`, or None."""
    return _BY_NAME.get((room, name))


def with_option(room: str, name: str) -> list[str]:
    """Return the forms of a room that have an option of this name, without presets."""
    forms = (f for f in FORMS if f.room == room and f.of is None)
    return [f.name for f in forms if any(o.name == name for o in f.options)]


def names(room: str) -> tuple[str, ...]:
    """Return the names of a group's forms, in the order of the table."""
    return tuple(f.name for f in FORMS if f.room == room)
