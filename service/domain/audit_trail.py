"""The audit trail: who changed what, when and from where; append-only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from setwise.service.domain.accounts.callers import Caller
from setwise.shown import Shown


@dataclass(frozen=True)
class Actor(Shown):
    """A person, a key, `system` for the service itself, or `anonymous`."""

    id: str
    name: str


@dataclass(frozen=True)
class AuditEvent(Shown):
    """A line of the audit trail."""

    id: str
    at: datetime
    actor: Actor
    action: str
    """Dotted, in the past tense, such as `review.completed`."""
    subject: str
    """Id or version of the thing that was changed."""
    request_id: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    """Numbers, versions and names; never a document's text or metadata."""
    address: str | None = None
    """Network address that the request came from; null for the service itself."""

    @classmethod
    def by(
        cls,
        caller: Caller,
        action: str,
        subject: str,
        *,
        id: str,  # noqa: A002 -- the attribute's own name
        at: datetime,
        **detail: object,
    ) -> Self:
        """Return the event of a change that ``caller`` made to ``subject``."""
        who = Actor(caller.id, caller.name)
        return cls(id, at, who, action, subject, caller.request_id, detail, caller.address)


PREDICTION_CREATED = "prediction.created"


class Origin(NamedTuple):
    """Where the request for a prediction came from, except the client's id."""

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
) -> AuditEvent:
    """Return the event of a prediction; its id is the prediction's."""
    return AuditEvent(
        id=id,
        at=at,
        actor=Actor(client_id, origin.actor_name),
        action=PREDICTION_CREATED,
        subject=id,
        request_id=origin.request_id,
        detail=detail if rule is None else {**detail, "rule": rule},
        address=origin.address,
    )


@dataclass(frozen=True)
class EventFilter:
    """Which events to list; None means any."""

    actor_id: str | None = None
    action: str | None = None
    """An action, or a prefix that ends in a dot: ``review.``."""
    subject: str | None = None
    since: datetime | None = None
    before: datetime | None = None
