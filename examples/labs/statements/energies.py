# Metropolis-Hastings on the energies of masked conditionals (Goyal et al. 2022), beside Gibbs sampling from the same conditionals, exactly.
#
# Conditionals q_i(x_i | x_-i) that are learnt one by one need not be those of any joint distribution. The energy E(x) = - sum of
# log q_i(x_i | x_-i) is defined all the same, and Metropolis-Hastings with proposals q_i has exp(-E) as its law. If the conditionals are
# those of a distribution p, exp(-E) is the product of p(x_i | x_-i). This is another distribution than p where cells depend on one another.
import numpy as np

Array = np.ndarray
CELLS = 4
STATES = np.array(list(np.ndindex(*(2,) * CELLS)))
PLACES = 2 ** np.arange(CELLS)[::-1]
FLIPPED = np.array([[x @ PLACES ^ bit for bit in PLACES] for x in STATES])  # by configuration and cell


def ising(coupling: float, field: float = 0.2) -> Array:
    """A ring of spins."""
    s = 2 * STATES - 1
    e = field * s.sum(axis=1) + coupling * (s * np.roll(s, 1, axis=1)).sum(axis=1)
    p = np.exp(e - e.max())
    return p / p.sum()


def conditionals(weights: Array) -> Array:
    """The probability of x_i given x_-i, by configuration and cell, for weights of configurations."""
    return weights[:, None] / (weights[:, None] + weights[FLIPPED])


def learnt(p: Array, rows: int, rng: np.random.Generator) -> Array:
    """One table for each cell, from rows of its own with half a count added: conditionals of no joint distribution."""
    counts = np.stack([rng.multinomial(rows, p) for _ in range(CELLS)], axis=1) + 0.5
    return counts / (counts + np.take_along_axis(counts, FLIPPED, axis=0))


def gibbs(q: Array) -> Array:
    """The matrix of redrawing a random cell."""
    matrix = np.zeros((len(q),) * 2)
    for i in range(CELLS):
        matrix[np.arange(len(q)), FLIPPED[:, i]] += (1 - q[:, i]) / CELLS
        matrix[np.arange(len(q)), np.arange(len(q))] += q[:, i] / CELLS
    return matrix


def metropolis(q: Array) -> tuple[Array, float]:
    """The matrix of proposing a random cell's value from its conditional and accepting by the energy; and the mean acceptance of a flip."""
    log_weight, n = np.log(q).sum(axis=1), len(q)
    matrix, proposed, accepted = np.zeros((n, n)), 0.0, 0.0
    law = energy_law(q)
    for i in range(CELLS):
        to = FLIPPED[:, i]
        flip = 1 - q[:, i]
        # q_i of the value that is left, over that of the value that is proposed
        accept = np.minimum(1.0, np.exp(log_weight[to] - log_weight) * q[:, i] / flip)
        matrix[np.arange(n), to] += flip * accept / CELLS
        proposed, accepted = proposed + law @ flip, accepted + law @ (flip * accept)
    matrix[np.arange(n), np.arange(n)] += 1 - matrix.sum(axis=1)
    return matrix, float(accepted / proposed)


def energy_law(q: Array) -> Array:
    """exp(-E), normalised."""
    log_weight = np.log(q).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def stationary(matrix: Array) -> Array:
    a = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    return np.linalg.lstsq(a, np.append(np.zeros(len(matrix)), 1.0), rcond=None)[0]


def distances(q: Array, p: Array) -> dict[str, float]:
    """Total variation to p of where each chain settles, and the acceptance of Metropolis-Hastings."""
    matrix, accepted = metropolis(q)
    laws = {"gibbs": stationary(gibbs(q)), "metropolis": stationary(matrix)}
    return {name: 0.5 * float(np.abs(law - p).sum()) for name, law in laws.items()} | {"accepted": accepted}
