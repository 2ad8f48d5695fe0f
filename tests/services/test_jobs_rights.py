"""A job reads what its caller may read, when it is made, when it runs and at download."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission, Role
from setwise.service.domain.errors import Forbidden
from setwise.service.domain.files import Exported, ExportRequest
from setwise.service.domain.jobs import Job
from setwise.service.domain.predictions import Document
from setwise.service.domain.recalibration import Options
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, CLIENT, LEAD, add_predictions, model, prediction
from tests.services.test_files import Worker

NARROW = frozenset({Permission.PREDICT, Permission.RUN_JOBS})
PREDICTIONS = ExportRequest(Exported.PREDICTIONS, content=True)


@pytest.fixture
def clinic() -> Clinic:
    clinic = Clinic()
    with clinic.begin() as transaction:
        for n in range(3):
            add_predictions(transaction, prediction(document=Document(f"n{n}", "secret")))
    return clinic


def key(clinic: Clinic, role: Role, scopes: frozenset[Permission] | None = None) -> Caller:
    return clinic.keys.create(SYSTEM, "key", role, scopes=scopes)[0].calling()


def person(clinic: Clinic, role: Role) -> Caller:
    password = "correct horse battery"
    new_person = clinic.people.create(SYSTEM, login="ann", name="Ann", role=role, password=password)
    return new_person.calling()


def claimed(clinic: Clinic, job: Job) -> Job:
    """Let a worker take a job."""
    held_job = clinic.jobs.claim([job.kind])
    assert held_job is not None
    assert held_job.id == job.id
    clinic.jobs.authorise(held_job)
    return held_job


def run(clinic: Clinic, job: Job) -> Job:
    held_job = claimed(clinic, job)
    return clinic.jobs.succeed(held_job, clinic.files.run_export(held_job, Worker()))


def read(clinic: Clinic, caller: Caller, job: Job) -> list[dict[str, Any]]:
    content = b"".join(clinic.jobs.result(caller, job.id).chunks)
    return [json.loads(line) for line in content.splitlines()]


def test_a_narrowed_key_exports_through_a_job_what_it_reads_directly(clinic: Clinic) -> None:
    narrow = key(clinic, Role.ADMIN, NARROW)
    assert b"".join(clinic.files.export(narrow, PREDICTIONS)) == b""
    job = clinic.files.submit_export(narrow, PREDICTIONS)
    assert read(clinic, narrow, run(clinic, job)) == []


def test_a_key_that_may_read_all_exports_all(clinic: Clinic) -> None:
    lead = key(clinic, Role.LEAD)
    job = run(clinic, clinic.files.submit_export(lead, PREDICTIONS))
    assert [row["text"] for row in read(clinic, lead, job)] == ["secret"] * 3


@pytest.mark.parametrize("now", [Role.REVIEWER, Role.CLIENT])
def test_a_job_stops_when_its_callers_rights_were_narrowed_before_it_ran(
    clinic: Clinic, now: Role
) -> None:
    lea = person(clinic, Role.LEAD)
    job = clinic.files.submit_export(lea, PREDICTIONS)
    with clinic.begin() as transaction:  # as a newer release or an identity provider could
        stored_person = transaction.people.get(lea.id)
        assert stored_person is not None
        transaction.people.save(replace(stored_person, role=now))
    with pytest.raises(Forbidden):
        run(clinic, job)


def test_a_job_of_a_revoked_expired_or_disabled_caller_does_not_run(clinic: Clinic) -> None:
    revoked_caller = key(clinic, Role.LEAD)
    expiring, _ = clinic.keys.create(
        SYSTEM, "k", Role.LEAD, expires_at=clinic.now() + timedelta(hours=1)
    )
    disabled_caller = person(clinic, Role.LEAD)
    for caller in (revoked_caller, expiring.calling(), disabled_caller, LEAD):
        job = clinic.files.submit_export(caller, PREDICTIONS)
        if caller is revoked_caller:
            clinic.keys.revoke(SYSTEM, caller.id)
        elif caller is disabled_caller:
            clinic.people.change(SYSTEM, caller.id, disabled=True)
        elif caller.id == expiring.id:
            clinic.now.advance(hours=2)
        with pytest.raises(Forbidden):
            clinic.jobs.authorise(job)


def test_a_result_is_refused_to_a_caller_who_may_not_read_its_rows(clinic: Clinic) -> None:
    lead = key(clinic, Role.LEAD)
    job = run(clinic, clinic.files.submit_export(lead, PREDICTIONS))
    inspector = key(clinic, Role.AUDITOR, frozenset({Permission.INSPECT}))
    assert clinic.jobs.get(inspector, job.id) == job
    for caller in (inspector, replace(lead, scopes=NARROW), replace(lead, role=Role.CLIENT)):
        with pytest.raises(Forbidden):
            clinic.jobs.result(caller, job.id)
    assert len(read(clinic, key(clinic, Role.AUDITOR), job)) == 3


def test_the_trail_in_a_result_is_only_for_who_may_read_the_trail(clinic: Clinic) -> None:
    admin = key(clinic, Role.ADMIN)
    request = ExportRequest(Exported.AUDIT_EVENTS)
    job = run(clinic, clinic.files.submit_export(admin, request))
    assert read(clinic, admin, job)
    others = frozenset(Permission) - {Permission.READ_AUDIT_TRAIL}
    with pytest.raises(Forbidden, match="read-audit-trail"):
        clinic.jobs.result(replace(admin, scopes=others), job.id)


def test_the_result_of_scoring_is_for_its_owner_and_for_who_reads_all(clinic: Clinic) -> None:
    client = key(clinic, Role.CLIENT)
    with clinic.files.receive(client) as upload:
        upload.write(b'{"text": "0.5"}\n')
    job, _ = clinic.files.submit_scoring(client, upload)
    held_job = claimed(clinic, job)
    with clinic.files.store.create(f"jobs/{job.id}/result/00000000.jsonl") as sink:
        sink.write(b"{}\n")
    clinic.jobs.succeed(held_job)
    assert read(clinic, client, job) == read(clinic, key(clinic, Role.AUDITOR), job) == [{}]
    with pytest.raises(Forbidden):
        clinic.jobs.result(key(clinic, Role.ADMIN, frozenset({Permission.INSPECT})), job.id)
    with pytest.raises(Forbidden):
        clinic.jobs.result(replace(client, scopes=frozenset({Permission.RUN_JOBS})), job.id)


def test_what_an_administrator_started_does_not_run_for_a_former_one(clinic: Clinic) -> None:
    ann = person(clinic, Role.ADMIN)
    with clinic.begin() as transaction:
        transaction.models.add(made := model())
        transaction.models.activate(made.id, clinic.now(), "019b7a0b-0000-7000-9000-0000000000aa")
    job = clinic.recalibration.request(ann, Options())
    held_job = claimed(clinic, job)
    clinic.keys.create(SYSTEM, "other", Role.ADMIN)
    clinic.people.change(SYSTEM, ann.id, role=Role.LEAD)
    with pytest.raises(Forbidden):
        clinic.jobs.authorise(held_job)


def test_the_services_own_jobs_run(clinic: Clinic) -> None:
    job = clinic.jobs.enqueue("upkeep")
    assert job is not None
    clinic.jobs.authorise(job)
    clinic.jobs.authorise(clinic.files.submit_export(SYSTEM, PREDICTIONS))


def test_texts_beside_annotations_are_for_who_reads_all_predictions(clinic: Clinic) -> None:
    reporter = replace(ADMIN, scopes=frozenset({Permission.REPORT, Permission.RUN_JOBS}))
    list(clinic.files.export(reporter, ExportRequest(Exported.ANNOTATIONS)))
    with pytest.raises(Forbidden, match="read-predictions"):
        clinic.files.export(reporter, ExportRequest(Exported.ANNOTATIONS, content=True))
    with pytest.raises(Forbidden):
        clinic.files.export(CLIENT, ExportRequest(Exported.ANNOTATIONS, content=True))
