"""The breaker: automatic sending stops when audits no longer bear out the target.

It watches the audits of what was sent, or would have been but for the audit. Having tripped, it
stays open until a person closes it. The policy in force says whether it has: so every process
follows at once, and each decision can be derived again from the version that made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.certification import Scorer
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.reviews import Annotation, ReviewKind


class TripCause(StrEnum):
    """Why the breaker tripped.

    A drift contradicts the evidence from before; staleness leaves it without support from now.
    """

    DRIFT = "drift"
    STALE = "stale"


class Position(StrEnum):
    """Whether the breaker has tripped, watches, or has nothing to watch, as nothing is sent."""

    TRIPPED = "tripped"
    WATCHING = "watching"
    IDLE = "idle"


class WatchedAudit(NamedTuple):
    """The audit of a set that was sent, or would have been but for the audit.

    Attributes
    ----------
    target_accuracy : float
        What the policy that decided on it promised.
    right : bool or None
        None while it is not read to the end.
    finished_at : datetime or None
        None likewise.
    """

    prediction_id: str
    target_accuracy: float
    right: bool | None
    finished_at: datetime | None

    @property
    def not_wrong(self) -> bool:
        """Right, as far as is known.

        An audit that finds a fault takes longer, as a lead decides on it. In the order in which
        audits end the detector would meet faults in clusters, which its bound does not allow for.
        It takes them in the order of the predictions instead, and an unfinished one for right: a
        fault that is found later only raises what it has computed, so the bound holds.
        """
        return self.right is not False


def ends_audit(annotation: Annotation) -> bool:
    """Tell whether an answer ends the audit: a lead's decision, or one that is not read again."""
    return annotation.kind is ReviewKind.ADJUDICATION or (
        annotation.kind is ReviewKind.AUDIT and annotation.settles
    )


def would_be_sent(prediction: Prediction) -> bool:
    """Tell whether a set was sent, or would have been but for the audit."""
    return prediction.decision is Decision.AUTO or prediction.reason is Reason.AUDIT


@dataclass(frozen=True)
class Trip:
    """One time that the breaker tripped; never changed once stored.

    Attributes
    ----------
    scorer : Scorer
        Whose label sets were watched.
    policy_version : str
        The version that was in force until then.
    evidence : mapping
        What it stands on: enough to come to the same decision again.
    """

    id: str
    cause: TripCause
    scorer: Scorer
    policy_version: str
    target_accuracy: float
    evidence: Mapping[str, object]
    created_at: datetime

    @property
    def sets_evidence_aside(self) -> bool:
        """Whether audits of what was predicted before prove nothing from now on."""
        return self.cause is TripCause.DRIFT


@dataclass(frozen=True)
class Reset:
    """A person's decision that sending goes on after a trip.

    Attributes
    ----------
    certificate_id : str or None
        What proves the threshold that is in force again; None where it stands on the owner's word.
    """

    id: str
    trip_id: str
    certificate_id: str | None
    created_by: str
    created_at: datetime


class Unvouched(NamedTuple):
    """What was sent since an audit was last read to the end, and what sends came into force.

    Attributes
    ----------
    documents : int
        How many; counted only as far as matters.
    oldest_at : datetime or None
        When the first of them was; None if there is none.
    """

    documents: int
    oldest_at: datetime | None


@dataclass(frozen=True)
class Freshness:
    """How much may be sent while no audit is finished.

    Attributes
    ----------
    most_documents : int
        Documents; 0 for any number.
    longest : timedelta or None
        Time since the first of them was sent; None for any.
    """

    most_documents: int = 20_000
    longest: timedelta | None = timedelta(days=30)

    def lost(self, since: Unvouched, now: datetime) -> bool:
        """Tell whether too much was sent, or too long ago."""
        if self.most_documents and since.documents > self.most_documents:
            return True
        return (
            self.longest is not None
            and since.oldest_at is not None
            and now - since.oldest_at > self.longest
        )
