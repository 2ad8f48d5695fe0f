"""Calibrators learnt from reviews: options, rows to learn from, and results."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.annotators import Rates
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.evidence import CheckedDocument, copies_of
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.recalibration.report import CalibrationReport
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.truth import Check, PersonAnswer
from setwise.shown import Probability

LEAST_ROWS = 200
"""Reviewed predictions needed for a fit; fewer cannot support a report."""

LEAST_ROWS_WITHOUT_HISTORY = 50
"""The same for a model that was started without any, whose confidences say next to nothing."""

LEAST_OF_EACH = 0.05
"""Right predictions, and wrong ones, needed for a fit, as a share of the rows needed."""


class Noise(StrEnum):
    """Which error rates of reviewers a fit corrects for."""

    NONE = "none"
    KNOWN = "known"
    ESTIMATED = "estimated"


class Activate(StrEnum):
    """Whether a new calibrator is activated once it has proved better."""

    NEVER = "never"
    IF_BETTER = "if-better"


RatesOf = Callable[[PersonAnswer, float], Rates | str]
"""Returns an answer's error rates at a confidence, or why unknown."""

EXACT = Rates(0.0, 0.0)
"""Rates of adjudications and outcomes, which count as the truth."""

Progress = Callable[[float, str], None]
"""Receives the share that is done, in [0, 1], and a message."""


@dataclass(frozen=True)
class Options:
    """Options of a recalibration."""

    noise: Noise = Noise.NONE
    activate: Activate = Activate.NEVER
    rates: Rates | None = None
    """Error rates of all reviewers, for ``noise`` ``known``; None uses the rates of groups."""

    def check(self) -> None:
        """Raise `InvalidRequest` if the options contradict each other."""
        faults = []
        if self.rates is not None:
            if self.noise is not Noise.KNOWN:
                faults.append(
                    FieldFault("/rates", f"has no effect with noise '{self.noise}'; leave it out")
                )
            for name, rate in zip(Rates._fields, self.rates, strict=True):
                if not 0.0 <= rate < 1.0:
                    faults.append(FieldFault(f"/rates/{name}", f"is {rate}; it lies in [0, 1)"))
            if not faults and sum(self.rates) >= 1.0:
                faults.append(
                    FieldFault(
                        "/rates",
                        f"has a sum of {sum(self.rates):g}; from 1 on answers say nothing about "
                        "the truth: correct the rates, or leave these reviewers out",
                    )
                )
        if faults:
            raise InvalidRequest("No calibrator can be learnt with these options.", faults)


@dataclass(frozen=True)
class Calibration:
    """A calibrator learnt from reviews; its model does not change."""

    id: str
    model_id: str
    model_version: str
    """The model whose confidences it corrects."""
    version: str
    """Digest of its content; predictions carry it while it serves."""
    replaces: str
    """Version of the calibrator that it was compared with: the one that served then."""
    location: str
    """Its path, relative to the artifact store."""
    noise: Noise
    report: CalibrationReport
    requested_by: str
    created_at: datetime
    active: bool = False
    """It serves whenever its model does."""

    @property
    def scorer(self) -> Scorer:
        """The model with this calibrator."""
        return Scorer(self.model_version, self.version)

    @property
    def judgement(self) -> str:
        """The comparison with the calibrator before it in words, and whether it is active."""
        state = "active" if self.active else "not active"
        return f"{self.report.comparison.sentence}; it is {state}"


class Serving(NamedTuple):
    """A calibrator that served; None is the model's own."""

    calibration: Calibration | None


class BestAnswer(NamedTuple):
    """The best answer to whether a prediction is right."""

    agreed: bool
    source: str
    """``outcome``, ``audit`` or ``review``."""
    person: PersonAnswer | None
    """Whose answer it rests on; None if it counts as the truth."""
    checked: bool = False
    """A lead decides whenever this annotator contradicts the model, so a right prediction cannot be
    called wrong.
    """

    @property
    def gold(self) -> bool:
        """Whether it is the truth but for missed errors: an outcome, or an audit."""
        return self.source == "outcome" or self.checked

    def rates(self, of: RatesOf, confidence: float) -> Rates | str:
        """Return the error rates of the answer, or why they are unknown."""
        if self.person is None:
            return EXACT
        rates = of(self.person, confidence)
        return rates if isinstance(rates, str) or not self.checked else Rates(0.0, rates.beta)


WAITS_FOR_A_LEAD = "an audit contradicts the model, and no lead has decided yet"
TO_CERTIFY = "drawn to certify: what proves the threshold teaches nothing"
BEFORE_THE_ALARM = "predicted before the last drift alarm"
SAME_DOCUMENT = "same document again"
UNKNOWN_TO_THE_MODEL = "nothing in the document was known to the model"
NO_RATES = "no error rates are known for its annotator's group"
NO_RATES_WITH_SUGGESTION = (
    "answered with the suggestion in view, and no error rates are known for such answers: "
    "set with_suggestion"
)
NOT_ANSWERED = "not yet answered"
EXCLUSIONS = (
    TO_CERTIFY,
    BEFORE_THE_ALARM,
    WAITS_FOR_A_LEAD,
    SAME_DOCUMENT,
    UNKNOWN_TO_THE_MODEL,
    NO_RATES,
    NO_RATES_WITH_SUGGESTION,
    NOT_ANSWERED,
)


