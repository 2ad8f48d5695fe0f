"""Find labels by a part of their name."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission
from setwise.service.services.ports import PredictorSource


@dataclass(frozen=True)
class LabelMatches:
    """A slice of the labels that match a query, and how many match in all."""

    labels: tuple[str, ...]
    total: int


@dataclass(frozen=True)
class SearchLabels:
    """Search the vocabulary of the active model, for a reviewer who picks labels."""

    predictors: PredictorSource

    def __call__(
        self, caller: Caller, query: str = "", *, offset: int = 0, limit: int = 50
    ) -> LabelMatches:
        """Return the labels that contain the words of ``query`` in either case.

        A label that equals the query comes first, then those that begin with it, those that hold
        it as it stands, and those that hold all its words; otherwise the vocabulary's order
        stands.

        Raises
        ------
        ModelUnavailable
            If no model is active, so that there is no vocabulary.
        """
        caller.require(Permission.READ_QUEUE)
        wanted = query.strip().casefold()
        words = wanted.split()
        ranked = [
            (place, label)
            for label in self.predictors.active().labels
            if (place := _place(label.casefold(), wanted, words)) is not None
        ]
        ranked.sort(key=lambda match: match[0])  # stable, so the vocabulary's order stays
        chosen = ranked[offset : offset + limit]
        return LabelMatches(tuple(label for _, label in chosen), len(ranked))


def _place(label: str, wanted: str, words: Sequence[str]) -> int | None:
    if label == wanted:
        return 0
    if label.startswith(wanted):
        return 1
    if wanted in label:
        return 2
    return 3 if len(words) > 1 and all(word in label for word in words) else None
