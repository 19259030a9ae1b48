"""What a verifier or value says of prefixes, asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .._diagnostics import known
from ..data import encode_prompts, verified_seed
from ..derive import bounded_jit, on_device
from ..graph import verify_is_model
from ._build import Setting
from ._judges import AbstractJudge, View
from ._loop import Named, verify_values
from ._oracle import is_host, refuse_given
from ._run import Rules

Array = np.ndarray
AT_ONCE = 1024  # prefixes


def prefix_values(
    model: Any, params: Mapping[str, Any], name: str, prefixes: Any, *, end: Any = None, seed: int = 0, oracle: Any = None
) -> Array:
    """V(prefix) of a verifier or value for each of many prefixes, which samplers ask for as they go.

    Args:
        model: the model that the file declares it for.
        params: its parameters, as in `Model.sample`.
        name: of the verifier or value.
        prefixes: as `prompt=` of `sample`: a list of prefixes of any length, whole strings among
            them.
        end: the value that ends a string, where one does.
        seed: of the noise of `noisy` values, as in `Model.sample`.
        oracle: a `gm.Oracle` in the model's place.

    Returns:
        0 or 1 of a verifier, at least 0 of a value; one number for each prefix.

    Raises:
        GmlmError: E506 for an unknown name; E501, E502, E505, E507 for prefixes or parameters that
            do not fit, E745 for what is no number of at least 0.
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
    found = [_some(made, setting.made_oracle, rules, codes[k : k + AT_ONCE]) for k in range(0, len(codes), AT_ONCE)]
    values = np.concatenate(found)
    verify_values(values, np.ones(len(values), bool), codes, Named(judge, judge, rules))
    return np.exp(values)


def _some(judge: AbstractJudge, oracle: Any, rules: Rules, codes: Array) -> Array:
    """log V of some prefixes; their number is filled up to a power of two, so that few sizes are compiled."""
    rows = len(codes)
    filled = np.concatenate([codes, np.full(((1 << (rows - 1).bit_length()) - rows, codes.shape[1]), -1, codes.dtype)])
    call = _values if is_host(judge) or is_host(oracle) else _compiled
    return np.asarray(call(judge, oracle, rules, on_device(filled, np.int32), on_device(np.arange(len(filled)) < rows)))[:rows]


def _values(judge: AbstractJudge, oracle: Any, rules: Rules, codes: Any, asked: Any) -> jax.Array:
    lengths = (codes >= 0).sum(axis=1, dtype=np.int32)
    last = codes[np.arange(len(codes)), (lengths - 1).clip(0)]
    view = View(codes.clip(0), lengths, rules.whole(lengths, last), asked)
    return judge.values(judge.start(codes), view, oracle, oracle.start(codes))


_compiled = bounded_jit(_values)
