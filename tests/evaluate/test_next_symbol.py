"""The law of the next symbol, and what is summed over hidden cells: HMMs, chains of factors, products of laws, machines of two sides."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import Case, case, numbers
from events import traced_or_compiled
from oracle import Oracle, numerical_gradient
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import _named_conditionals as _conditionals

pytestmark = [pytest.mark.usefixtures("float64", "compiled_sums"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
EXACT: Any = {"rtol": 1e-9, "atol": 1e-11}

HMM = case(
    "hmm",
    """
domain char = letters("abc")
index tag  = range(2)
index time = range(4)
model hmm {
  latent z[t in time] : tag
  var    x[t in time] : char
  param first[a in tag]           : simplex ~ dirichlet(1)
  param move[a in tag, b in tag]  : simplex ~ dirichlet(1)
  param emit[a in tag, c in char] : simplex ~ dirichlet(1.1)
  z[0] ~ categorical(first)
  z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0
  x[t] ~ categorical(emit[z[t]])     for t in time
}
mask spans = blocks({x[t], x[t + 1]} for t in time if t < 3)
mask all   = everything(x)
mask some  = bernoulli(x, rate = 0.5)
mask looks given x { choose {x[t], x[t + 1]} for t in time if t < 3 weight 0.2 + (x[t] == "a") }
""",
    normalised=True,
)
CHAIN = case(
    "second order",
    """
input T[3, 3, 3] : real
index time = range(5)
model chain {
  var x[t in time] : range(3)
  latent z : spin
  param h[a in range(3)]
  factor T[x[t], x[t + 1], x[t + 2]] for t in time if t < 3
  factor h[x[t]] * z for t in time
  require x[0] != 1 or x[1] == 2
}
""",
    T=numbers(8, 3, 3, 3),
)
SPINS = case(
    "spins",
    """
