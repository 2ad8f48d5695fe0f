"""After an erasure nothing of a document is found in the database, its files, or those of jobs."""

import csv
import gzip
import io
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import pytest
from sqlalchemy import text

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.errors import StorageDamaged, TracesLeft
from setwise.service.domain.jobs import ERASE_TRACES, Job, JobState
from setwise.service.domain.predictions import Document, IdempotencyKey, Prediction, Submission
from setwise.service.domain.reviews import Annotation, HeldDecision
from setwise.service.domain.webhooks import DeliveryAttempt, ReceiverResponse
from setwise.service.runtime.files import FolderOrObjectFiles
from setwise.service.runtime.worker import Interrupted, JobReport
from setwise.service.services.files import EXPORT, SCORING
from setwise.service.services.ports import Sink
from setwise.service.stores.transaction import Transactions
from tests.fakes import START as NOW
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH, places_of
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

MARK = "quuxword"
"""Occurs in everything that somebody wrote of the document."""


class Progress:
    def __call__(self, progress: float, message: str = "") -> None:
        assert 0 <= progress <= 1

    def checkpoint(self, state: Mapping[str, object]) -> None:
        self.state = state


@pytest.fixture
def clinic(begin: Transactions, tmp_path: Path) -> Clinic:
    """Return a clinic that keeps files of jobs in a folder."""
    return Clinic(begin, disk=FolderOrObjectFiles(str(tmp_path / "files")))


def ended_job(
    clinic: Clinic, kind: str, state: JobState = JobState.SUCCEEDED, **payload: object
) -> Job:
    instant = None if state in {JobState.QUEUED, JobState.RUNNING} else NOW
    job = Job(
        prediction().id, kind, None, NOW, NOW, payload, state,
        finished_at=instant, owner_id=CLIENT.id,
    )  # fmt: skip
    with clinic.begin() as transaction:
        assert transaction.jobs.enqueue(job)
    return job


def write(clinic: Clinic, name: str, content: bytes) -> None:
    with clinic.disk.create(name) as sink:
        sink.write(content)


def read(clinic: Clinic, name: str) -> bytes:
    with clinic.disk.open(name) as file:
        return file.read()


def erase(clinic: Clinic, name: str = f"{MARK}-17") -> int:
    return clinic.texts.erase(SYSTEM, document_id=name).predictions


def claimed(clinic: Clinic) -> Job:
    """Return the job that erases traces, in a worker's hands."""
    job = clinic.jobs.claim([ERASE_TRACES])
    assert job is not None
    return job


def run_traces(clinic: Clinic) -> int:
    """Do the work of the worker; return how many jobs there were."""
    count = 0
    while (job := clinic.jobs.claim([ERASE_TRACES])) is not None:
        clinic.jobs.succeed(job, clinic.texts.erase_traces(job, Progress()))
        count += 1
    return count


def found(clinic: Clinic) -> list[str]:
    """Return where the mark is found, byte by byte."""
    files = [path for path in folder(clinic).rglob("*") if path.is_file()]
    marked = [str(file) for file in files if MARK.encode() in file.read_bytes()]
    return places_of(clinic.engine, MARK) + marked


def folder(clinic: Clinic) -> Path:
    return Path(clinic.disk._root)


