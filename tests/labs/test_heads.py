"""Heads of attention: patterns and scores are those of their definition, a silenced head writes nothing, the page has the kept numbers."""

import dyck
import equinox as eqx
import heads
import jax.numpy as jnp
import laboratory
import numpy as np
import pytest
from markdown_blocks import ROOT

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")
WORD = np.array([[0, 2, 3, 2, 2, 3, 3, 1]])  # ( [ ] [ [ ] ] )


def test_patterns_are_what_a_place_may_look_at() -> None:
    found = heads.patterns(WORD)
    assert [int(row.argmax()) if row.any() else None for row in found["the top of the stack"][0]] == [0, 1, 0, 3, 4, 3, 0, None]
    assert found["the top of the stack"][0].sum(axis=1).max() == 1
    np.testing.assert_array_equal(found["closing"][0, 3], [False, False, True, False, False, True, True, True])
    np.testing.assert_array_equal(found["round"][0, 0], [True] + [False] * 6 + [True])
    np.testing.assert_array_equal(np.argwhere(found["the one before"][0]), [[k, k - 1] for k in range(1, 8)])


def test_a_score_is_one_on_a_pattern_and_nothing_where_attention_is_uniform() -> None:
    allowed, known = np.tri(8, dtype=bool), heads.patterns(WORD)
    uniform = (allowed / allowed.sum(axis=1, keepdims=True))[None]
    assert heads.score(uniform, known, allowed) == pytest.approx(0, abs=1e-12)
    assert heads.score(np.eye(8)[None], known, allowed) == pytest.approx(1)
    assert heads.score(0.5 * np.eye(8)[None] + 0.5 * uniform, {"itself": known["itself"]}, allowed) == pytest.approx(0.5)


def test_a_head_that_is_silenced_writes_nothing_and_the_others_what_they_wrote() -> None:
    program = gm.load(heads.HERE / "heads.gmlm", n=8, layers=1, heads=2, width=8)
    model = program.model("copy")
    net = model.init_params(1)["same"]
    attention = net.encoder.layers[0].attention
    x = jnp.asarray(np.random.default_rng(0).normal(size=(8, 8)), jnp.float32)
    weights = jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(8), (2, 8)), jnp.float32)

    def written(a):
        return np.asarray(a.mixed(weights, a.values(x)))

    each = [written(heads.silenced(attention, h)) for h in range(2)]
    np.testing.assert_allclose(each[0] + each[1], written(attention), atol=1e-5)
    assert not np.allclose(each[0], each[1])
    np.testing.assert_array_equal(written(heads.silenced(attention)), 0)


def test_a_network_whose_head_is_zero_says_nothing_whatever_it_attends_to() -> None:
    """Proposition 2.2.1."""
    net = dyck.model_of(dyck.Size(width=24), "learnt").init_params(3)["net"].module
    silent = eqx.tree_at(lambda n: (n.head, n.bias), net, (jnp.zeros_like(net.head), jnp.zeros_like(net.bias)))
    (own, seen), (nothing, also) = net.read(jnp.asarray(WORD[0])), silent.read(jnp.asarray(WORD[0]))
    assert np.abs(np.asarray(own)).max() > 0.1
    np.testing.assert_array_equal(nothing, 0)
    for a, b in zip(seen, also, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.ptp(np.asarray(a)[-1]) > 0.01  # it is not uniform


def test_the_page_has_the_tables_of_the_kept_output() -> None:
    lab, size = heads.lab(), heads.Size()
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    assert set(kept) == set(lab.parts(size, ROOT))
    tables = lab.tables({name: part["result"] for name, part in kept.items()}, size)
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, "heads", tables | {"heads-time": laboratory.times(lab, kept)}) == page


@pytest.mark.slow
def test_the_lab_runs(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(heads.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    assert "heads-importance" in capsys.readouterr().out
