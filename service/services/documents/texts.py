"""Delete the texts of documents: after their time, or on request with every trace."""

import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, BinaryIO, cast

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.errors import (
    FieldFault,
    InvalidRequest,
    ServiceError,
    StorageDamaged,
    StorageFull,
    StorageUnavailable,
    TracesLeft,
)
from setwise.service.domain.files import GZIP_MAGIC
from setwise.service.domain.jobs import ERASE_TRACES, Job, result_folder, upload_folder
from setwise.service.domain.predictions import Decision
from setwise.service.domain.text import is_id
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.files import EXPORT, SCORING
from setwise.service.services.ports import FileStore, Progress
from setwise.service.stores.database import WallClock
from setwise.shown import Shown

LOOK_AGAIN = timedelta(minutes=1)
"""After this time, look at the files of jobs that had not ended."""

PURGED_AT_ONCE = 500
"""Documents purged in one transaction, which bounds how long other writers wait."""


FAULTS_OF_FILES = (StorageDamaged, StorageFull, OSError, EOFError, ValueError, zlib.error)
"""Errors of one file, which the others do not share."""

MOST_NAMED = 20
"""Files that the error of a job names."""

INDEXED_AT_ONCE = 100
"""Texts whose words are indexed in one transaction, as above."""


@dataclass(frozen=True)
class Erasure(Shown):
    """What was erased."""

    predictions: int
    """Predictions of the document, by any client."""
    labels: tuple[str, ...] = ()
    """Labels that people gave first to the document and no lead has accepted. They may name a
    person: `DELETE /v1/admin/labels/{name}` removes one everywhere.
    """


@dataclass(frozen=True)
class _Cleaning:
    """How far an erased document is removed from the files of jobs."""

    after: str = ""
    """Jobs up to this id are done."""
    left: Sequence[str] = ()
    """Those of them that have a file which could not be cleaned."""
    changed: int = 0
    """Files."""
    unfinished: bool = False
    """Whether a job that had not ended may hold the document."""
    queued_again: bool = False


