"""Certificates: the threshold that audits prove, with evidence, or why none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Self

from setwise.models.results import SequenceStep
from setwise.service.domain.effort import hours_of
from setwise.shown import Probability, Shown

MOST_PROVING = 0.9
"""Audits with a draw from here on only set the thresholds to prove, like what is not audited."""


class Scorer(NamedTuple):
    """The model and calibrator of a confidence; a certificate covers one."""

    model_version: str
    calibrator_version: str


@dataclass(frozen=True)
class CommonForm(Shown):
    """Copies that are a large part of the audited messages, such as a form that clients fill in."""

    example: str
    """Id of the prediction of the first one."""
    share: Probability
    """Of the audited messages."""
    n_audits: int
    """Audited messages that follow it."""
    n_good: int
    """Those of them that were found right."""


@dataclass(frozen=True, kw_only=True)
class CertificationEvidence(Shown):
    """All that an attempt rests on: enough to check it again."""

    method: Literal["adjudicated"] = "adjudicated"
    target: Probability
    risk: Probability
    """What all looks of its family spend together; an attempt on demand has it for itself."""
    test_risk: Probability
    """What this attempt spends of it."""
    n_audits: int
    """Audits that count, at any confidence."""
    n_predictions: int
    """Predictions whose confidences are the thresholds."""
    steps: tuple[SequenceStep, ...]
    """In the order of testing: all proved the target, except the last one if it ended the tests."""
    excluded: Mapping[str, int]
    """Number of audits left out, by reason."""
    looks: tuple[int, ...] | None = None
    """Audits at each earlier look that shares the risk; null if the attempt has it for itself."""
    order: tuple[Probability, ...] = ()
    """Falling thresholds from the first test on; later looks test the same ones."""
    family: int | None = None
    """Which looks at the same growing audits share the risk, from 1 since the last alarm; null for
    an attempt on demand, which spends from a reserve.
    """
    audits_sha256: str | None = None
    """Names the audits of a look: later looks of the family have them too."""
    certified: bool
    proved: tuple[Probability, ...] = ()
    """All proved thresholds, falling; the risk holds for all together."""
    threshold: Probability | None = None
    """The lowest proved one; null, as the six below, if nothing is certified."""
    coverage: Probability | None = None
    """Share of the predictions at or above it."""
    n_above: int | None = None
    """Audits at or above it."""
    n_good: int | None = None
    """Those of them that were not found wrong."""
    p_value: Probability | None = None
    """Of the test of that threshold."""
    accuracy: Probability | None = None
    """Estimated, of what is sent from it up."""
    accuracy_bound: Probability | None = None
    """Lower bound of that at `test_risk`."""
    next_audits: int | None = None
    """How many more audits would probably certify a lower threshold; null where no number would."""
    next_coverage: Probability | None = None
    """Share of the predictions at or above that threshold."""
    reason: str | None = None
    """Why nothing is certified; null for a certificate."""
    further_audits: int | None = None
    """How many more would probably certify a threshold; null where no number would."""
    further_if_all_good: int | None = None
    """The same if no error is found among them."""
    planned_threshold: Probability | None = None
    """The threshold that they would certify."""
    reread_rate: Probability
    """Share of the audits that is read again, at least."""
    n_drawn: int
    """Audits drawn in the period that counts, at any confidence."""
    unfinished: int
    """Those of them unfinished for too long, so counted as wrong."""
    undecided: int
    """Those of them that no lead has decided on, so counted as wrong."""
    other_models: int
    """Those of them that another model answered."""
    held_back: int
    """Those of them that were held back from audits, so counted as wrong."""
    errors_missed: int
    """Of `errors_known`, those that the auditor missed."""
    errors_known: int
    """Errors among audits read again."""
    wrong_sets: int | None = None
    """Audits that count whose set differs from the one that people found right."""
    right_branch: int | None = None
    """Those of them with exactly the top branches of the right set; null if no label has a parent.
    """
    in_clusters: Probability | None = None
    """Share of the audited messages that are copies of another one, with the same id or nearly the
    same text. Null without audits.
    """
    common_forms: tuple[CommonForm, ...] = ()
    """Copies of one document that are at least 0.5 % of the audited messages, and five or more; the
    most frequent first, ten at most. Each message of them counts, as all others do.
    """
    values: tuple[str, ...] | None = None
    """Values that an attempt for `other` is about; null for others."""
    trained_on_audits: bool | None = None
    """`false` if an administrator states that audits taught the model nothing; else null."""
    documents_since: datetime | None = None
    """Documents of other models count from then on; null: all do."""


@dataclass(frozen=True)
class Certification:
    """An attempt to prove a threshold; failed attempts are kept too."""

    id: str
    scorer: Scorer
    policy_version: str
    """The policy that set the target and the risk."""
    target_accuracy: float
    risk: float
    attempt: int
    """Place, from 1, among the attempts for this model, with any calibrator; the risk is shared
    among them.
    """
    threshold: float | None
    """The proved threshold, in [0, 1]; None if none was proved."""
    reason: str | None
    """Why no threshold was proved; None for a certificate."""
    further_audits: int | None
    """How many more audits would probably prove a threshold; None if no number would."""
    evidence: CertificationEvidence
    requested_by: str
    created_at: datetime
    segment: str | None = None
    """Key of the segment whose documents it is about; None for all."""

    def at_least(self, floor: float | None) -> float | None:
        """Return the lowest proved threshold at or above ``floor``, if any.

        Label sets above a floor may be less accurate than those above the threshold.
        """
        return min(self.proved(floor), default=None)

    def proved(self, floor: float | None) -> list[float]:
        """Return the proved thresholds at or above ``floor``."""
        return [each for each in self.evidence.proved if each >= (floor or 0.0)]

    def covers(self, target_accuracy: float, risk: float) -> bool:
        """Return whether it proves this target accuracy at this risk."""
        return (
            self.threshold is not None
            and self.target_accuracy >= target_accuracy
            and self.risk <= risk
        )


@dataclass(frozen=True)
class AuditPace(Shown):
    """How soon audits are drawn at a rate."""

    rate: Probability
    """Share of the documents that is audited to certify; with a `rest_rate`, of those that could be
    sent.
    """
    audits_a_week: float
    """Those that prove something."""
    weeks: int | None
    """Until the next attempt that would probably succeed, begun ones included; null without
    audits.
    """
    hours_a_week: float | None
    """How long people read for these audits; null before the first blind reading."""

    @classmethod
    def at(cls, rate: float, arrivals: "Arrivals", audits: int, each_s: float | None) -> Self:
        """Return how soon so many audits are drawn.

        ``each_s``: Mean time of a blind reading, in seconds.

        >>> AuditPace.at(0.04, Arrivals(500.0), 37, 90.0)
        AuditPace(rate=0.04, audits_a_week=20.0, weeks=2, hours_a_week=0.5)
        """
        a_week = arrivals.drawn(rate)
        weeks = math.ceil(audits / a_week) if a_week else None
        return cls(rate, a_week, weeks, hours_of(a_week, each_s))


class Arrivals(NamedTuple):
    """Documents a week that may be audited, and how often those are that can hardly be sent."""

    documents: float
    rest: float = 0.0
    """Those of them that can hardly be sent."""
    rest_rate: float = 0.0

    def drawn(self, rate: float) -> float:
        """Return the audits a week that prove something, at this rate of the others."""
        often, seldom = min(rate, MOST_PROVING), min(rate, self.rest_rate, MOST_PROVING)
        return (self.documents - self.rest) * often + self.rest * seldom

    def targeted(self, audits: int, rate: float) -> int:
        """Return how many audits prove as much as so many of documents of all kinds.

        >>> Arrivals(1000.0, rest=900.0, rest_rate=0.01).targeted(1000, 0.1)
        190
        """
        if not self.rest or not rate:
            return audits
        return math.ceil(audits * self.drawn(rate) / (self.documents * min(rate, MOST_PROVING)))


@dataclass(frozen=True)
class CertificationOutlook(Shown):
    """How many more audits would probably certify a threshold, and how long they take."""

    segment: str | None
    """Whose documents it is about; null: all."""
    target: Probability
    """The accuracy to prove."""
    certified: bool
    """A threshold is certified already."""
    reason: str | None
    """Why the last attempt certified nothing or, without one, why none would."""
    further_audits: int | None
    """Null if a threshold is certified, or where no number would certify one."""
    hours: float | None
    """How long people would read for them, at the mean time of a blind reading in the last four
    weeks; null without such a reading.
    """
    next_attempt_in: int | None
    """Audits until the next automatic attempt; null if none will follow, or for another target than
    the policy's.
    """
    too_recent: int
    """Audits from the time for reading: none counts while one is unread or waits for a lead."""
    documents_a_week: float
    """Those that may be audited, on average of the last four weeks."""
    paces: tuple[AuditPace, ...]
    """At the present rate, then at `rate`; empty without `further_audits`."""


class NextAttempt(NamedTuple):
    """What an attempt now would test, and spend."""

    segment: str | None
    """Key of the segment whose documents it is about; None for all."""
    audits: int
    """Those that it would test."""
    new_audits: int
    """Those of them that the last attempt did not have."""
    reserve: float
    """What it spends of the reserve; 0 if the schedule pays for it."""
    left: float
    """What the reserve then has left."""
    missing: int | None
    """Further audits until the next look by the schedule; None if none will follow."""
    gains: bool
    """Whether there are audits, and anything has changed since the last attempt."""


class Score(NamedTuple):
    """A scorer's answer to a document that another one answered before."""

    prediction_id: str
    scorer: Scorer
    labels: tuple[str, ...]
    confidence: float
    created_at: datetime


class StreamDocument(NamedTuple):
    """A document that came, audited or not, with the confidence of the scorer in question."""

    confidence: float
    id: str
    client_id: str
    name: str
    """As of `CheckedDocument`, like most of the rest."""
    draw: float | None
    cluster: float | None
    audit_chance: float
    in_rest: bool
    proves: bool
    """Whether it was drawn to certify."""
    policy_version: str
    segment: str | None
    scorer: Scorer
    """The one that answered it."""
    bands: bytes | None = None
