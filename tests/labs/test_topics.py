"""The laboratory of topics: closed forms against brute force, the network against its formula, the page against the kept output."""

import itertools
import re
import warnings

import jax
import jax.numpy as jnp
import laboratory
import numpy as np
import pytest
import topic_theory as theory
import topics
from thinned import thinned
from topic_network import TopicAttention

import gmlmdsl as gm

LAB = topics.lab()


def test_the_minimum_norm_solution_is_that_of_the_theorem():
    best = theory.closed_form(10, 10)
    assert (round(best[1, 50], 7), round(best[1, 2], 7), round(best[1, 0], 7)) == (-0.0075867, 0.1080202, 0.0541908)
    assert not best[0].any()
    for tau in (2, 3):
        np.testing.assert_allclose(theory.least_squares(10, 10, tau), best, atol=1e-6)
    assert round(theory.attention_bounds(10)["lambda_1"], 5) == 0.57734


def test_the_minimisers_without_a_penalty_are_those_of_theorem_2_1_4():
    """Each member tells every document, the member of least norm is that of Theorem 2.1.2, and there are no further minimisers."""
    T, v, m, rng = 4, 3, theory.Masking(0.2, 0.3, 0.1), np.random.default_rng(0)
    members = [theory.member(T, v, rng, m) for _ in range(3)]
    for tau in (1, 2, 3):
        p = theory.documents(T, v, tau)
        for w in (*members, theory.closed_form(T, v, m)):
            np.testing.assert_allclose(theory.shown(p, m) @ w.T, p, atol=1e-13)
        assert T * v + 1 - np.linalg.matrix_rank(theory.shown(p, m)) == 1 + T * (v - 1)  # u, and all but one entry of each topic
    least = theory.closed_form(T, v, m)
    for w in members:
        assert abs(((w - least) * least).sum()) < 1e-10  # orthogonal to all that leads to other members
        assert np.linalg.norm(w) > np.linalg.norm(least)


def test_ridge_is_that_of_enumeration():
    """Every document of two words, every mask and everything that it may show."""
    T, v, n, penalty = 2, 2, 2, 0.01
    m = theory.Masking(0.3, 0.2, 0.25)
    second, cross, words = 0.0, 0.0, range(1, T * v + 1)
    for t in range(T):
        for doc in itertools.product(range(1 + t * v, 1 + (t + 1) * v), repeat=n):
            for shown in itertools.product(range(T * v + 1), repeat=n):
                # The first word is masked, and is the one to be told; the others may be.
                law = [{0: 1 - m.kept - m.random} | {k: m.random / (T * v) + m.kept * (k == w) for k in words} for w in doc]
                p = law[0][shown[0]]
                for k in range(1, n):
                    p *= m.masked * law[k][shown[k]] + (1 - m.masked) * (shown[k] == doc[k])
                p /= T * v**n
                counts = np.bincount(shown, minlength=T * v + 1) / n
                second, cross = second + p * np.outer(counts, counts), cross + p * np.outer(np.eye(T * v + 1)[doc[0]], counts)
    wanted = cross @ np.linalg.inv(second + penalty * np.eye(T * v + 1))
    np.testing.assert_allclose(theory.ridge(T, v, 1, np.array([n]), penalty, m), wanted, atol=1e-12)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("tau", [1, 2, 3])
