"""After an erasure nothing of a document is found in the database, its files, or those of jobs."""

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.jobs import Job, JobState
from setwise.service.domain.predictions import Document, IdempotencyKey, Prediction, Submission
from setwise.service.domain.reviews import Annotation, HeldDecision
from setwise.service.domain.webhooks import DeliveryAttempt, ReceiverResponse
from setwise.service.runtime.files import FolderOrObjectFiles
from setwise.service.runtime.worker import Interrupted
from setwise.service.services.documents.texts import ERASE_TRACES, Texts
from setwise.service.services.files import EXPORT, SCORING
from setwise.service.stores.database import create, sqlite_path
from setwise.service.stores.transaction import Transactions
from tests.database import ON_BOTH
from tests.fakes import FakeClock, FakeIds
from tests.samples import (
    ANN,
    CLIENT,
    add_predictions,
    delivery,
    endpoint,
    prediction,
    sent_message,
    task,
)

NOW = FakeClock()()
MARK = "quuxword"
"""Occurs in everything that somebody wrote of the document."""


class Progress:
    def __call__(self, progress: float, message: str = "") -> None:
        assert 0 <= progress <= 1

    def checkpoint(self, state: object) -> None:
        raise NotImplementedError  # erasing traces begins again; it keeps no state to resume from


class World:
    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.begin, self.folder = engine, Transactions(engine), folder
        self.files = FolderOrObjectFiles(str(folder))
        self.clock = FakeClock()
        self.texts = Texts(self.begin, self.clock, FakeIds(0x3000_0000), self.files)

    def job(self, kind: str, state: JobState = JobState.SUCCEEDED, **payload: object) -> Job:
        ended = None if state in {JobState.QUEUED, JobState.RUNNING} else NOW
        made = Job(prediction().id, kind, None, NOW, NOW, payload, state=state, finished_at=ended)
        with self.begin() as transaction:
            assert transaction.jobs.enqueue(made)
        return made

    def write(self, name: str, content: bytes) -> None:
        with self.files.create(name) as sink:
            sink.write(content)

    def read(self, name: str) -> bytes:
        with self.files.open(name) as file:
            return file.read()

    def run_traces(self) -> int:
        """Do the work of the worker; returns how many jobs there were."""
        done = 0
        while True:
            with self.begin() as transaction:
                job = transaction.jobs.claim([ERASE_TRACES], self.clock(), timedelta(minutes=1))
            if job is None:
                return done
            result = self.texts.erase_traces(job, Progress())
            with self.begin() as transaction:
                transaction.jobs.save(job.succeeded(result, NOW), token=job.token)
            done += 1

    def found(self) -> list[str]:
        """Return where the mark is found, byte by byte."""
        places = []
        if self.engine.dialect.name == "sqlite":
            path = sqlite_path(self.engine)
            files = [*path.parent.glob(f"{path.name}*"), *self.folder.rglob("*")]
        else:
            files = list(self.folder.rglob("*"))
            with self.engine.connect() as connection:
                tables = connection.execute(
                    text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
                ).scalars()
                for name in list(tables):
                    rows = connection.execute(text(f'SELECT t::text FROM "{name}" t')).scalars()
                    if any(MARK in row for row in rows):
                        places.append(name)
        return places + [
            str(file) for file in files if file.is_file() and MARK.encode() in file.read_bytes()
        ]


@pytest.fixture
def world(engine: Engine, tmp_path: Path) -> Iterator[World]:
    return World(engine, tmp_path / "files")


def everywhere(world: World, name: str | None = f"{MARK}-17") -> Prediction:
    """Let a document leave traces wherever one can."""
    document = Document(name, f"the {MARK} is high " * 500, metadata={"ward": MARK})
    waiting = task(prediction(document=document))
    made = waiting.prediction
    key = IdempotencyKey(f"{MARK}-key", f"digest of {MARK}")
    told = endpoint()
    message = sent_message(made, prediction().id)
    under_way = delivery(message, told)
    held = waiting.claimed(ANN.id, NOW, timedelta(0)).skipped(ANN.id, f"says {MARK}", NOW)
    again = held.claimed("ben", NOW, timedelta(0))
    decision = HeldDecision(("a",), f"draft about {MARK}", "Ben", NOW, NOW)
    with world.begin() as transaction:
        transaction.predictions.add_all([(made, Submission(CLIENT, document, key))])
        transaction.reviews.add(waiting)
        transaction.reviews.save(held)
        transaction.reviews.save(again.decided("ben", again.version, decision, timedelta(0)))
        transaction.reviews.annotate(
            Annotation(
                id=prediction().id,
                task_id=waiting.id,
                prediction_id=made.id,
                reviewer=ANN.id,
                labels=("a",),
                comment=f"the {MARK} again",
                agreed=False,
                chosen_rank=None,
                suggestion_shown=True,
                seconds=1.0,
                created_at=NOW,
            )
        )
        transaction.outbox.add(message)
        transaction.endpoints.add(told)
        transaction.deliveries.add([under_way])
        answer = ReceiverResponse(NOW, 0.1, 500, f"what {MARK}?", None)
        transaction.deliveries.log([DeliveryAttempt(prediction().id, under_way.id, 1, answer)])
    scoring, exporting = world.job(SCORING), world.job(EXPORT, wanted={"what": "predictions"})
    other = prediction().id
    rows = [
        {"line": 1, "prediction": {"id": made.id, "document_id": name or MARK}},
        {"line": 2, "prediction": {"id": other, "document_id": "other"}},
    ]
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    world.write(f"jobs/{scoring.id}/result/00000000.jsonl", lines)
    table = io.StringIO(newline="")
    csv.writer(table).writerows(
        [["id", "text"], [made.id, f"two\nlines of {MARK}"], [other, "other\nlines"]]
    )
    world.write(f"jobs/{exporting.id}/result/00000000.csv", table.getvalue().encode())
    return made


