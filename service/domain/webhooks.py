"""Messages to other programs, their endpoints, and deliveries with retries.

A message is stored in the transaction of the change that it reports. Each endpoint that wants it
gets one delivery, which is retried until the endpoint accepts it or the schedule ends. Messages
about one document reach an endpoint in order; a message may arrive twice, under the same id.
"""

import base64
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.breaker import Trip, TripCause, TripEvidence
from setwise.service.domain.errors import FieldFault, TooManySecrets
from setwise.service.domain.labels import LabelSet, shown_set
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.reviews import Annotation
from setwise.service.domain.routing.segments import value_of
from setwise.service.domain.text import instant, name_faults
from setwise.shown import Probability, Shown

LONGEST_URL = 2_000
LONGEST_DESCRIPTION = 200
LONGEST_EXCERPT = 1_000
"""Characters of an endpoint's response that the log keeps."""

MOST_SECRETS = 10
"""Secrets that sign at once; more would make the header long."""

CATALOGUE = "catalogue"
"""Source of a correction that gives a label another name."""

ACCEPTED = range(200, 300)
GONE = 410


class MessageType(StrEnum):
    """What a message reports; later releases may add types."""

    PREDICTION_AUTO_SENT = "prediction.auto_sent"
    REVIEW_COMPLETED = "review.completed"
    DOCUMENT_CORRECTED = "document.corrected"
    POLICY_TRIPPED = "policy.tripped"
    WEBHOOK_TEST = "webhook.test"


SUBSCRIBABLE = tuple(kind for kind in MessageType if kind is not MessageType.WEBHOOK_TEST)
"""A test message goes only to the tested endpoint, whatever its events."""


