"""Reranking: an autoregressive teacher chooses among the candidates of another translator.

The teacher scores whole translations in one pass. A refinement's own score belongs to its last
pass, in which every subword token is predicted given the others. The teacher's score is the log p
of the row, so that it compares translations of different lengths (noisy parallel decoding; Gu et
al. 2018, Section 4.2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from ..decode import candidates_of
from ._programs import is_causal
from ._translator import Decoded, Translator

if TYPE_CHECKING:
    from pathlib import Path

    from ..model import ConditionalModel

Array = np.ndarray
RERANKED = "-reranked"  # This suffix follows the name of a sampler in tables.


class Reranked(Translator):
    """A translator whose candidates are ordered by the scores of a teacher.

    The score of a candidate is log p(y_1, .., y_n | source) / n under the teacher. y_n is the first
    end mark if there is one; later tokens are not part of the translation. Scoring takes one pass
    of the teacher over all candidates, whatever their lengths.

    Args:
        translator: the translator whose sampler makes the candidates. Their number is given by its
            `lengths`, `starts` or `beam`.
        teacher: an autoregressive translator of the same vocabulary, with rows at least as long.

    Raises:
        GmlmError: E590 for a teacher that is not autoregressive, has another vocabulary, or has
            shorter rows.
    """

    def __init__(self, translator: Translator, teacher: Translator):
        super().__init__(translator.model, translator.params, translator.vocabulary, translator.sampler, translator.direction)
        self.precision, self.shortlist = translator.precision, translator.shortlist
        self.inner, self.teacher = translator, teacher
        _verify(translator, teacher)

    def in_precision(self, precision: str) -> Reranked:
        """Return the translator in another precision, without shortlist, and with its teacher."""
        return Reranked(self.inner.in_precision(precision), self.teacher)

    def decode(self, source: Any, *, candidates: bool = False, **options: Any) -> Decoded:
        """Decode as the translator does, with the candidate of the highest teacher score first."""
        found = self.inner.decode(source, candidates=True, **options)
        assert found.candidates is not None
        assert found.candidate_scores is not None
        scores = np.where(np.isfinite(found.candidate_scores), self.scores(source, found.candidates), -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")

        def ordered(a: Array | None) -> Array | None:
            return None if a is None else np.take_along_axis(a, order.reshape(*order.shape, *(1,) * (a.ndim - 2)), axis=1)

        every = [ordered(a) for a in (found.candidates, scores, found.candidate_passes, found.candidate_traces, found.candidate_seen)]
        rows, said, passes, trace, seen = (None if a is None else a[:, 0] for a in every)
        assert rows is not None
        assert said is not None
        assert passes is not None
        best = Decoded(rows, said, (rows >= 0).sum(axis=1), passes, trace=trace, seen=seen)
        if not candidates:
            return best
        names = ("candidates", "candidate_scores", "candidate_passes", "candidate_traces", "candidate_seen")
        return replace(best, **dict(zip(names, every, strict=True)))

    def export(self, path: str | Path, **options: Any) -> None:
        """Raise E507: an export has one network, and the teacher is another."""
        raise fail("E507", "an export holds one network, and a teacher chooses here", help="export the translator without `rerank`")

    def scores(self, source: Any, candidates: Array) -> Array:
        """Return the teacher's mean log p of a subword token.

        Args:
            source: shape (rows, source cells), -1 after the end mark.
            candidates: shape (rows, candidates, target cells), -1 after the length.

        Returns:
            An array of shape (rows, candidates). Its entries are at most 0, and 0 for a candidate
            without subword tokens.
        """
        t, (rows, count, n) = self.teacher, candidates.shape
        wide, high = t.pair.cells
        ends = np.cumsum(candidates == t.vocabulary.end, axis=-1)
        whole = np.where((ends == 0) | ((ends == 1) & (candidates == t.vocabulary.end)), candidates, -1).reshape(-1, n)
        given = np.repeat(np.asarray(source), count, axis=0)
        given, whole = (np.pad(a, ((0, 0), (0, k - a.shape[1])), constant_values=-1) for a, k in ((given, wide), (whole, high)))
        log_p = t.model.log_prob(t.params, {t.pair.target: whole}, missing=-1, given={t.pair.source: given})
        return (np.asarray(log_p) / np.maximum((whole >= 0).sum(axis=1), 1)).reshape(rows, count)


def _verify(translator: Translator, teacher: Translator) -> None:
    problem = ""
    if not is_causal(teacher.model.program.checked, teacher.model.name):
        problem = f"model `{teacher.model.name}` is not autoregressive: it has no log p of a whole translation"
    elif teacher.vocabulary.sha256 != translator.vocabulary.sha256:
        problem = "it has another vocabulary, in which the codes of a candidate mean other pieces"
    elif any(theirs < ours for theirs, ours in zip(teacher.pair.cells, translator.pair.cells, strict=True)):
        problem = f"its rows have {teacher.pair.cells} cells of source and target, and the candidates have up to {translator.pair.cells}"
    if problem:
        raise fail("E590", f"this teacher cannot choose among the candidates: {problem}", help="take the teacher that distilled, say")


def candidate_count(model: ConditionalModel, sampler: str) -> int:
    """Return the number of candidates of a sampler for each row."""
    return candidates_of(model.lowered, model.sampler(sampler)[1].body).count
