"""Versions of a document: what a client posts again, worded otherwise, until it is sent."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

VERSIONS_WITHIN = timedelta(days=30)
"""Time after which another document may have the same id, or the same words."""


class Version(NamedTuple):
    """A document that a client posted."""

    client_id: str
    document_id: str | None
    cluster: float | None
    """Near copies have the same."""
    confidence: float | None
    """The same content gets the same one again, so that a repeated request is no other version.
    None before there is a model, when nobody words a document anew to have it sent.
    """


class Versions:
    """Versions that were posted and not sent.

    >>> versions = Versions([Version("b", "1", 0.5, 0.7), Version("b", "1", 0.6, 0.8)])
    >>> versions.before(Version("b", "1", 0.7, 0.9)), versions.before(Version("b", "2", 0.6, 0.8))
    (2, 0)
    """

    def __init__(self, unsent: Iterable[Version]) -> None:
        self._confidences: defaultdict[object, set[float]] = defaultdict(set)
        for version in unsent:
            self.add(version)

    def add(self, version: Version) -> None:
        """Add a version that was not sent."""
        if version.confidence is None:
            return
        for key in _keys(version):
            self._confidences[key].add(version.confidence)

    def before(self, version: Version) -> int:
        """Return how many other versions there are of a document."""
        found = set[float]().union(*(self._confidences[key] for key in _keys(version)))
        return len(found - {version.confidence})


def _keys(version: Version) -> Iterable[object]:
    if version.document_id is not None:
        yield version.client_id, "id", version.document_id
    if version.cluster is not None:
        yield version.client_id, "cluster", version.cluster
