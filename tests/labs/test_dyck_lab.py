"""The laboratory of brackets and attention: its network against NumPy, its measures against what is known, the page against the kept output."""

import itertools
import re
from functools import cache

import dyck
import dyck_tables
import dyck_theory as theory
import dyck_weight
import equinox as eqx
import jax
import jax.numpy as jnp
import laboratory
import numpy as np
import pytest
from markdown_blocks import ROOT
from thinned import thinned

TINY = dyck.Size(width=24)
pytestmark = pytest.mark.usefixtures("standard_promotion")
K, D = 2, 4


@cache
def module_of(name, seed=3):
    return dyck.model_of(TINY, name).init_params(seed)["net"].module


@cache
def words(count, length, seed=0):
    """Prefixes by a stack of their own."""
    rng, rows = np.random.default_rng(seed), np.zeros((count, length), np.int32)
    for row in rows:
        stack = []
        for i in range(length):
            if not stack or (len(stack) < D and rng.random() < 0.5):
                stack.append(int(rng.integers(K)))
                row[i] = 2 * stack[-1]
            else:
                row[i] = 2 * stack.pop() + 1
    return rows


def told(name, row):
    """The vectors of the start and the brackets by the words of Equations 2.55 to 2.57."""
    found, depth = [np.eye(24)[{"one-hot": 20, "type and depth": 9, "type and angle": 6}[name]]], 0
    for b in row:
        depth += 1 if b % 2 == 0 else -1
        e = np.zeros(24)
        if name == "one-hot":
            e[5 * b + depth] = 1
        elif name == "type and depth":
            e[b] = e[4 + depth] = 1
        else:
            norm = np.hypot(depth, D + 2 - depth)
            e[b], e[4], e[5] = 1, (D + 2 - depth) / norm, depth / norm
        found.append(e)
    return np.array(found)


def normed(y):
    y = y - y.mean()
    return y / np.sqrt((y**2).sum())


def by_hand(module, x):
    """Logits and attention, place by place in float64."""
    weights, patterns = jax.tree.map(lambda a: np.asarray(a, float), module.layers), []
    for layer in weights:
        out, pattern = [], np.zeros((len(x), len(x)))
        for i in range(len(x)):
            scores = np.array([(layer.key @ x[j]) @ (layer.query @ x[i]) for j in range(i + 1)]) * module.attends
            pattern[i, : i + 1] = np.exp(scores) / np.exp(scores).sum()
            y = normed(sum(pattern[i, j] * layer.value @ x[j] for j in range(i + 1)))
            if layer.inner is not None:
                y = y + x[i]
                y = y + layer.inner[1] @ np.maximum(layer.inner[0] @ y + layer.offsets[0], 0) + layer.offsets[1]
            out.append(y)
        x = np.array(out)
        patterns.append(pattern)
    return x @ np.asarray(module.head, float).T + np.asarray(module.bias, float), patterns


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-hot", "type and depth", "type and angle", "uniform", "learnt, plain", "learnt, places"])
def test_the_network_is_its_formula(name):
    module, row = module_of(name), words(1, 12)[0]
    if module.form is None:
        x = np.asarray(module.embedding, float)[[4, *row]]
        x = x + (0 if module.place is None else np.arange(13)[:, None] / dyck.LENGTH * np.asarray(module.place, float))
    else:
        x = told(module.form, row)
    wanted, patterns = by_hand(module, x)
    found, attention = module.read(jnp.asarray(row))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(module(jnp.asarray(row)), wanted[:-1], rtol=1e-4, atol=1e-4)
    for own, pattern in zip(attention, patterns, strict=True):
        np.testing.assert_allclose(own, pattern, atol=1e-5)
    np.testing.assert_allclose(module.attention(jnp.asarray(row))[:, 0], [p[:-1, :-1] for p in patterns], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["one-hot", "learnt, places"], 2, 1))
def test_padding_plays_no_part_wherever_it_stands(name):
    module, row = module_of(name), jnp.asarray(words(1, 12)[0])
    wanted, padding = module.read(row)[0], jnp.full(3, 5, row.dtype)
    np.testing.assert_allclose(module(jnp.concatenate([padding, row]))[4:], wanted[1:-1], atol=1e-5)
    np.testing.assert_allclose(module.behind(jnp.concatenate([row, padding]), 12), wanted[12], atol=1e-5)
    np.testing.assert_allclose(module.behind(row, 7), wanted[7], atol=1e-5)


