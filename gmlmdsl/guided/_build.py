"""Construction of a game from a checked sampler: oracle, verifier or value, method and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail
from .._types import ParamsLike
from ..data import keys_of
from ..evaluate import known_params, read_layers, verified_params, verified_probes
from ..graph import Lowered, autoregressive, guided, lower_model, user_function, verify_brackets, verify_strings
from ..plan import BUDGET, plan_prefixes
from ..program import AUTOREGRESSIVE, ir, is_guided
from ._beams import Beams
from ._judges import AbstractJudge, Brackets, Completable, Noisy, Probed, PythonJudge, WithLeaves, expected
from ._loop import Named
from ._methods import Backtracking, BlockBest, Plain, Rejection, TokenwiseByValue, TokenwiseRejection
from ._oracle import HostOracle, is_host, oracle_of
from ._run import AbstractMethod, Game, Rules
from ._walk import Walk
from .limits import MOST_QUOTA

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..graph import VariableArray
    from ._oracle import Oracle

# This number is folded into the key of the call, so that noise has draws of its own.
NOISE = 0x6E6F6973


@dataclass(frozen=True)
class Setting:
    """The common settings of the samplers of one call.

    Attributes:
        lowered: the model, with one row of given data if it has given variables.
        params: the model's parameters. Entries under the names of models and verifiers contain the
            parameters of these.
        seed: the seed of the call.
        allow_python: whether user-defined functions may run.
        oracle: a user-defined oracle that replaces the model's own.
        own: the verified parameters of the model itself.
    """

    lowered: Lowered
    params: ParamsLike
    seed: int = 0
    allow_python: bool = False
    oracle: Oracle | None = None
    own: dict[str, PyTree] = field(init=False)

    def __post_init__(self):
        graph, program = self.lowered.graph, self.lowered.bound.program
        names = {p.name for p in graph.parameters} | ({graph.network.label} if graph.network is not None else set())
        own = {k: v for k, v in self.params.items() if k in names or k not in {*program.models, *program.judges}}
        made = known_params(graph, own) if graph.network is None else verified_params(graph.network, own)
        object.__setattr__(self, "own", made)

    @cached_property
    def made_oracle(self) -> Any:
        """The user-defined oracle, or else the model's."""
        if self.oracle is not None:
            return HostOracle(self.oracle, len(self.string.labels))
        return oracle_of(self.lowered, self.own)

    @property
    def string(self) -> VariableArray:
        """The variable whose cells are the string's symbols."""
        return self.lowered.graph.observed[0]

    def rules(self, options: Mapping[str, Any]) -> Rules:
        """Return how strings end, and how the distribution is tempered and truncated."""
        end, top_k, top_p = (None if options[name] == "none" else options[name] for name in ("end", "top_k", "top_p"))
        top_p = None if top_p is None or float(top_p) >= 1 else np.float64(top_p)
        return Rules(self.string.size, len(self.string.labels), end, np.float64(options["temperature"]), top_k, top_p)

    def judge(self, judge: ir.Judge, end: int | None = None) -> AbstractJudge:
        """Return a verifier or value of strings.

        A string may end with the symbol `end` before its last cell.

        Raises:
            GmlmError: with one of these codes:
                - E409: brackets are not values of the strings.
                - E515: the judge's model has other strings.
                - E507: its parameters are missing, or it is a probe and `oracle` is given.
                - E509: the parameters lack its probe.
                - E601: it costs too much.
                - E739, E744: a user-defined function is not allowed or cannot be loaded.
        """
        call = judge.body
        options = guided(call, self.lowered.bound, self.string)
        match call.form.name:
            case "completable":
                return Completable(derive.PrefixOracle(self._machine(judge, str(options["model"]), end, support=True)))
            case "brackets":
                return self._brackets(judge, options, end)
            case "expected":
                return self._expected(judge, str(options["model"]), end)
            case "noisy":
                inner = options["value"]
                assert isinstance(inner, ir.Judge)
                words = jax.random.key_data(keys_of(self.seed, np.array([NOISE]))[0])
                return Noisy(self.judge(inner, end), jnp.asarray(float(options["sd"]), derive.float_type()), words)  # type: ignore[arg-type]
            case "probe":
                return self._probe(judge, options.get("threshold"), options["layer"])
            case _:
                return self._python(judge, str(options["target"]))

    def _brackets(self, judge: ir.Judge, options: Mapping[str, Any], end: int | None) -> Brackets:
        kinds, values = int(options["kinds"]), len(self.string.labels)
        verify_brackets(judge, kinds, self.string)
        if end is not None and end < 2 * kinds:
            message = f"`end` is a bracket of {judge.kind} `{judge.name}`: its first {2 * kinds} values are brackets"
            raise fail("E409", message, judge.body.span, "a bracket", help="end strings with a value behind them")
        depth = None if options["depth"] == "none" else int(options["depth"])
        return Brackets(kinds, values > 2 * kinds, depth, bool(options["closed"]), self.string.size)

    def _probe(self, judge: ir.Judge, threshold: Any, layer: Any) -> Probed:
        form = self.lowered.graph.network
        assert form is not None
        if self.oracle is not None:
            message = f"{judge.kind} `{judge.name}` reads the network that draws, and `oracle=` draws in its place"
            raise fail("E507", message, judge.body.span)
        if judge.name not in self.params:
            help = f"`gm.train_probe(model, params, {judge.name!r}, prefixes, labels)` returns parameters with it"
            raise fail("E509", f"the parameters lack the probe `{judge.name}`", judge.body.span, "not trained", help=help)
        probe = verified_probes(form, self.params)[judge.name]
        network = read_layers(self.own[form.label], layer, judge.body.span)
        own = None if network is None else derive.causal_oracle(network, form.n_cells)
        return Probed(probe, None if threshold is None else np.float64(threshold), own)

    def _python(self, judge: ir.Judge, target: str) -> PythonJudge:
        if not self.allow_python:
            help = "load it with `allow_python=True` (`gm.load`, `gm.parse`), if you trust this file and the function"
            message = f"{judge.kind} `{judge.name}` runs code: the function `{target}`"
            raise fail("E739", message, judge.body.span, "not allowed", help=help)
        what = f"{judge.kind} `{judge.name}`"
        function = user_function(target, judge.body.span, "`V(prefixes, lengths) -> rows`")
        return PythonJudge(function, self.string, judge.kind == "verifier", what, target, judge.body.span)

    def _machine(self, judge: ir.Judge, name: str, end: int | None, *, support: bool) -> derive.PrefixMachine:
        """Return the prefix machine of another model of the program.

        Its parameters stand under its name.
        """
        other = lower_model(self.lowered.bound, name)
        verify_strings(judge, name, self.string, other.graph.observed[0])
        lacking = [p.name for p in other.graph.parameters]
        given: Any = self.params.get(name, {})
        if lacking and not isinstance(given, Mapping):
            given = {}
        if lacking and not given:
            message = f"{judge.kind} `{judge.name}` needs the parameters of model `{name}`"
            raise fail("E507", message, judge.body.span, help=f"pass them under its name: `params | {{{name!r}: {{{lacking[0]!r}: ..}}}}`")
        plan = plan_prefixes(other.graph, f"{judge.kind} `{judge.name}`")
        return derive.prefix_machine(other.graph, plan, known_params(other.graph, given), support=support, end=end)

    def _expected(self, judge: ir.Judge, name: str, end: int | None) -> AbstractJudge:
        own, other = self.made_oracle, self._machine(judge, name, end, support=False)
        if isinstance(own, derive.ContractedOracle):
            # This call raises an error with the reason.
            plan_prefixes(self.lowered.graph, f"value `{judge.name}`")
        if not isinstance(own, derive.PrefixOracle):
            message = f"value `{judge.name}` sums over completions, which only a model without a network affords"
            raise fail("E507", message, judge.body.span, "over another oracle", help="`completable` needs no weights")
        (n, k1, q, h1, _), (_, k2, _, h2, _) = own.machine.weights.shape, other.weights.shape
        size = 8.0 * n * k1 * k2 * q * h1 * h2 * max(h1, h2)
        if size > BUDGET.bytes:
            message = f"value `{judge.name}` needs sums over {k1 * k2:,} known and {h1 * h2:,} summed states of both models"
            figure = f"{size / 2**30:.3g} GiB, above the limit of {BUDGET.bytes / 2**30:.3g} GiB"
            raise fail("E601", f"{message}: {figure}", judge.body.span, help="latents of fewer values, or `completable`")
        return expected_compiled(own.machine, other, end)