@ON_BOTH
@pytest.mark.parametrize("named", ["document", "prediction"])
def test_nothing_of_an_erased_document_is_found(world: World, named: str) -> None:
    made = everywhere(world, f"{MARK}-17" if named == "document" else None)
    assert world.found()
    if named == "document":
        assert world.texts.erase(SYSTEM, document_id=f"{MARK}-17") == 1
    else:
        assert world.texts.erase(SYSTEM, prediction_id=made.id) == 1
    assert world.run_traces() == 1
    assert world.found() == []
    (jsonl,) = world.folder.rglob("*.jsonl")
    assert [json.loads(line)["line"] for line in jsonl.read_bytes().splitlines()] == [2]
    (table,) = world.folder.rglob("*.csv")
    with table.open(newline="") as file:
        assert [row[1] for row in csv.reader(file)] == ["text", "other\nlines"]


@pytest.mark.parametrize("packed", [False, True])
def test_an_upload_that_failed_loses_the_line(world: World, packed: bool) -> None:
    failed = world.job(SCORING, JobState.FAILED)
    name = f"jobs/{failed.id}/upload/documents"
    lines = b'{"text": "a"}\n{"text": "%s"}\n{"text": "c"}\n' % MARK.encode()
    world.write(name, gzip.compress(lines) if packed else lines)
    document = Document(None, MARK)
    made = prediction(document=document)
    key = IdempotencyKey(f"{failed.id}\n2", "digest")
    with world.begin() as transaction:
        transaction.predictions.add_all([(made, Submission(CLIENT, document, key))])
    world.texts.erase(SYSTEM, prediction_id=made.id)
    assert world.run_traces() == 1
    kept = world.read(name)
    kept = gzip.decompress(kept) if packed else kept
    assert kept == b'{"text": "a"}\n\n{"text": "c"}\n'


def test_files_of_jobs_under_way_are_looked_at_again(world: World) -> None:
    made = everywhere(world)
    under_way = world.job(EXPORT, JobState.QUEUED, wanted={"what": "predictions"})
    world.texts.erase(SYSTEM, document_id=f"{MARK}-17")
    assert world.run_traces() == 1
    row = json.dumps({"id": made.id, "text": MARK}).encode()
    world.write(f"jobs/{under_way.id}/result/00000000.jsonl", row + b"\n")
    with world.begin() as transaction:
        transaction.jobs.change(under_way.cancelled(NOW))
    assert world.run_traces() == 0  # not yet
    world.clock.advance(minutes=2)
    assert world.run_traces() == 1
    assert world.found() == []
    world.clock.advance(minutes=2)
    assert world.run_traces() == 0


def test_a_job_that_stops_within_a_file_leaves_it_whole(world: World) -> None:
    exported = world.job(EXPORT, wanted={"what": "predictions"})
    made = prediction(document=Document("note-17", MARK))
    with world.begin() as transaction:
        add_predictions(transaction, made)
    name = f"jobs/{exported.id}/result/00000000.jsonl"
    world.write(name, b"a\n" * 9 + json.dumps({"id": made.id}).encode() + b"\n")
    before = world.read(name)
    world.texts.erase(SYSTEM, document_id="note-17")
    with world.begin() as transaction:
        job = transaction.jobs.claim([ERASE_TRACES], world.clock(), timedelta(minutes=1))
    assert job is not None
    left = 15  # more than there are files, fewer than there are lines to read and to write

    def stop(progress: float, message: str = "") -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Interrupted

    with pytest.raises(Interrupted):
        world.texts.erase_traces(job, stop)  # type: ignore[arg-type]  # without checkpoints
    assert world.read(name) == before


def test_an_export_of_the_audit_trail_stays_whole(world: World) -> None:
    made = everywhere(world)
    exported = world.job(EXPORT, wanted={"what": "audit-events"})
    name = f"jobs/{exported.id}/result/00000000.jsonl"
    row = json.dumps({"subject": made.id, "action": "prediction.created"}).encode() + b"\n"
    world.write(name, row)
    world.texts.erase(SYSTEM, document_id=f"{MARK}-17")
    world.run_traces()
    assert world.read(name) == row


def test_a_repeated_key_of_an_erased_document_makes_a_new_prediction(world: World) -> None:
    everywhere(world)
    world.texts.erase(SYSTEM, document_id=f"{MARK}-17")
    with world.begin(read_only=True) as transaction:
        assert transaction.predictions.replayed([(CLIENT.id, f"{MARK}-key")]) == {}


def test_postgresql_loses_the_bytes_when_its_tables_are_rewritten(
    postgres_url: str, tmp_path: Path
) -> None:
    engine = create(postgres_url)
    world = World(engine, tmp_path / "files")
    everywhere(world)
    world.texts.erase(SYSTEM, document_id=f"{MARK}-17")
    world.run_traces()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM (FULL, ANALYZE)"))
        connection.execute(text("CHECKPOINT"))
        folder = Path(connection.execute(text("SHOW data_directory")).scalar_one())
        oid = connection.execute(
            text("SELECT oid FROM pg_database WHERE datname = current_database()")
        ).scalar_one()
    engine.dispose()
    if not os.access(folder / "base" / str(oid), os.R_OK):
        message = f"the files of the PostgreSQL server cannot be read in {folder}"
        # The build server sets it, so that the search of the files never goes missing there.
        if os.environ.get("SETWISE_REQUIRE_POSTGRES"):
            pytest.fail(message)
        pytest.skip(message)
    files = list((folder / "base" / str(oid)).iterdir())
    assert len(files) > 100
    assert not [file for file in files if MARK.encode() in file.read_bytes()]
