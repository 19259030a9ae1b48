"""Every sampler can draw its rarest value, wherever it stands: some numbers that it draws by are made small, the others large."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.derive import _mask_law, _picks, _random

FORMS = {
    "three": ("range(3)", "if x[i] == 1 then -60 else 0", 1),
    "twelve": ("range(12)", "if x[i] == 7 then -60 else 0", 7),
    "forty": ("range(40)", "if x[i] == 23 then -60 else 0", 23),
}
SAMPLERS = {
    "sweep": "update x[i] for i in range(3)",
    "whole": "update x",
    "mixture": "mixture { 1e-9 : update x[i] for i in range(3)  1 : update x[K] where K ~ none }",
}


@pytest.fixture
def extreme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fractions are 1e-34, below every probability that a node here has, or 0.4, or 1, as bits of a word say."""

    def small(words: jnp.ndarray, rest: jnp.ndarray) -> jnp.ndarray:
        del rest
        return jnp.where(words & 4 == 4, 1e-34, jnp.where(words & 8 == 8, 0.4, 1.0)).astype(_random.float_type())

    monkeypatch.setattr(_random, "fraction", small)


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.usefixtures("extreme")
@pytest.mark.parametrize("sampler", thinned(["sweep", "whole", "mixture"], 2, 1))
@pytest.mark.parametrize("form", thinned(list(FORMS), 2))
def test_extreme_numbers_draw_the_rarest_value(form: str, sampler: str) -> None:
    """Of sweeps from tables, blocks, eliminated chains, and the rare row of a mixture."""
    domain, factor, rarest = FORMS[form]
    text = f"""
model m{len(form)}{sampler} {{
  var x[i in range(3)] : {domain}
  factor {factor} for i in range(3)
  factor 0.01 * (x[i] == x[i + 1]) for i in range(3) if i < 2
}}
mask one = subsets(x, size = 1)
mask none {{ choose {{x[0]}} weight 1 }}
sampler s {{ {SAMPLERS[sampler]} }}
"""
    drawn = gm.parse(text).model().sample({}, "s", draws=50, warmup=0, chains=40, progress=False)["posterior"]["x"].values
    assert (drawn == rarest).any(axis=(0, 1)).all()


@pytest.mark.slow  # `test_picks.py` has the distributions of tokens and choices
@pytest.mark.usefixtures("extreme")
def test_extreme_numbers_take_the_rarest_token_and_choice() -> None:
    keys = jax.random.split(jax.random.key(0), 5000)
    for values in (5, 200):
        scores = jnp.where(jnp.arange(values) == values // 2, -60.0, 0.0)
        token = _picks.pick_token(
            jnp.broadcast_to(scores[None], (5000, values)), _picks.token_words(keys, 1, values).having(lambda w: w[:, 0])
        )
        assert (np.asarray(token) == values // 2).any()
        assert (np.asarray(_mask_law.picked(jnp.exp(scores)[:, None], keys)) == values // 2).any()
