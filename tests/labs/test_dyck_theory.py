"""Brackets and attention: the construction that is balanced, uniform attention that solves the task, and how far random attention varies."""

import itertools

import dyck_theory as dyck
import numpy as np
import pytest
from dyck_theory import FirstLayer

K, D, Q = 2, 4, 0.5


def law(prefix, kinds, deepest, opens):
    """p(next bracket) by a stack; None of what is no prefix."""
    stack = []
    for b in prefix:
        if b % 2 == 0:
            stack.append(b // 2)
        elif not stack or stack.pop() != b // 2:
            return None
        if len(stack) > deepest:
            return None
    found = np.zeros(2 * kinds)
    found[::2] = (1 if not stack else 0 if len(stack) == deepest else opens) / kinds
    if stack:
        found[2 * stack[-1] + 1] = 1 - found[::2].sum()
    return found


def drawn(length, rng, kinds=K, deepest=D, opens=Q):
    prefix = []
    for _ in range(length):
        prefix.append(int(rng.choice(2 * kinds, p=law(prefix, kinds, deepest, opens))))
    return prefix


def test_uniform_attention_predicts_every_short_prefix():
    checked = 0
    for n in range(9):
        for prefix in itertools.product(range(2 * K), repeat=n):
            wanted = law(prefix, K, 3, 0.3)
            if wanted is not None:
                np.testing.assert_allclose(dyck.uniform_prediction(prefix, K, 3, 0.3), wanted, atol=1e-12)
                checked += 1
    assert checked == 1657  # two ways up, one down, at most 3 deep


def test_uniform_attention_predicts_prefixes_of_16_times_the_training_length():
    rng = np.random.default_rng(0)
    for _ in range(5):
        prefix = drawn(448, rng, 3, 5)
        np.testing.assert_allclose(dyck.uniform_prediction(prefix, 3, 5, Q), law(prefix, 3, 5, Q), atol=1e-12)


@pytest.mark.parametrize("printed", [False, True])
def test_the_balanced_construction_violates_nothing(printed):
    first = FirstLayer("one-hot", K, D)
    none = np.zeros((3, first.width))
    assert dyck.balance_violation(first, none, none, dyck.balanced_value(first), printed) == 0


@pytest.mark.parametrize("form", dyck.MINIMAL)
@pytest.mark.parametrize("printed", [False, True])
def test_the_violation_is_that_of_its_definition(form, printed):
    """By plain loops, in another order."""
    rng, first = np.random.default_rng(1), FirstLayer(form, K, 3)
    key, query, value = (0.4 * rng.standard_normal((5, first.width)) for _ in range(3))
    centre = np.eye(5) - np.ones((5, 5)) / 5

    def u(e, q):
        return centre @ value @ e * np.exp(e @ key.T @ query @ q)

    found = []
    for j, i, d, below in itertools.product(range(K), range(K), (2, 3), (1, 2, 3)):
        if printed and d == 3:
            continue
        q = first(2 * j + 1, d - 1)
        sums = {}
        for t in itertools.product(range(K), repeat=d - 1):
            seen = [first.start, *(first(2 * kind, level + 1) for level, kind in enumerate(t)), first(2 * j, d), q]
            sums[t] = np.linalg.norm(sum(u(e, q) for e in seen))
        ranked = sorted(sums, key=sums.get)
        other = next(t for t in ranked if t[-1] != ranked[0][-1])
        own = first(2 * j + 1, d) if printed else q
        found.append(np.linalg.norm(u(first(2 * i + 1, below - 1), own) + u(first(2 * i, below), own)) / sums[other])
    np.testing.assert_allclose(dyck.balance_violation(first, key, query, value, printed), np.mean(found), rtol=1e-12)
    assert np.mean(found) > 0.1


def test_other_first_layers_have_no_balanced_value():
    with pytest.raises(ValueError, match="no basis"):
        dyck.balanced_value(FirstLayer("type and depth", K, D))


def test_random_attention_varies_as_computed():
    assert (round(dyck.random_variation(19), 3), round(dyck.random_variation(20), 3)) == (3.295, 3.386)
    rng, rows = np.random.default_rng(0), np.zeros((400, 19, 19))
    for m in range(1, 20):
        rows[:, m - 1, :m] = rng.dirichlet(np.ones(m), 400)
    pairs = [((a - b) ** 2).sum() for a, b in itertools.combinations(rows[:20], 2)]
    np.testing.assert_allclose(dyck.variation(rows[:20]), np.mean(pairs), rtol=1e-9)
    apart = ((rows[:200] - rows[200:]) ** 2).sum(axis=(1, 2))  # of pairs that are independent
    np.testing.assert_allclose(apart.mean(), dyck.random_variation(19), atol=4 * apart.std() / np.sqrt(200))


def asked(count, length, rng):
    """Prefixes that end with a closing bracket, so that the attention must tell what closes next."""
    while count:
        prefix = drawn(length, rng)
        if prefix[-1] % 2:
            count -= 1
            yield prefix


@pytest.mark.parametrize("seed", range(3))
def test_random_balanced_attention_solves_brackets_of_any_length(seed):
    """Theorem 2.2.1, sufficiency: the attention is far from uniform, and differs from seed to seed."""
    rng = np.random.default_rng(seed)
    scores, shifts = dyck.balanced_scores(K, D, rng)
    for prefix in (*asked(30, 28, rng), *asked(3, 300, rng)):
        found = dyck.attention_prediction(prefix, D, Q, scores, shifts)
        np.testing.assert_allclose(found, law(prefix, K, D, Q), atol=1e-9)
        assert dyck.spread_over(prefix, D, scores) < 0.9


def test_balanced_scores_are_those_of_the_condition():
    """Equation 2.47: the difference of a pair's scores does not depend on what asks; and the values cancel a pair, whatever asks."""
    scores, shifts = dyck.balanced_scores(2, 3, np.random.default_rng(1))
    first, value = dyck.FirstLayer("one-hot", 2, 3), dyck.shifted_value(shifts)
    for i, d in itertools.product(range(2), range(1, 4)):
        opening, closing = first(2 * i, d), first(2 * i + 1, d - 1)
        np.testing.assert_allclose((opening - closing) @ scores, shifts[i, d - 1])
        for q in scores.T:
            np.testing.assert_allclose(np.exp(opening @ q) * value @ opening + np.exp(closing @ q) * value @ closing, 0, atol=1e-12)
    centred = np.vstack([value, -value.sum(axis=0)])
    assert dyck.balance_violation(first, np.eye(first.width), scores, centred) < 1e-12
    worse, _ = dyck.balanced_scores(2, 3, np.random.default_rng(1), violation=0.1)
    assert dyck.balance_violation(first, np.eye(first.width), worse, centred) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_matched_pairs_drown_what_unbalanced_attention_should_tell(seed):
    """Theorem 2.2.1, necessity: behind enough pairs of a kind all that is read is the pairs."""
    scores, shifts = dyck.balanced_scores(2, 4, np.random.default_rng(seed), violation=0.1)
    told = []
    for i, j in itertools.product(range(2), repeat=2):
        found = dyck.attention_prediction([2 * i, 2 * i + 1] * 5000 + [2 * j, 0, 1], 4, 0.5, scores, shifts)
        told.append(int(found.argmax() == 2 * j + 1))
    assert sum(told) < 4


@pytest.mark.parametrize("violation", [0.0, 0.3])
def test_what_is_read_of_the_words_of_the_proof_is_the_sum_over_their_brackets(violation):
    """Theorem 2.2.2, word by word."""
    length, depths = 2 * 8 * D + 6, D + 1
    scores, shifts = dyck.balanced_scores(K, D, np.random.default_rng(5), violation=violation)
    value = dyck.shifted_value(shifts)
    value = np.vstack([value, -value.sum(axis=0)])
    least = np.inf
    for i, j, d, around in itertools.product(range(K), range(K), range(2, depths), range(D)):
        readings = {}
        for opened in itertools.product(range(K), repeat=d - 1):
            pairs = length // 2 - around - d - 1
            word = [2 * i] * around + [2 * i, 2 * i + 1] * pairs + [2 * i + 1] * around + [2 * k for k in opened] + [2 * j, 2 * j + 1]
            depth = np.cumsum([1 - 2 * (b % 2) for b in word])
            assert depth.min() >= 0 and depth.max() <= D and len(word) <= length
            at = np.append(len(scores) - 1, np.array(word) * depths + depth)
            weights = np.exp(scores[at, at[-1]])
            read = value[:, at] @ weights / weights.sum()
            readings[opened] = read / np.linalg.norm(read)
        least = min(least, *(np.linalg.norm(readings[a] - readings[b]) for a in readings for b in readings if a[-1] != b[-1]))
    np.testing.assert_allclose(dyck.read_apart(scores, shifts, length), least, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_theorem_2_2_2_holds_and_balanced_attention_needs_none(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):  # Lemma 2.2.1
        a, b, r = rng.normal(size=(3, 5)) * np.exp(rng.normal(size=(3, 1)))
        e = rng.uniform(0.01, 1.9)
        r *= (4 / e + 1) * max(np.linalg.norm(a), np.linalg.norm(b)) / np.linalg.norm(r)
        assert np.linalg.norm((a + r) / np.linalg.norm(a + r) - (b + r) / np.linalg.norm(b + r)) <= e
        assert dyck.balance_bound(e, 1, 16) == pytest.approx(4 / e + 1)
    first = FirstLayer("one-hot", K, D)
    for violation in (0.0, 0.01, 0.3):
        scores, shifts = dyck.balanced_scores(K, D, np.random.default_rng(seed), violation=violation)
        value = dyck.shifted_value(shifts)
        ratios = dyck.balance_ratios(first, np.eye(first.width), scores, np.vstack([value, -value.sum(axis=0)]))
        apart = [dyck.read_apart(scores, shifts, n) for n in (40, 400, 4000)]
        for n, e in zip((40, 400, 4000), apart, strict=True):
            assert max(ratios) <= dyck.balance_bound(e, D, n)
        if violation:
            assert apart[2] < 0.2 * apart[1]
        else:
            np.testing.assert_allclose(apart, apart[0])


def test_a_pruned_random_product_has_the_nearest_sums_of_its_units_and_tells_brackets():
    target, units = 0.25 * dyck.balanced_value(FirstLayer("one-hot", K, D)), 6
    made, left = dyck.pruned(target, units, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    for place in map(tuple, np.argwhere(target)):
        terms = rng.uniform(-1, 1, units) * rng.uniform(-1, 1, units)
        sums = [sum(t for t, kept in zip(terms, some, strict=True) if kept) for some in itertools.product((0, 1), repeat=units)]
        assert abs(made[place] - target[place]) == pytest.approx(min(abs(s - target[place]) for s in sums))
        assert made[place] == pytest.approx(terms @ left[place])
    assert not made[target == 0].any() and not left[target == 0].any()
    close = dyck.pruned(target, 18, np.random.default_rng(3))[0]
    assert np.abs(close - target).max() < 0.02 * np.abs(made - target).max()
    word = drawn(61, np.random.default_rng(4))  # some bracket is open
    np.testing.assert_allclose(dyck.uniform_prediction(word, K, D, Q, close), law(word, K, D, Q), atol=1e-12)
    other = close[[*range(D, 2 * D), *range(D), -2, -1]]
    np.testing.assert_allclose(dyck.uniform_prediction(word, K, D, Q, other), law(word, K, D, Q)[[0, 3, 2, 1]], atol=1e-12)
