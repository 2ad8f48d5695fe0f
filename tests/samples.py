"""Domain objects with sensible contents, for tests that care about one or two of their fields."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from setwise.models.results import AutomationAt, Estimate, ScoreJudgement, SequenceStep
from setwise.service.domain.accounts import ApiKey
from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.breaker import Reset, Trip, TripCause, TripEvidence
from setwise.service.domain.certification import Certification, CertificationEvidence, Scorer
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.policy import FIRST_POLICY_VERSION, PolicyChange, ThresholdMode
from setwise.service.domain.predictions import (
    Decision,
    Document,
    IdempotencyKey,
    Prediction,
    Reason,
    Submission,
)
from setwise.service.domain.recalibration import Calibration, Noise
from setwise.service.domain.recalibration.report import (
    AutomationChange,
    CalibrationMeasures,
    CalibrationReport,
    CalibratorComparison,
    ErrorsCorrected,
    GroupErrorRates,
    OriginalRows,
    RouteChange,
    RouteChanges,
    RoutesChanged,
    RowsUsed,
)
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.truth import Check
from setwise.service.domain.webhooks import (
    Delivery,
    Endpoint,
    Message,
    MessageType,
    SigningSecret,
    auto_sent,
)
from setwise.service.stores.transaction import Transaction
from setwise.service.stores.truth import TruthStore
from tests.fakes import START, FakeIds, scored_set

CLIENT = Caller("019b7a0b-0000-7000-9000-000000000001", "billing", Role.CLIENT)
OTHER_CLIENT = Caller("019b7a0b-0000-7000-9000-000000000002", "archive", Role.CLIENT)
ANN = Caller("019b7a0b-0000-7000-9000-000000000011", "Ann", Role.REVIEWER)
BEN = Caller("019b7a0b-0000-7000-9000-000000000012", "Ben", Role.REVIEWER)
CAT = Caller("019b7a0b-0000-7000-9000-000000000013", "Cat", Role.REVIEWER)
LEAD = Caller("019b7a0b-0000-7000-9000-000000000021", "Lea", Role.LEAD)
ADMIN = Caller("019b7a0b-0000-7000-9000-000000000031", "Ada", Role.ADMIN)

_ids = FakeIds(0x1000_0000)


def prediction(
    *,
    client_id: str = CLIENT.id,
    document: Document | None = None,
    confidence: float = 0.4,
    decision: Decision = Decision.REVIEW,
    reason: Reason = Reason.BELOW_THRESHOLD,
    created_at: datetime = START,
) -> Prediction:
    """Return a prediction that waits for a person."""
    return Prediction(
        id=_ids(),
        client_id=client_id,
        document=document or Document(id="note-17", text="fever, no cough", metadata={"ward": 3}),
        scored=scored_set(confidence),
        decision=decision,
        reason=reason,
        threshold=0.75,
        policy_version=FIRST_POLICY_VERSION,
        created_at=created_at,
    )


def add_predictions(
    transaction: Transaction, *made: Prediction, idempotency: IdempotencyKey | None = None
) -> None:
    """Store predictions as answers to requests of a client."""
    caller = CLIENT.calling_from("192.0.2.7", "req-7")
    transaction.predictions.add_all(
        [(one, Submission(caller, one.document, idempotency)) for one in made]
    )


def annotate_all(transaction: Transaction, answers: Iterable[Annotation]) -> None:
    """Store many annotations; what follows from them is derived and counted once, in the end."""
    with patch.object(TruthStore, "write"), patch.object(TruthStore, "facts"):
        for answer in answers:
            transaction.reviews.annotate(answer)
    transaction.truth.rebuild(None, 1_000_000)
    last = None
    while last := transaction.counts.rebuild(last):
        pass


def sent_message(of: Prediction, message_id: str) -> Message:
    """Return the message that tells that a prediction was sent."""
    return auto_sent(of, message_id)


def task(of: Prediction | None = None) -> ReviewTask:
    """Return a task that waits."""
    return ReviewTask(
        id=_ids(),
        prediction=of or prediction(),
        kind=ReviewKind.REVIEW,
        state=ReviewState.WAITING,
        version=1,
        created_at=START,
    )


def leased(holder: Caller = ANN, now: datetime = START, *, minutes: float = 15) -> ReviewTask:
    """Return a task that ``holder`` has claimed."""
    return task().claimed(holder.id, now, timedelta(minutes=minutes))


def change(**fields: object) -> PolicyChange:
    """Return a policy change to a fixed threshold of 0.8."""
    plain = PolicyChange(
        target_accuracy=0.9,
        risk=0.05,
        auto_send=True,
        threshold_mode=ThresholdMode.FIXED,
        threshold=0.8,
    )
    return replace(plain, **fields)


def annotation(of: ReviewTask, *labels: str, minutes: float = 5) -> Annotation:
    """Return what Ann said some minutes after the prediction."""
    return Annotation(
        id=_ids(),
        task_id=of.id,
        prediction_id=of.prediction.id,
        reviewer=ANN.id,
        labels=labels,
        comment=None,
        agreed=set(labels) == set(of.prediction.scored.labels),
        chosen_rank=None,
        suggestion_shown=not of.kind.blind,
        seconds=1.0,
        created_at=of.prediction.created_at + timedelta(minutes=minutes),
    )


def certification(threshold: float | None = 0.8, *, attempt: int = 1) -> Certification:
    """Return a certificate, or with a threshold of None a refusal."""
    scored = scored_set()
    return Certification(
        id=_ids(),
        scorer=Scorer(scored.model_version, scored.calibrator_version),
        policy_version=FIRST_POLICY_VERSION,
        target_accuracy=0.9,
        risk=0.1,
        attempt=attempt,
        threshold=threshold,
        reason=None if threshold is not None else "too-few-audits",
        further_audits=None if threshold is not None else 37,
        evidence=certification_evidence(threshold),
        requested_by=ADMIN.id,
        created_at=START,
    )


def certification_evidence(threshold: float | None = 0.8) -> CertificationEvidence:
    """Return what one test showed of a threshold."""
    step = SequenceStep(threshold or 0.8, 0.5, 100, 90, 1, 0.1 + 0.2, 0.01, None)
    return CertificationEvidence(
        target=0.9,
        risk=0.05,
        test_risk=0.05,
        n_audits=120,
        n_predictions=1_000,
        steps=(step,),
        excluded={"too recent": 3},
        certified=threshold is not None,
        proved=() if threshold is None else (threshold,),
        threshold=threshold,
        reason=None if threshold is not None else "too-few-audits",
        further_audits=None if threshold is not None else 37,
        reread_rate=0.1,
        n_drawn=120,
        unfinished=0,
        undecided=1,
        other_models=0,
        held_back=0,
        errors_missed=0,
        errors_known=9,
        values=("north", "NaN"),
        documents_since=START,
    )


def trip_evidence() -> TripEvidence:
    """Return what audits showed until the alarm."""
    return TripEvidence(
        audits=3,
        right=1,
        wrong=2,
        reread=1,
        overlooked=1,
        unfinished=0,
        overdue=0,
        copies=0,
        target_accuracy=0.9,
        run_length=200.0,
        statistic=0.1 + 0.2,
        alarm_at=_ids(),
        first=_ids(),
        last=_ids(),
        outcomes="100",
        stands_for={"2": 4.0},
        last_finished_at=START,
        overdue_since=None,
        sent_since=12,
        oldest_sent_at=START,
        most_documents=20_000,
        longest_days=30.0,
    )


def trip(cause: TripCause = TripCause.DRIFT) -> Trip:
    """Return a trip of the first policy."""
    scored = scored_set()
    return Trip(
        id=_ids(),
        cause=cause,
        scorer=Scorer(scored.model_version, scored.calibrator_version),
        policy_version=FIRST_POLICY_VERSION,
        target_accuracy=0.9,
        evidence=trip_evidence(),
        created_at=START,
    )


def trip_breaker(transaction: Transaction) -> None:
    """Trip the breaker of all documents, as if audits had found too many wrong sets."""
    policy, alarm = transaction.policies.current(), trip()
    tripped = policy.with_gate(replace(policy.states[0], trip_id=alarm.id))
    transaction.breakers.add(alarm)
    transaction.policies.add(replace(tripped, version=alarm.id), replacing=policy.version)


def calibration_report() -> CalibrationReport:
    """Return a report on few rows, whose numbers say nothing."""
    unknown = Estimate(0.5, 0.0, 1.0)
    judgement = ScoreJudgement(
        verdict="too-few",
        n=240,
        n_right=230,
        n_distinct=12,
        low=0.1 + 0.2,
        high=0.9,
        auroc=None,
        aurc=unknown,
        ece=unknown,
        alignment_error=0.01,
        calibrated_p=1.0,
        sentence="Too few to judge: 230 right and 10 wrong answers.",
    )
    measures = CalibrationMeasures(240, judgement, needed=1_000)
    point = AutomationAt(0.9, 0.8, 0.4, 0.95)
    return CalibrationReport(
        rows=RowsUsed(
            used=240,
            agreed=230,
            contradicted=10,
            by_source={"review": 240},
            seen_before=0,
            excluded={"not yet answered": 3},
            until=START,
            effective=240.0,
            original=OriginalRows(0, 0.0, "the model was started without history"),
        ),
        noise=ErrorsCorrected("none", {"default": GroupErrorRates(240, 0.0, 0.0)}),
        before=measures,
        after=measures,
        automation=AutomationChange(0.9, point, point),
        comparison=CalibratorComparison.tested(240, 0.01, 0.2),
        sending="The policy sends nothing, whatever the calibrator.",
        routes=RoutesChanged(
            documents=1,
            threshold=0.9,
            threshold_from="the policy",
            to_auto=RouteChanges(1, (RouteChange(_ids(), 0.8, 0.95),)),
            to_review=RouteChanges(0, ()),
        ),
        warnings=(),
    )


def calibration(of: ModelVersion, version: str = "sha256:learnt") -> Calibration:
    """Return a calibrator of a model, compared with the model's own."""
    return Calibration(
        id=_ids(),
        model_id=of.id,
        model_version=of.version,
        version=version,
        replaces="sha256:calibrator",
        location=version,
        noise=Noise.NONE,
        report=calibration_report(),
        requested_by=ADMIN.id,
        created_at=START,
    )


