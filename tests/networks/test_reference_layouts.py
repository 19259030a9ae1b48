"""Layouts of published masked language models beside `transformers`, which makes and writes the checkpoints, small and random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gmlmdsl as gm

MISSING = "transformers and PyTorch are not installed: pip install 'gmlmdsl[pretrained]'"
torch: Any = pytest.importorskip("torch", reason=MISSING)
transformers: Any = pytest.importorskip("transformers", reason=MISSING)
pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TOKENS = ("<cls>", "<pad>", "<eos>", "<unk>", *"abcdefg", "<mask>")
BEGIN, PAD, END, MASK = (TOKENS.index(token) for token in ("<cls>", "<pad>", "<eos>", "<mask>"))
ROWS = [["b", "a", "d", "a", "g", "c"], ["f", "<mask>", "e", "", "", ""], ["c", "c", "a", "e", "", ""]]  # "" is padding
HIDDEN = np.array([[1, 0, 0, 1, 1, 0], [0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0]], bool)
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 12}
COMMON = {**SIZES, "vocab_size": len(TOKENS), "layer_norm_eps": 1e-3, "pad_token_id": PAD}
SHARED = {"embedding_size": 16, "num_hidden_layers": 3, "num_hidden_groups": 2, "inner_group_num": 2}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("Bert", {}),
    "BERT, untied head": ("Bert", {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
    "RoBERTa": ("Roberta", {"type_vocab_size": 1}),
    "RoBERTa, untied head": ("Roberta", {"tie_word_embeddings": False, "hidden_act": "relu", "pad_token_id": 3}),
    "ALBERT": ("Albert", {"embedding_size": 16}),
    "ALBERT, groups of layers, untied head": ("Albert", {**SHARED, "tie_word_embeddings": False, "hidden_act": "silu"}),
    "ESM-2": ("Esm", {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": MASK}),
    "ESM-1b, untied head": ("Esm", {"emb_layer_norm_before": True, "tie_word_embeddings": False, "mask_token_id": MASK}),
}
PROGRAM = """
network net = pretrained("folder")
domain token = vocabulary("folder")
model m { var x[i in range(6)] : token  conditional x ~ net() }
mask one = subsets(x, size = 1)
"""


def written(kind: str, options: dict[str, Any], folder: Path) -> Any:
    """Write a checkpoint of random weights, none of them 0 or 1, in float32; the network is returned in float64."""
    torch.manual_seed(0)
    network = getattr(transformers, f"{kind}ForMaskedLM")(getattr(transformers, f"{kind}Config")(**COMMON | options))
    for name, weight in network.named_parameters():
        middle = 1.0 if name.lower().endswith(("norm.weight", "norm_after.weight")) else 0.0
        torch.nn.init.normal_(weight, middle, 0.2)
    network.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return network.double().eval()


def log_p(network: Any, rows: list[list[str]], hidden: np.ndarray) -> np.ndarray:
    """log p of every token at each cell, by one masked forward pass of a batch whose short rows are padded."""
    pad, ends = network.config.pad_token_id, [sum(map(bool, row)) + 1 for row in rows]
    ids = torch.full((len(rows), hidden.shape[1] + 2), pad)
    for row, cells, at, end in zip(rows, hidden, ids, ends, strict=True):
        values = [MASK if masked else TOKENS.index(token) for token, masked in zip(row, cells, strict=True) if token]
        at[: end + 1] = torch.tensor([BEGIN, *values, END])
    shown = torch.arange(ids.shape[1]) <= torch.tensor(ends)[:, None]
    with torch.no_grad():
        return network(ids, attention_mask=shown.long()).logits[:, 1:-1].log_softmax(-1).numpy()


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library computes rotations and the share of hidden tokens in float32 whatever its weights are; here in float64."""
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("case", CASES)
def test_masked_forward_passes_are_those_of_the_reference_library(case: str, tmp_path: Path) -> None:
    network = written(*CASES[case], tmp_path / "folder")
    (tmp_path / "m.gmlm").write_text(PROGRAM, encoding="utf-8")
    expected, each = log_p(network, ROWS, HIDDEN)[HIDDEN], np.eye(6, dtype=bool)
    assert np.ptp(expected, axis=-1).min() > 1
    one_by_one = log_p(network, [ROWS[0]] * 6, each)[each][range(6), [TOKENS.index(token) for token in ROWS[0]]]
    for wide, digits in ((True, 1e-10), (False, 1e-5)):
        with jax.enable_x64(wide):
            model = gm.load(tmp_path / "m.gmlm").model()
            params = model.init_params()
            found = model.predict(params, ROWS, HIDDEN, missing="")[HIDDEN]
            np.testing.assert_allclose(found, expected, rtol=0, atol=digits)
            pseudo_likelihood = -6 * float(model.loss(params, ROWS[:1], mask="one"))
            assert pseudo_likelihood == pytest.approx(one_by_one.sum(), abs=digits)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Esm", "rope_theta", 500.0),
        ("Esm", "mask_token_id", 3),
        ("Esm", "position_embedding_type", "relative_key"),
        ("Bert", "position_embedding_type", "relative_key_query"),
        ("Bert", "is_decoder", True),
        ("Albert", "hidden_act", "quick_gelu"),
        ("Electra", "model_type", "electra"),
    ],
)
def test_an_option_that_the_port_lacks_is_refused(kind: str, name: str, value: object, tmp_path: Path) -> None:
    options = {"embedding_size": 16} if kind == "Albert" else {}
    config = getattr(transformers, f"{kind}Config")(**COMMON | options | ({} if name == "model_type" else {name: value}))
    config.save_pretrained(tmp_path / "folder")
    (tmp_path / "folder" / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    (tmp_path / "m.gmlm").write_text(PROGRAM, encoding="utf-8")
    assert json.loads((tmp_path / "folder" / "config.json").read_text())[name] == value
    with pytest.raises(gm.GmlmError, match=repr(value)) as caught:
        gm.load(tmp_path / "m.gmlm").model().init_params()
    assert caught.value.codes == ("E748",)
