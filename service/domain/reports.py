"""Evidence about predictions, and counts of waiting work."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NamedTuple

from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.routing.rules import Rule, first_broken
from setwise.service.domain.shown import Probability, Shown
from setwise.service.domain.truth import SecondReading

CONFIDENT = frozenset({Reason.ABOVE_THRESHOLD, Reason.AUDIT})
"""Reasons of documents that are sent unless an audit holds them."""

UNDECIDED = (
    "An auditor's contradiction counts as wrong until a lead decides on it. The breaker and "
    "certifications also count an audit that is not finished in time as wrong."
)
"""How the accuracy of what was sent counts unfinished audits, stated beside it."""


class Cell(NamedTuple):
    """Predictions of one day, alike in all else."""

    day: date
    decision: Decision
    reason: Reason
    inclusion_probability: float | None
    """Probability, before scoring, that a person would read them; None for predictions from before
    audits existed.
    """
    reviewer_agreed: bool | None
    outcome_agreed: bool | None
    """Whether the sets are right, by people and by the last outcome; None if unknown."""
    documents: int
    """Number of predictions."""
    confidence: float
    """Sum of their confidences."""
    agreement: SecondReading | None = None
    """What became of the auditors' agreement; None unless auditors agreed."""


STEPS = 40
"""Steps of confidence in a `StepCount`."""


class StepCount(NamedTuple):
    """Predictions of one step of confidence, alike in all else."""

    step: int
    """The last of `STEPS` that begins at or below the confidence."""
    decision: Decision
    reason: Reason
    documents: int


class CheckedSet(NamedTuple):
    """A checked set and the right one; other fields are those of `Cell`."""

    prediction_id: str
    client_id: str
    metadata: dict[str, object]
    confidence: float
    reason: Reason
    inclusion_probability: float | None
    reviewer_agreed: bool | None
    outcome_agreed: bool | None
    labels: tuple[str, ...]
    """The predicted set."""
    truth: tuple[str, ...]
    """The right one, by the last outcome or, without one, by a person."""
    documents: int = 1
    agreement: SecondReading | None = None

    @property
    def right(self) -> bool:
        """Whether the set was right."""
        return verdict(self) is True


class ReviewDay(NamedTuple):
    """Review tasks that arrived and that were completed on one day."""

    day: date
    arrived: int
    completed: int
    seconds: float
    """Total time spent on the completed ones; long pauses are cut off."""


