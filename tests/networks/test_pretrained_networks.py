"""Weights of published masked language models: every layout beside its forward pass in NumPy, and every verb on one of them."""

from __future__ import annotations

import itertools
import json
import re
import struct
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from pretrained_cases import KINDS, LETTERS, arrays_of, config_of, logits, tokens_of, write_checkpoint, write_safetensors
from thinned import thinned

import gmlmdsl as gm

pytestmark = [pytest.mark.usefixtures("standard_promotion"), *map(pytest.mark.filterwarnings, ("ignore::gmlmdsl.sample.SamplingWarning",))]
PROGRAM = """
network net = pretrained("folder")
model m {
  var x[i in range(4)] : letters("abd")
  conditional x ~ net()
}
mask one  = subsets(x, size = 1)
mask some = bernoulli(x, rate = 0.5)
sampler gibbs  { update x[i] for i in range(4) }
sampler decode = refinement(steps = 4, schedule = linear, decode = sample)
"""
ROW = ("b", "a", "d", "a")


def _log_p(kind: str, arrays: dict, row: tuple[str | None, ...], values: tuple[str, ...] = ("a", "b", "d")) -> np.ndarray:
    """log p of each value of each cell: the logits of its token among those of the values."""
    found = logits(kind, arrays, row)[:, [tokens_of(kind).index(v) for v in values]]
    return found - np.log(np.exp(found).sum(axis=1, keepdims=True))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", thinned(KINDS, 4))
def test_masked_forward_passes_are_those_of_the_definition(kind: str, tmp_path: Path) -> None:
    arrays = write_checkpoint(tmp_path / "folder", kind)
    (tmp_path / "m.gmlm").write_text(PROGRAM, encoding="utf-8")
    model = gm.load(tmp_path / "m.gmlm").model()
    params = model.init_params()
    hidden = np.array([[True, False, False, True]])
    expected = _log_p(kind, arrays, (None, "a", "d", None))
    found = np.asarray(model.predict(params, [ROW], hidden))[0]
    np.testing.assert_allclose(found[[0, 3]], expected[[0, 3]], atol=1e-9)
    one_by_one = [-_log_p(kind, arrays, (*ROW[:i], None, *ROW[i + 1 :]))[i]["abd".index(ROW[i])] for i in range(4)]
    assert float(model.loss(params, [ROW], mask="one")) == pytest.approx(np.mean(one_by_one), abs=1e-9)


@pytest.mark.parametrize("vocabulary", ["vocab.json", "tokenizer.json"])
@pytest.mark.parametrize(("dtype", "digits"), [("F32", 1e-4), ("F16", 3e-2), ("BF16", 3e-1)])
def test_files_of_other_types(dtype: str, digits: float, vocabulary: str, tmp_path: Path) -> None:
    arrays = write_checkpoint(tmp_path / "folder", "bert", dtype, vocabulary)
    (tmp_path / "m.gmlm").write_text(PROGRAM, encoding="utf-8")
    model = gm.load(tmp_path / "m.gmlm").model()
    found = np.asarray(model.predict(model.init_params(), [ROW], np.array([[True, False, False, False]])))[0, 0]
    np.testing.assert_allclose(found, _log_p("bert", arrays, (None, *ROW[1:]))[0], atol=digits)


@pytest.mark.usefixtures("float64")
def test_a_row_that_ends_early_is_framed_where_it_ends(tmp_path: Path) -> None:
    arrays = write_checkpoint(tmp_path / "folder", "esm")
    (tmp_path / "m.gmlm").write_text(PROGRAM.replace("mask some", "mask all = everything(x)\nmask some"), encoding="utf-8")
    model = gm.load(tmp_path / "m.gmlm").model()
    expected = _log_p("esm", arrays, (None, None, None))
    found = float(model.loss(model.init_params(), [[*ROW[:3], "-"]], mask="all", missing="-"))
    assert found == pytest.approx(-sum(expected[i]["abd".index(ROW[i])] for i in range(3)), abs=1e-9)


@pytest.mark.usefixtures("float64")
def test_values_are_tokens_by_text_by_vocabulary_or_by_id(tmp_path: Path) -> None:
    arrays = write_checkpoint(tmp_path / "folder", "roberta")
    first = tokens_of("roberta").index("a")
    texts = {
        "tokens": ('domain token = vocabulary("folder")', "token"),
        "ids": ("", f"range({len(tokens_of('roberta'))})"),
        "some": ("", f"range({first}, {first + 3})"),
    }
    for name, (declared, type_) in texts.items():
        text = f'network net = pretrained("folder")\n{declared}\nmodel m {{ var x[i in range(2)] : {type_} conditional x ~ net() }}'
        (tmp_path / "m.gmlm").write_text(text, encoding="utf-8")
        model = gm.load(tmp_path / "m.gmlm").model()
        row = ["a", "c"] if name == "tokens" else [first, first + 2]
        found = np.asarray(model.predict(model.init_params(), [row], np.array([[False, True]])))[0, 1]
        values = LETTERS[:3] if name == "some" else tokens_of("roberta")
        np.testing.assert_allclose(found, _log_p("roberta", arrays, ("a", None), values)[1], atol=1e-9)


