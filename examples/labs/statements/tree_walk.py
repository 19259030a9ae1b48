# The lazy walk of Algorithm 2 of the thesis on the tree of all prefixes, as a matrix: how long it takes to mix against the horizon H.
#
# From a prefix y the walk goes to the parent by V(y) and to the child y a by p(a | y) V(y a), and stays with probability 1/2. It is
# reversible: the edge above y has the conductance p(y) V(y), and the mass of a node is the sum of the conductances at it.
import numpy as np

Array = np.ndarray
TILT = 0.8  # of each pair of ones that follow one another, as in examples/guided/amplification.gmlm


def values(horizon: int, sd: float = 0.0, seed: int = 0) -> list[Array]:
    """V by level, E[exp(TILT x pairs) | prefix] under fair bits; those of prefixes, not of whole strings, wrong by exp(sd e)."""
    rng, levels = np.random.default_rng(seed), []
    behind = np.ones(2)  # by the last bit
    tables = [behind]
    for _ in range(horizon):
        behind = 0.5 * np.array([behind.sum(), behind[0] + np.exp(TILT) * behind[1]])
        tables.append(behind)
    so_far, last = np.ones(1), np.zeros(1, int)
    for level in range(horizon + 1):
        levels.append(so_far * tables[horizon - level][last])
        bits = np.tile([0, 1], len(last))
        so_far = np.repeat(so_far, 2) * np.exp(TILT * (np.repeat(last, 2) & bits))
        last = bits
    return [v * np.exp(sd * rng.normal(size=len(v))) if level < horizon else v for level, v in enumerate(levels)]


def walk(levels: list[Array]) -> tuple[Array, Array]:
    """The matrix of the walk, and its law; nodes in the order of levels."""
    ends = np.cumsum([0, *(len(v) for v in levels)])
    conductance = np.zeros((ends[-1],) * 2)
    for level in range(1, len(levels)):
        wire = 0.5**level * levels[level]
        child = ends[level] + np.arange(len(wire))
        parent = ends[level - 1] + np.arange(len(wire)) // 2
        conductance[child, parent] = conductance[parent, child] = wire
    mass = conductance.sum(axis=1)
    return 0.5 * np.eye(len(mass)) + 0.5 * conductance / mass[:, None], mass / mass.sum()


def times(levels: list[Array]) -> dict[str, float]:
    """The relaxation time, the first number of steps after which the walk from the root is within 1/4 of its law, and the leaves' mass."""
    matrix, law = walk(levels)
    root = np.sqrt(law)
    gap = 1 - np.linalg.eigvalsh(root[:, None] * matrix / root)[-2]
    now, steps = np.eye(len(law))[0], 0
    while 0.5 * np.abs(now - law).sum() > 0.25:
        now, steps = now @ matrix, steps + 1
    return {"relaxation": float(1 / gap), "mixing": steps, "leaves": float(law[-len(levels[-1]) :].sum())}