expected_compiled = derive.bounded_jit(expected)


def beams_of(setting: Setting, call: ir.FormCall) -> Beams | None:
    """Return the beam search of a sampler's form, or None if it keeps one row.

    Raises:
        GmlmError: E507 for a user-defined oracle.
    """
    if call.form is not AUTOREGRESSIVE:
        return None
    rules = derive.search_rules(setting.lowered, call)
    if rules.beam == 1 or rules.decode == "sample":
        return None
    if is_host(setting.made_oracle):
        message = "beam search copies the states of prefixes, and those of `oracle=` may be any objects"
        raise fail("E507", message, call.span, "several rows", help="leave `beam` out")
    return Beams(setting.made_oracle, rules)


def game_of(setting: Setting, call: ir.FormCall) -> Game:
    """Return the game that draws according to a sampler's form, row by row.

    Raises:
        GmlmError: for options that do not fit, and for missing parts of verifiers and values.
    """
    if call.form is AUTOREGRESSIVE:
        return _plain(setting, call)
    if not is_guided(call.form.name):
        raise no_symbols(call)
    options = guided(call, setting.lowered.bound, setting.string)
    asked = options.get("verifier", options.get("value"))
    assert isinstance(asked, ir.Judge)
    rules = setting.rules(options)
    judge = setting.judge(asked, rules.end)
    leaf = options.get("leaf")
    if isinstance(leaf, ir.Judge):
        judge = WithLeaves(judge, setting.judge(leaf, rules.end))
    return Game(setting.made_oracle, judge, _method(call.form.name, asked.kind, options), rules)


