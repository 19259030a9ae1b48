"""From two files to translators and an honest report: clean, vocabulary, teacher, distilled and raw student, scores, times.

Every stage leaves files with a record of what they were made of. A second call keeps what is done,
and makes anew what depends on something that changed; a run that was killed goes on, in the middle
of a training from its latest checkpoint.
"""

from __future__ import annotations

from typing import Any, final

from ..files import alone
from ._distiller import choose_distiller
from ._pipeline_stages import PipelineStages
from ._results import Report, results
from ._split import split


@final
class Pipeline(PipelineStages):
    """Runs the stages in their order, and reports."""

    def run(self, report: Report | None = None) -> dict[str, Any]:
        """Make all stages; what the report shows.

        Args:
            report: writes a page: it is called with what it shows, the file of arrays, and the file
                to write.
        """
        with alone(self.stages.folder):
            self.texts()
            self.vocabulary()
            self.clean()
            split(self)
            names = [self.train("teacher", self.roles.teacher, "clean", self.o.teacher)]
            choose_distiller(self)
            self.distil()
            self.clean_distilled()
            names.append(self.train("student", self.roles.student, "distilled", self.o.student))
            if self.o.raw:
                names.append(self.train("raw", self.roles.student, "clean", self.o.student))
            return results(self, names, report)
