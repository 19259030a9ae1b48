# Brackets and attention exactly (Section 2.2 of the thesis): the balance of a second layer of attention behind a first one that tells type
# and depth, two layers of uniform attention that predict brackets of any length, and how far attention varies.
#
# Brackets are numbers: 2 i opens and 2 i + 1 closes the kind i. The depth of a prefix is that of its stack; an opening bracket that lifts
# it to d has depth d, and the one that closes it depth d - 1.
from collections.abc import Sequence
from itertools import product

import numpy as np

Array = np.ndarray
MINIMAL = ("one-hot", "type and depth", "type and angle")  # first layers: Equations 2.55 to 2.57


class FirstLayer:
    """What a first layer that tells type and depth alone makes of a bracket, and of the start, which has a coordinate of its own.

    Args:
        form: of `MINIMAL`.
        kinds: k.
        deepest: D.
    """

    def __init__(self, form: str, kinds: int, deepest: int):
        self.form, self.kinds, self.deepest = form, kinds, deepest
        types, depths = 2 * kinds, deepest + 1
        self.width = {"one-hot": types * depths, "type and depth": types + depths, "type and angle": types + 2}[form] + 1

    def __call__(self, bracket: int, depth: int) -> Array:
        """The vector of a bracket at its depth, 1..D where it opens and 0..D - 1 where it closes."""
        types, found = 2 * self.kinds, np.zeros(self.width)
        if self.form == "one-hot":
            found[bracket * (self.deepest + 1) + depth] = 1
            return found
        found[bracket] = 1
        if self.form == "type and depth":
            found[types + depth] = 1
        else:
            angle = np.arctan(depth / (self.deepest + 2 - depth))
            found[types : types + 2] = np.cos(angle), np.sin(angle)
        return found

    @property
    def start(self) -> Array:
        return np.eye(self.width)[-1]


def balance_violation(first: FirstLayer, key: Array, query: Array, value: Array, printed: bool = False) -> float:
    """beta, the mean of `balance_ratios`."""
    return float(np.mean(balance_ratios(first, key, query, value, printed)))


def balance_ratios(first: FirstLayer, key: Array, query: Array, value: Array, printed: bool = False) -> list[float]:
    """|S| / P for all kinds i, j, depths d in 2..D and d' in 1..D: what a matched pair adds to what a closing bracket reads.

    u(k; q) = C exp(e_k' W_K' W_Q e_q) W_V e_k with C = I - 11'/m (Equation 2.48). S is the sum of u of a pair of kind i at depth d'. P is
    the norm of the sum of u over the start, d - 1 opening brackets and a pair of kind j at depth d: the least norm among opening brackets
    whose last one is another than where it is least of all (Equations 2.51 to 2.53).

    Args:
        first: the first layer.
        key, query, value: W_K, W_Q of shape (size, width), W_V of shape (m, width).
        printed: whether the query of S has depth d, as Equation 2.51 has it, and not d - 1 as in Q: d is then in 2..D - 1.
    """
    k, deepest = first.kinds, first.deepest

    def u(e: Array, q: Array) -> Array:
        v = value @ e
        return np.exp((key @ e) @ (query @ q)) * (v - v.mean())

    ratios = []
    for d, j in product(range(2, deepest + (not printed)), range(k)):
        asked = first(2 * j + 1, d - 1)
        # The sum over opening brackets falls apart by depth, so that only the last kind and the others are told apart.
        sums = {t: _read(first, u, asked, t, d, j) for t in product(range(k), repeat=d - 1)}
        least = min(sums, key=lambda t: sums[t])
        second = min((sums[t] for t in sums if t[-1] != least[-1]), default=np.nan)
        own = first(2 * j + 1, d) if printed else asked
        for i, depth in product(range(k), range(1, deepest + 1)):
            pair = u(first(2 * i + 1, depth - 1), own) + u(first(2 * i, depth), own)
            ratios.append(np.linalg.norm(pair) / second)
    return ratios