def everywhere(clinic: Clinic, name: str | None = f"{MARK}-17") -> Prediction:
    """Let a document leave traces wherever one can."""
    document = Document(name, f"the {MARK} is high " * 500, metadata={"ward": MARK})
    waiting = task(prediction(document=document))
    new_prediction = waiting.prediction
    key = IdempotencyKey(f"{MARK}-key", f"digest of {MARK}")
    told = endpoint()
    message = sent_message(new_prediction, prediction().id)
    under_way = delivery(message, told)
    held_task = waiting.claimed(ANN.id, NOW, timedelta(0)).skipped(ANN.id, f"says {MARK}", NOW)
    again = held_task.claimed("ben", NOW, timedelta(0))
    decision = HeldDecision(("a",), f"draft about {MARK}", "Ben", NOW, NOW)
    with clinic.begin() as transaction:
        transaction.predictions.add_all([(new_prediction, Submission(CLIENT, document, key))])
        transaction.reviews.add(waiting)
        transaction.reviews.save(held_task)
        transaction.reviews.save(again.decided("ben", again.version, decision, timedelta(0)))
        transaction.reviews.annotate(
            Annotation(
                id=prediction().id,
                task_id=waiting.id,
                prediction_id=new_prediction.id,
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
    scoring, exporting = (
        ended_job(clinic, SCORING),
        ended_job(clinic, EXPORT, wanted={"what": "predictions"}),
    )
    other = prediction().id
    rows = [
        {"line": 1, "prediction": {"id": new_prediction.id, "document_id": name or MARK}},
        {"line": 2, "prediction": {"id": other, "document_id": "other"}},
    ]
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    write(clinic, f"jobs/{scoring.id}/result/00000000.jsonl", lines)
    table = io.StringIO(newline="")
    csv.writer(table).writerows(
        [["id", "text"], [new_prediction.id, f"two\nlines of {MARK}"], [other, "other\nlines"]]
    )
    write(clinic, f"jobs/{exporting.id}/result/00000000.csv", table.getvalue().encode())
    return new_prediction


@ON_BOTH
@pytest.mark.parametrize("named", ["document", "prediction"])
def test_nothing_of_an_erased_document_is_found(clinic: Clinic, named: str) -> None:
    prediction = everywhere(clinic, f"{MARK}-17" if named == "document" else None)
    assert found(clinic)
    if named == "document":
        assert erase(clinic) == 1
    else:
        assert clinic.texts.erase(SYSTEM, prediction_id=prediction.id).predictions == 1
    assert run_traces(clinic) == 1
    assert found(clinic) == []
    (jsonl,) = folder(clinic).rglob("*.jsonl")
    assert [json.loads(line)["line"] for line in jsonl.read_bytes().splitlines()] == [2]
    (table,) = folder(clinic).rglob("*.csv")
    with table.open(newline="") as file:
        assert [row[1] for row in csv.reader(file)] == ["text", "other\nlines"]


@pytest.mark.parametrize("packed", [False, True])
def test_an_upload_that_failed_loses_the_line(clinic: Clinic, packed: bool) -> None:
    job = ended_job(clinic, SCORING, JobState.FAILED)
    name = f"jobs/{job.id}/upload/documents"
    lines = b'{"text": "a"}\n{"text": "%s"}\n{"text": "c"}\n' % MARK.encode()
    write(clinic, name, gzip.compress(lines) if packed else lines)
    document = Document(None, MARK)
    new_prediction = prediction(document=document)
    key = IdempotencyKey(f"{job.id}\n2", "digest")
    with clinic.begin() as transaction:
        transaction.predictions.add_all([(new_prediction, Submission(CLIENT, document, key))])
    clinic.texts.erase(SYSTEM, prediction_id=new_prediction.id)
    assert run_traces(clinic) == 1
    content = read(clinic, name)
    content = gzip.decompress(content) if packed else content
    assert content == b'{"text": "a"}\n\n{"text": "c"}\n'


def test_files_of_jobs_under_way_are_looked_at_again(clinic: Clinic) -> None:
    prediction = everywhere(clinic)
    under_way = ended_job(clinic, EXPORT, JobState.QUEUED, wanted={"what": "predictions"})
    erase(clinic)
    assert run_traces(clinic) == 1
    row = json.dumps({"id": prediction.id, "text": MARK}).encode()
    write(clinic, f"jobs/{under_way.id}/result/00000000.jsonl", row + b"\n")
    with clinic.begin() as transaction:
        transaction.jobs.change(under_way.cancelled(NOW))
    assert run_traces(clinic) == 0  # not yet
    clinic.now.advance(minutes=2)
    assert run_traces(clinic) == 1
    assert found(clinic) == []
    clinic.now.advance(minutes=2)
    assert run_traces(clinic) == 0


def test_a_job_that_stops_within_a_file_leaves_it_whole(clinic: Clinic) -> None:
    exported_job = ended_job(clinic, EXPORT, wanted={"what": "predictions"})
    new_prediction = prediction(document=Document("note-17", MARK))
    with clinic.begin() as transaction:
        add_predictions(transaction, new_prediction)
    name = f"jobs/{exported_job.id}/result/00000000.jsonl"
    write(clinic, name, b"a\n" * 9 + json.dumps({"id": new_prediction.id}).encode() + b"\n")
    before = read(clinic, name)
    erase(clinic, "note-17")
    job = claimed(clinic)
    left = 15  # more than there are files, fewer than there are lines to read and to write

    def stop(progress: float, message: str = "") -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Interrupted

    stop.checkpoint = lambda state: None  # type: ignore[attr-defined]  # as a report has
    with pytest.raises(Interrupted):
        clinic.texts.erase_traces(job, stop)  # type: ignore[arg-type]  # a function
    assert read(clinic, name) == before


class Meeting(FolderOrObjectFiles):
    """Files of which one is read when another worker comes."""

    come = staticmethod(lambda: None)

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        come, self.come = self.come, lambda: None
        come()
        with super().create(name) as sink:
            yield sink


def two_erased(clinic: Clinic) -> tuple[str, list[str]]:
    """Erase two documents of one exported file; return its name and their marks."""
    job = ended_job(clinic, EXPORT, wanted={"what": "predictions"})
    predictions = [prediction(document=Document(f"note-{n}", MARK)) for n in range(3)]
    with clinic.begin() as transaction:
        add_predictions(transaction, *predictions)
    name = f"jobs/{job.id}/result/00000000.jsonl"
    write(
        clinic, name, b"".join(json.dumps({"id": one.id}).encode() + b"\n" for one in predictions)
    )
    for one in predictions[:2]:
        clinic.texts.erase(SYSTEM, prediction_id=one.id)
    return name, [one.id for one in predictions]


@ON_BOTH
def test_two_workers_bring_back_no_row_that_the_other_has_removed(clinic: Clinic) -> None:
    name, ids = two_erased(clinic)
    files = Meeting(str(folder(clinic)))
    clinic.texts = replace(clinic.texts, files=files)
    files.come = lambda: run_traces(clinic)  # a second worker, while the first has read the file
    run_traces(clinic)
    assert json.loads(read(clinic, name))["id"] == ids[2]


def test_a_worker_that_lost_its_erasure_replaces_no_file(clinic: Clinic) -> None:
    """It wakes up with rows in mind that its successors have removed since."""
    name, ids = two_erased(clinic)
    files, first = Meeting(str(folder(clinic))), claimed(clinic)

    def sleep() -> None:
        clinic.now.advance(minutes=2)
        run_traces(clinic)

    files.come = sleep
    slow = replace(clinic.texts, files=files)
    with pytest.raises(Interrupted):
        slow.erase_traces(first, JobReport(first, clinic.jobs, threading.Event()))
    assert json.loads(read(clinic, name))["id"] == ids[2]


@pytest.fixture
def short_cells() -> Iterator[int]:
    """The limit with which the csv module begins; reading a table raises it."""
    before = csv.field_size_limit(2**17)
    yield 2**17
    csv.field_size_limit(before)


def test_a_cell_of_any_length_is_no_obstacle(clinic: Clinic, short_cells: int) -> None:
    new_prediction = everywhere(clinic)
    job = ended_job(clinic, EXPORT, wanted={"what": "predictions"})
    other = prediction().id
    rows = [
        [other, 'says ""\n"' + "x" * (short_cells + 1)],
        [new_prediction.id, f"\n{MARK}" + '\n"",' * short_cells],
        [other, "last"],
    ]
    table = io.StringIO(newline="")
    csv.writer(table).writerows(rows)
    name = f"jobs/{job.id}/result/00000000.csv"
    write(clinic, name, table.getvalue().encode())
    erase(clinic)
    assert run_traces(clinic) == 1
    assert found(clinic) == []
    kept = io.StringIO(newline="")
    csv.writer(kept).writerows([rows[0], rows[2]])
    assert read(clinic, name) == kept.getvalue().encode()


def test_what_a_dead_writer_left_is_deleted(clinic: Clinic) -> None:
    prediction = everywhere(clinic)
    job = ended_job(clinic, EXPORT, JobState.FAILED, wanted={"what": "predictions"})
    draft = folder(clinic) / f"jobs/{job.id}/result/00000000.csv.incoming"
    draft.parent.mkdir(parents=True)
    draft.write_text(f'{prediction.id},"cut off\nin {MARK}')
    assert clinic.disk.names(f"jobs/{job.id}/result") == []
    erase(clinic)
    run_traces(clinic)
    assert found(clinic) == []


class Broken(FolderOrObjectFiles):
    """Refuses to open some files."""

    def __init__(self, folder: Path, faults: Mapping[str, Exception]) -> None:
        super().__init__(str(folder))
        self.faults = dict(faults)

    def open(self, name: str) -> BinaryIO:
        if name in self.faults:
            raise self.faults[name]
        return super().open(name)


@ON_BOTH
def test_a_file_that_cannot_be_cleaned_keeps_no_other_from_it(clinic: Clinic) -> None:
    jobs = [ended_job(clinic, EXPORT, wanted={"what": "predictions"}) for _ in range(3)]
    names = [f"jobs/{job.id}/result/00000000.jsonl" for job in jobs]
    for name in names:
        write(clinic, name, b"{}\n")
    everywhere(clinic)  # whose files come later
    faults = [StorageDamaged("It is cut off."), PermissionError(MARK), UnicodeError(MARK)]
    files = Broken(folder(clinic), dict(zip(names, faults, strict=True)))
    texts = replace(clinic.texts, files=files)
    texts.erase(SYSTEM, document_id=f"{MARK}-17")
    job = claimed(clinic)
    progress = Progress()
    with pytest.raises(TracesLeft) as error:
        texts.erase_traces(job, progress)
    assert all(name in error.value.detail for name in names)
    assert MARK not in error.value.detail
    assert found(clinic) == []
    # Another attempt looks at these files only, and is an attempt for good if it gets no further.
    again = job.advanced(progress.state)
    del files.faults[names[0]]
    with pytest.raises(TracesLeft):
        texts.erase_traces(again, progress)
    assert again.advanced(progress.state) != again
    again = again.advanced(progress.state)
    with pytest.raises(TracesLeft):
        texts.erase_traces(again, progress)
    assert again.advanced(progress.state) == again
    files.faults.clear()
    assert texts.erase_traces(again, progress)["files"] == 2


class Closed(FolderOrObjectFiles):
    """May not look into one folder."""

    def __init__(self, root: Path, folder: str) -> None:
        super().__init__(str(root))
        self.closed = folder

    def names(self, folder: str) -> Sequence[str]:
        if folder == self.closed:
            raise PermissionError(MARK)
        return super().names(folder)


def test_a_folder_of_another_kind_keeps_no_file_from_it(clinic: Clinic) -> None:
    jobs = [ended_job(clinic, EXPORT, wanted={"what": "predictions"}) for _ in range(4)]
    results = [f"jobs/{job.id}/result" for job in jobs]
    root = folder(clinic)
    # A folder in place of a file, of a draft, a file in place of a folder, and a closed folder.
    (root / results[0] / "00000000.csv").mkdir(parents=True)
    (root / results[1] / "00000000.csv.incoming").mkdir(parents=True)
    for name in results[2:]:
        (root / name).parent.mkdir(parents=True)
    (root / results[2]).write_bytes(b"")
    (root / results[3]).mkdir()
    everywhere(clinic)  # whose files come later
    write(clinic, f"{results[1]}/00000001.jsonl", b"{}\n")
    texts = replace(clinic.texts, files=Closed(root, results[3]))
    texts.erase(SYSTEM, document_id=f"{MARK}-17")
    with pytest.raises(TracesLeft) as error:
        texts.erase_traces(claimed(clinic), Progress())
    assert all(name in error.value.detail for name in results)
    assert MARK not in error.value.detail
    assert found(clinic) == []


def test_a_damaged_upload_is_cleaned_as_far_as_it_goes(clinic: Clinic) -> None:
    failed_job = ended_job(clinic, SCORING, JobState.FAILED)
    name = f"jobs/{failed_job.id}/upload/documents"
    content = gzip.compress(b'{"text": "a"}\n{"text": "%s"}\n' % MARK.encode())
    write(clinic, name, content + gzip.compress(b'{"text": "c"}\n')[:-3])
    document = Document(None, MARK)
    new_prediction = prediction(document=document)
    with clinic.begin() as transaction:
        key = IdempotencyKey(f"{failed_job.id}\n2", "digest")
        transaction.predictions.add_all([(new_prediction, Submission(CLIENT, document, key))])
    clinic.texts.erase(SYSTEM, prediction_id=new_prediction.id)
    # Beside it lies a file that cannot be cleaned: another attempt gets no further.
    (folder(clinic) / f"jobs/{failed_job.id}/result/0.jsonl").mkdir(parents=True)
    job, progress = claimed(clinic), Progress()
    for number in range(3):
        with pytest.raises(TracesLeft):
            clinic.texts.erase_traces(job, progress)
        assert (job.advanced(progress.state) == job) == (number > 0)
        job = job.advanced(progress.state)
    assert gzip.decompress(read(clinic, name)).startswith(b'{"text": "a"}\n\n')


def test_an_export_of_the_audit_trail_stays_whole(clinic: Clinic) -> None:
    prediction = everywhere(clinic)
    job = ended_job(clinic, EXPORT, wanted={"what": "audit-events"})
    name = f"jobs/{job.id}/result/00000000.jsonl"
    row = json.dumps({"subject": prediction.id, "action": "prediction.created"}).encode() + b"\n"
    write(clinic, name, row)
    erase(clinic)
    run_traces(clinic)
    assert read(clinic, name) == row


def test_a_repeated_key_of_an_erased_document_makes_a_new_prediction(clinic: Clinic) -> None:
    everywhere(clinic)
    erase(clinic)
    with clinic.begin(read_only=True) as transaction:
        assert transaction.predictions.replayed([(CLIENT.id, f"{MARK}-key")]) == {}


@pytest.mark.parametrize("database_kind", ["postgresql"])
def test_postgresql_loses_the_bytes_when_its_tables_are_rewritten(clinic: Clinic) -> None:
    everywhere(clinic)
    erase(clinic)
    run_traces(clinic)
    with clinic.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM (FULL, ANALYZE)"))
        connection.execute(text("CHECKPOINT"))
        folder = Path(connection.execute(text("SHOW data_directory")).scalar_one())
        oid = connection.execute(
            text("SELECT oid FROM pg_database WHERE datname = current_database()")
        ).scalar_one()
    if not os.access(folder / "base" / str(oid), os.R_OK):
        message = f"the files of the PostgreSQL server cannot be read in {folder}"
        # The build server sets it, so that the search of the files never goes missing there.
        if os.environ.get("SETWISE_REQUIRE_POSTGRES"):
            pytest.fail(message)
        pytest.skip(message)
    files = list((folder / "base" / str(oid)).iterdir())
    assert len(files) > 100
    assert not [file for file in files if MARK.encode() in file.read_bytes()]