def reset(of: Trip) -> Reset:
    """Return what ended a trip, upon the owner's word."""
    return Reset(_ids(), of.id, None, ADMIN.id, START)


def outcome(
    of: Prediction, *labels: str, number: int = 1, source: str = "billing", minutes: float = 60
) -> Outcome:
    """Return what ``source`` reported an hour after the prediction, unless told otherwise."""
    return Outcome(
        id=_ids(),
        prediction_id=of.id,
        number=number,
        labels=labels,
        source=source,
        agreed=set(labels) == set(of.scored.labels),
        reported_by=CLIENT.id,
        created_at=of.created_at + timedelta(minutes=minutes),
    )


def model(version: str = "sha256:aa") -> ModelVersion:
    """Return a registered artifact that does not serve."""
    return ModelVersion(
        id=_ids(),
        version=version,
        location=version.removeprefix("sha256:"),
        summary={"method": "br-rerank", "metrics": {"set_accuracy": 0.871}},
        active=False,
        created_at=START,
    )


def key(role: Role = Role.CLIENT, *, digest: bytes = b"\x01" * 32, name: str = "billing") -> ApiKey:
    """Return an API key that is in use."""
    return ApiKey(_ids(), name, role, f"sw_{role}_abcd", digest, START)


def job(
    kind: str = "expire_leases", *, key: str | None = None, due_at: datetime = START, **rest: object
) -> Job:
    """Return a job that is due."""
    return replace(Job(_ids(), kind, key, due_at=due_at, created_at=START), **rest)


