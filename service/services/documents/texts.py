"""Delete the texts of documents: after their time, or on request with every trace."""

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import BinaryIO, cast

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.errors import FieldFault, InvalidRequest, StorageUnavailable
from setwise.service.domain.files import GZIP_MAGIC
from setwise.service.domain.jobs import Job, result_folder, upload_folder
from setwise.service.domain.predictions import Decision
from setwise.service.domain.text import is_id
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.files import EXPORT, SCORING
from setwise.service.services.ports import FileStore, Progress

ERASE_TRACES = "erase_traces"
"""Kind of the jobs that remove an erased document from files and logs."""

LOOK_AGAIN = timedelta(minutes=1)
"""After this time, look at the files of jobs that had not ended."""

PURGED_AT_ONCE = 500
"""Documents purged in one transaction, which bounds how long other writers wait."""


INDEXED_AT_ONCE = 100
"""Texts whose words are indexed in one transaction, as above."""


@dataclass(frozen=True)
class Texts(Recorded):
    """The words of texts; deletion of texts, features, metadata, comments and names."""

    files: FileStore
    """Files of jobs, which may hold documents."""
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
    ) -> int:
        """Erase a document at once; return the number of its predictions.

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
                return 0
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
        return len(ids)

    def erase_traces(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Remove erased documents from files of jobs, the delivery log and SQLite's own log.

        If jobs are unfinished, which may hold the documents, the same is queued again.

        Raises `StorageUnavailable` if SQLite's log cannot be emptied now; the job is then retried.
        """
        ids = cast("list[str]", job.payload["predictions"])
        lines = cast("Mapping[str, list[int]]", job.payload["lines"])
        changed, unfinished = 0, False

        def pause() -> None:
            progress(0.5, f"{changed} files")

        for job_id in filter(is_id, self.files.names("jobs")):
            pause()
            with self.begin(read_only=True) as transaction:
                other = transaction.jobs.get(job_id)
            if other is None:  # an upload that no job has yet
                continue
            if not other.finished:
                unfinished |= other.created_at <= job.created_at
                continue
            changed += self._clean(other, ids, lines.get(job_id, []), pause)
        with self.begin() as transaction:
            transaction.texts.forget_answers(ids)
            transaction.texts.forget_words()
            unfinished |= transaction.jobs.any_unfinished((EXPORT, SCORING), job.created_at)
            if unfinished:
                again = self._job(job.payload, after=LOOK_AGAIN)
                transaction.jobs.enqueue(again)
        if not self.begin.empty_log():
            raise StorageUnavailable("Readers keep SQLite's write-ahead log from being emptied.")
        return {"files": changed}

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

    def _clean(
        self, job: Job, ids: Sequence[str], lines: Sequence[int], pause: Callable[[], None]
    ) -> int:
        """Remove rows of predictions from results, and lines from uploads."""
        changed = 0
        of_trail = job.kind == EXPORT and "audit-events" in str(job.payload.get("wanted"))
        folder = result_folder(job.id)
        for name in () if of_trail else self.files.names(folder):
            changed += self._clean_result(f"{folder}/{name}", ids, pause)
        folder = upload_folder(job.id)
        for name in self.files.names(folder) if lines else ():
            changed += self._clean_upload(f"{folder}/{name}", frozenset(lines), pause)
        return changed

    def _clean_result(self, name: str, ids: Sequence[str], pause: Callable[[], None]) -> bool:
        marks = [document_id.encode() for document_id in ids]
        with self.files.open(name) as file:
            if not any(mark in line for line in _lines(file, pause) for mark in marks):
                return False
        with self.files.open(name) as file, self.files.create(name) as sink:
            if name.endswith(".csv"):
                # A row may have several lines.
                names = frozenset(ids)
                for row in csv.reader(line.decode() for line in _lines(file, pause)):
                    if names.isdisjoint(row):
                        sink.write(_csv(row))
            else:
                for line in _lines(file, pause):
                    if not any(mark in line for mark in marks):
                        sink.write(line)
        return True

    def _clean_upload(self, name: str, lines: frozenset[int], pause: Callable[[], None]) -> bool:
        with self.files.open(name) as file, self.files.create(name) as sink:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            source = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
            for number, line in enumerate(_lines(source, pause), start=1):
                # An empty line is skipped, and the numbers of the others stay.
                shown = b"\n" if number in lines else line
                sink.write(gzip.compress(shown) if packed else shown)
        return True


def _lines(file: BinaryIO, pause: Callable[[], None]) -> Iterator[bytes]:
    for line in file:
        pause()
        yield line


def _csv(row: Sequence[str]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written).writerow(row)
    return written.getvalue().encode()


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
