"""Labels that people type without the desk's script: which of them no list has."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.labels import UNNAMED
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES
from setwise.service.domain.predictions import Prediction
from setwise.service.services.all import Services
from setwise.spelling import spelled


class UnlistedLabel(NamedTuple):
    """A label that neither the model nor the catalogue offers."""

    label: str
    similar: Sequence[str]
    """Labels that differ from it in no more than their spelling."""

    def said(self) -> str:
        """Say that it is in no list, and what may be meant."""
        meant = f" Is {' or '.join(f'“{each}”' for each in self.similar)} meant?"
        return f"“{self.label}” is in no list.{meant if self.similar else ''}"


def unlisted(
    services: Services, caller: Caller, prediction: Prediction, labels: Sequence[str]
) -> Iterator[UnlistedLabel]:
    """Yield the labels that can be given to a document only as new ones."""
    offered = services.labels.search(caller, limit=MOST_LABEL_NOTES).labels
    known = {UNNAMED, *offered, *prediction.scored.named}
    for label in dict.fromkeys(map(spelled, labels)):
        if label not in known:
            yield UnlistedLabel(label, services.labels.similar(caller, label))