def no_symbols(call: ir.FormCall) -> GmlmError:
    """Return the error for an oracle with a sampler that does not draw one symbol after another."""
    message = f"`oracle=` gives symbol after symbol, and `{call.form.name}` predicts all cells of a row at once"
    return fail("E507", message, call.span, "no next symbol", help="leave `oracle=` out, or sample by `autoregressive` or a guided sampler")


def named_of(setting: Setting, call: ir.FormCall, game: Game) -> Named:
    """Return the names of a sampler's judges and oracle, for messages."""
    network = setting.lowered.graph.network
    oracle = "the oracle" if network is None or is_host(game.oracle) else f"network `{network.label}`"
    if call.form is AUTOREGRESSIVE:
        return Named(None, None, game.rules, oracle)
    options = guided(call, setting.lowered.bound, setting.string)
    judge, leaf = options.get("verifier", options.get("value")), options.get("leaf")
    assert isinstance(judge, ir.Judge)
    return Named(judge, leaf if isinstance(leaf, ir.Judge) else judge, game.rules, oracle)


def _plain(setting: Setting, call: ir.FormCall) -> Game:
    options = autoregressive(call, setting.lowered.bound, setting.string)
    return Game(setting.made_oracle, None, Plain(options["decode"] == "argmax"), setting.rules(options))


def _method(name: str, kind: str, options: Mapping[str, Any]) -> AbstractMethod:
    tries = None if options.get("tries", "none") == "none" else int(options["tries"])
    match name:
        case "rejection":
            return Rejection(tries)
        case "tokenwise_rejection":
            return TokenwiseRejection(tries) if kind == "verifier" else TokenwiseByValue(tries)
        case "backtracking":
            regenerate = options["regenerate"] == "argmax"
            numbers = (min(int(options[name]), MOST_QUOTA) for name in ("quota", "stride"))
            quota, stride = (derive.on_device(n, np.int32) for n in numbers)
            return Backtracking(quota, stride, regenerate, bool(options["erase_prompt"]))
        case "value_guided":
            return Walk(int(options["steps"]), str(options["result"]))
        case "best_of":
            return BlockBest(int(options["n"]), None)
        case _:
            return BlockBest(int(options["n"]), int(options["block"]))
