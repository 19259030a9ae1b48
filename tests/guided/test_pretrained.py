"""A causal language model of `transformers` as an oracle: a tiny one with random weights, made here; without the library, what is said."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm

HERE = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
installed = pytest.mark.skipif(not HERE, reason="transformers and PyTorch are not installed: pip install 'gmlmdsl[pretrained]'")
TOKENS, BEFORE = (7, 3, 11), (1, 5)
PROGRAM = """
model words {
  var x[i in range(4)] : range(3)
  x[i] ~ categorical([0.2, 0.3, 0.5]) for i in range(4)
}
model apart {
  var x[i in range(4)] : range(3)
  require x[i] != x[i + 1] for i in range(4) if i < 3
}
verifier can for words = completable(apart)
sampler back for words = backtracking(can, quota = 2, stride = 2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a network of 13 tokens with random weights that are not small."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=13, n_positions=16, n_embd=8, n_layer=2, n_head=2, initializer_range=0.6, bos_token_id=1, eos_token_id=2)
    path = tmp_path_factory.mktemp("tiny")
    GPT2LMHeadModel(config).save_pretrained(path)
    return path


def one_by_one(folder: Path, prefix: list[int]) -> np.ndarray:
    """log p of the next value behind one prefix, without padding."""
    import torch
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(torch.tensor([[*BEFORE, *(TOKENS[k] for k in prefix)]])).logits[0, -1].double().numpy()[list(TOKENS)]
    return logits - np.log(np.exp(logits).sum())


@installed
def test_prefixes_of_many_lengths_have_the_laws_of_each_alone(folder: Path) -> None:
    oracle = gm.PretrainedOracle(folder, TOKENS, BEFORE)
    assert isinstance(oracle, gm.Oracle)
    state = oracle.start(np.array([[0, 2, 1, -1], [-1] * 4, [2, -1, -1, -1]]))
    for prefixes, change in (
        ([[0, 2, 1], [], [2]], lambda s: oracle.push(s, np.array([-1, 1, 0]))),
        ([[0, 2, 1], [1], [2, 0]], lambda s: oracle.pop(s, np.array([2, 1, 0]))),
        ([[0], [], [2, 0]], lambda s: oracle.push(s, np.array([1, 2, 2]))),
        ([[0, 1], [2], [2, 0, 2]], lambda s: s),
    ):
        wanted = [one_by_one(folder, p) for p in prefixes]
        np.testing.assert_allclose(oracle.next_log_probs(state), wanted, atol=1e-5)
        state = change(state)
    assert np.ptp(wanted) > 0.5


@installed
@pytest.mark.usefixtures("standard_promotion")
def test_algorithm_1_draws_from_it(folder: Path) -> None:
    oracle, model = gm.PretrainedOracle(folder, TOKENS, BEFORE), gm.parse(PROGRAM).model("words")
    law = gm.theory.output_law(model, {}, "back", oracle=oracle)
    draws = model.sample({}, "back", draws=400, seed=1, oracle=oracle)["posterior"]["x"].values.reshape(-1, 4)
    for string, p in zip(law.strings, law.probabilities, strict=True):
        assert abs((draws == string).all(axis=1).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / 400) + 1e-9


@installed
def test_what_is_no_model_and_what_are_no_tokens_is_said(folder: Path, tmp_path: Path) -> None:
    for make, code, words in (
        (lambda: gm.PretrainedOracle(tmp_path), "E501", "holds no causal language model"),
        (lambda: gm.PretrainedOracle(folder, [1, 13]), "E507", "from 0 to 12"),
        (lambda: gm.PretrainedOracle(folder, [1, 1]), "E507", "two values"),
        (lambda: gm.PretrainedOracle(folder, TOKENS, [0.5]), "E507", "before"),  # type: ignore[list-item]
        (lambda: _first(gm.PretrainedOracle(folder, TOKENS)), "E507", "first token of nothing"),
    ):
        with pytest.raises(gm.GmlmError, match=words) as caught:
            make()
        assert caught.value.codes == (code,)


def _first(oracle: Any) -> Any:
    return oracle.next_log_probs(oracle.start(np.array([[0, 2], [-1, -1]])))


@pytest.mark.skipif(HERE, reason="the library is installed")
def test_without_the_library_the_extra_is_named() -> None:
    with pytest.raises(gm.GmlmError, match="transformers") as caught:
        gm.PretrainedOracle("folder")
    assert "gmlmdsl[pretrained]" in str(caught.value)
