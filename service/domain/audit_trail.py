"""The audit trail: who did what, from where, when, to which thing. Rows are only ever added."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from setwise.service.domain.callers import Caller


@dataclass(frozen=True)
class Event:
    """One line of the audit trail.

    Attributes
    ----------
    action : str
        Dotted and in the past tense, such as ``review.completed``.
    detail : mapping
        Numbers, versions and names; never a document's text or metadata.
    address : str or None
        Network address that the request came from; None for the service itself.
    """

    id: str
    at: datetime
    actor_id: str
    actor_name: str
    action: str
    subject: str
    request_id: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    address: str | None = None

    @classmethod
    def by(
        cls,
        caller: Caller,
        action: str,
        subject: str,
        *,
        id: str,  # noqa: A002 -- the attribute's own name
        at: datetime,
        request_id: str | None = None,
        **detail: object,
    ) -> Self:
        """Describe what ``caller`` did to ``subject``."""
        return cls(
            id, at, caller.id, caller.name, action, subject, request_id, detail, caller.address
        )


PREDICTION_CREATED = "prediction.created"


class Origin(NamedTuple):
    """Whose request it was that a prediction answers, besides the client's id."""

    actor_name: str
    request_id: str | None
    address: str | None


def prediction_created(
    origin: Origin,
    *,
    id: str,  # noqa: A002 -- as above
    client_id: str,
    at: datetime,
    rule: str | None,
    **detail: object,
) -> Event:
    """Return the event of a prediction. It has the prediction's id, and is kept as part of it."""
    return Event(
        id=id,
        at=at,
        actor_id=client_id,
        actor_name=origin.actor_name,
        action=PREDICTION_CREATED,
        subject=id,
        request_id=origin.request_id,
        detail=detail if rule is None else {**detail, "rule": rule},
        address=origin.address,
    )


@dataclass(frozen=True)
class EventFilter:
    """Which events to list; None does not restrict.

    Attributes
    ----------
    action : str or None
        A whole action or, with a dot at the end, the beginning of several: ``review.``.
    """

    actor_id: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    before: datetime | None = None