model spins {
  var x[i in range(2), j in range(2)] : spin
  latent z : range(3)
  param J
  factor J * x[i, j] * (z - j) for i in range(2) for j in range(2)
  factor 0.4 * x[0, 0] * x[1, 1]
}
""",
)


def words(values: int, t: int) -> np.ndarray:
    """Every prefix of that length."""
    return np.array(list(np.ndindex(*[values] * t)), int).reshape(values**t, t)


def expected(of: Case, prefix: np.ndarray) -> np.ndarray:
    """p(x_t | x_0 .. x_t-1) by enumeration, from codes of shape (rows, t)."""
    cells = of.oracle.positions("x").ravel()
    codes = np.full((len(prefix), of.oracle.n_cells), -1)
    t = prefix.shape[1]
    codes[:, cells[:t]] = prefix
    with np.errstate(invalid="ignore"):
        return np.exp(of.oracle.log_conditional(of.params, codes, (int(cells[t]),)))


@pytest.mark.parametrize("of", thinned([HMM, CHAIN, SPINS], 4), ids=str)
def test_the_next_symbol(of: Case):
    size = of.oracle.domain_sizes[of.oracle.positions("x").ravel()[0]]
    for t in range(of.oracle.positions("x").size):
        prefix = words(size, t)
        impossible = (
            (prefix[:, 0] == 1) & (prefix[:, 1] != 2) if of is CHAIN and t > 1 else np.zeros(len(prefix), bool)
        )  # x_0 = 1 asks for 2
        said = f"{impossible.sum()} of {len(prefix)} rows.*row {impossible.argmax()}$"
        with pytest.warns(gm.GmlmWarning, match=said) if impossible.any() else nullcontext():
            found = of.model.next_symbol(of.params, 2 * prefix - 1 if of is SPINS else prefix)
        np.testing.assert_allclose(found, expected(of, prefix), **EXACT)
        assert np.isnan(found[impossible]).all()
        assert not np.isnan(found[~impossible]).any()


def test_prefixes_are_texts_codes_or_nothing_in_rows_of_any_shape():
    model, params = HMM.model, HMM.params
    table = expected(HMM, np.array([[0, 1], [2, 2], [1, 0], [0, 0]]))
    for prefix in (["ab", "cc", "ba", "aa"], [[0, 1], [2, 2], [1, 0], [0, 0]], [["a", "b"], ["c", "c"], ["b", "a"], ["a", "a"]]):
        np.testing.assert_allclose(model.next_symbol(params, prefix), table, **EXACT)
    np.testing.assert_allclose(model.next_symbol(params, [["ab", "cc"], ["ba", "aa"]]), table.reshape(2, 2, 3), **EXACT)
    np.testing.assert_allclose(model.next_symbol(params, "ba"), table[2], **EXACT)
    first = expected(HMM, np.zeros((1, 0), int))[0]
    np.testing.assert_allclose(model.next_symbol(params, ""), first, **EXACT)
    np.testing.assert_allclose(model.next_symbol(params, np.zeros((2, 3, 0), int)), np.tile(first, (2, 3, 1)), **EXACT)
    np.testing.assert_allclose(model.next_symbol(params, ["", ""]), np.tile(first, (2, 1)), **EXACT)
    assert model.next_symbol(params, np.zeros((0, 2), int)).shape == (0, 3)


def test_another_length_compiles_nothing():
    HMM.model.next_symbol(HMM.params, np.zeros((5, 1), int))
    with traced_or_compiled() as compiled:
        for t in (2, 3, 0):
            HMM.model.next_symbol(HMM.params, np.zeros((5, t), int))
    assert compiled == []


@pytest.mark.parametrize(
    ("prefix", "code", "message"),
    [
        (np.zeros((2, 4), int), "E507", "leaves no next one"),
        ("abca", "E507", "leaves no next one"),
        (["ab", "a"], "E501", "one length"),
        (3, "E501", "single value"),
        ([[0, 7]], "E502", "not a value of"),
        (["xy"], "E502", "not a value of"),
    ],
    ids=str,
)
def test_prefixes_that_do_not_fit(prefix: Any, code: str, message: str):
    with pytest.raises(gm.GmlmError, match=message) as caught:
        HMM.model.next_symbol(HMM.params, prefix)
    assert caught.value.codes == (code,)


def test_several_variables_have_no_next_symbol():
    model = gm.parse("model m {\n  var a : bit\n  var b : bit\n  factor a * b\n}\n").model()
    with pytest.raises(gm.GmlmError, match="it has 2") as caught:
        model.next_symbol({}, [[0]])
    assert caught.value.codes == ("E507",)


LATTICE = """
input n : int
input m : int
model lattice {
  latent z[i in range(n), j in range(m)] : bit
  var x[i in range(n), j in range(m)] : range(3)
  param first[a in range(2)] : simplex
  param across[b in range(2), a in range(2)] : simplex
  param down[b in range(2), a in range(2)] : simplex
  param both[b in range(2), c in range(2), a in range(2)] : simplex
  param emit[a in range(2), c in range(3)] : simplex
  z[0, 0] ~ categorical(first)
  z[0, j] ~ categorical(across[z[0, j - 1]]) for j in range(m) if j > 0
  z[i, 0] ~ categorical(down[z[i - 1, 0]]) for i in range(n) if i > 0
  z[i, j] ~ categorical(both[z[i - 1, j], z[i, j - 1]]) for i in range(n) for j in range(m) if i > 0 and j > 0
  x[i, j] ~ categorical(emit[z[i, j]]) for i in range(n) for j in range(m)
}
"""


@pytest.mark.slow
def test_what_is_no_ancestor_of_a_prefix_sums_to_one():
    """Sums over 40 x 40 hidden cells are refused; what has no say in the first row is left out, and the answer is that of the row alone."""
    small, large = case("row", LATTICE, n=1, m=4), gm.parse(LATTICE, n=40, m=40).model()
    with pytest.raises(gm.GmlmError) as caught:
        large.marginals(small.params)
    assert caught.value.codes == ("E601",)
    for t in (0, 1, 3):
        prefix = words(3, t)
        np.testing.assert_allclose(large.next_symbol(small.params, prefix), expected(small, prefix), **EXACT)


GIVEN = """
model m {
  given y : real
  var x[t in range(3)] : bit
  param b
  factor b * y * x[t] for t in range(3)
  factor y * x[t] * x[t + 1] for t in range(2)
}
"""


def test_the_next_symbol_given_covariates():
    program, params = gm.parse(GIVEN), {"b": np.array(0.4)}
    rows, prefix = [0.3, -1.2, 2.0], np.array([[0, 1], [1, 1], [1, 0]])
    found = program.model().next_symbol(params, prefix, given={"y": rows})
    codes = np.column_stack([prefix, [-1] * 3])
    for r, y in enumerate(rows):
        oracle = Oracle(program.checked, None, {}, {"y": y})
        np.testing.assert_allclose(found[r], np.exp(oracle.log_conditional(params, codes[r], (2,))), **EXACT)
    same = program.model().next_symbol(params, prefix, given={"y": 0.3})
    np.testing.assert_allclose(same[0], found[0], **EXACT)
    with pytest.raises(gm.GmlmError) as caught:
        program.model().next_symbol(params, prefix, given={"y": [0.3, 0.2]})
    assert caught.value.codes == ("E510",)


# Losses whose hidden cells are summed

RBM = case(
    "rbm",
    """
