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
from tests.building import files, jobs, keys, people, recalibration
from tests.fake_files import FakeFiles
from tests.fakes import FakeClock, FakeIds
from tests.samples import ADMIN, CLIENT, LEAD, add_predictions, model, prediction
from tests.services.test_files import Worker
from tests.sqlite import Database

NARROW = frozenset({Permission.PREDICT, Permission.RUN_JOBS})
PREDICTIONS = ExportRequest(Exported.PREDICTIONS, content=True)


class Office:
    """A database with predictions of a client, keys and people, and jobs that run."""

    def __init__(self) -> None:
        self.database, self.clock, ids = Database(), FakeClock(), FakeIds(0x7000_0000_0000)
        store = FakeFiles()
        self.keys = keys(self.database, self.clock, ids)
        self.people = people(self.database, self.clock, ids)
        self.files = files(self.database, self.clock, ids, store=store)
        self.jobs = jobs(self.database, self.clock, ids, files=store)
        self.recalibration = recalibration(self.database, self.clock, ids)
        with self.database() as transaction:
            for n in range(3):
                add_predictions(transaction, prediction(document=Document(f"n{n}", "secret")))

    def key(self, role: Role, scopes: frozenset[Permission] | None = None) -> Caller:
        key, _ = self.keys.create(SYSTEM, "key", role, scopes=scopes)
        return key.calling()

    def person(self, role: Role) -> Caller:
        made = self.people.create(
            SYSTEM, login="ann", name="Ann", role=role, password="correct horse battery"
        )
        return made.calling()

    def run(self, job: Job) -> Job:
        """Run a job as a worker does."""
        claimed = self.jobs.claim([job.kind])
        assert claimed is not None
        assert claimed.id == job.id
        self.jobs.authorise(claimed)
        return self.jobs.succeed(claimed, self.files.run_export(claimed, Worker()))

    def read(self, caller: Caller, job: Job) -> list[dict[str, Any]]:
        content = b"".join(self.jobs.result(caller, job.id).chunks)
        return [json.loads(line) for line in content.splitlines()]


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_narrowed_key_exports_through_a_job_what_it_reads_directly(office: Office) -> None:
    narrow = office.key(Role.ADMIN, NARROW)
    assert b"".join(office.files.export(narrow, PREDICTIONS)) == b""
    job = office.files.submit_export(narrow, PREDICTIONS)
    assert office.read(narrow, office.run(job)) == []


def test_a_key_that_may_read_all_exports_all(office: Office) -> None:
    lead = office.key(Role.LEAD)
    job = office.run(office.files.submit_export(lead, PREDICTIONS))
    assert [row["text"] for row in office.read(lead, job)] == ["secret"] * 3


@pytest.mark.parametrize("now", [Role.REVIEWER, Role.CLIENT])
def test_a_job_stops_when_its_callers_rights_were_narrowed_before_it_ran(
    office: Office, now: Role
) -> None:
    lea = office.person(Role.LEAD)
    job = office.files.submit_export(lea, PREDICTIONS)
    with office.database() as transaction:  # as a newer release or an identity provider could
        person = transaction.people.get(lea.id)
        assert person is not None
        transaction.people.save(replace(person, role=now))
    with pytest.raises(Forbidden):
        office.run(job)


def test_a_job_of_a_revoked_expired_or_disabled_caller_does_not_run(office: Office) -> None:
    revoked = office.key(Role.LEAD)
    expiring, _ = office.keys.create(
        SYSTEM, "k", Role.LEAD, expires_at=office.clock() + timedelta(hours=1)
    )
    disabled = office.person(Role.LEAD)
    for caller in (revoked, expiring.calling(), disabled, LEAD):
        job = office.files.submit_export(caller, PREDICTIONS)
        if caller is revoked:
            office.keys.revoke(SYSTEM, caller.id)
        elif caller is disabled:
            office.people.change(SYSTEM, caller.id, disabled=True)
        elif caller.id == expiring.id:
            office.clock.advance(hours=2)
        with pytest.raises(Forbidden):
            office.jobs.authorise(job)


