"""Recalibration: what is learnt from, what came of it, and which correction is in force."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.audits import AuditPlan, AuditRole
from setwise.service.domain.certification import Scorer
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.predictions import Decision, Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind

LEAST_ROWS = 200
"""Reviewed predictions without which nothing is fitted: no report could tell what it is worth."""

LEAST_OF_EACH = 10
"""Right and wrong predictions without which there is nothing to tell apart."""


class Noise(StrEnum):
    """What is assumed of reviewers: that they do not err, or at rates that are known or estimated.

    ``known`` and ``estimated`` both correct for errors; they differ in where the rates come from.
    """

    NONE = "none"
    KNOWN = "known"
    ESTIMATED = "estimated"


class Activate(StrEnum):
    """Whether a new calibrator serves by itself, once it has proved better."""

    NEVER = "never"
    IF_BETTER = "if-better"


class Rates(NamedTuple):
    """How often a reviewer contradicts a right prediction, and agrees with a wrong one."""

    alpha: float
    beta: float


RatesOf = Callable[[Annotation, float], Rates | str]
"""Gives the error rates of an answer about a prediction of that confidence, or why there are none.
"""

EXACT = Rates(0.0, 0.0)
"""Of adjudications and outcomes, which are taken for the truth."""


@dataclass(frozen=True)
class Calibration:
    """A calibrator learnt from reviews; the model that it belongs to stays as it is.

    Attributes
    ----------
    model_id, model_version : str
        Whose confidences it corrects.
    version : str
        Content digest; predictions carry it while it serves.
    replaces : str
        Version of the calibrator that it was compared with: the one that served then.
    location : str
        Where it lies, relative to the artifact store.
    report : mapping
        What it was learnt from, and how it compares, as JSON.
    active : bool
        It serves whenever its model does.
    """

    id: str
    model_id: str
    model_version: str
    version: str
    replaces: str
    location: str
    noise: Noise
    report: Mapping[str, object]
    requested_by: str
    created_at: datetime
    active: bool = False


class Serving(NamedTuple):
    """A calibrator that served; None is the model's own."""

    calibration: Calibration | None


class ReviewedPrediction(NamedTuple):
    """A prediction of which somebody said whether it is right."""

    prediction: Prediction
    annotations: tuple[Annotation, ...]
    outcome: Outcome | None

    def said_at(self) -> datetime:
        """Return when the first answer came."""
        given = [one.created_at for one in self.annotations]
        return min([*given, self.outcome.created_at] if self.outcome else given)


class Answer(NamedTuple):
    """What is believed of one prediction, and how far.

    Attributes
    ----------
    source : str
        ``outcome``, ``audit`` or ``review``.
    said : Annotation or None
        Who erred if the answer is wrong; None if it is taken for the truth.
    checked : bool
        A lead decides wherever such an annotator contradicts the model, so that a right prediction
        cannot be called wrong.
    """

    agreed: bool
    source: str
    said: Annotation | None
    checked: bool = False

    def rates(self, of: RatesOf, confidence: float) -> Rates | str:
        """Return the error rates of the answer, or why its annotator's are not known."""
        if self.said is None:
            return EXACT
        found = of(self.said, confidence)
        return found if isinstance(found, str) or not self.checked else Rates(0.0, found.beta)


WAITS_FOR_A_LEAD = "an audit contradicts the model, and no lead has decided yet"
TO_CERTIFY = "drawn to certify: what proves the threshold teaches nothing"
SAME_DOCUMENT = "same document again"
UNKNOWN_TO_THE_MODEL = "nothing in the document was known to the model"
NO_RATES = "no error rates are known for its annotator's group"
RUBBER_STAMP = "its annotator agrees with everything"
NOT_ANSWERED = "not yet answered"
EXCLUSIONS = (
    TO_CERTIFY,
    WAITS_FOR_A_LEAD,
    SAME_DOCUMENT,
    UNKNOWN_TO_THE_MODEL,
    NO_RATES,
    RUBBER_STAMP,
    NOT_ANSWERED,
)


def answer_of(reviewed: ReviewedPrediction, noise: Noise) -> Answer | str:
    """Return the best answer to a prediction, or why there is none.

    An outcome goes before all; then comes, for audits, the lead's word, and the auditor's where it
    agrees with the model. Ordinary reviews go to a lead only if two people differ. If errors are
    corrected for, the first reviewer's own answer counts there: leads decide on some answers and
    not on others by what they say, which would spoil the rates.
    """
    if reviewed.outcome is not None:
        return Answer(reviewed.outcome.agreed, "outcome", None)
    by_kind = {one.kind: one for one in reviewed.annotations}
    if ReviewKind.AUDIT in by_kind:
        return _audited(by_kind[ReviewKind.AUDIT], by_kind.get(ReviewKind.ADJUDICATION))
    decided = by_kind.get(ReviewKind.ADJUDICATION)
    if decided is not None and noise is Noise.NONE:
        return Answer(decided.agreed, "review", None)
    review = by_kind.get(ReviewKind.REVIEW) or by_kind.get(ReviewKind.OVERLAP)
    if review is None:
        return NOT_ANSWERED
    return Answer(review.agreed, "review", review)