@dataclass(frozen=True)
class Evidence:
    """One predicted document, without its content; other fields are those of `Cell`."""

    confidence: float
    sent: bool
    """Whether it was sent automatically."""
    reason: Reason
    created_at: datetime
    inclusion_probability: float | None = None
    reviewer_agreed: bool | None = None
    outcome_agreed: bool | None = None
    labels: Sequence[str] = ()
    """Empty unless requested, as is ``metadata``."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    documents: int = 1
    agreement: SecondReading | None = None
    segment: str | None = None
    """Key of its segment; None if nothing divided documents."""
    uncalibrated: bool = False
    """Nothing had taught the model how sure to be."""

    def passes(self, rules: Sequence[Rule]) -> bool:
        """Return whether the rules would let the document be sent."""
        return (
            self.reason is not Reason.OUT_OF_DOMAIN
            and first_broken(rules, self.labels, self.metadata) is None
        )


Known = Cell | CheckedSet | Evidence
"""One prediction or several alike, and whether they were right."""


def verdict(check: Known) -> bool | None:
    """Return whether the set was right; None if unknown.

    The last outcome takes precedence over people's answers.
    """
    return check.reviewer_agreed if check.outcome_agreed is None else check.outcome_agreed


class Standing(NamedTuple):
    """How many predictions each checked one stands for."""

    weights: Mapping[float | None, float]
    """Weight of a checked prediction by its kind; see `standing`."""
    drawn: bool
    """Whether audits drew the confident ones among the checked. If not, other programs reported the
    truth of these, not necessarily at random.
    """
    unseen: int
    """Number of confident documents if none was checked, else 0."""

    def of(self, check: Known) -> float:
        """Return the weight of one prediction; 0 if it does not count."""
        return self.weights.get(_kind(check), 0.0) if _checked(check, drawn=self.drawn) else 0.0

    def hides(self, check: Known) -> bool:
        """Return whether nothing is known about such predictions."""
        return self.unseen > 0 and confident(check)


def standing(checks: Sequence[Known]) -> Standing:
    """Return weights by which checked predictions represent all of ``found``.

    Predictions that people always read are one kind; confident ones form a kind for each inclusion
    probability. The checked ones of a kind are treated as a random sample of it, as audits are.
    Confident ones of kinds without checks are spread over the kinds that have some.

    References
    ----------
    .. [1] C. Särndal, B. Swensson and J. Wretman, "Model Assisted Survey Sampling", Springer 1992,
       section 15.6: weighting within response homogeneity groups.
    """
    drawn = any(confident(check) and check.reviewer_agreed is not None for check in checks)
    everyone: Counter[float | None] = Counter()
    checked: Counter[float | None] = Counter()
    for check in checks:
        everyone[_kind(check)] += check.documents
        if _checked(check, drawn=drawn):
            checked[_kind(check)] += check.documents
    sure = sum(n for kind, n in everyone.items() if kind is not None)
    seen = sum(n for kind, n in everyone.items() if kind is not None and checked[kind])
    spread = sure / seen if seen else 0.0
    weights = {
        kind: everyone[kind] / n * (1.0 if kind is None else spread) for kind, n in checked.items()
    }
    return Standing(weights, drawn, 0 if seen else sure)


def confident(check: Known) -> bool:
    """Return whether the prediction was sent unless an audit held it."""
    return check.reason in CONFIDENT


def promised(cells: Sequence[Cell]) -> float | None:
    """Return the mean confidence of the confident documents; None without any.

    These are the documents whose accuracy audits estimate, so that both can be compared.
    """
    sure = [cell for cell in cells if confident(cell)]
    documents = sum(cell.documents for cell in sure)
    return sum(cell.confidence for cell in sure) / documents if documents else None


def _kind(check: Known) -> float | None:
    """Return the inclusion probability of confident documents; None where people read all."""
    return (check.inclusion_probability or 0.0) if confident(check) else None


def _checked(check: Known, *, drawn: bool) -> bool:
    # Outcomes need not be a random sample of the sent documents, so they count only while there is
    # no audit.
    if not confident(check):
        return verdict(check) is not None
    return check.reviewer_agreed is not None if drawn else check.outcome_agreed is not None


@dataclass(frozen=True)
class Share(Shown):
    """How many checked sets were right, and the estimate for all."""

    checked: int
    """Sets that a review, an audit or an outcome has judged."""
    right: int
    """Those of them that were not found wrong."""
    value: Probability | None = None
    """Of all sets, corrected for errors that auditors overlook: each checked set stands for those
    as likely to be checked, and each error that a lead finds in an agreement for those in
    agreements that were not read again.
    """
    low: Probability | None = None
    """Bounds, each with the policy's risk. 0 without second readings of agreements."""
    high: Probability | None = None
    agreed: int = 0
    """Checked sets that stand on an auditor's agreement."""
    reread: int = 0
    """Those of them that a lead has read again."""
    overlooked: int = 0
    """Those of them that the lead found wrong."""
    correction: str = field(default="", init=False)
    """The last three in a sentence; empty without agreements."""

    def __post_init__(self) -> None:
        """State how overlooked errors are counted, for wherever the accuracy is shown."""
        object.__setattr__(self, "correction", self._correction())

    @property
    def few(self) -> bool:
        """Whether there is an estimate that rests on few checks."""
        return 0 < self.checked < FEW

    def _correction(self) -> str:
        if not self.agreed:
            return ""
        if not self.reread:
            return (
                f"No lead has read any of the {self.agreed:,} agreements again, so how many errors "
                "auditors overlook is unknown."
            )
        few = " Few second readings make the interval wide." if self.reread < FEW else ""
        return (
            f"Corrected for overlooked errors: of {self.agreed:,} agreements {self.reread:,} were "
            f"read again, {self.overlooked:,} of them found wrong.{few}"
        )


FEW = 30
"""Fewer checks or second readings leave a wide interval even if they find nothing."""


@dataclass(frozen=True)
class BacklogLine:
    """Number of waiting items, and since when the oldest waits."""

    count: int
    since: datetime | None

    def age_s(self, now: datetime) -> float:
        """Return the age of the oldest in seconds; 0 if nothing waits.

        >>> from datetime import UTC
        >>> BacklogLine(1, datetime(2026, 1, 1, tzinfo=UTC)).age_s(datetime(2026, 1, 2, tzinfo=UTC))
        86400.0
        """
        return 0.0 if self.since is None else max(0.0, (now - self.since).total_seconds())


@dataclass(frozen=True)
class Backlog:
    """All waiting work at one instant."""

    reviews: Mapping[str, BacklogLine]
    """Tasks ``waiting`` or ``skipped`` since their creation, ``leased`` since the claim."""
    deliveries: Mapping[str, BacklogLine]
    """Messages ``unrouted``, deliveries ``pending`` or ``dead``, and the pending ones that are
    ``failing``, after at least one failed attempt; all since their creation.
    """
    jobs: Mapping[str, BacklogLine]
    """``queued`` since they are due (later jobs in the future), ``running`` since the start."""


@dataclass(frozen=True)
class Span:
    """Filter of stored rows; None does not restrict."""

    client_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
