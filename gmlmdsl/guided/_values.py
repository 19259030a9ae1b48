"""Values of verifiers and values at prefixes, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import known
from .._types import ParamsLike, Prompt
from ..data import encode_prompts, verified_seed
from ..derive import bounded_jit, on_device
from ..graph import verify_is_model
from ._build import Setting
from ._judges import AbstractJudge, View
from ._loop import Named, verify_values
from ._oracle import is_host, refuse_given
from ._run import Rules
from .limits import PREFIXES_AT_ONCE

if TYPE_CHECKING:
    from ._oracle import Oracle

Array = np.ndarray


def prefix_values(
    model: Any, params: ParamsLike, name: str, prefixes: Prompt, *, end: Any = None, seed: int = 0, oracle: Oracle | None = None
) -> Array:
    """Return V(prefix) of a verifier or value for many prefixes, as samplers evaluate it.

    Args:
        model: the model for which the file declares the verifier or value.
        params: its parameters, as in `Model.sample`.
        name: the name of the verifier or value.
        prefixes: a list of prefixes of any length, in the form of `prompt=` of `sample`; whole
            strings are allowed.
        end: the value that ends a string, if there is one.
        seed: the seed of the noise of `noisy` values, as in `Model.sample`.
        oracle: a `gm.Oracle` that replaces the model's own.

    Returns:
        One number for each prefix: 0 or 1 for a verifier, at least 0 for a value.

    Raises:
        GmlmError: E506 for an unknown name; E501, E502, E505, E507 for prefixes or parameters that
            do not fit; E510 for a network that reads given data; E745 for a result that is not a
            number of at least 0.
    """
    verify_is_model(model)
    judges = {n: j for n, j in model.program.checked.judges.items() if j.model == model.name}
    judge = judges[known(name, list(judges), f"verifier or value of model `{model.name}`")]
    if model.graph.network is not None:
        refuse_given(model.graph.network)
    setting = Setting(model.lowered, params, verified_seed(seed), model.program.allow_python, oracle)
    last = None if end is None else int(encode_prompts(model.graph, [[end]]).codes[0, 0])
    rules = Rules(setting.string.size, len(setting.string.labels), last)
    made, codes = setting.judge(judge, last), encode_prompts(model.graph, prefixes, "prefixes").codes
    found = [_some(made, setting.made_oracle, rules, codes[k : k + PREFIXES_AT_ONCE]) for k in range(0, len(codes), PREFIXES_AT_ONCE)]
    values = np.concatenate(found)
    verify_values(values, np.ones(len(values), bool), codes, Named(judge, judge, rules))
    return np.exp(values)


def _some(judge: AbstractJudge, oracle: Any, rules: Rules, codes: Array) -> Array:
    """Return log V of some prefixes.

    Their number is padded to a power of two, so that few sizes are compiled.
    """
    rows = len(codes)
    filled = np.concatenate([codes, np.full(((1 << (rows - 1).bit_length()) - rows, codes.shape[1]), -1, codes.dtype)])
    call = _values if is_host(judge) or is_host(oracle) else _compiled
    return np.asarray(call(judge, oracle, rules, on_device(filled, np.int32), on_device(np.arange(len(filled)) < rows)))[:rows]


def _values(judge: AbstractJudge, oracle: Any, rules: Rules, codes: jax.Array, asked: jax.Array) -> jax.Array:
    lengths = (codes >= 0).sum(axis=1, dtype=np.int32)
    last = codes[np.arange(len(codes)), (lengths - 1).clip(0)]
    view = View(codes.clip(0), lengths, rules.whole(lengths, last), asked)
    return judge.values(judge.start(codes), view, oracle, oracle.start(codes))


_compiled = bounded_jit(_values)