model rbm {
  var    v[i in range(4)] : bit
  latent h[j in range(3)] : bit
  param a[i in range(4)]
  param b[j in range(3)]
  param W[i in range(4), j in range(3)]
  factor a[i] * v[i]           for i in range(4)
  factor b[j] * h[j]           for j in range(3)
  factor W[i, j] * v[i] * h[j] for i in range(4) for j in range(3)
}
mask all  = everything(v)
mask some = bernoulli(v, rate = 0.5)
mask looks given v { choose {v[i], v[i + 1]} for i in range(4) if i < 3 weight exp(0.4 * v[i])  choose {v[0]} weight v[3] }
""",
)


def lacking(of: Case, gaps: float) -> tuple[np.ndarray, Any, dict[str, Any]]:
    """Rows without their latents, and with some more cells missing: codes, and the arguments x and missing."""
    codes = of.rows[:6].copy()
    hidden = np.concatenate([of.oracle.positions(n).ravel() for n, v in of.oracle.bound.variables.items() if v.role == "latent"])
    codes[:, hidden] = -1
    seen = np.setdiff1d(np.arange(codes.shape[1]), hidden)
    holes = np.random.default_rng(5).random((6, len(seen))) < gaps
    codes[:, seen] = np.where(holes, -1, codes[:, seen])
    return codes, codes[:, seen], {"missing": -1} if gaps else {}


LOSSES = [(HMM, m, 0.0) for m in ("spans", "all", "looks")] + [(RBM, m, 0.0) for m in ("all", "some", "looks")]
LOSSES += [(HMM, "spans", 0.3), (RBM, "some", 0.3)]


@pytest.mark.slow
@pytest.mark.parametrize(("of", "mask", "gaps"), thinned(LOSSES, 8, 4), ids=str)
def test_losses_and_gradients_with_hidden_cells(of: Case, mask: str, gaps: float):
    codes, x, options = lacking(of, gaps)
    np.testing.assert_allclose(of.model.log_prob(of.params, x, **options), of.oracle.log_prob(of.params, codes), **EXACT)
    params = {k: jnp.asarray(v) for k, v in of.params.items()}
    value, gradient = jax.jit(jax.value_and_grad(lambda p: of.model.loss(p, x, mask, **options)))(params)
    np.testing.assert_allclose(value, of.oracle.loss(of.params, codes, mask), **EXACT)
    expected = numerical_gradient(lambda p: of.oracle.loss(p, codes, mask), of.params, exact=True)
    for p in of.model.graph.parameters:
        found, wanted = np.asarray(gradient[p.name]), np.asarray(expected[p.name])
        if p.kind == "simplex":  # off the simplex log Z is not 0, and a loss of all that is seen does not have it
            found, wanted = (a - a.mean(axis=-1, keepdims=True) for a in (found, wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10, err_msg=p.name)


@pytest.mark.parametrize("of", thinned([HMM, RBM], 2, 1), ids=str)
def test_losses_of_masks_that_are_drawn(of: Case, monkeypatch: pytest.MonkeyPatch):
    """Each row's mean over the masks that it drew, beside the oracle's -log p(x_K | x_rest)."""
    codes, x, _ = lacking(of, 0.0)
    drawn: list[np.ndarray] = []
    original = _conditionals._drawn

    def kept(*args: Any) -> np.ndarray:
        found = original(*args)
        drawn.append(found)
        return found

    monkeypatch.setattr(_conditionals, "_drawn", kept)
    found = of.model.loss(of.params, x, "some", key=jax.random.key(3), n_masks=3)
    (masks,) = drawn
    assert masks.shape[0] == 3
    losses = []
    for r, row in enumerate(codes):
        for mask in masks[:, :, r]:
            block = [int(c) for c in mask if c < of.oracle.n_cells]
            if not block:
                losses.append(0.0)
                continue
            table = of.oracle.log_conditional(of.params, row, block)
            losses.append(-table[tuple(row[sorted(block)])])
    np.testing.assert_allclose(found, np.mean(losses), **EXACT)


ONE_VALUE = """
domain word = labels("a")
index t = range(3)
model words {
  var x[i in t] : word
  latent s[i in t] : range(2)
  factor 0.7 * s[i] * s[i + 1] + 0.3 * s[i] for i in t if i < 2
}
"""


@pytest.mark.parametrize("on_host", [True, False])
def test_the_only_value_of_a_symbol_is_certain(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of one value are not eliminated, and no other cell's law is taken for theirs."""
    if not on_host:
        monkeypatch.setattr("gmlmdsl.evaluate._exact_answers.Contractions.on_host", lambda *a, **k: None)
    model = gm.parse(ONE_VALUE).model()
    for n in range(3):
        np.testing.assert_array_equal(model.next_symbol({}, [["a"] * n]), [[1.0]])