@dataclass(frozen=True)
class Texts(Recorded):
    """The words of texts; deletion of texts, features, metadata, comments and names."""

    now: WallClock
    files: FileStore
    """Files of jobs, which may hold documents."""
    forget_responses: Callable[[Collection[str]], None]
    """Deletes responses, kept to be repeated, that are about these predictions."""
    retain_auto: timedelta | None = None
    retain_reviewed: timedelta | None = None
    """How long to keep the texts of automatically sent and of reviewed documents; None keeps them
    indefinitely.
    """

    def index_words(self) -> bool:
        """Make new texts searchable by their words; return whether more may wait."""
        with self.begin(read_only=True) as transaction:  # does not block writers
            if not transaction.texts.unindexed:
                return False
        with self.begin() as transaction:
            return transaction.texts.index_words(INDEXED_AT_ONCE) == INDEXED_AT_ONCE

    # After their time

    def purge(self) -> int:
        """Erase texts whose retention has ended; return the number of documents.

        Labels, numbers and the audit trail stay. Documents that wait for review keep their text
        until the review is completed.
        """
        now = self.now()
        purged = 0
        for decision, days in (
            (Decision.AUTO, self.retain_auto),
            (Decision.REVIEW, self.retain_reviewed),
        ):
            if days is not None:
                purged += sum(self._purge(decision, now - days, now))
        if self.retain_auto is not None:
            self._purge_answers(now - self.retain_auto)
        if purged:
            with self.begin() as transaction:
                transaction.texts.forget_words()
            self.begin.empty_log()
        return purged

    def _purge(self, decision: Decision, before: datetime, now: datetime) -> Iterator[int]:
        after = None
        while True:
            with self.begin() as transaction:
                ids = transaction.texts.purgeable(
                    decision, before=before, after=after, limit=PURGED_AT_ONCE
                )
                if not ids:
                    return
                purged = transaction.texts.purge(ids, now)
                self._note(
                    transaction,
                    SYSTEM,
                    "texts.purged",
                    decision.value,
                    documents=purged,
                    before=before.isoformat(),
                )
            after = ids[-1]
            yield purged

    def _purge_answers(self, before: datetime) -> None:
        while True:
            with self.begin() as transaction:
                purged = transaction.texts.purge_answers(before, PURGED_AT_ONCE)
            if purged < PURGED_AT_ONCE:
                return

    # On request

    def erase(
        self, caller: Caller, *, document_id: str | None = None, prediction_id: str | None = None
    ) -> Erasure:
        """Erase a document at once.

        This deletes its text, features, metadata, comments, id and idempotency keys, even if it
        waits for review. The predictions stay as numbers without a name. A job removes it from
        the files of jobs.

        ``document_id``: The id that its sender gave the document; erases all its predictions, by
        any client.
        ``prediction_id``: Instead, one prediction, such as one whose document has no id.
        """
        caller.require(Permission.ADMINISTER)
        _check(document_id, prediction_id)
        with self.begin() as transaction:
            if document_id is not None:
                ids = transaction.texts.of_document(document_id)
            else:
                prediction = transaction.predictions.get(prediction_id or "")
                ids = [] if prediction is None else [prediction.id]
            if not ids:
                return Erasure(0)
            lines = transaction.texts.lines_of(ids)
            transaction.texts.purge(ids, self.now())
            transaction.texts.forget(ids)
            # The audit trail names the predictions, not the document.
            transaction.audit_trail.add_all(
                [
                    AuditEvent.by(
                        caller, "document.erased", named_id, id=self.new_id(), at=self.now()
                    )
                    for named_id in ids
                ]
            )
            transaction.jobs.enqueue(self._job({"predictions": ids, "lines": lines}))
            doubtful = tuple(each.label for each in transaction.labels.doubtful(ids))
        return Erasure(len(ids), doubtful)

    def erase_traces(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Remove erased documents from files of jobs, the delivery log and SQLite's own log.

        If jobs are unfinished, which may hold the documents, the same is queued again. A file that
        cannot be cleaned does not keep the others from it.

        Raises `TracesLeft` or `StorageFull` with the files that could not be cleaned;
        `StorageUnavailable` if SQLite's log cannot be emptied now. The job is then retried.
        """
        ids = cast("list[str]", job.payload["predictions"])
        lines = cast("Mapping[str, list[int]]", job.payload["lines"])
        done = _Cleaning(**cast("dict[str, Any]", dict(job.checkpoint or {})))  # Any: as stored
        with self.begin() as transaction:  # first, because no file can keep it from it
            transaction.texts.forget_answers(ids)
            transaction.texts.forget_words()
        self.forget_responses(ids)

        def pause() -> None:
            progress(0.5, f"{done.changed} files")

        def hold() -> None:
            progress.checkpoint(asdict(done))

        faults: dict[str, Exception] = {}
        names = sorted(filter(is_id, self.files.names("jobs")))
        rest = [*done.left, *(name for name in names if name > done.after)]
        for job_id in rest:
            pause()
            with self.begin(read_only=True) as transaction:
                other = transaction.jobs.get(job_id)
            if other is None:  # an upload that no job has yet
                continue
            wrong = dict[str, Exception]()
            if other.finished:
                changed = self._clean(other, ids, lines.get(job_id, []), pause, hold, wrong)
                done = replace(
                    done,
                    after=max(done.after, job_id),
                    left=sorted({*done.left} - {job_id} | ({job_id} if wrong else set())),
                    changed=done.changed + changed,
                )
                faults |= wrong
            elif other.created_at <= job.created_at:
                done = replace(done, unfinished=True)
            progress.checkpoint(asdict(done))
        with self.begin() as transaction:
            unfinished = transaction.jobs.any_unfinished((EXPORT, SCORING), job.created_at)
            if (done.unfinished or unfinished) and not done.queued_again:
                transaction.jobs.enqueue(self._job(job.payload, after=LOOK_AGAIN))
        progress.checkpoint(asdict(replace(done, queued_again=True)))
        if not self.begin.empty_log():
            raise StorageUnavailable("Readers keep SQLite's write-ahead log from being emptied.")
        if faults:
            raise _left(faults)
        return {"files": done.changed}

    def _job(self, payload: Mapping[str, object], *, after: timedelta = timedelta(0)) -> Job:
        now = self.now()
        return Job(
            id=self.new_id(),
            kind=ERASE_TRACES,
            key=None,
            due_at=now + after,
            created_at=now,
            payload=payload,
        )

    def _clean(  # noqa: PLR0917 -- called once
        self,
        job: Job,
        ids: Sequence[str],
        lines: Sequence[int],
        pause: Callable[[], None],
        hold: Callable[[], None],
        faults: dict[str, Exception],
    ) -> int:
        """Remove rows of predictions from results, and lines from uploads; count changed files.

        ``hold``: Raises if another worker has this job now, before a file is replaced: it may have
        gone on with the next erasure, whose rows the file that was read still has.
        ``faults``: Receives what is wrong with the files that could not be cleaned.
        """
        changed = 0

        def clean(folder: str, one: Callable[[str], bool]) -> None:
            nonlocal changed
            names: Sequence[str] = ()
            try:
                names = self.files.names(folder)
                self.files.tidy(folder)
            except FAULTS_OF_FILES as error:
                faults[folder] = error
            for name in names:
                try:
                    changed += one(f"{folder}/{name}")
                except FileNotFoundError:
                    continue  # its time was over
                except FAULTS_OF_FILES as error:
                    faults[f"{folder}/{name}"] = error

        of_trail = job.kind == EXPORT and "audit-events" in str(job.payload.get("wanted"))
        if not of_trail:
            clean(result_folder(job.id), lambda name: self._clean_result(name, ids, pause, hold))
        if lines:
            numbers = frozenset(lines)
            clean(
                upload_folder(job.id), lambda name: self._clean_upload(name, numbers, pause, hold)
            )
        return changed

    def _clean_result(
        self,
        name: str,
        ids: Sequence[str],
        pause: Callable[[], None],
        hold: Callable[[], None],
    ) -> bool:
        marks = [document_id.encode() for document_id in ids]
        with self.files.open(name) as file:
            if not any(mark in line for line in _lines(file, pause) for mark in marks):
                return False
        rows = _csv_rows if name.endswith(".csv") else _lines
        with self.files.open(name) as file, self.files.create(name) as sink:
            for row in rows(file, pause):
                if not any(mark in row for mark in marks):
                    sink.write(row)
            hold()
        return True

    def _clean_upload(
        self,
        name: str,
        lines: frozenset[int],
        pause: Callable[[], None],
        hold: Callable[[], None],
    ) -> bool:
        changed = False
        with self.files.open(name) as file, self.files.create(name) as sink:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            for number, line in enumerate(_upload_lines(file, pause, packed=packed), start=1):
                # An empty line is skipped, and the numbers of the others stay.
                shown = b"\n" if number in lines else line
                changed |= shown != line
                sink.write(gzip.compress(shown) if packed else shown)
            hold()
        return changed


def _left(faults: Mapping[str, Exception]) -> ServiceError:
    """Return the error that says which files still hold an erased document."""
    named = [
        # Other messages could quote a document.
        f"{name}: {error.detail if isinstance(error, ServiceError) else type(error).__name__}"
        for name, error in faults.items()
    ]
    more = f", and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    said = f"{len(named)} files may still hold the document: {'; '.join(named[:MOST_NAMED])}{more}"
    full = all(isinstance(error, StorageFull) for error in faults.values())
    return StorageFull(said) if full else TracesLeft(said)


def _lines(file: BinaryIO, pause: Callable[[], None]) -> Iterator[bytes]:
    for line in file:
        pause()
        yield line


def _upload_lines(file: BinaryIO, pause: Callable[[], None], *, packed: bool) -> Iterator[bytes]:
    """Yield the lines of an upload, as far as they can be unpacked: no job read more of them."""
    if not packed:
        yield from _lines(file, pause)
        return
    try:
        yield from _lines(cast("BinaryIO", gzip.GzipFile(fileobj=file)), pause)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return


def _csv_rows(file: BinaryIO, pause: Callable[[], None]) -> Iterator[bytes]:
    """Yield the rows of a CSV file as they are written; a quoted cell may have several lines.

    The module ``csv`` refuses cells above a limit that the whole process shares.
    """
    row = bytearray()
    inside = False
    for line in _lines(file, pause):
        row += line
        inside ^= line.count(b'"') % 2 == 1  # a quote within a cell is doubled
        if not inside:
            yield bytes(row)
            row.clear()
    if row:
        yield bytes(row)


def _check(document_id: str | None, prediction_id: str | None) -> None:
    if (document_id is None) == (prediction_id is None):
        fault = FieldFault("", "must name either a document or a prediction")
        raise InvalidRequest("Name the document to erase in one way.", [fault])
    if document_id is not None and (not document_id or "\x00" in document_id):
        fault = FieldFault("/document_id", "must be the id that its sender gave the document")
        raise InvalidRequest("No document has such an id.", [fault])
    if prediction_id is not None and not is_id(prediction_id):
        fault = FieldFault("/prediction_id", "must be the id of a prediction")
        raise InvalidRequest("No prediction has such an id.", [fault])