def answer_of(check: Check, noise: Noise) -> BestAnswer | str:
    """Return the best answer to a prediction, or why there is none.

    An outcome takes precedence. For audits the lead's answer comes next, then the auditor's if it
    agrees with the model. Ordinary reviews go to a lead only if two people differ, and are reopened
    only if a person doubts them. With noise correction their first reviewer's own answer counts:
    the others are selected by content, which would bias the rates.
    """
    if check.outcome_agreed is not None:
        return BestAnswer(check.outcome_agreed, "outcome", None)
    person = check.first
    if person is None:
        return NOT_ANSWERED
    if check.audit_agreed is not None:
        return _audited(person, check.lead_agreed)
    decided = check.lead_agreed if check.reopened_agreed is None else check.reopened_agreed
    if decided is not None and noise is Noise.NONE:
        return BestAnswer(decided, "review", None)
    return BestAnswer(person.agreed, "review", person)


def _audited(auditor: PersonAnswer, lead_agreed: bool | None) -> BestAnswer | str:
    if lead_agreed is not None:
        # A second reading that does not depend on the auditor's answer is the truth. A decision
        # made because the auditor contradicted the model misses the auditor's wrong agreements.
        person = None if auditor.agreed else auditor
        return BestAnswer(lead_agreed, "audit", person, checked=True)
    if not auditor.agreed:
        return WAITS_FOR_A_LEAD
    return BestAnswer(True, "audit", auditor, checked=True)


class LearningRow(NamedTuple):
    """One reviewed prediction to learn from."""

    document: CheckedDocument
    answer: BestAnswer
    rates: Rates
    inclusion_probability: float
    """Probability that a document like this becomes a row, in (0, 1]."""
    answered_at: datetime
    """Time of the first answer."""
    seen_before: bool
    """The calibrator that serves may have learnt from this row."""


class Lessons(NamedTuple):
    """Rows to learn from, and counts of excluded predictions by reason."""

    rows: tuple[LearningRow, ...]
    excluded: Mapping[str, int]


def gather(
    documents: Sequence[CheckedDocument],
    policies: Mapping[str, Policy],
    rates: RatesOf,
    *,
    noise: Noise,
    learnt_until: datetime | None,
    alarm_id: str | None = None,
) -> Lessons:
    """Choose the rows to learn from.

    ``documents``: Newest first; of copies, the newest with an answer counts.
    ``policies``: Those of each version that decided on a prediction.
    ``rates``: Error rates of each answer; not called if ``noise`` is ``none``.
    ``learnt_until``: Newest answer that the calibrator that serves was learnt from.
    ``alarm_id``: Of the last drift alarm; only later predictions describe what comes now.
    """
    excluded = Counter(dict.fromkeys(EXCLUSIONS, 0))
    rows: list[LearningRow] = []
    for copies in copies_of(documents):
        proves = any(copy.role is AuditRole.CERTIFICATION for copy in copies)
        counted = False
        for copy in copies:
            answer = NOT_ANSWERED if copy.check is None else answer_of(copy.check, noise)
            errors: Rates | str = EXACT
            if proves:
                answer = TO_CERTIFY
            elif alarm_id is not None and copy.id < alarm_id:
                answer = BEFORE_THE_ALARM
            elif copy.reason is Reason.OUT_OF_DOMAIN:
                answer = UNKNOWN_TO_THE_MODEL
            elif counted:
                answer = SAME_DOCUMENT
            elif noise is not Noise.NONE and not isinstance(answer, str):
                errors = answer.rates(rates, copy.confidence)
            if copy.check is None or isinstance(answer, str):
                excluded[str(answer)] += 1
                # An older copy that ended would more often be one that agrees.
                counted |= answer == WAITS_FOR_A_LEAD
            elif isinstance(errors, str):
                excluded[errors] += 1
            else:
                counted = True
                at = copy.check.answered_at
                chance = _chance(copy, policies[copy.policy_version])
                old = learnt_until is not None and at <= learnt_until
                rows.append(LearningRow(copy, answer, errors, chance, at, old))
    return Lessons(tuple(rows), dict(excluded))


def _chance(document: CheckedDocument, policy: Policy) -> float:
    """Return the probability that a document like this becomes a row.

    Audits drawn to certify are excluded at random. Sets that were sent become rows through audits
    or outcomes only; why an outcome is reported is unknown, so each stands for itself.
    """
    gate = policy.gate_of(document.segment)
    if document.role is AuditRole.TRAINING:
        return gate.audits.training_rate
    if document.decision is Decision.AUTO:
        return 1.0
    chance = document.audit_chance
    return 1.0 - (gate.certification_rate(document.scorer) if chance is None else chance)


