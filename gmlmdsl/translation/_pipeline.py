"""The pipeline from two text files to translators and a report.

Its stages are cleaning, vocabulary, teacher, distilled and raw student, scores, and times. Every
stage writes files with a record of its inputs. A second call reuses finished stages, and repeats
those whose inputs changed. A killed run resumes; within a training it resumes from the latest
checkpoint.
"""

from __future__ import annotations

from typing import final

from .._types import JsonObject
from ..derive import under_automatic_mesh
from ..files import alone
from ._pipeline_choices import choose_distiller, split
from ._pipeline_stages import PipelineStages
from ._results import Report, results


@final
class Pipeline(PipelineStages):
    """A pipeline that runs its stages in order and reports the results."""

    @under_automatic_mesh
    def run(self, report: Report | None = None) -> JsonObject:
        """Run all stages, and return the content of the report.

        Args:
            report: a function that writes the report as a page. It is called with the content, the
                arrays, and the path to write.
        """
        with alone(self.stages.folder):
            if self.o.restart:
                self.forget()
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
