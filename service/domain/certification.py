"""Certificates: the threshold that audits prove, with evidence, or why none."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Self

from setwise.service.domain.routing.audits import Identity, RereadDraw, without_copies
from setwise.service.domain.routing.rules import (
    Metadata,
    MetadataRule,
    Rule,
    first_broken,
    held_back_alike,
)
from setwise.service.domain.shown import Probability, Shown
from setwise.service.domain.truth import AuditReading

MOST_PROVING = 0.9
"""Audits with a draw from here on only set the thresholds to prove, like what is not audited."""


class Scorer(NamedTuple):
    """The model and calibrator of a confidence; a certificate covers one."""

    model_version: str
    calibrator_version: str


@dataclass(frozen=True)
class SequenceStep(Shown):
    """A test of "what is sent from this threshold up misses the target"."""

    threshold: Probability
    coverage: Probability
    """Share of the predictions at or above the threshold."""
    n_audits: int
    """Audits at or above the threshold."""
    n_good: int
    """Those of them that were not found wrong."""
    n_missed: int
    """Those of them that only a second reading found wrong."""
    reread_rate: Probability
    """The least probability of a second reading among them."""
    p_value: Probability
    """Upper bound of the probability of as good an outcome if the target is missed."""
    recent_accuracy: float | None
    """Estimated accuracy when the newest audit came."""


@dataclass(frozen=True, kw_only=True)
class CertificationEvidence(Shown):
    """All that an attempt rests on: enough to check it again."""

    method: Literal["adjudicated"] = "adjudicated"
    target: Probability
    risk: Probability
    """What this attempt spends."""
    test_risk: Probability
    """Part of it for the tests: all of it."""
    n_audits: int
    """Audits that count, at any confidence."""
    n_predictions: int
    """Predictions whose confidences are the thresholds."""
    steps: tuple[SequenceStep, ...]
    """In the order of testing: all proved the target, except the last one if it ended the tests."""
    excluded: Mapping[str, int]
    """Number of audits left out, by reason."""
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
    """Share of the documents that is audited to certify."""
    audits_a_week: float
    """Those that prove something."""
    weeks: int | None
    """Until the next attempt that would probably succeed, begun ones included; null without
    audits.
    """

    @classmethod
    def at(cls, rate: float, documents_a_week: float, audits: int) -> Self:
        """Return how soon so many audits are drawn.

        >>> AuditPace.at(0.04, 500.0, 37)
        AuditPace(rate=0.04, audits_a_week=20.0, weeks=2)
        """
        a_week = documents_a_week * min(rate, MOST_PROVING)
        return cls(rate, a_week, math.ceil(audits / a_week) if a_week else None)


@dataclass(frozen=True)
class CertificationOutlook(Shown):
    """How many more audits would probably certify a threshold, and how long they take."""

    segment: str | None
    """Whose documents it is about; null: all."""
    certified: bool
    """A threshold is certified already."""
    reason: str | None
    """Why the last attempt certified nothing or, without one, why none would."""
    further_audits: int | None
    """Null if a threshold is certified, or where no number would certify one."""
    next_attempt_in: int | None
    """Audits until the next automatic attempt; null if none will follow."""
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
    risk: float
    """What it spends of the policy's risk."""
    left: float
    """What is left of it for this and later ones."""
    gains: bool
    """Whether there are audits, and anything has changed since the last attempt."""


class Score(NamedTuple):
    """A scorer's answer to a document that another one answered before."""

    prediction_id: str
    scorer: Scorer
    labels: tuple[str, ...]
    confidence: float
    created_at: datetime


class Unscored(NamedTuple):
    """A stored document that a model which does not serve has yet to score."""

    id: str
    draw: float
    policy_version: str
    scorer: Scorer
    """The one that answered it."""
    held_back: bool
    """Whether a rule held it back, or it was out of domain, so that it could not be audited."""
    segment: str | None = None