@pytest.mark.slow
def test_verbs_of_networks_serve_pretrained_ones(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "esm")
    (tmp_path / "m.gmlm").write_text(PROGRAM, encoding="utf-8")
    model = gm.load(tmp_path / "m.gmlm").model()
    params = model.init_params()
    states = np.array(list(itertools.product("abd", repeat=4)))
    kernel = model.transition_matrix(params, sampler="gibbs")
    np.testing.assert_allclose(kernel.sum(axis=1), 1, atol=1e-6)
    drawn = model.sample(params, "gibbs", draws=20, chains=2, seed=0, clamp={"x": {1: "d"}})
    assert (np.asarray(drawn.posterior["x"])[..., 1] == 2).all()
    rows = states[np.random.default_rng(0).integers(len(states), size=16)]
    fit = model.fit(rows, mask="some", method=gm.Training(steps=3, batch_size=8), init=params, progress=False)
    fit.save(tmp_path / "tuned.fit")
    again = gm.load_fit(tmp_path / "tuned.fit")
    np.testing.assert_array_equal(np.asarray(again.params["net"].words), np.asarray(fit.params["net"].words))
    assert float(np.abs(np.asarray(fit.params["net"].words) - np.asarray(params["net"].words)).max()) > 0
    bound = model.log_prob_bound(params, rows[:2], sampler="decode", draws=4, seed=0)
    assert np.isfinite(np.asarray(bound.values)).all()


# Folders that cannot be used


def _error(tmp_path: Path, text: str = PROGRAM) -> gm.GmlmError:
    (tmp_path / "m.gmlm").write_text(text, encoding="utf-8")
    with pytest.raises(gm.GmlmError) as caught:
        gm.load(tmp_path / "m.gmlm").model().init_params()
    return caught.value


@pytest.mark.produces("E748")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "gpt2"}, "its `model_type` is 'gpt2'"),
        ({"hidden_size": 10}, r"`bert.embeddings.word_embeddings.weight` has the shape \(11, 8\)"),
        ({"hidden_size": 9}, "its sizes do not fit"),
        ({"vocab_size": "eleven"}, "`vocab_size` of its configuration is 'eleven'"),
        ({"vocab_size": 1 << 40}, "`vocab_size` of its configuration"),
        ({"num_hidden_layers": 5}, "it lacks `bert.encoder.layer.4"),
        ({"hidden_act": "mish"}, "its activation is 'mish'"),
        ({"position_embedding_type": "relative_key"}, "its positions are 'relative_key'"),
        ({"is_decoder": True}, "`is_decoder`"),
        ({"tie_word_embeddings": False}, "it lacks `cls.predictions.decoder.weight`"),
        ({"layer_norm_eps": "small"}, "`layer_norm_eps`"),
    ],
)
def test_a_configuration_that_does_not_fit(change: dict, words: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "bert")
    (tmp_path / "folder" / "config.json").write_text(json.dumps(config_of("bert") | change), encoding="utf-8")
    error = _error(tmp_path)
    assert error.codes == ("E748",)
    assert re.search(words, str(error)), str(error)


def test_missing_files_and_vocabularies(tmp_path: Path) -> None:
    assert _error(tmp_path).codes == ("E120",)
    write_checkpoint(tmp_path / "folder", "bert")
    (tmp_path / "folder" / "vocab.txt").unlink()
    assert "it has no vocabulary" in str(_error(tmp_path))
    (tmp_path / "folder" / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    assert "no token for hidden cells" in str(_error(tmp_path))
    (tmp_path / "folder" / "vocab.txt").unlink()
    (tmp_path / "folder" / "vocab.json").write_text('{"a": "b"}', encoding="utf-8")
    assert "it does not map tokens to ids" in str(_error(tmp_path))
    write_checkpoint(tmp_path / "folder", "bert")
    (tmp_path / "folder" / "model.safetensors").unlink()
    assert _error(tmp_path).codes == ("E120",)


@pytest.mark.parametrize("damage", ["cut", "header", "long", "offsets", "nan", "text", "empty"])
def test_a_damaged_file_of_weights(damage: str, tmp_path: Path) -> None:
    arrays = write_checkpoint(tmp_path / "folder", "bert", "F32")
    path = tmp_path / "folder" / "model.safetensors"
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    if damage == "nan":
        arrays["bert.embeddings.word_embeddings.weight"][0, 0] = np.nan
        write_safetensors(path, arrays)
    else:
        header = json.loads(raw[8 : 8 + length])
        header["bert.embeddings.word_embeddings.weight"]["data_offsets"] = [0, 4]
        text = json.dumps(header).encode()
        path.write_bytes(
            {
                "cut": raw[:-5],
                "header": raw[:8] + b"[" + raw[9:],
                "long": struct.pack("<Q", 1 << 60) + raw[8:],
                "offsets": struct.pack("<Q", len(text)) + text + raw[8 + length :],
                "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 31\n",
                "empty": b"",
            }[damage]
        )
    error = _error(tmp_path)
    assert error.codes == ("E748",) and "copy the folder again" in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROGRAM.replace('"abd"', '"abz"'), "the value 'z' is none of the 11 tokens"),
        (PROGRAM.replace("range(4)]", "range(30)]").replace("sampler gibbs", "# "), "rows of at most 24 tokens, the row has 32"),
        (PROGRAM.replace('letters("abd")', "range(9, 20)"), "the value 11 is none"),
    ],
)
def test_cells_that_do_not_fit_the_network(text: str, words: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "bert")
    error = _error(tmp_path, text)
    assert error.codes == ("E737",) and words in str(error)


