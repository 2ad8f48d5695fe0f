"""Tasks of the worker for each kind of job, and their intervals."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from pydantic import TypeAdapter

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.certification import Certification
from setwise.service.domain.jobs import ERASE_TRACES, Job
from setwise.service.domain.labels import FOLLOW_LABEL, FORGET_LABEL
from setwise.service.domain.models import CertificationCandidate
from setwise.service.domain.recalibration import Options
from setwise.service.domain.routing.segments import value_of
from setwise.service.runtime.worker import JobReport, Task
from setwise.service.services.all import Services
from setwise.service.services.certification.attempts import CERTIFICATION
from setwise.service.services.files import EXPORT, SCORING
from setwise.service.services.models import COMPARE, RESCORE
from setwise.service.services.recalibration import CALIBRATION
from setwise.service.services.retraining import RETRAINING

EXPIRE_LEASES_EVERY = timedelta(seconds=30)
"""Claims take over expired leases without this; it keeps the counts of the queue correct."""

SETTLE_DECISIONS_EVERY = timedelta(seconds=10)
"""Decisions become final when a reviewer has made some more; this submits the last ones."""

CERTIFY_EVERY = timedelta(hours=1)
"""How often to check whether the audits can prove a threshold."""

RETRAIN_EVERY = timedelta(seconds=20)
"""How often to check whether there are enough new answers for the next model."""

WATCH_AUDITS_EVERY = timedelta(minutes=1)
"""Completed audits are checked at once; this finds documents that are never audited."""

SWEEP_FILES_EVERY = timedelta(hours=1)
PURGE_EVERY = timedelta(hours=1)


def tasks(services: Services) -> dict[str, Task]:
    """Return the worker's task for each kind of job."""

    def watch_audits() -> Mapping[str, object]:
        trip = services.breaker.watch()
        return {} if trip is None else {"trip_id": trip.id, "cause": trip.cause.value}

    def certify_if_due() -> Mapping[str, object]:
        return outcome_of(services.certification.certify_if_due())

    def retrain_if_due() -> Mapping[str, object]:
        job = services.retraining.request_if_due()
        return {} if job is None else {"job_id": job.id}

    return {
        "watch_audits": _recurring(watch_audits, WATCH_AUDITS_EVERY),
        "purge_texts": _counting("purged", services.texts.purge, PURGE_EVERY),
        "purge_responses": _counting("purged", services.idempotency.purge, PURGE_EVERY),
        ERASE_TRACES: Task(services.texts.erase_traces, long=True),
        "expire_leases": _counting("expired", services.queue.expire_leases, EXPIRE_LEASES_EVERY),
        "settle_decisions": _counting(
            "settled", services.reviews.submit_decisions, SETTLE_DECISIONS_EVERY
        ),
        "sweep_files": _counting("swept", services.jobs.sweep_files, SWEEP_FILES_EVERY),
        FOLLOW_LABEL: Task(services.labels.follow, long=True),
        FORGET_LABEL: Task(services.labels.forget, long=True),
        CERTIFICATION: Task(partial(_certify, services), long=True),
        "certify_if_due": _recurring(certify_if_due, CERTIFY_EVERY),
        CALIBRATION: Task(partial(_recalibrate, services), long=True),
        RETRAINING: Task(services.retraining.run, long=True),
        SCORING: Task(services.files.score, long=True),
        EXPORT: Task(services.files.run_export, long=True),
        COMPARE: Task(services.models.compare_recent, long=True),
        RESCORE: Task(services.models.rescore, long=True),
        "retrain_if_due": _recurring(retrain_if_due, RETRAIN_EVERY),
    }


def _recurring(run: Callable[[], Mapping[str, object]], every: timedelta) -> Task:
    return Task(lambda _job, _report: run(), every)


def _counting(name: str, count: Callable[[], int], every: timedelta) -> Task:
    return _recurring(lambda: {name: count()}, every)


_OPTIONS = TypeAdapter(Options)


def _recalibrate(services: Services, job: Job, report: JobReport) -> Mapping[str, object]:
    by = str(job.payload.get("requested_by", SYSTEM.id))
    options = _OPTIONS.validate_python(job.payload)
    calibration, why = services.recalibration.run(options, report, requested_by=by)
    return {
        "calibration_id": calibration.id,
        "calibrator_version": calibration.version,
        "active": calibration.active,
        "reason": why,
    }


def _certify(services: Services, job: Job, report: JobReport) -> Mapping[str, object]:
    by, model_id = str(job.payload.get("requested_by", SYSTEM.id)), job.payload.get("model_id")
    if model_id is not None:
        candidate = CertificationCandidate(
            str(model_id), job.payload.get("trained_on_audits") is not False
        )
        return outcome_of(services.certification.certify_model(candidate, report, by))
    report(0.1, "weighing the audits")
    segment = job.payload.get("segment")
    certification = services.certification.certify(by, None if segment is None else str(segment))
    return outcome_of(certification)


def outcome_of(attempts: Sequence[Certification]) -> Mapping[str, object]:
    """Return a job's result: the only attempt, or one for each segment."""
    results: list[dict[str, object]] = [
        {
            "certification_id": attempt.id,
            "threshold": attempt.threshold,
            "reason": attempt.reason,
            "further_audits": attempt.further_audits,
        }
        for attempt in attempts
    ]
    if not attempts or attempts[0].segment is None:
        return results[0] if results else {}
    named = zip(attempts, results, strict=True)
    return {"attempts": [{"segment": value_of(segment.segment), **each} for segment, each in named]}