class AuditedPrediction(NamedTuple):
    """A document drawn to certify, with a scorer's answer and what was found so far."""

    id: str
    client_id: str
    name: str
    confidence: float
    """The scorer's, as are the labels, whether it answered itself or scored the document later."""
    draw: float
    policy_version: str
    created_at: datetime
    labels: tuple[str, ...]
    reading: AuditReading | None
    """None until somebody has answered who decides on it."""
    metadata: Metadata | None = None
    """None if it has been erased."""
    reread: RereadDraw = RereadDraw(0.0, 1.0)
    """What decided on a lead's second reading."""
    own: bool = True
    """Whether the scorer's model answered it."""
    held_back: bool = False
    """Whether the model that answered it kept it from audits."""
    segment: str | None = None

    @property
    def agreed(self) -> bool:
        """Whether the blind answer is the scorer's set."""
        return self.reading is not None and self.reading.agrees(self.labels)

    @property
    def wrong(self) -> bool | None:
        """Whether the scorer's set is wrong; None until the audit is complete.

        What could not be audited is wrong.
        """
        if self.held_back:
            return True
        return None if self.reading is None else self.reading.wrong(self.labels)

    def counts(self) -> tuple[bool, bool]:
        """Return whether an error was found, or missed by the auditor.

        What is not known counts against the model.
        """
        if self.wrong is False:
            return False, False
        missed = self.reread.drawn and self.agreed
        return not missed, missed

    @property
    def decided(self) -> bool:
        """Whether a lead has decided on it."""
        return self.reading is not None and self.reading.lead is not None


class Gathered(NamedTuple):
    """Audits that count, and how many do not, by reason."""

    audits: tuple[AuditedPrediction, ...]
    """Those that are not finished count as wrong."""
    excluded: Mapping[str, int]
    drawn: int
    """Audits of the period that counts, whatever became of them."""
    unfinished: int
    """Those of ``audits`` that count as wrong because they were not finished in time."""
    undecided: int
    """Those of ``audits`` that count as wrong because no lead has decided on a contradiction."""
    other: int
    """Those of ``audits`` that other models answered."""
    held_back: int
    """Those of ``audits`` that count as wrong because they were held back from audits."""
    missed: int
    known_wrong: int
    """Wrong sets that an auditor agreed with, among those that leads read whatever the auditor
    answered.
    """


