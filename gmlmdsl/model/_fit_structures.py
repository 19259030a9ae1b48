"""What a fit says of the network of its cells; each verb loads what it needs when it is first called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..fit import FitRecord

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..assess import Bootstrap


@dataclass(frozen=True, repr=False)
class FitStructures(FitRecord):
    """The part of a `Fit` that reads it as a network."""

    def couplings(
        self,
        top: int | None = None,
        gauge: str = "zero_sum",
        score: str = "norm",
        probability: float = 0.94,
        *,
        progress: bool | None = None,
    ) -> DataFrame:
        """One row for each two cells that share a factor, the strongest first: how strongly they are coupled, with errors and intervals.

        T_ij(a, b) is the part of log p of both cells, with sums 0 over a and over b: what belongs to one cell is taken off, whatever the
        gauge of the parameters. Of a factor of three cells and more its mean over the others counts, of requirements nothing.

        Args:
            top: how many rows; none: all.
            gauge: "zero_sum", the only one.
            score: "norm", ||T_ij|| = sqrt(sum of T_ij(a, b)^2); "apc", S_ij - S_i S_j / S of these norms; or "value", of cells with two
                values, T_ij(last, last), with its sign: J of a factor J * s * t of two spins.
            probability: of the intervals.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            Columns `first`, `second`, `value`, `std_error` (delta method; not valid of norms near 0), the ends of the interval, `score`.

        Raises:
            GmlmError: E555 for a model without couplings, E507 for options, E601 for too many terms.

        Reference: Ekeberg et al. 2013, Section II.E; Dunn, Wahl and Gloor 2008.
        """
        from ..assess import couplings

        return couplings(self, top, gauge, score, probability, progress)

    def centrality(
        self, score: str = "norm", bootstrap: Bootstrap | None = None, probability: float = 0.94, *, progress: bool | None = None
    ) -> DataFrame:
        """How central each cell is in the network of couplings w: one row for each cell that has one.

        `strength` is the sum of |w| over a cell's couplings, `expected_influence` the sum of w with signs. `closeness` is
        1 / (sum of the distances to all other cells), 0 where one is out of reach. `betweenness` is the number of pairs of other cells
        between which the shortest path runs through it, ties shared. A coupling has the length 1 / |w|.

        Args:
            score: "norm" or, of cells with two values, "value", which has signs; see `couplings`. A norm takes the sign of
                sum over a, b of T_ij(a, b) s(a) t(b), s and t the values of both cells less their means: that of J where the factor is
                J * x[i] * x[j]. Values without an order (letters, labels) have no sign: `expected_influence` is nan for a cell with such
                a coupling, and `attrs["note"]` says so.
            bootstrap: from `bootstrap`; then each measure has a percentile interval over its replications.
            probability: of the intervals. Those of sums of |w| tend to lie above the fit's own numbers, for noise makes |w| larger.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A DataFrame; with `bootstrap`, `attrs["stability"]` has by measure the mean rank correlation of a replication with the fit:
            near 1 where the order of the cells is told, near 0 where it is not. `gmlmdsl.report.plot_centrality` draws it.

        Raises:
            GmlmError: E507 for options, E555 for a model without couplings.

        Reference: Opsahl, Agneessens and Skvoretz 2010; Robinaugh, Millner and McNally 2016; Epskamp, Borsboom and Fried 2018.
        """
        from ..assess import centrality

        return centrality(self, score, bootstrap, probability, progress)

    def differences(
        self,
        other: FitRecord,
        *,
        correction: str = "holm",
        level: float = 0.05,
        permutations: int = 0,
        seed: int = 0,
        max_seconds: float = 3600.0,
        progress: bool | None = None,
    ) -> DataFrame:
        """Which couplings differ between two fits of one model to independent rows: two groups of people, say.

        Without permutations, d' V^- d of each pair, d the difference of the tables T_ij of `couplings` in the zero-sum gauge, V the sum of
        their sandwich covariances and of what priors add (see `gm.wald_test`), is compared with chi-square of its rank. With
        permutations, rows are exchanged between the groups at random and both groups refitted: p = (1 + how many are at least as far
        apart) / (1 + permutations), exact where the groups' rows have one distribution.

        Args:
            other: a fit of the same program, model and mask to the other group's rows.
            correction: "holm", which bounds the chance of any wrong difference; "bh", Benjamini and Hochberg's, which bounds the expected
                share of wrong ones among those told; "none", of pairs chosen before the data were seen.
            level: of that chance, or share.
            permutations: how many; p is 1 / (1 + permutations) at least, and is then corrected: fewer than m / level - 1 of m pairs, which
                tell none under Holm's correction, give a warning.
            seed: permutation r depends on (seed, r) only.
            max_seconds: refused, after the first two refits, where all are expected to take longer.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A DataFrame, the smallest p-values first: `first`, `second`, `a` and `b` (the couplings of both fits; of cells with more than
            two values their norms), `value` (their difference, or its norm), `p_value`, `p_adjusted`, `differs`; nan where a fit has no
            error. With permutations `attrs` has `p_largest`, of the largest difference, and `p_strength`, of the difference of the sums of
            all norms. `gmlmdsl.report.plot_network` draws it, what does not differ pale.

        Raises:
            GmlmError: E545 for fits that cannot be compared, E507 for options, E505 for permutations of a fit without its data, E510 with
                given data, E546 with the cost where it is above `max_seconds`, E601 for Wald tests of more than nine values a cell.

        Reference: Wald 1943; Holm 1979; Benjamini and Hochberg 1995; van Borkulo et al. 2022 for the permutation test of networks.
        """
        from ..assess import Permutations, differences

        return differences(self, other, correction, level, Permutations(permutations, seed, max_seconds, progress))