class Message(NamedTuple):
    """A message to other programs about something that happened."""

    id: str
    """The same for every attempt and endpoint, so that receivers recognise duplicates."""
    type: MessageType
    client_id: str
    """The client whose document it is about."""
    document_key: str
    """Messages with the same key are delivered in order."""
    data: Mapping[str, object]
    """Ids, labels, numbers and versions; never a document's text or metadata."""
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class SentData(Shown):
    """A label set that was sent, and the prediction of its document."""

    prediction_id: str
    document_id: str | None
    client_id: str
    labels: tuple[str, ...]
    confidence: Probability | None
    """null, as the versions, if the document came before there was a model."""
    decision: Decision
    reason: Reason
    threshold: Probability | None
    model_version: str | None
    calibrator_version: str | None
    policy_version: str
    predicted_at: datetime

    @classmethod
    def of(cls, prediction: Prediction, labels: LabelSet | None = None, **more: Any) -> Self:  # noqa: ANN401 -- fields of a subclass
        """Return what a message says of a prediction, with other labels if they are given."""
        scored = prediction.scored
        return cls(
            prediction_id=prediction.id,
            document_id=prediction.document.id,
            client_id=prediction.client_id,
            confidence=scored.confidence,
            decision=prediction.decision,
            reason=prediction.reason,
            threshold=prediction.threshold,
            model_version=scored.model_version,
            calibrator_version=scored.calibrator_version,
            policy_version=prediction.policy_version,
            predicted_at=prediction.created_at,
            **({"labels": scored.labels} if labels is None else vars(labels)),
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class AutoSentData(SentData):
    """A label set that was sent automatically."""

    confidence: Probability
    model_version: str
    calibrator_version: str


@dataclass(frozen=True, kw_only=True)
class CompletedData(SentData):
    """A reviewer's label set, with the prediction's confidence and decision."""

    label_missing: bool
    """A label applies besides that has no name."""
    agreed: bool | None
    """The labels are those that were predicted; null if nothing was."""
    review_id: str
    annotation_id: str
    completed_at: datetime


@dataclass(frozen=True, kw_only=True)
class CorrectedData(SentData):
    """A label set that replaces a wrong one that was sent."""

    label_missing: bool
    """A label applies besides that has no name."""
    previous_labels: tuple[str, ...]
    """The label set that was sent before."""
    outcome_id: str | None
    """The outcome that corrects it."""
    annotation_id: str | None
    """Or the annotation that corrects it."""
    source: str
    """Who found the error: the source of an outcome, `adjudication`, `audit` or `reopened`;
    `catalogue` if a label was renamed or merged into another.
    """
    corrected_at: datetime


@dataclass(frozen=True)
class TrippedData(Shown):
    """Why automatic sending stopped."""

    trip_id: str
    cause: TripCause
    policy_version: str
    """The policy in force now, which does not send."""
    replaced_policy_version: str
    target_accuracy: Probability
    model_version: str
    calibrator_version: str
    segment: str | None
    """What stopped; null: everything."""
    evidence: TripEvidence
    tripped_at: datetime


@dataclass(frozen=True)
class TestData(Shown):
    """An administrator tries a webhook."""

    webhook_id: str


def auto_sent(prediction: Prediction, message_id: str) -> Message:
    """Return the message about an automatically sent label set."""
    kind, at = MessageType.PREDICTION_AUTO_SENT, prediction.created_at
    return _about(kind, AutoSentData.of(prediction), message_id, at)


def review_completed(prediction: Prediction, annotation: Annotation, message_id: str) -> Message:
    """Return the message about a completed review."""
    data = CompletedData.of(
        prediction,
        shown_set(annotation.labels),
        agreed=annotation.agreed,
        review_id=annotation.task_id,
        annotation_id=annotation.id,
        completed_at=annotation.created_at,
    )
    return _about(MessageType.REVIEW_COMPLETED, data, message_id, annotation.created_at)


def document_corrected(
    prediction: Prediction, truth: Outcome | Annotation, before: Sequence[str], message_id: str
) -> Message:
    """Return the message that replaces the label set ``before``, which was wrong."""
    found_by = (
        {"outcome_id": truth.id, "source": truth.source}
        if isinstance(truth, Outcome)
        else {"annotation_id": truth.id, "source": truth.kind.value}
    )
    return _corrected(prediction, truth.labels, before, message_id, truth.created_at, **found_by)


def document_relabelled(
    prediction: Prediction,
    labels: Sequence[str],
    before: Sequence[str],
    message_id: str,
    at: datetime,
) -> Message:
    """Return the message that a label of a set that was sent has another name now."""
    return _corrected(prediction, labels, before, message_id, at, source=CATALOGUE)


def _corrected(
    prediction: Prediction,
    labels: Sequence[str],
    before: Sequence[str],
    message_id: str,
    at: datetime,
    **found_by: str,
) -> Message:
    data = CorrectedData.of(
        prediction,
        shown_set(labels),
        previous_labels=shown_set(before).labels,
        corrected_at=at,
        **{"outcome_id": None, "annotation_id": None, **found_by},
    )
    return _about(MessageType.DOCUMENT_CORRECTED, data, message_id, at)


def _about(kind: MessageType, data: SentData, message_id: str, at: datetime) -> Message:
    """Return a message about a document; its key differs from those of other clients."""
    name = data.document_id
    return Message(
        id=message_id,
        type=kind,
        client_id=data.client_id,
        document_key=data.prediction_id if name is None else f"{data.client_id}/{name}",
        data=vars(data),
        created_at=at,
    )


def policy_tripped(trip: Trip, policy_version: str, message_id: str) -> Message:
    """Return the message that the breaker stopped automatic sending.

    It is about no client's document, so it goes to webhooks only.
    """
    data = TrippedData(
        trip_id=trip.id,
        cause=trip.cause,
        policy_version=policy_version,
        replaced_policy_version=trip.policy_version,
        target_accuracy=trip.target_accuracy,
        **trip.scorer._asdict(),
        segment=value_of(trip.segment),
        evidence=trip.evidence,
        tripped_at=trip.created_at,
    )
    return Message(
        id=message_id,
        type=MessageType.POLICY_TRIPPED,
        client_id=SYSTEM.id,
        document_key="policy",
        data=vars(data),
        created_at=trip.created_at,
    )


def payload(message: Message) -> dict[str, object]:
    """Return the body of a message in the form of Standard Webhooks."""
    return {
        "type": message.type.value,
        "timestamp": instant(message.created_at),
        "data": dict(message.data),
    }


# Endpoints


@dataclass(frozen=True)
class SigningSecret:
    """A secret that signs messages to an endpoint."""

    value: str = field(repr=False)
    """``whsec_`` and the key in base64. It is stored as it is, since a hash cannot sign."""
    expires_at: datetime | None = None
    """When a replaced secret stops signing; None for the current one."""

    def signs(self, now: datetime) -> bool:
        """Return whether the secret still signs."""
        return self.expires_at is None or now < self.expires_at


def signing_secret(random: bytes) -> str:
    """Return 24 to 64 random bytes as a secret of Standard Webhooks.

    >>> signing_secret(b"not random, as you can see")
    'whsec_bm90IHJhbmRvbSwgYXMgeW91IGNhbiBzZWU='
    """
    return f"whsec_{base64.b64encode(random).decode()}"


@dataclass(frozen=True)
class Endpoint:
    """A URL of another program that receives messages.

    While it is disabled its deliveries wait; they go out once it is enabled.
    """

    id: str
    url: str
    description: str
    events: tuple[MessageType, ...]
    """Types of messages that it receives; empty for all."""
    secrets: tuple[SigningSecret, ...]
    """The current one first; empty if they cannot be read."""
    version: int
    """Grows with each change; also sent as the `ETag`."""
    created_at: datetime
    disabled_because: str | None = None
    """Why it was disabled; None if it was not."""

    @property
    def waits_because(self) -> str | None:
        """Why its messages wait; None if they go out."""
        if self.disabled_because is None and not self.secrets:
            return "its signing secret cannot be read; rotate it"
        return self.disabled_because

    @property
    def enabled(self) -> bool:
        """Whether messages go out."""
        return self.waits_because is None

    def wants(self, kind: MessageType) -> bool:
        """Return whether the endpoint receives messages of a type."""
        return not self.events or kind in self.events

    def signing(self, now: datetime) -> tuple[str, ...]:
        """Return the secrets that sign now, the current one first."""
        return tuple(secret.value for secret in self.secrets if secret.signs(now))

    def changed(self, change: "EndpointChange") -> "Endpoint":
        """Return the endpoint with an administrator's change."""
        return replace(
            self,
            url=change.url,
            description=change.description,
            events=tuple(dict.fromkeys(change.events)),
            disabled_because=(
                None if change.enabled else self.disabled_because or "by an administrator"
            ),
            version=self.version + 1,
        )

    def gone(self) -> "Endpoint":
        """Return the endpoint disabled after a response of 410 Gone."""
        return replace(self, disabled_because="it answered 410 Gone", version=self.version + 1)

    def rotated(self, secret: str, now: datetime, grace: timedelta) -> "Endpoint":
        """Return the endpoint with a new secret; the old ones also sign, for ``grace``.

        Raises `TooManySecrets` if no more fit: a receiver may still know the oldest one alone.
        """
        secrets = [
            replace(old, expires_at=old.expires_at or now + grace)
            for old in self.secrets
            if old.signs(now)
        ]
        live = [SigningSecret(secret), *(old for old in secrets if old.signs(now))]
        if len(live) > MOST_SECRETS:
            free_at = min(old.expires_at for old in live if old.expires_at is not None)
            raise TooManySecrets(
                f"{MOST_SECRETS} secrets of this webhook sign its messages now, and no more fit: "
                f"rotate again from {instant(free_at)} on, when the oldest stops."
            )
        return replace(self, secrets=tuple(live), version=self.version + 1)


@dataclass(frozen=True)
class EndpointChange:
    """The members of an endpoint that an administrator sets."""

    url: str
    description: str = ""
    events: Sequence[MessageType] = ()
    enabled: bool = True

    def faults(self, *, allow_private: bool) -> Iterator[FieldFault]:
        """Yield each fault of the change."""
        why = url_fault(self.url, allow_private=allow_private)
        if why:
            yield FieldFault("/url", why)
        for place, kind in enumerate(self.events):
            if kind not in SUBSCRIBABLE:
                yield FieldFault(f"/events/{place}", f"is {kind}, which every webhook gets")
        if self.description:
            yield from name_faults(self.description, "/description", longest=LONGEST_DESCRIPTION)


def url_fault(url: str, *, allow_private: bool) -> str | None:
    """Return why messages cannot be sent to ``url``, or None.

    Host names are looked up, and their addresses checked, at each delivery.

    >>> url_fault("https://billing.example/hooks", allow_private=False) is None
    True
    >>> url_fault("https://127.0.0.1/hooks", allow_private=False)
    'leads to 127.0.0.1, which is not a public address (see SETWISE_WEBHOOK_ALLOW_PRIVATE)'
    """
    if len(url) > LONGEST_URL or not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        return f"must be at most {LONGEST_URL} printable ASCII characters; escape all others"
    try:
        parts = urlsplit(url)
        literal = _literal(parts)
    except ValueError as error:
        return f"is not a URL: {error}"
    why = _form_fault(parts, allow_private=allow_private)
    if why or literal is None:
        return why
    return address_fault(literal, secure=parts.scheme == "https", allow_private=allow_private)


def _form_fault(parts: SplitResult, *, allow_private: bool) -> str | None:
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        return "must begin with https://"
    if not parts.hostname:
        return "names no host"
    if parts.username is not None or parts.password is not None:
        return "must not carry a user or password; messages are signed"
    if parts.fragment:
        return "must not have a fragment (#…)"
    return None


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
"""Not routed any more; Python calls it public before 3.13."""


def _literal(parts: SplitResult) -> Address | None:
    _ = parts.port  # raises ValueError if the port is invalid
    try:
        return ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return None


def address_fault(address: Address, *, secure: bool, allow_private: bool) -> str | None:
    """Return why messages cannot be sent to an address, or None.

    ``secure``: Whether the connection is encrypted; if not, only private addresses are allowed.
    ``allow_private``: Whether private, loopback and link-local addresses are allowed.
    """
    target = _target(address)
    if target.is_multicast or target.is_unspecified:
        return f"leads to {address}, where no program can listen"
    public = target.is_global and not target.is_reserved
    if public and not secure:
        return "must begin with https:// to reach a public address"
    if allow_private or (public and address not in _SIX_TO_FOUR):
        return None
    return f"leads to {address}, which is not a public address (see SETWISE_WEBHOOK_ALLOW_PRIVATE)"


def _target(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, or the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


# Deliveries


@dataclass(frozen=True)
class RetryDelays:
    """Delays before each attempt of a delivery."""

    delays: tuple[timedelta, ...] = (
        timedelta(0),
        timedelta(seconds=5),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=5),
        timedelta(hours=10),
        timedelta(hours=14),
        timedelta(hours=20),
        timedelta(hours=24),
    )
    """Before the first attempt, the second and so on. After the last attempt the delivery is dead.
    """
    jitter: float = 0.1
    """Largest share of a delay, in [0, 1], that is added at random, so that deliveries that failed
    together are not retried together.
    """

    def delay_after(self, attempt: int, draw: float) -> timedelta | None:
        """Return the delay after attempt ``attempt`` (from 1); None to give up.

        ``draw``: A random number in [0, 1).

        >>> RetryDelays().delay_after(2, draw=0.5)
        datetime.timedelta(seconds=315)
        """
        if attempt >= len(self.delays):
            return None
        return self.delays[attempt] * (1.0 + self.jitter * draw)

    @property
    def longest(self) -> timedelta:
        """The longest delay, without the random share."""
        return max(self.delays)


class DeliveryState(StrEnum):
    """State of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class ReceiverResponse:
    """The response to an attempt, or why there was none."""

    started_at: datetime
    seconds: float
    """How long it took, from the look-up of the host to the end."""
    status: int | None = None
    """HTTP status; None without a response."""
    excerpt: str = ""
    """Beginning of the response's body."""
    error: str | None = None
    """Why there was no response."""
    retry_after: timedelta | None = None
    """The delay that the endpoint asked for."""

    @property
    def accepted(self) -> bool:
        """Whether the endpoint accepted the message."""
        return self.status in ACCEPTED


@dataclass(frozen=True)
class DeliveryAttempt:
    """A line of the delivery log."""

    id: str
    delivery_id: str
    number: int
    answer: ReceiverResponse


@dataclass(frozen=True)
class Delivery:
    """The delivery of one message to one endpoint."""

    id: str
    message: Message
    endpoint_id: str
    due_at: datetime
    created_at: datetime
    state: DeliveryState = DeliveryState.PENDING
    """`dead` after the last attempt; `cancelled` when its webhook was deleted."""
    attempt: int = 0
    """Number of attempts since it was queued or replayed."""
    token: int = 0
    """Grows with each claim, so that the answer of a courier that lost its lease is dropped."""
    lease_expires_at: datetime | None = None
    finished_at: datetime | None = None

    def claimed(self, now: datetime, lease: timedelta) -> "Delivery":
        """Return the delivery leased to a courier.

        The attempt counts at once, so a delivery that crashes its courier is not retried forever.
        """
        return replace(
            self, attempt=self.attempt + 1, token=self.token + 1, lease_expires_at=now + lease
        )

    def returned(self) -> "Delivery":
        """Return a claimed delivery that was not sent; it can be claimed again at once."""
        return replace(self, attempt=self.attempt - 1, lease_expires_at=None)

    def answered(
        self, answer: ReceiverResponse, now: datetime, backoff: RetryDelays, draw: float
    ) -> "Delivery":
        """Return the delivery after an attempt: delivered, pending or dead."""
        if answer.accepted:
            return self._finished(DeliveryState.DELIVERED, now)
        delay = backoff.delay_after(self.attempt, draw)
        if delay is None:
            return self._finished(DeliveryState.DEAD, now)
        asked = min(answer.retry_after or timedelta(0), backoff.longest)
        return replace(self, due_at=now + max(delay, asked), lease_expires_at=None)

    def replayed(self, now: datetime) -> "Delivery":
        """Return the delivery due at once, at the start of the schedule."""
        return replace(
            self,
            state=DeliveryState.PENDING,
            attempt=0,
            token=self.token + 1,  # refuses the answer of an attempt in progress
            due_at=now,
            lease_expires_at=None,
            finished_at=None,
        )

    def _finished(self, state: DeliveryState, now: datetime) -> "Delivery":
        return replace(self, state=state, finished_at=now, lease_expires_at=None)


@dataclass(frozen=True)
class Parcel:
    """A claimed delivery and the endpoint that it goes to."""

    delivery: Delivery
    endpoint: Endpoint
