"""The annotation that decides, in Python: reports find it in SQL."""

from collections.abc import Iterable

from setwise.service.domain.reviews import Annotation, ReviewKind


def deciding(annotations: Iterable[Annotation]) -> Annotation | None:
    """Return the annotation that decides whether a prediction is right, or None."""
    given = list(annotations)
    leads = [one for one in given if one.kind is ReviewKind.ADJUDICATION]
    said = leads or [one for one in given if _counts(one)]
    return min(said, key=lambda one: (one.agreed, one.id), default=None)


def _counts(one: Annotation) -> bool:
    # Somebody doubted what was reopened: counting it would count errors more often than others.
    return one.kind is not ReviewKind.REOPENED and (one.settles or one.kind is ReviewKind.AUDIT)