def _audited(audit: Annotation, decided: Annotation | None) -> Answer | str:
    if decided is not None:
        # Read again whatever the auditor said, it is the truth; decided because the auditor
        # contradicted the model, it is one side of what an auditor's errors let through.
        return Answer(decided.agreed, "audit", None if audit.agreed else audit, checked=True)
    if not audit.agreed:
        return WAITS_FOR_A_LEAD
    return Answer(True, "audit", audit, checked=True)


class Row(NamedTuple):
    """One reviewed prediction as it is learnt from.

    Attributes
    ----------
    inclusion_probability : float
        With which a document like this comes to be learnt from, in (0, 1].
    said_at : datetime
        When somebody first said whether the prediction is right.
    seen_before : bool
        The calibrator that serves may have learnt from the row.
    """

    prediction: Prediction
    answer: Answer
    rates: Rates
    inclusion_probability: float
    said_at: datetime
    seen_before: bool


class Lessons(NamedTuple):
    """Rows to learn from, and how many reviewed predictions are none, by reason."""

    rows: tuple[Row, ...]
    excluded: Mapping[str, int]


def gather(
    reviewed: Sequence[ReviewedPrediction],
    plans: Mapping[str, AuditPlan],
    rates: RatesOf,
    *,
    noise: Noise,
    learnt_until: datetime | None,
) -> Lessons:
    """Choose what may be learnt from.

    Parameters
    ----------
    reviewed : sequence of ReviewedPrediction
        Newest first; of one document the newest counts.
    plans : mapping from str to AuditPlan
        Of each policy version.
    rates : callable
        Error rates of each answer; not asked if ``noise`` is ``none``.
    learnt_until : datetime or None
        When the rows ended from which the calibrator that serves was learnt.
    """
    excluded = Counter(dict.fromkeys(EXCLUSIONS, 0))
    seen: set[tuple[str, str]] = set()
    rows: list[Row] = []
    for one in reviewed:
        made = one.prediction
        document = made.client_id, made.name
        answer = answer_of(one, noise)
        if made.selection.role is AuditRole.CERTIFICATION:
            excluded[TO_CERTIFY] += 1
        elif made.scored.out_of_domain:
            excluded[UNKNOWN_TO_THE_MODEL] += 1
        elif document in seen:
            excluded[SAME_DOCUMENT] += 1
        elif isinstance(answer, str):
            excluded[answer] += 1
        else:
            errors = EXACT if noise is Noise.NONE else answer.rates(rates, made.scored.confidence)
            if isinstance(errors, str):
                excluded[errors] += 1
                continue
            seen.add(document)
            chance = _chance(made, plans[made.policy_version])
            said_at = one.said_at()
            old = learnt_until is not None and said_at <= learnt_until
            rows.append(Row(made, answer, errors, chance, said_at, old))
    return Lessons(tuple(rows), dict(excluded))


def _chance(made: Prediction, plan: AuditPlan) -> float:
    """Return the probability with which such a document is learnt from.

    What is drawn to certify, at random, is left out. Of a set that was sent only an audit or an
    outcome can tell; how outcomes come about nobody knows, so they stand for themselves alone.
    """
    if made.selection.role is AuditRole.TRAINING:
        return plan.training_rate
    if made.decision is Decision.AUTO:
        return 1.0
    return 1.0 - plan.certification_rate


def sending_notice(policy: RoutingPolicy, scorer: Scorer) -> str:
    """Say what becomes of sending by itself while a calibrator serves."""
    if policy.trip_id is not None:
        return "The breaker has tripped, so nothing is sent by itself, whichever calibrator serves."
    if not policy.auto_send:
        return "The policy sends nothing by itself, whichever calibrator serves."
    if policy.threshold_mode is ThresholdMode.FIXED:
        return "The fixed threshold stays in force; nothing proves it for this calibrator."
    if policy.least_of(scorer) is None:
        return (
            "No certificate holds for this calibrator yet, so nothing is sent by itself until "
            "its audits prove a threshold: POST /v1/admin/certifications."
        )
    return "A certificate holds for this calibrator; its threshold is in force."


def shortage(lessons: Lessons) -> str | None:
    """Say what is missing for a fit, and what to do about it; None if nothing is."""
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
    if len(rows) < LEAST_ROWS:
        return (
            f"{len(rows)} reviewed predictions can be learnt from{also}; it takes {LEAST_ROWS}. "
            f"Complete {LEAST_ROWS - len(rows)} more reviews, or raise audit.training_rate."
        )
    right = sum(row.answer.agreed for row in rows)
    for count, what in ((right, "right"), (len(rows) - right, "wrong")):
        if count < LEAST_OF_EACH:
            return (
                f"Of {len(rows)} reviewed predictions {count} are called {what}; it takes "
                f"{LEAST_OF_EACH} to tell them apart. Wait for more reviews; should reviewers "
                "agree with whatever they are shown, have some documents read blind: overlap_rate "
                "and audit.training_rate in the policy."
            )
    return None
