"""The same estimates by scikit-learn: one logistic regression for each site, in two processes with one BLAS thread each, or in this one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray
PROCESSES = 2
TOLERANCE = 1e-6


class NodeWise:
    """Logistic regressions of every site on some others, without a penalty.

    Attributes:
        others: for each site, the sites that it is regressed on.
        processes: with one BLAS thread each; 1 is this process, with threads as they come.
    """

    def __init__(self, x: Array, others: Sequence[Array], processes: int = PROCESSES):
        from joblib import Parallel, delayed

        self._x, self.others, self.processes = x.astype(np.float64), others, processes
        self._each, self._workers = delayed(_regress), Parallel(n_jobs=processes)
        self._workers(self._each(self._x[:100], i, others[i], processes > 1) for i in range(processes))  # starts the processes

    def fit(self) -> tuple[Array, Array]:
        """Couplings of shape (sites, sites), the mean of both directions, and fields."""
        n = self._x.shape[1]
        found: Any = self._workers(self._each(self._x, i, self.others[i], self.processes > 1) for i in range(n))
        couplings, fields = np.zeros((n, n)), np.zeros(n)
        for i, (slopes, intercept) in enumerate(found):
            couplings[i, self.others[i]] = slopes / 2
            fields[i] = intercept / 2
        return (couplings + couplings.T) / 2, fields


def _regress(x: Array, i: int, others: Array, alone: bool) -> tuple[Array, float]:
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if alone else None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = LogisticRegression(C=np.inf, tol=TOLERANCE, solver="lbfgs", max_iter=1000).fit(x[:, others], x[:, i])
    return found.coef_[0], float(found.intercept_[0])
