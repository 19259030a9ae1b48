"""Shortlists: Model 1 by its definition, decodes over some tokens beside decodes in which all others are improbable, bundles, commands."""

from __future__ import annotations

import io
from functools import partial
from itertools import product
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from network_cases import disturbed
from thinned import thinned
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.decode import Decoding
from gmlmdsl.translation import Shortlist, Translator, _shortlist

pytestmark = pytest.mark.usefixtures("standard_promotion")
PLANNED = "mask some for translate = subsets(tgt, size = 3)\nsampler masked for translate = refinement(start = hide, steps = 2, schedule = some)\n"
LINES = [s for s, _ in toy_pairs(6)]


@pytest.fixture(autouse=True)
def few_frequent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_shortlist, "FREQUENT_TOKENS", 3)


def learnt(n: int = 2) -> Shortlist:
    return Shortlist.learn(toy_pairs(60), toy_vocabulary(), n)


def test_model_1_is_fitted_as_it_is_defined():
    rows = [([2, 3], [4]), ([2], [5, 4]), ([3], [6])]
    source, target, p = _shortlist._lexicon(rows, 7)
    found = dict(zip(zip(source.tolist(), target.tolist(), strict=True), p, strict=True))
    law = {(s, t): 1.0 for ss, ts in rows for s, t in product([*ss, 7], ts)}
    for _ in range(_shortlist.ALIGNMENT_ROUNDS):
        counts = dict.fromkeys(law, 0.0)
        for ss, ts in rows:
            for t in ts:
                total = sum(law[s, t] for s in [*ss, 7])
                for s in [*ss, 7]:
                    counts[s, t] += law[s, t] / total
        law = {(s, t): c / sum(v for (r, _), v in counts.items() if r == s) for (s, t), c in counts.items()}
    assert found == pytest.approx(law, abs=1e-12)


def test_a_shortlist_has_what_is_likely_and_what_is_frequent():
    vocabulary, made = toy_vocabulary(), learnt()
    dog, hund = (vocabulary.encode([w])[0][:-1] for w in ("dog", "hund"))
    codes = made.codes(np.array([[*dog, 1, -1]]), [np.array([[29, -1]])])
    assert codes is not None and len(codes) == 8 and (np.diff(codes) > 0).all()
    assert {0, 1, 29, *made.ranked[:3].tolist()} <= set(codes.tolist()) and set(hund) & set(made.likely[dog].ravel().tolist())
    assert made.codes(np.arange(30)[None]) is None  # most of the vocabulary
    texts = [t for _, t in toy_pairs(60)]
    counts = np.bincount([c for row in vocabulary.encode(texts) for c in row[:-1]], minlength=30)
    assert (np.diff(counts[made.ranked]) <= 0).all()
    assert learnt(1).covered(toy_pairs(60), vocabulary) < made.covered(toy_pairs(60), vocabulary) <= 1
    with pytest.raises(gm.GmlmError, match="E505"):
        Shortlist.learn([("", "eins")], vocabulary)


class Only(eqx.Module):
    """A table of embeddings whose products with values that are left out are low."""

    rows: Any
    allowed: Any
    shape = property(lambda self: self.rows.shape)
    dtype = property(lambda self: self.rows.dtype)

    def __getitem__(self, codes: Any) -> Any:
        return self.rows[codes]

    def __rmatmul__(self, x: Any) -> Any:
        return jnp.where(self.allowed, x @ self.rows.T, -1e9)


def only(network: Any, allowed: Any) -> Any:
    return eqx.tree_at(lambda n: n.embeddings[0], network, Only(network.embeddings[0], allowed))


@pytest.mark.parametrize(
    ("name", "sampler", "precision"),
    thinned([("translate", "refine", "float32"), ("teacher", "beam", "float32"), ("translate", "refine", "int8")], 4, 2),
)
def test_a_decode_over_some_tokens_is_one_in_which_the_others_are_improbable(name: str, sampler: str, precision: str):
    model = gm.parse(PROGRAM).model(name)
    params = {label: disturbed(net, 3) for label, net in model.init_params().items()}
    t = Translator(model, params, toy_vocabulary(), sampler, precision=precision, shortlist=learnt())
    assert t.way == f"{precision}, shortlist" and "shortlist" in repr(t)
    source = t.vocabulary.rows(t.vocabulary.encode(LINES[:2]), 8)
    clamp = np.full((2, 8), -1, np.int32)
    clamp[:, 0] = 28  # not among them of itself
    codes = t.shortlist.codes(source, [clamp])
    assert codes is not None and 28 not in t.shortlist.codes(source)
    for held in (None, clamp):
        allowed = np.isin(np.arange(30), codes if held is not None else t.shortlist.codes(source))
        found = t.decode(source, clamp=held, candidates=True, trace=name == "translate")
        assert np.isin(found.candidates[found.candidates >= 0], np.flatnonzero(allowed)).all()
        if precision != "float32":
            continue
        masked = model.decoder(params, sampler, partial(only, allowed=jnp.asarray(allowed)))
        given = None if held is None else {"tgt": held}
        other = masked.decode(0, given, None, Decoding({"src": source}, -1), name == "translate")
        assert np.array_equal(found.candidates, other.tokens) and np.allclose(found.candidate_scores, other.score, atol=1e-5)
        assert found.trace is None or np.array_equal(found.trace, other.trace)
    drafts = t.translate(LINES[:2], drafts=["rot", "hund"]) if name == "translate" else []
    assert all(np.isfinite(d.score) for d in drafts)


def test_a_mask_that_plans_needs_all_tokens():
    model = gm.parse(PROGRAM + PLANNED).model("translate")
    t = Translator(model, model.init_params(3), toy_vocabulary(), "masked", shortlist=learnt())
    with pytest.raises(gm.GmlmError, match=r"E507.*sees all values"):
        t.translate(["red"])


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", "float", "few", "twice"])
def test_other_bytes_are_no_shortlist(data: Any):
    table = np.column_stack([np.arange(30), np.zeros((30, 2))]).astype(np.int32)
    made = {"float": table.astype(float), "few": table[:5], "twice": np.zeros((30, 2), np.int32)}
    if isinstance(data, str):
        np.save(file := io.BytesIO(), made[data])
        data = file.getvalue()
    with pytest.raises(gm.GmlmError, match="E575"):
        Shortlist.from_bytes(data, 30)