def gather(
    audits: Sequence[AuditedPrediction],
    rules_then: Mapping[str, Sequence[Rule]],
    *,
    rules: Sequence[Rule],
    read_by: datetime,
) -> Gathered:
    """Return the audits that are a simple random sample of the documents.

    The rate may change with time, because documents keep coming as they did: at any moment those
    that are drawn are like the others.

    Rules and segments are often chosen from the errors that audits found. So only audits count that
    were drawn under the same rules and segments: earlier ones had a part in the choice.

    Another model's set decided whether a rule held back what it answered, and whether it was in
    domain. What was held back then, with a draw that would have had it audited, is among the audits
    and counts as wrong; leaving it out would hide what is not known.

    Which audits are finished depends on what they find: wrong sets wait for a lead. So an audit
    is never left out for being unfinished. If one of the last days is unread, or waits to be read
    again, all of those days are left out; an older one counts as wrong until it is finished.

    ``audits``: In order of creation.
    ``rules_then``: Those of each policy version that divides documents as today's does.
    ``rules``: The rules in force.
    ``read_by``: Audits of predictions from before it should be finished by now.
    """
    excluded = {
        "drawn under other segments": 0,
        "drawn under other rules": 0,
        "held back by a rule": 0,
        "not known whether a rule holds it back": 0,
        "too recent": 0,
        "left to set the thresholds": 0,
        "same document again": 0,
    }
    present = held_back_alike(rules)
    alike = {version: held_back_alike(then) == present for version, then in rules_then.items()}
    covered: list[AuditedPrediction] = []
    for audit in audits:
        reason = _outside(audit, alike.get(audit.policy_version), rules)
        if reason is None:
            covered.append(audit)
        else:
            excluded[reason] += 1
    chosen = [audit for audit in covered if audit.draw < MOST_PROVING]
    excluded["left to set the thresholds"] = len(covered) - len(chosen)
    drawn = _documents(chosen)
    excluded["same document again"] = len(chosen) - len(drawn)
    recent = [audit for audit in drawn if audit.created_at > read_by]
    if any(audit.wrong is None for audit in recent):
        excluded["too recent"] = len(recent)
        drawn = [audit for audit in drawn if audit.created_at <= read_by]
    # These show how many errors auditors miss, because their answer did not select them.
    by_chance = [audit for audit in drawn if audit.reread.drawn]
    # An agreement that no lead has read again in time may be a missed error.
    missed = sum(audit.agreed and audit.wrong is not False for audit in by_chance)
    found_out = sum(audit.decided and audit.wrong is True for audit in by_chance)
    overlooked = sum(audit.wrong is None and audit.reading is not None for audit in by_chance)
    return Gathered(
        audits=tuple(drawn),
        excluded=excluded,
        drawn=len(drawn),
        unfinished=sum(audit.wrong is None for audit in drawn),
        undecided=sum(
            audit.wrong is True and not audit.decided and not audit.held_back for audit in drawn
        ),
        other=sum(not audit.own for audit in drawn),
        held_back=sum(audit.held_back for audit in drawn),
        missed=missed,
        known_wrong=found_out + overlooked,
    )


class Bet(NamedTuple):
    """An audit as the detector of drift reads it: see `models.guarantees.retest`."""

    confidence: float
    right: bool
    stands_for: float


def bets_since(audits: Sequence[AuditedPrediction], proof: str, read_by: datetime) -> list[Bet]:
    """Return the audits of documents that came after a certificate, oldest first.

    As for the breaker, an audit that is not finished counts as right until ``read_by``, then as
    wrong; an agreement found wrong stands for those that no lead read again.
    """
    bets = []
    for copies in _copies(audits):
        if copies[0].id <= proof:
            continue
        audit = next((copy for copy in copies if copy.wrong is not None), copies[0])
        right = audit.wrong is False or (audit.wrong is None and copies[0].created_at > read_by)
        missed = not right and audit.reread.drawn and audit.agreed
        bets.append(Bet(audit.confidence, right, 1.0 / audit.reread.rate if missed else 1.0))
    return bets


def _outside(audit: AuditedPrediction, alike: bool | None, rules: Sequence[Rule]) -> str | None:
    """Return why an audit is no evidence under these rules; None if it is.

    ``alike``: Whether the rules were the same; None if documents were divided otherwise.
    """
    if alike is None:
        return "drawn under other segments"
    if not alike:
        return "drawn under other rules"
    if audit.own:
        return None
    # The rules let the set through that was answered, not another model's.
    if audit.metadata is None and any(isinstance(rule, MetadataRule) for rule in rules):
        return "not known whether a rule holds it back"
    broken = first_broken(rules, audit.labels, audit.metadata or {})
    return None if broken is None else "held back by a rule"


def _documents(audits: Sequence[AuditedPrediction]) -> list[AuditedPrediction]:
    """Return each document's first finished audit, dated as its first one."""
    documents = []
    for copies in _copies(audits):
        counts = next((copy for copy in copies if copy.wrong is not None), copies[0])
        documents.append(counts._replace(created_at=copies[0].created_at))
    return documents


def _copies(audits: Sequence[AuditedPrediction]) -> list[list[AuditedPrediction]]:
    """Return the audits of each document, oldest first."""
    names = [Identity(audit.client_id, audit.name, audit.draw) for audit in audits]
    return [[audits[place] for place in places] for places in without_copies(names)]