@pytest.mark.slow
def test_a_network_makes_a_probability_of_each_next_bracket():
    model, rows = dyck.model_of(TINY, "one-hot"), words(3, dyck.LENGTH)
    params = model.init_params(3)
    logits = np.stack([module_of("one-hot")(jnp.asarray(r)) for r in rows]).astype(float)
    logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    wanted = np.take_along_axis(logs, rows[:, :, None], axis=2).sum(axis=(1, 2))
    np.testing.assert_allclose(model.log_prob(params, rows), wanted, rtol=1e-4)


@pytest.mark.parametrize("name", theory.MINIMAL)
@pytest.mark.parametrize("printed", [False, True])
def test_the_violation_of_a_network_is_that_of_what_its_layer_adds(name, printed):
    """By sums over whole words: what a pair adds is what the word reads with it, less what it reads without."""
    module = module_of(name)
    layer = jax.tree.map(lambda a: np.asarray(a, float), module.layers[-1])
    vectors = {(b, d): told(name, [*_up(d - (b % 2 == 0)), b] if b % 2 == 0 else [*_up(d), 2 * (b // 2), b])[-1] for b, d in _brackets()}
    vectors["start"] = told(name, [])[0]

    def read(places, q):
        total = sum(np.exp((layer.key @ vectors[p]) @ (layer.query @ vectors[q])) * (layer.value @ vectors[p]) for p in places)
        return total - total.mean()

    ratios = []
    for d, j in itertools.product(range(2, D + (not printed)), range(K)):
        sums = {}
        for t in itertools.product(range(K), repeat=d - 1):
            word = ["start", *((2 * kind, at) for at, kind in enumerate(t, 1)), (2 * j, d), (2 * j + 1, d - 1)]
            sums[t] = np.linalg.norm(read(word, word[-1]))
        least = min(sums, key=sums.get)
        second = min(v for t, v in sums.items() if t[-1] != least[-1])
        asked = (2 * j + 1, d if printed else d - 1)
        for i, at in itertools.product(range(K), range(1, D + 1)):
            with_it, without = (read(["start", *pair], asked) for pair in ([(2 * i, at), (2 * i + 1, at - 1)], []))
            ratios.append(np.linalg.norm(with_it - without) / second)
    np.testing.assert_allclose(dyck.violation(module, printed), np.mean(ratios), rtol=1e-6)
    assert np.mean(ratios) > 0.1


def _up(depth):
    return [0] * depth


def _brackets():
    return [(b, d) for b in range(2 * K) for d in (range(1, D + 1) if b % 2 == 0 else range(D))]


def solving():
    """Uniform attention with the balanced value; its head weighs the stack so that the last open bracket decides."""
    first, module = theory.FirstLayer("one-hot", K, D), module_of("one-hot")
    value, head = np.zeros((24, 24), np.float32), np.zeros((4, 24), np.float32)
    value[: K * D + 2, : first.width] = theory.balanced_value(first)
    head[1, :D], head[3, D : 2 * D] = 3.0 ** np.arange(D), 3.0 ** np.arange(D)
    zero = jnp.zeros((24, 24))
    new = (zero, zero, jnp.asarray(value), jnp.asarray(head), jnp.zeros(4))
    return eqx.tree_at(lambda m: (m.layers[0].key, m.layers[0].query, m.layers[0].value, m.head, m.bias), module, new)


@pytest.mark.slow
def test_uniform_attention_in_the_network_tells_brackets_of_any_length():
    module = solving()
    rows, lengths = dyck.closing(words(60, 500), 400, 500, 1)
    assert dyck.accuracy(module, rows, lengths) == {"all": 1.0, "closing": 1.0}
    assert dyck.violation(module, False) == dyck.violation(module, True) == 0
    wrong = eqx.tree_at(lambda m: m.head, module, module.head[jnp.array([0, 3, 2, 1])])
    assert dyck.accuracy(wrong, rows, lengths)["closing"] == 0


def test_where_attention_is_uniform_the_violation_is_that_of_no_keys():
    module = module_of("uniform")
    own = jnp.zeros((24, 24)), module.layers[0].value
    zero = eqx.tree_at(lambda m: (m.layers[0].key, m.layers[0].value), module_of("one-hot"), own)
    assert dyck.violation(module, False) == dyck.violation(zero, False) > 0
    assert dyck.violation(module_of("learnt"), False) is None


class Batch:
    """What a regulariser is told."""

    def __init__(self, x, weights):
        self.x, self.weights, self.key = jnp.asarray(x), jnp.asarray(weights, jnp.float32), jax.random.key(1)


class Network:
    def __init__(self, module):
        self.module = module


@pytest.mark.slow  # of a laboratory, and dear to compile
def test_the_regulariser_is_nothing_where_matched_pairs_cancel_and_else_their_mark_on_the_logits():
    rows = words(6, 10)
    module = solving()
    assert float(dyck.contrast(0.3, Network(module), Batch(rows, np.ones(6)))) < 1e-9
    module, batch = module_of("one-hot"), Batch(rows, [1, 1, 1, 0, 2, 1])
    key_r, key_kinds = jax.random.split(batch.key)
    r, kinds = np.asarray(jax.random.randint(key_r, (6, 1), 1, D + 1))[:, 0], np.asarray(jax.random.randint(key_kinds, (6, D), 0, K))
    total = 0.0
    for row, pairs, chosen, weight in zip(rows, r, kinds, batch.weights, strict=True):
        front = [2 * c for c in chosen[:pairs]] + [2 * c + 1 for c in chosen[:pairs][::-1]]
        away = by_hand(module, told("one-hot", [*front, *row]))[0][2 * pairs : -1] - by_hand(module, told("one-hot", row))[0][:-1]
        total += float(weight) * (away**2).sum() / 10
    np.testing.assert_allclose(dyck.contrast(0.3, Network(module), batch), 0.3 * total / 6, rtol=1e-3)
    assert set(r) <= set(range(1, D + 1))


def test_words_that_are_asked_for_end_with_a_closing_bracket():
    rows, lengths = dyck.closing(words(60, 50), 20, 50, 1)
    assert 15 < len(rows) < 45
    assert (rows[np.arange(len(rows)), lengths - 1] % 2 == 1).all()
    assert lengths.min() >= 20 and lengths.max() <= 50 and len(set(lengths.tolist())) > 5


def test_the_least_loss_is_that_of_every_prefix():
    def entropy(stack, left):
        if not left:
            return 0.0
        law = {(*stack, kind): (1 if not stack else 0 if len(stack) == 2 else 0.3) / 3 for kind in range(3)}
        if stack:
            law[stack[:-1]] = 1 - sum(law.values())
        return sum(p * (entropy(s, left - 1) - np.log(p)) for s, p in law.items() if p > 0)

    np.testing.assert_allclose(theory.least_nats(3, 2, 0.3, 7), entropy((), 7) / 7, rtol=1e-12)


def test_values_of_the_jackknife_have_the_variation_as_their_mean():
    patterns = np.random.default_rng(0).dirichlet(np.ones(4), (5, 4))
    whole, apart = theory.variation(patterns), [np.mean([((a - b) ** 2).sum() for b in patterns]) * 5 / 4 for a in patterns]
    wanted = [(2 * 4 * one - 5 * whole) / 3 for one in apart]
    np.testing.assert_allclose(theory.pseudo_values(patterns), wanted, rtol=1e-12)
    np.testing.assert_allclose(np.mean(wanted), whole, rtol=1e-12)


def test_the_prefix_has_all_brackets_at_all_depths():
    codes, seen, depth = dyck.codes(dyck.PREFIX).tolist(), set(), 0
    for b in codes:
        depth += 1 if b % 2 == 0 else -1
        seen.add((b, depth))
    assert seen == set(_brackets())


def test_the_largest_weight_at_which_every_seed_does_well_is_taken(tmp_path, monkeypatch):
    found = {0.01: [1.0, 0.97], 0.03: [0.99, 0.98], 0.1: [0.97, 1.0], 0.3: [1.0, 0.96]}
    monkeypatch.setattr(dyck_weight, "accuracy", lambda search, out, weight: found[weight])
    search = dyck_weight.lab().sizes["default"]
    tried = dyck_weight.searched(search, tmp_path)
    assert list(tried) == ["0.01", "0.03", "0.1", "0.3"] and dyck_weight.taken(tried) == "0.1"  # none is tried behind the first that fails
    assert dyck_weight.taken({"0.01": [1.0, 0.9]}) is None
    kept = laboratory.load(dyck_weight.lab().kept / "results.json", search, dyck_weight.lab().settings)["search"]["result"]
    assert dyck_weight.taken(kept) == f"{dyck.SETTINGS[dyck_weight.SETTING]['contrast']:g}"


def planned(size):
    """Results in which everything is as the thesis has it, and equal for all seeds but for a little."""
    results = {"exact": dyck.exactly(dyck.Size(long=40)) | {"asked": 100, "uniform": 1.0}}
    results |= {"approximate": dyck.approximate(size), "pruned": dyck.pruned(size)}
    told = ("short", "long", "pumped 10", "pumped 1000", "beta", "spread")
    results["balanced"] = {
        f"{v:g}, {seed}": {name: 1.0 - 0.4 * (v > 0) - 1e-4 * seed * v for name in told}
        for v, seed in itertools.product(dyck.VIOLATIONS, range(size.seeds))
    }
    for name, seed in itertools.product(dyck.names(size), range(size.seeds)):
        few = 1e-4 * seed
        tamed = "regularised" in name
        long = {"all": 0.9 + 0.05 * tamed - few, "closing": 0.9 + 0.05 * tamed - few}
        beta = None if dyck.SETTINGS[name]["first"] == 0 else 0.1 - 0.05 * tamed + few
        short = {"all": 0.99 + few, "closing": 1.0}
        results[f"{name}, {seed}"] = {"nats": 0.9 + few, "short": short, "long": long, "beta": beta, "beta as printed": beta}
    for name in dyck.names(size):
        last = dyck_tables.VARIATION_BEFORE.get(name, (1.0, 1.0))[1]
        layers = dyck_tables.TABLE.get(name, ((1.0, 0.1),) * dyck.SETTINGS[name].get("layers", 1))
        results[f"variation, {name}"] = [
            {"prefix": [last + 1e-4 * k for k in range(size.seeds)], "sentences": [mean + 1e-5 * k for k in range(size.seeds)], "sd": sd}
            for mean, sd in layers
        ]
    return results | {f"picture, {name}": [np.tri(17).tolist()] * 2 for name in dyck_tables.SHOWN}


@pytest.mark.slow  # draws all tables and pictures
def test_tables_of_results_as_published_agree(monkeypatch):
    monkeypatch.setattr(dyck, "drawn", lambda kinds, length, count, seed: words(count, length, 5))
    lab, size = dyck.lab(), dyck.Size(settings=len(dyck.SETTINGS))
    results = planned(size)
    assert set(results) == set(lab.parts(size, ROOT))
    tables = lab.tables(results, size)
    assert "disagree" not in "".join(tables.values()) and "not testable" not in "".join(tables.values())
    for name, count in {"balanced": 3, "accuracy": size.settings, "contrast": 8, "variation": 3, "layers": 4}.items():
        assert tables[f"dyck-{name}"].count("agree") == count, name
    assert tables["dyck-balance"].count("-1.00") == 6
    assert set(lab.draw(results, size)) == {"balance", "attention"}
    for seed in range(size.seeds):
        results[f"one-hot, regularised, {seed}"]["beta"] = 0.2 + 1e-4 * seed
    assert lab.tables(results, size)["dyck-contrast"].splitlines()[2].count(" disagree ") == 1


def test_the_page_has_the_numbers_of_the_kept_output():
    lab, size = dyck.lab(), dyck.Size()
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    tables = lab.tables({name: part["result"] for name, part in kept.items()}, size)
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, lab.name, tables | {f"{lab.name}-time": laboratory.times(lab, kept)}) == page
    pictures = re.findall(r"\]\((figures/dyck-[\w-]+\.png)\)", page)
    assert len(pictures) == 2 and all((lab.page.parent / p).stat().st_size < 150_000 for p in pictures)


@pytest.mark.slow  # compiles two networks: half a minute of the processor
def test_the_quick_size_runs(tmp_path, capsys):
    assert laboratory.main(dyck.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| beta of the balanced construction | 0 |" in printed and "dyck: 14 parts" in printed
    assert len(list(tmp_path.glob("dyck-*.png"))) == 2


@pytest.mark.slow  # compiles a network for each weight
def test_the_quick_search_of_a_weight_runs(tmp_path, capsys):
    assert laboratory.main(dyck_weight.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    assert "| 0.01 |" in capsys.readouterr().out