def _read(first: FirstLayer, u, asked: Array, opened: Sequence[int], d: int, j: int) -> float:
    """|Q|: of the start, the opening brackets of these kinds at depths 1.., and a pair of kind j at depth d."""
    total = u(first.start, asked) + u(first(2 * j, d), asked) + u(asked, asked)
    for depth, kind in enumerate(opened, 1):
        total = total + u(first(2 * kind, depth), asked)
    return float(np.linalg.norm(total))


def balanced_value(first: FirstLayer) -> Array:
    """W_V of a one-hot first layer with W_V e(open_i at d) = -W_V e(close_i at d - 1): an entry a kind and depth, one for the start."""
    k, deepest = first.kinds, first.deepest
    if first.form != "one-hot":
        raise ValueError("other first layers have a vector for each type and depth that is no basis")
    found = np.zeros((k * deepest + 2, first.width))
    for i, d in product(range(k), range(1, deepest + 1)):
        slot = i * deepest + d - 1
        found[[slot, -1]] += np.outer([1, -1], first(2 * i, d) - first(2 * i + 1, d - 1))
    found[[-2, -1]] += np.outer([1, -1], first.start)  # the last entry takes what the others have: P then changes nothing
    return found


def uniform_prediction(prefix: Sequence[int], kinds: int, deepest: int, opens: float, value: Array | None = None) -> Array:
    """p(next bracket | prefix) by two layers of uniform causal attention without positions (Corollary 2.2.1).

    The first layer's head counts opening less closing brackets beside the start, both over the length; after the layer norm their ratio is
    the depth. The second one adds up `balanced_value`, in which matched pairs cancel; after the layer norm the ratios to the start's entry
    are the stack. What stands between and behind the norms are functions of single places, as networks between layers are.

    Args:
        prefix: brackets.
        kinds, deepest: k and D.
        opens: q, the probability of an opening bracket where both may follow.
        value: W_V of the second layer; `balanced_value` where there is none.
    """
    n, first = len(prefix) + 1, FirstLayer("one-hot", kinds, deepest)
    value = balanced_value(first) if value is None else value
    uniform = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    signs = np.array([0.0, *(1.0 - 2 * (b % 2) for b in prefix)])
    counted = _normed(uniform @ np.stack([signs, np.eye(n)[0], -signs - np.eye(n)[0]], axis=1))
    depths = np.rint(counted[:, 0] / counted[:, 1]).astype(int)
    told = np.array([first.start, *(first(b, d) for b, d in zip(prefix, depths[1:], strict=True))])
    read = _normed(uniform @ told @ value.T)[-1]
    stack = np.rint(read[:-2] / read[-2]).reshape(kinds, deepest)
    depth = depths[-1]
    found = np.zeros(2 * kinds)
    opening = 1.0 if depth == 0 else 0.0 if depth == deepest else opens
    found[::2] = opening / kinds
    if depth:
        found[2 * int(stack[:, depth - 1].argmax()) + 1] = 1 - opening
    return found