def message(document_key: str | None = None, *, client_id: str = CLIENT.id) -> Message:
    """Return a message about a document of its own, unless another one is named."""
    name = _ids()
    return Message(
        id=name,
        type=MessageType.PREDICTION_AUTO_SENT,
        client_id=client_id,
        document_key=document_key or name,
        data={"labels": ["a", "נפיחות"], "confidence": 0.1 + 0.2, "threshold": None},
        created_at=START,
    )


def endpoint(url: str = "https://billing.example/hooks", **fields: object) -> Endpoint:
    """Return an endpoint that takes every message."""
    plain = Endpoint(
        id=_ids(),
        url=url,
        description="billing",
        events=(),
        secrets=(SigningSecret("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"),),
        version=1,
        created_at=START,
    )
    return replace(plain, **fields)


def delivery(of: Message, to: Endpoint, **fields: object) -> Delivery:
    """Return a delivery that is due."""
    return replace(Delivery(_ids(), of, to.id, due_at=START, created_at=START), **fields)


def document_of(of: Prediction, check: Check | None = None) -> CheckedDocument:
    """Return a prediction as evidence."""
    scored = of.scored
    return CheckedDocument(
        id=of.id,
        client_id=of.client_id,
        name=of.name,
        scorer=Scorer(scored.model_version, scored.calibrator_version),
        confidence=scored.confidence,
        decision=of.decision,
        reason=of.reason,
        policy_version=of.policy_version,
        created_at=of.created_at,
        role=of.selection.role,
        draw=of.selection.draw,
        inclusion_probability=of.selection.inclusion_probability,
        audit_chance=of.selection.audit_chance,
        in_rest=of.selection.in_rest,
        check=check,
        reread_rate=None if check is None else check.reread_rate,
        reread_draw=None if check is None else check.reread_draw,
        segment=of.segment,
    )