def test_the_landscape_is_that_of_explicit_attention(diagonal, tau):
    T, v, alpha, beta = 4, 3, 2.5, 7.0
    m = theory.Masking(0.3, 0.2, 0.25)
    matrix = theory.closed_form(T, v, m)
    if diagonal:
        matrix = np.diag(np.append(0, np.full(T * v, 1 / m.whole)))
        matrix[1:, 0] = -m.masked * m.random / (T * v) / m.whole / m.hidden
    total, docs = 0.0, theory.documents(T, v, tau)
    topic = np.append(-1, np.arange(T * v) // v)
    for p in docs:
        for word, shown in itertools.product(np.flatnonzero(p), range(1, T * v + 1)):
            weight = np.where(topic == topic[shown], alpha, 1.0)
            weight[shown] = beta
            y = theory.shown(p, m) * weight
            chance = m.kept * (shown == word) + m.random / (T * v)
            total += p[word] * chance * ((matrix @ (y / y.sum()) - np.eye(T * v + 1)[word]) ** 2).sum() / len(docs)
    np.testing.assert_allclose(theory.landscape(np.float64(alpha), np.float64(beta), T, v, tau, diagonal, m), total, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("embedded", thinned([0, 1], 2, 1))
def test_the_network_is_its_formula(embedded):
    """Word by word in NumPy, and padding plays no part."""
    q, n, hidden, padding = 6, 5, 6, 7
    options = {"attends": 1, "embedded": embedded, "diagonal": 0, "biased": 1, "sd": 0.7}
    net = TopicAttention(key=jax.random.key(3), n_cells=8, n_values=q, given=(), **options)
    seen = np.array([1, 1, 4, hidden, 0])
    e = np.eye(q + 1) if not embedded else np.asarray(net.embedding, float)
    z = e[:, seen]
    scores = (np.asarray(net.key) @ z).T @ (np.asarray(net.query) @ z) / np.sqrt(q + 1)
    a = np.exp(scores) / np.exp(scores).sum(axis=0)
    out = np.asarray(net.value) @ z @ a
    wanted = out if not embedded else e[:, :q].T @ out
    padded = jnp.asarray(np.append(seen, [padding] * 3))
    np.testing.assert_allclose(net(padded)[:n], wanted.T + np.asarray(net.bias), rtol=1e-4, atol=1e-5)
    found = net.attention(padded)[0, 0]
    np.testing.assert_allclose(found[:n, :n], a.T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[:n, n:], 0)


def test_uniform_attention_and_a_diagonal_matrix():
    options = {"attends": 0, "embedded": 0, "diagonal": 1, "biased": 0, "sd": 0.7}
    net = TopicAttention(key=jax.random.key(3), n_cells=4, n_values=3, given=(), **options)
    seen = jnp.array([0, 0, 2, 3])
    np.testing.assert_allclose(net.attention(seen)[0, 0], 0.25)
    np.testing.assert_allclose(net(seen), np.tile(np.asarray(net.value) * [0.5, 0, 0.25], (4, 1)), rtol=1e-5)


def test_blocks_are_means_of_their_entries():
    found = theory.blocks(np.arange(16.0).reshape(4, 4), 2)
    assert (found["word"], found["topic"], found["other"]) == (7.5, 7.5, 7.5)
    assert found["sd"] == np.std([2, 3, 6, 7, 8, 9, 12, 13])


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("tau", thinned([2, 3], 2))
def test_the_program_of_documents_is_the_topic_model(tau):
    with warnings.catch_warnings():
        warnings.simplefilter("error", gm.GmlmWarning)
        model = gm.load(LAB.folder / "topics.gmlm", allow_python=True, n=3, tau=tau, T=4, v=2).model("documents")
    words = np.array(list(itertools.product(range(8), repeat=3)))
    sets = np.array([[np.isin(row // 2, chosen).all() for chosen in itertools.combinations(range(4), tau)] for row in words])
    np.testing.assert_allclose(np.exp(model.log_prob({}, words)), sets.mean(axis=1) / (2 * tau) ** 3, rtol=1e-5, atol=1e-12)


def kept():
    size = LAB.sizes["default"]
    found = laboratory.load(LAB.kept / "results.json", size, topics.SETTINGS)
    return size, found, {name: part["result"] for name, part in found.items()}


def test_the_page_has_the_numbers_of_the_kept_output():
    size, parts, results = kept()
    page = LAB.page.read_text(encoding="utf-8")
    tables = topics.tables(results, size) | {"topics-time": laboratory.times(LAB, parts)}
    assert laboratory.filled(page, "topics", tables) == page
    pictures = re.findall(r"\]\((figures/topics-[\w-]+\.png)\)", page)
    assert len(pictures) == 3 and all((LAB.page.parent / p).stat().st_size < 150_000 for p in pictures)


def stages_of(value, key, query, seeds=5):
    """The table's row of one optimiser: norms of so many seeds, a little apart."""
    steps = list(range(20, 20 * len(value) + 1, 20))
    runs = {"value": value, "key": key, "query": query}
    results = {
        f"stages, {topics.STAGED[0]}, {k}": {"steps": steps} | {m: [x * (1 + 1e-3 * k) for x in norms] for m, norms in runs.items()}
        for k in range(seeds)
    }
    return topics.stage_table(results, topics.Size(rows=1)).splitlines()[-1].split(" | ")


def test_stages_are_ordered_by_when_norms_begin_to_rise():
    assert topics.begins([1, 1.05, 1.3, 3]) == 2 and topics.begins([1, 1.09, 0.5]) is None
    early, late, still = [1, 5, 9, 10, 10, 10], [1, 1, 1, 5, 9, 10], [1, 1.05, 1, 1, 1.09, 1]
    first = stages_of(early, late, late)
    assert first[4:8] == ["40 ± 0", "80 ± 0", "80 ± 0", "agree"] and first[-1] == "agree |"  # and flat from then on
    assert stages_of(late, early, late)[7] == "disagree"
    rising = stages_of([1, 3, 4, 5, 8, 10], late, late)
    assert rising[7] == "agree" and rising[8] == "0.556 ± 0" and rising[-1] == "disagree |"
    for moves in ((early, still, still), (early, late, still), (early, still, late)):  # the first stage alone, or half of the second
        row = stages_of(*moves)
        assert "does not rise" in row and row[7] == "not testable here" and row[-1] == "not testable here |"


def test_the_landscape_has_the_bounds_of_the_theorems_and_whether_the_minimum_rises():
    found = {f"{kind} {tau}": {"alpha": 1.0, "beta": 1e3 * tau} for kind in ("blocks", "diagonal") for tau in topics.TAUS}
    rows = topics.landscape_table(found).splitlines()
    assert rows[2].startswith("| 20 | 67.7 | (11, 5.87e+05) | inside | 2e+04 | (52.8, 9.87e+04) | 1 | 77.3 | inside |")
    assert rows[-1].startswith("| rises with tau | yes |  |  | yes |")
    found["blocks 40"] = {"alpha": 0.0, "beta": 1.0}
    found["diagonal 40"] = found["diagonal 20"] | {"alpha": 80.0}
    rows = topics.landscape_table(found).splitlines()
    assert rows[3].count("outside") == 2
    assert rows[-1].startswith("| rises with tau | no |  |  | never falls |")


def test_the_distance_of_block_means_is_that_of_matrices_of_them():
    size = topics.Size(least=3, words=5)
    least = topics.least_value(size)
    own = theory.blocks(least[:, 1:], topics.V)
    word = np.arange(topics.T * topics.V)
    topic, same = word[:, None] // topics.V == word[None] // topics.V, np.eye(len(word), dtype=bool)
    other = {"word": 0.3, "topic": 0.2, "other": 0.1}
    matrices = [np.where(same, b["word"], np.where(topic, b["topic"], b["other"])) for b in (own, other)]
    wanted = np.linalg.norm(matrices[0] - matrices[1]) / np.linalg.norm(least)
    assert abs(topics.apart(other, size) - wanted) < 1e-12


@pytest.mark.slow  # compiles five networks: 20 s of the processor
@pytest.mark.usefixtures("standard_promotion")
def test_the_quick_size_runs(tmp_path, capsys):
    assert laboratory.main(LAB, ["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| lambda_1 of Theorem 2.1.3 | 0.57734 |" in printed and "topics: 7 parts" in printed
    assert len(list(tmp_path.glob("topics-*.png"))) == 3