def pruned(target: Array, units: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A product of two random matrices of which the second is pruned to come near a matrix (Theorem 2.2.3).

    Each entry of the target has `units` hidden units of its own. The first matrix gives such a unit b times an input, the second adds a
    times the unit to an output or is pruned, with a and b uniform in -1..1: an entry is the sum of a b over units that are left. Those are
    taken whose sum is nearest. Pensia et al. (2020) show that the error falls exponentially with their number. An entry of 0 has none.

    Returns:
        The product, of the target's shape, and which units of the second matrix are left, of shape (*target's, units).
    """
    made, left = np.zeros(target.shape), np.zeros((*target.shape, units), bool)
    subsets = np.arange(2**units)
    for place in np.argwhere(target):
        terms = rng.uniform(-1, 1, units) * rng.uniform(-1, 1, units)
        sums = np.zeros(1)
        for term in terms:
            sums = np.concatenate([sums, sums + term])  # by subset as a binary number
        best = int(np.abs(sums - target[tuple(place)]).argmin())
        made[tuple(place)], left[tuple(place)] = sums[best], subsets[best] >> np.arange(units) & 1
    return made, left


def balanced_scores(kinds: int, deepest: int, rng: np.random.Generator, size: float = 1.0, violation: float = 0.0) -> tuple[Array, Array]:
    """Attention scores that are balanced (Equation 2.47) and else random, and the shifts a of Equation 2.59.

    The score of an opening bracket less that of the one that closes it is a(kind, depth), whatever asks. A violation adds a normal number
    of that standard deviation to each score of a closing bracket.

    Returns:
        scores: by key and query, numbered as a one-hot `FirstLayer` places them, the start last.
        shifts: (kinds, depths).
    """
    depths = deepest + 1
    scores = size * rng.normal(size=(2 * kinds * depths + 1,) * 2)
    shifts = size * rng.normal(size=(kinds, deepest))
    for i, d in product(range(kinds), range(1, depths)):
        scores[(2 * i + 1) * depths + d - 1] = scores[2 * i * depths + d] - shifts[i, d - 1]
    closing = [(2 * i + 1) * depths + d for i, d in product(range(kinds), range(deepest))]
    scores[closing] += violation * rng.normal(size=(len(closing), len(scores)))
    return scores, shifts


def shifted_value(shifts: Array) -> Array:
    """W_V of Equation 2.63, (kinds x depths, keys): an opening bracket adds 1 to its entry, what closes it takes exp(a) away."""
    kinds, deepest = shifts.shape
    depths = deepest + 1
    found = np.zeros((kinds * deepest, 2 * kinds * depths + 1))
    for i, d in product(range(kinds), range(1, depths)):
        slot = i * deepest + d - 1
        found[slot, 2 * i * depths + d], found[slot, (2 * i + 1) * depths + d - 1] = 1, -np.exp(shifts[i, d - 1])
    return found


def attention_prediction(prefix: Sequence[int], deepest: int, opens: float, scores: Array, shifts: Array) -> Array:
    """p(next bracket | prefix) by one layer of attention behind a one-hot first layer that tells type and depth (Theorem 2.2.1).

    Of an opening bracket the layer's own input tells what closes it. Behind a closing one of depth d the attention's sums at depth d do, in
    which matched pairs cancel where scores are balanced. The network g reads the kind of the largest.
    """
    kinds, depths = len(shifts), deepest + 1
    depth = np.cumsum([1 - 2 * (b % 2) for b in prefix])
    at = np.append(len(scores) - 1, np.array(prefix) * depths + depth)
    weights = np.exp(scores[at, at[-1]] - scores[at, at[-1]].max())
    read = (shifted_value(shifts)[:, at] @ weights).reshape(kinds, deepest)
    found, last = np.zeros(2 * kinds), int(depth[-1])
    opening = 1.0 if last == 0 else 0.0 if last == deepest else opens
    found[::2] = opening / kinds
    if last:
        kind = prefix[-1] // 2 if prefix[-1] % 2 == 0 else int(read[:, last - 1].argmax())
        found[2 * kind + 1] = 1 - opening
    return found


def read_apart(scores: Array, shifts: Array, length: int) -> float:
    """The least distance between what g reads behind two words that want different brackets (left side of Equation 2.77).

    A word is that of the proof of Theorem 2.2.2: d' brackets of kind i open around N / 2 - d' - d - 1 matched pairs of that kind and
    close; then d - 1 brackets open, and a pair of kind j follows, whose closing bracket asks. Two words differ in their opening brackets,
    the last one of which tells what closes next. The least is over i, j, d', d and the opening brackets.

    Args:
        scores, shifts: of `balanced_scores`.
        length: N, more than 8 D.
    """
    kinds, deepest = shifts.shape
    depths, value = deepest + 1, shifted_value(shifts)
    value = np.vstack([value, -value.sum(axis=0)])
    least = np.inf
    for j, d in product(range(kinds), range(2, depths)):
        at = (2 * j + 1) * depths + d - 1
        u = value * np.exp(scores[:, at])

        def pair(kind: int, depth: int, u: Array = u) -> Array:
            return u[:, 2 * kind * depths + depth] + u[:, (2 * kind + 1) * depths + depth - 1]

        opened = {t: sum(u[:, 2 * kind * depths + depth] for depth, kind in enumerate(t, 1)) for t in product(range(kinds), repeat=d - 1)}
        for i, around in product(range(kinds), range(deepest)):
            before = sum((pair(i, depth) for depth in range(1, around + 1)), u[:, -1] + pair(j, d))
            before = before + (length // 2 - around - d - 1) * pair(i, around + 1)
            read = {t: (before + own) / np.linalg.norm(before + own) for t, own in opened.items()}
            least = min(least, *(np.linalg.norm(a - b) for t, a in read.items() for s, b in read.items() if t[-1] != s[-1]))
    return float(least)


def balance_bound(apart: float, deepest: int, length: int) -> float:
    """The right side of Equation 2.54 over P, 16 D R / N with R = 4 / e + 1: Lemma 2.2.1, at outputs that are e apart."""
    return 16 * deepest * (4 / apart + 1) / length


def spread_over(prefix: Sequence[int], deepest: int, scores: Array) -> float:
    """exp(entropy) of the last row of attention, divided by its number of places: 1 where it is uniform."""
    depth = np.cumsum([1 - 2 * (b % 2) for b in prefix])
    at = np.append(len(scores) - 1, np.array(prefix) * (deepest + 1) + depth)
    weights = np.exp(scores[at, at[-1]] - scores[at, at[-1]].max())
    weights /= weights.sum()
    return float(np.exp(-(weights * np.log(weights)).sum()) / len(weights))


def least_nats(kinds: int, deepest: int, opens: float, length: int) -> float:
    """The entropy of prefixes of so many brackets (Definition 2.2.1), by symbol: the least -log p of any model."""
    depth, total = np.eye(deepest + 1)[0], 0.0
    opening = np.full(deepest + 1, opens)
    opening[0], opening[-1] = 1, 0
    inner = -opens * np.log(opens) - (1 - opens) * np.log(1 - opens)
    for _ in range(length):
        total += depth[1:-1].sum() * inner + (depth @ opening) * np.log(kinds)
        up, down = depth * opening, depth * (1 - opening)
        depth = np.append(0, up[:-1]) + np.append(down[1:], 0)
    return total / length


def _normed(rows: Array) -> Array:
    """The layer norm with C = 0 (Equation 2.43)."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return centred / np.linalg.norm(centred, axis=-1, keepdims=True)


def variation(attentions: Array) -> float:
    """The mean of |A - B|_F^2 over pairs of attention patterns, the first axis."""
    n = len(attentions)
    flat = attentions.reshape(n, -1)
    return float(((flat**2).sum() * n - (flat.sum(axis=0) ** 2).sum()) * 2 / (n * (n - 1)))


def pseudo_values(attentions: Array) -> list[float]:
    """The jackknife's values of `variation`, one a pattern: their mean is the variation, and they are as good as independent.

    n U - (n - 1) U_-s, where U_-s is the variation without pattern s (Arvesen 1969).
    """
    n, whole = len(attentions), variation(attentions)
    return [n * whole - (n - 1) * variation(np.delete(attentions, s, axis=0)) for s in range(n)]


def random_variation(cells: int) -> float:
    """The expected variation of causal attention whose rows are uniform on their simplices: 2 sum (m - 1) / (m (m + 1))."""
    m = np.arange(1, cells + 1)
    return float(2 * ((m - 1) / (m * (m + 1))).sum())