Labels = tuple[str, ...]


def checked(
    name: str = "1",
    auditor: Labels | None = None,
    lead: Labels | None = None,
    *,
    labels: Labels = ("a",),
    answered: Labels | None = None,
    reviewer: bool | None = None,
    right: Labels | None = None,
    **fields: Any,  # Any: as in `CheckedDocument`
) -> CheckedDocument:
    """Return a document with what an auditor and a lead answered, if they did.

    ``labels``: The set in question.
    ``answered``: The one that was answered, if that is another one.
    ``reviewer``: Whether an ordinary review agreed.
    ``right``: The right set, if nobody's answer says it.
    """
    fields = {"draw": None, "reread_rate": 0.0, "reread_draw": 0.5} | fields
    given = labels if answered is None else answered
    drawn = fields["reread_draw"] < fields["reread_rate"]
    waits = auditor is not None and lead is None and (drawn or set(auditor) != set(given))
    said = lead or auditor
    known = said is not None or reviewer is not None
    check = Check(
        name,
        contradicted=False,
        answered_at=START,
        labels=right or said,
        reviewer_agreed=reviewer if said is None else set(said) == set(given),
        decided_at=START,
        waits=waits,
        audit_agreed=None if auditor is None else set(auditor) == set(given),
        audit_labels=auditor,
        lead_agreed=None if lead is None else set(lead) == set(given),
        lead_labels=lead,
        reread=lead is not None if auditor is not None and set(auditor) == set(given) else None,
        reread_rate=fields["reread_rate"],
        reread_draw=fields["reread_draw"],
    )
    usual = CheckedDocument(
        id=name,
        client_id="billing",
        name=name,
        scorer=Scorer("m", "c"),
        confidence=0.9,
        decision=Decision.REVIEW,
        reason=Reason.AUDIT,
        policy_version="p",
        created_at=START,
        role=AuditRole.CERTIFICATION,
        check=check if known else None,
        labels=labels,
        own=answered is None,
    )
    return usual._replace(**fields)
