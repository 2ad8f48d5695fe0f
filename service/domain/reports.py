"""Evidence about predictions, and counts of waiting work."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.evidence import Cell, Evidence, confident, in_view
from setwise.service.domain.predictions import Decision, Reason
from setwise.shown import Probability, Shown

UNDECIDED = (
    "An auditor's contradiction counts as wrong until a lead decides on it. The breaker and "
    "certifications also count an audit that is not finished in time as wrong."
)
"""How the accuracy of what was sent counts unfinished audits, stated beside it."""


STEPS = 40
"""Steps of confidence in a `StepCount`."""


def step_of(confidence: float) -> int:
    """Return the last of `STEPS` that begins at or below a confidence.

    >>> [step_of(each) for each in (0.0, 0.0249, 0.025, 1.0)]
    [0, 0, 1, 40]
    """
    # ``step / STEPS`` begins a step, although times `STEPS` it may be less than ``step``.
    nearest = int(confidence * STEPS + 0.5)
    return nearest - (confidence < nearest / STEPS)


class StepCount(NamedTuple):
    """Predictions of one step of confidence, alike in all else."""

    step: int
    """The last of `STEPS` that begins at or below the confidence."""
    decision: Decision
    reason: Reason
    documents: int


LONGEST_READING_S = 900.0
"""Longer gaps count as breaks, not as work."""


class ReviewDay(NamedTuple):
    """Review tasks that arrived and that were completed on one day."""

    day: date
    arrived: int
    completed: int
    seconds: float
    """Total time spent on the completed ones; long pauses are cut off."""


FEW = 30
"""Fewer checks or second readings leave a wide interval even if they find nothing."""


class InView(StrEnum):
    """What an answer with the suggestion in view counts for."""

    REPEATED = "repeated"
    """A contradiction counts; agreements count through those that somebody else read blind."""
    IGNORED = "ignored"
    """Nothing: enough documents like it were read blind."""
    UNBOUNDED = "unbounded"
    """As much as a blind one, but it bounds no accuracy: too few were read blind."""


Kind = tuple[float | None, bool]
"""Inclusion probability of confident documents, or None; whether the lower audit rate held."""


class Standing(NamedTuple):
    """How many predictions each checked one stands for."""

    weights: Mapping[Kind, float]
    """Weight of a checked prediction by its kind; see `standing`."""
    drawn: bool
    """Whether audits drew the confident ones among the checked. If not, other programs reported the
    truth of these, not necessarily at random.
    """
    unseen: int
    """Number of confident documents if none was checked, else 0."""
    in_view: InView = InView.UNBOUNDED
    repeated: float = 1.0
    """How many agreements with the suggestion in view each one that was read again stands for."""

    def of(self, check: Evidence) -> float:
        """Return the weight of one prediction; 0 if it does not count."""
        if not _checked(check, drawn=self.drawn):
            return 0.0
        weight = self.weights.get(_kind(check), 0.0)
        if not in_view(check) or self.in_view is InView.UNBOUNDED:
            return weight
        if self.in_view is InView.IGNORED:
            return 0.0
        return weight * {None: 1.0, True: self.repeated, False: 0.0}[check.reread]

    def hides(self, check: Evidence) -> bool:
        """Return whether nothing is known about such predictions."""
        return self.unseen > 0 and confident(check)


def standing(checks: Sequence[Evidence]) -> Standing:
    """Return weights by which checked predictions represent all of ``found``.

    Predictions that people always read are one kind, or two with two rates of blind readings;
    confident ones form a kind for each inclusion probability. The checked ones of a kind are
    treated as a random sample of it, as audits are. Confident ones of kinds without checks are
    spread over the kinds that have some. Reviewers who see a suggestion sometimes accept a
    wrong one, so blind readings correct what they answer.

    References
    ----------
    .. [1] C. Särndal, B. Swensson and J. Wretman, "Model Assisted Survey Sampling", Springer 1992,
       section 15.6: weighting within response homogeneity groups.
    """
    drawn = any(confident(check) and check.reviewer_agreed is not None for check in checks)
    rule, repeated = _worth_in_view(checks)
    ignored = rule is InView.IGNORED
    everyone: Counter[Kind] = Counter()
    checked: Counter[Kind] = Counter()
    for check in checks:
        if check.reason is Reason.NO_MODEL:  # no set was predicted that could be right
            continue
        everyone[_kind(check)] += check.documents
        if _checked(check, drawn=drawn) and not (ignored and in_view(check)):
            checked[_kind(check)] += check.documents
    sure = sum(n for (share, _), n in everyone.items() if share is not None)
    seen = sum(n for kind, n in everyone.items() if kind[0] is not None and checked[kind])
    spread = sure / seen if seen else 0.0
    weights = {
        kind: everyone[kind] / n * (1.0 if kind[0] is None else spread)
        for kind, n in checked.items()
    }
    return Standing(weights, drawn, 0 if seen else sure, rule, repeated)


def _worth_in_view(checks: Sequence[Evidence]) -> tuple[InView, float]:
    """Return what answers in view count for, and agreements for each that was read again.

    It depends on how many readings there are, not on what they found.
    """
    blind = shown = again = 0
    for check in checks:
        if not confident(check) and check.right is not None:
            if in_view(check):
                shown += check.documents * (check.reread is not None)
                again += check.documents * (check.reread is True)
            else:
                blind += check.documents
    if again >= max(blind, FEW):
        return InView.REPEATED, shown / again
    return (InView.IGNORED if blind >= FEW else InView.UNBOUNDED), 1.0


def promised(cells: Sequence[Cell]) -> float | None:
    """Return the mean confidence of the confident documents; None without any.

    These are the documents whose accuracy audits estimate, so that both can be compared.
    """
    sure = [cell for cell in cells if confident(cell)]
    documents = sum(cell.documents for cell in sure)
    return sum(cell.confidence for cell in sure) / documents if documents else None


def _kind(check: Evidence) -> Kind:
    """Return the kind of a document; where people read all, two rates of audits make two."""
    if confident(check):
        return check.inclusion_probability or 0.0, False
    return None, check.in_rest


def _checked(check: Evidence, *, drawn: bool) -> bool:
    # Outcomes need not be a random sample of the sent documents, so they count only while there is
    # no audit.
    if not confident(check):
        return check.right is not None
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
    in_view: int = 0
    """Agreements with the suggestion in view that nobody has read again blind: they do not bound
    the accuracy.
    """
    correction: str = field(default="", init=False)
    """The last four in sentences; empty without agreements."""

    def __post_init__(self) -> None:
        """State how overlooked errors are counted, for wherever the accuracy is shown."""
        object.__setattr__(self, "correction", self._correction())

    @property
    def few(self) -> bool:
        """Whether there is an estimate that rests on few checks."""
        return 0 < self.checked < FEW

    def _correction(self) -> str:
        return " ".join(filter(None, (self._overlooked(), self._in_view())))

    def _in_view(self) -> str:
        if not self.in_view:
            return ""
        return (
            f"{self.in_view:,} answers with the suggestion in view that agree with it bound "
            "nothing, as people accept wrong suggestions too: have some documents read blind "
            "(overlap rate, audits)."
        )

    def _overlooked(self) -> str:
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