def sending_notice(policy: Policy, scorer: Scorer) -> str:
    """Return a sentence on whether a calibrator's label sets are sent."""
    if all(gate.tripped for gate in policy.gates):
        return "The breaker has tripped, so everything goes to review, whatever the calibrator."
    if not policy.auto_send:
        return "The policy sends nothing, whatever the calibrator."
    if not policy.certified:
        return "The fixed threshold stays in force; nothing proves it for this calibrator."
    if policy.least_of(scorer) is None:
        return (
            "No certificate holds for this calibrator yet, so everything goes to review until "
            "its audits certify a threshold: POST /v1/admin/certifications."
        )
    return "A certificate holds for this calibrator; its threshold is in force."


LEAST_SENT = 50
"""Outcomes and training audits of sets that would be sent, needed to vouch for those sets."""

MOST_UNDECIDED = 0.1
"""Share of contradicting audits without a lead's decision from which a report warns."""


def unvouched(question: "RecalibrationQuestion") -> str | None:
    """Return why the rows do not vouch for sent sets, or None.

    Reviews read what is not sent. What goes wrong among confident sets shows in training audits and
    outcomes only.
    """
    scorer = Scorer(question.model.version, calibrator_version(question.model, question.active))
    if not question.policy.sends or question.policy.least_of(scorer) is None:
        return None
    n_found = sum(
        row.document.role is AuditRole.TRAINING or row.answer.source == "outcome"
        for row in question.lessons.rows
    )
    if n_found >= LEAST_SENT:
        return None
    return (
        f"Only {n_found} of the rows are training audits or outcomes; reviews say nothing of the "
        f"confident sets that are sent. It takes {LEAST_SENT} before a calibrator is activated "
        "automatically: set audit.training_rate in the policy."
    )


def undecided(lessons: Lessons) -> str | None:
    """Return a warning if many contradictions wait for a lead; None if few do."""
    waiting = lessons.excluded.get(WAITS_FOR_A_LEAD, 0)
    decided = sum(
        row.answer.source == "audit"
        and row.answer.person is not None
        and not row.answer.person.agreed
        for row in lessons.rows
    )
    if waiting <= MOST_UNDECIDED * (waiting + decided):
        return None
    return (
        f"{waiting} of {waiting + decided} audits that contradict the model wait for a lead and "
        "are left out, so confidences come out too high: decide on them first."
    )


def least_rows(model: ModelVersion) -> int:
    """Return the reviewed predictions needed for a fit."""
    return LEAST_ROWS_WITHOUT_HISTORY if model.without_history else LEAST_ROWS


def shortage(lessons: Lessons, least: int) -> str | None:
    """Return what a fit lacks and what to do, or None."""
    rows = lessons.rows
    left_out = "; ".join(
        f"{count} left out: {why}" for why, count in lessons.excluded.items() if count
    )
    also = f" ({left_out})" if left_out else ""
    if not rows:
        return (
            f"No prediction of this model can be learnt from yet{also}. Complete reviews, report "
            "outcomes, or have confident documents checked: audit.training_rate in the policy."
        )
    if len(rows) < least:
        return (
            f"{len(rows)} reviewed predictions can be learnt from{also}; it takes {least}. "
            f"Complete {least - len(rows)} more reviews, or raise audit.training_rate."
        )
    right, of_each = sum(row.answer.agreed for row in rows), math.ceil(least * LEAST_OF_EACH)
    for count, what in ((right, "right"), (len(rows) - right, "wrong")):
        if count < of_each:
            return (
                f"Of {len(rows)} reviewed predictions {count} are called {what}; it takes "
                f"{of_each} to tell them apart. Wait for more reviews; should reviewers "
                "agree with whatever they are shown, have some documents read blind: overlap_rate "
                "and audit.training_rate in the policy."
            )
    return None


@dataclass(frozen=True)
class RecalibrationQuestion:
    """The input of a recalibration."""

    model: ModelVersion
    active: Calibration | None
    policy: Policy
    lessons: Lessons
    taught: Sequence[Prediction]
    """Those of the lessons' rows, in the order of their ids."""
    recent: Sequence[Prediction]
    options: Options
    by_hand: bool = False
    """The error rates of reviewers were set by hand."""


@dataclass(frozen=True)
class ServingCalibrator:
    """The calibrator that serves, with the policy in force."""

    model: ModelVersion
    calibration: Calibration | None
    """None is the model's own."""
    policy: Policy

    @property
    def version(self) -> str:
        """The calibrator version that predictions carry."""
        return calibrator_version(self.model, self.calibration)

    @property
    def threshold(self) -> Probability | None:
        """Least confidence that is sent; None if nothing is sent."""
        scorer = Scorer(self.model.version, self.version)
        return self.policy.least_of(scorer) if self.policy.sends else None

    @property
    def notice(self) -> str:
        """Whether anything is sent automatically, and what to do if not."""
        return sending_notice(self.policy, Scorer(self.model.version, self.version))


def calibrator_version(model: ModelVersion, calibration: Calibration | None) -> str:
    """Return the version of a calibrator; None is the model's own."""
    return calibration.version if calibration else str(model.summary.get("calibrator_version", ""))


def learnt_until(calibration: Calibration | None) -> datetime | None:
    """Return the time of the newest answer behind a calibrator; None is the model's own."""
    return None if calibration is None else calibration.report.rows.until
