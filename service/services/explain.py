"""Say which terms of a document speak for or against labels."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import Forbidden
from setwise.service.domain.predictions import TermWeight
from setwise.service.domain.reviews import ReviewTask
from setwise.service.services.ports import PredictorSource

MOST_LABELS = 20
"""Labels explained at once."""


@dataclass(frozen=True)
class ExplainLabels:
    """Ask the active model, for a reviewer who wonders about its suggestions."""

    predictors: PredictorSource

    def __call__(
        self, caller: Caller, task: ReviewTask, labels: Sequence[str]
    ) -> list[tuple[TermWeight, ...]]:
        """Return, for each label, terms of the task's document, weightiest first.

        Raises
        ------
        Forbidden
            If the task is to be read without the model's opinion.
        ModelUnavailable
            If no model is active.
        InvalidRequest
            If the active model does not take such documents, or a label is not one of its own.
        """
        caller.require(Permission.REVIEW)
        if task.kind.blind:
            raise Forbidden("Nothing is known of what speaks for labels here; read the document.")
        document = task.prediction.document
        return self.predictors.active().explain(document, labels[:MOST_LABELS])