def test_a_vocabulary_that_cannot_be_read_is_reported_where_it_is_named(tmp_path: Path) -> None:
    text = 'domain token = vocabulary("nowhere")\nmodel m { var x : token }'
    (tmp_path / "m.gmlm").write_text(text, encoding="utf-8")
    with pytest.raises(gm.GmlmError) as caught:
        gm.load(tmp_path / "m.gmlm")
    assert caught.value.codes == ("E120",) and caught.value.diagnostics[0].span is not None
    (tmp_path / "twice").mkdir()
    (tmp_path / "twice" / "vocab.txt").write_text("a\nb\na\n", encoding="utf-8")
    with pytest.raises(gm.GmlmError, match="stands twice in the vocabulary"):
        gm.parse(f'domain token = vocabulary("{tmp_path / "twice"}")\nmodel m {{ var x : token }}')


def test_the_layouts_have_names_of_their_own() -> None:
    assert len({frozenset(arrays_of(kind)) for kind in KINDS}) == len(KINDS)


@pytest.mark.slow
def test_a_pretrained_network_plans_for_another(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "bert")
    text = """
network own = mlp(width = 4)
network plans = pretrained("folder")
model m { var x[i in range(3)] : letters("abd") conditional x ~ own() }
sampler s = refinement(steps = 3, schedule = linear, decode = sample, planner = plans)
"""
    (tmp_path / "m.gmlm").write_text(text, encoding="utf-8")
    model = gm.load(tmp_path / "m.gmlm").model()
    (tmp_path / "own.gmlm").write_text(PROGRAM.replace("range(4)", "range(3)"), encoding="utf-8")
    weights = gm.load(tmp_path / "own.gmlm").model().init_params()["net"]
    drawn = model.sample(model.init_params() | {"plans": weights}, "s", draws=2, chains=1, seed=0)
    assert set(np.unique(np.asarray(drawn.posterior["x"]))) <= {0, 1, 2}


def test_positions_keep_their_digits_in_sixteen_bits() -> None:
    from gmlmdsl.networks._masked_language_model import _rotated

    x = jnp.ones((600, 1, 8))
    exact = np.asarray(_rotated(x))
    assert np.abs(np.asarray(_rotated(x.astype(jnp.bfloat16)), np.float32) - exact).max() < 0.02


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 20_000},
        {"vocab_size": 1 << 24, "hidden_size": 1 << 24, "num_attention_heads": 1},
        {"model_type": ["bert"]},
        {"hidden_act": ["gelu"]},
    ],
)
def test_a_configuration_of_absurd_sizes_is_refused_at_once(change: dict, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "bert")
    (tmp_path / "folder" / "config.json").write_text(json.dumps(config_of("bert") | change), encoding="utf-8")
    began = time.process_time()
    assert _error(tmp_path).codes == ("E748",)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("header", ["overlap", "one offset", "infinite", "no shape", "negative"])
def test_hostile_headers(header: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "bert", "F32")
    path = tmp_path / "folder" / "model.safetensors"
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    entries = json.loads(raw[8 : 8 + length])
    words, types = entries["bert.embeddings.word_embeddings.weight"], entries["bert.embeddings.token_type_embeddings.weight"]
    positions = entries["bert.embeddings.position_embeddings.weight"]
    {
        "overlap": lambda: positions.update(data_offsets=[words["data_offsets"][0], words["data_offsets"][0] + 24 * 8 * 4]),
        "one offset": lambda: words.update(data_offsets=[0]),
        "infinite": lambda: words.update(data_offsets=[0, float("inf")]),
        "no shape": lambda: types.update(shape=[], data_offsets=[types["data_offsets"][0], types["data_offsets"][0] + 4]),
        "negative": lambda: words.update(shape=[-11, -8]),
    }[header]()
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])
    assert _error(tmp_path).codes == ("E748",)


def test_a_vocabulary_with_a_huge_id_and_a_name_that_is_too_long(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "folder", "bert")
    (tmp_path / "folder" / "vocab.txt").unlink()
    (tmp_path / "folder" / "vocab.json").write_text('{"[MASK]": 0, "a": 8388608}', encoding="utf-8")
    assert "does not map tokens to ids" in str(_error(tmp_path))
    with pytest.raises(gm.GmlmError, match="E120"):
        gm.parse(f'domain token = vocabulary("{"x" * 300}")\nmodel m {{ var x : token }}')