def test_a_result_is_refused_to_a_caller_who_may_not_read_its_rows(office: Office) -> None:
    lead = office.key(Role.LEAD)
    job = office.run(office.files.submit_export(lead, PREDICTIONS))
    inspector = office.key(Role.AUDITOR, frozenset({Permission.INSPECT}))
    assert office.jobs.get(inspector, job.id) == job
    for caller in (inspector, replace(lead, scopes=NARROW), replace(lead, role=Role.CLIENT)):
        with pytest.raises(Forbidden):
            office.jobs.result(caller, job.id)
    assert len(office.read(office.key(Role.AUDITOR), job)) == 3


def test_the_trail_in_a_result_is_only_for_who_may_read_the_trail(office: Office) -> None:
    admin = office.key(Role.ADMIN)
    wanted = ExportRequest(Exported.AUDIT_EVENTS)
    job = office.run(office.files.submit_export(admin, wanted))
    assert office.read(admin, job)
    others = frozenset(Permission) - {Permission.READ_AUDIT_TRAIL}
    with pytest.raises(Forbidden, match="read-audit-trail"):
        office.jobs.result(replace(admin, scopes=others), job.id)


def test_the_result_of_scoring_is_for_its_owner_and_for_who_reads_all(office: Office) -> None:
    client = office.key(Role.CLIENT)
    with office.files.receive(client) as upload:
        upload.write(b'{"text": "0.5"}\n')
    job, _ = office.files.submit_scoring(client, upload)
    claimed = office.jobs.claim([job.kind])
    assert claimed is not None
    office.jobs.authorise(claimed)
    with office.files.store.create(f"jobs/{job.id}/result/00000000.jsonl") as sink:
        sink.write(b"{}\n")
    office.jobs.succeed(claimed)
    assert office.read(client, job) == office.read(office.key(Role.AUDITOR), job) == [{}]
    with pytest.raises(Forbidden):
        office.jobs.result(office.key(Role.ADMIN, frozenset({Permission.INSPECT})), job.id)
    with pytest.raises(Forbidden):
        office.jobs.result(replace(client, scopes=frozenset({Permission.RUN_JOBS})), job.id)


def test_what_an_administrator_started_does_not_run_for_a_former_one(office: Office) -> None:
    ann = office.person(Role.ADMIN)
    with office.database() as transaction:
        transaction.models.add(made := model())
        transaction.models.activate(made.id, office.clock(), "019b7a0b-0000-7000-9000-0000000000aa")
    job = office.recalibration.request(ann, Options())
    claimed = office.jobs.claim([job.kind])
    assert claimed is not None
    office.jobs.authorise(claimed)
    office.keys.create(SYSTEM, "other", Role.ADMIN)
    office.people.change(SYSTEM, ann.id, role=Role.LEAD)
    with pytest.raises(Forbidden):
        office.jobs.authorise(claimed)


def test_the_services_own_jobs_run(office: Office) -> None:
    job = office.jobs.enqueue("upkeep")
    assert job is not None
    office.jobs.authorise(job)
    office.jobs.authorise(office.files.submit_export(SYSTEM, PREDICTIONS))


def test_texts_beside_annotations_are_for_who_reads_all_predictions(office: Office) -> None:
    reporter = replace(ADMIN, scopes=frozenset({Permission.REPORT, Permission.RUN_JOBS}))
    list(office.files.export(reporter, ExportRequest(Exported.ANNOTATIONS)))
    with pytest.raises(Forbidden, match="read-predictions"):
        office.files.export(reporter, ExportRequest(Exported.ANNOTATIONS, content=True))
    with pytest.raises(Forbidden):
        office.files.export(CLIENT, ExportRequest(Exported.ANNOTATIONS, content=True))
