"""Score a whole file of documents: take it in, predict block by block, keep the result.

A worker that dies leaves a checkpoint, and each line is predicted under an idempotency key of its
own: whoever goes on from the checkpoint predicts no line twice.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self, cast

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import Caller, Permission, Role
from setwise.service.domain.errors import (
    FieldFault,
    IdempotencyMismatch,
    InvalidRequest,
    ModelUnavailable,
    ServiceError,
    StorageUnavailable,
    UploadTooLarge,
)
from setwise.service.domain.files import BadLine, document_in
from setwise.service.domain.jobs import Job, job_folder, result_folder, upload_folder
from setwise.service.domain.predictions import Document, IdempotencyKey, Prediction, Submission
from setwise.service.domain.text import text_faults
from setwise.service.services.ports import FileStore, Sink
from setwise.service.services.predictions import LONGEST_IDEMPOTENCY_KEY, Outcome, Predict
from setwise.service.services.rows import prediction_row
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transactions

SCORING = "scoring"
"""The kind of job."""

BLOCK = 256
"""Documents that are predicted together, between two checkpoints."""

GZIP_MAGIC = b"\x1f\x8b"


class Upload:
    """A file that a caller sends; without `SubmitScoring` it is forgotten."""

    def __init__(self, job_id: str, files: FileStore, max_bytes: int) -> None:
        self.job_id = job_id
        self.size = 0
        self._digest = hashlib.sha256()
        self._files = files
        self._max_bytes = max_bytes
        self._stack = ExitStack()
        self._sink: Sink | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of what came in, in hexadecimal."""
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        self._sink = self._stack.enter_context(self._files.create(_upload_of(self.job_id)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, content: bytes) -> None:
        """Take the next bytes; raises `UploadTooLarge` beyond the limit."""
        if self._sink is None:
            raise RuntimeError("the upload is not open")
        self.size += len(content)
        if self.size > self._max_bytes:
            raise UploadTooLarge(f"The file has more than the {self._max_bytes} bytes allowed.")
        self._digest.update(content)
        self._sink.write(content)


@dataclass(frozen=True)
class ReceiveUpload:
    """Transactions to take in a file."""

    files: FileStore
    new_id: NewId
    max_bytes: int

    def __call__(self, caller: Caller) -> Upload:
        """Return where to write it; the file is there when its ``with`` block ends well."""
        caller.require(Permission.PREDICT)
        return Upload(self.new_id(), self.files, self.max_bytes)


@dataclass(frozen=True)
class SubmitScoring:
    """Have the documents of an upload predicted, routed and queued in the background."""

    begin: Transactions
    now: Clock
    new_id: NewId
    files: FileStore

    def __call__(
        self,
        caller: Caller,
        upload: Upload,
        *,
        request_key: str | None = None,
        request_id: str | None = None,
    ) -> tuple[Job, bool]:
        """Return the job, and whether it is new: under one key the same file is scored once.

        Raises
        ------
        InvalidRequest
            If the file is empty or the key cannot be kept.
        IdempotencyMismatch
            If the key was used before for another file.
        """
        caller.require(Permission.PREDICT)
        kept = False
        try:
            _check(upload, request_key)
            now = self.now()
            job = Job(
                id=upload.job_id,
                kind=SCORING,
                key=None,
                due_at=now,
                created_at=now,
                owner_id=caller.id,
                request_key=request_key,
                payload={
                    "client_name": caller.name,
                    "bytes": upload.size,
                    "sha256": upload.digest,
                    "request_id": request_id,
                },
            )
            with self.begin() as transaction:
                kept = transaction.jobs.enqueue(job)
                if kept:
                    transaction.audit_trail.add(
                        Event.by(
                            caller,
                            "job.requested",
                            job.id,
                            id=self.new_id(),
                            at=now,
                            request_id=request_id,
                            kind=SCORING,
                            bytes=upload.size,
                            sha256=upload.digest,
                        )
                    )
                    transaction.commit()
                    return job, True
                before = transaction.jobs.requested(caller.id, request_key or "")
        finally:
            if not kept:
                self.files.remove(job_folder(upload.job_id))
        if before is None or before.payload.get("sha256") != upload.digest:
            raise IdempotencyMismatch(
                "This Idempotency-Key was used before for another file; use a new key."
            )
        return before, False


def _check(upload: Upload, request_key: str | None) -> None:
    faults = []
    if upload.size == 0:
        faults.append(FieldFault("", "is empty; send one JSON object a line"))
    if request_key is not None:
        pointer = "/header/Idempotency-Key"
        faults += text_faults(request_key, pointer, longest=LONGEST_IDEMPOTENCY_KEY)
    if faults:
        raise InvalidRequest("This file cannot be scored.", faults)


class Progress(Protocol):
    """Told how far a job is; raises when the job should stop."""

    def __call__(self, progress: float, message: str = "") -> None:
        """Say that ``progress``, in [0, 1], is done, and what comes now."""

    def checkpoint(self, state: Mapping[str, object]) -> None:
        """Keep ``state`` for whoever goes on."""


@dataclass(frozen=True)
class _Place:
    """How far a file is scored."""

    line: int = 0
    parts: int = 0
    documents: int = 0
    predicted: int = 0
    faulty: int = 0
    done: bool = False


@dataclass(frozen=True)
class ScoreFile:
    """Run a scoring job.

    Every document goes the way of a single one: it is routed, sent or queued, and audited. A line
    that holds no document, or one that cannot be predicted, has a problem in the result.

    Attributes
    ----------
    longest_line : int
        Bytes of a line beyond which it is not read.
    """

    predict: Predict
    files: FileStore
    longest_line: int

    def __call__(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Score what is left of the file; returns the counts.

        Raises
        ------
        InvalidRequest
            If the file is gone, or is damaged gzip.
        ModelUnavailable, StorageUnavailable
            If nothing can be predicted or stored for now; the job is then tried again.
        """
        place = _Place(**cast("dict[str, Any]", dict(job.checkpoint or {})))  # Any: as it was kept
        if not place.done:
            place = replace(self._score_rest(job, place, progress), done=True)
            progress.checkpoint(asdict(place))
        self.files.remove(upload_folder(job.id))  # it holds the documents, which nobody needs now
        return {
            "documents": place.documents,
            "predicted": place.predicted,
            "faulty": place.faulty,
            "location": f"/v1/jobs/{job.id}/result",
        }

    def _score_rest(self, job: Job, place: _Place, progress: Progress) -> _Place:
        total = max(1, cast("int", job.payload["bytes"]))
        try:
            with self.files.open(_upload_of(job.id)) as raw:
                for lines in _blocks(_lines(raw, self.longest_line), after=place.line):
                    progress(min(1.0, raw.tell() / total), f"{place.documents} documents")
                    place = self._score(job, place, lines)
                    progress.checkpoint(asdict(place))
        except FileNotFoundError as error:
            raise InvalidRequest("The uploaded file is no longer there.") from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InvalidRequest(
                f"The gzip data is cut off or damaged after line {place.line}; what came before "
                "is predicted."
            ) from error
        return place

    def _score(self, job: Job, place: _Place, lines: "Sequence[_Line]") -> _Place:
        caller = Caller(cast("str", job.owner_id), str(job.payload["client_name"]), Role.CLIENT)
        read = [(line, line.document()) for line in lines]
        submissions = [
            Submission(
                caller,
                document,
                # A line break cannot be in a header, so that no client's own key is the same.
                IdempotencyKey(f"{job.id}\n{line.number}", line.digest()),
                cast("str | None", job.payload.get("request_id")),
            )
            for line, document in read
            if not isinstance(document, BadLine)
        ]
        outcomes = iter(self.predict.together(submissions))
        rows = [
            {
                "line": line.number,
                **(_bad(document) if isinstance(document, BadLine) else _row(next(outcomes))),
            }
            for line, document in read
        ]
        predicted = sum("prediction" in row for row in rows)
        with self.files.create(f"{result_folder(job.id)}/{place.parts:08d}.jsonl") as sink:
            for row in rows:
                sink.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        return replace(
            place,
            line=lines[-1].number,
            parts=place.parts + 1,
            documents=place.documents + len(rows),
            predicted=place.predicted + predicted,
            faulty=place.faulty + len(rows) - predicted,
        )


def _row(outcome: Outcome) -> dict[str, object]:
    if isinstance(outcome, Prediction):
        return {"prediction": prediction_row(outcome)}
    if isinstance(outcome, ModelUnavailable | StorageUnavailable):
        raise outcome  # nothing is wrong with the document: try again later
    if isinstance(outcome, ServiceError):
        faults = outcome.faults if isinstance(outcome, InvalidRequest) else ()
        placed = [FieldFault(_placed(fault.pointer), fault.detail) for fault in faults]
        return _bad(BadLine(outcome.detail, tuple(placed)))
    raise outcome


def _placed(pointer: str) -> str:
    return pointer.removeprefix("/document")


def _bad(line: BadLine) -> dict[str, object]:
    return {"problem": {"detail": line.detail, "errors": [asdict(f) for f in line.faults]}}


@dataclass(frozen=True)
class _Line:
    number: int
    content: bytes | None

    def document(self) -> Document | BadLine:
        """Return the document or what is wrong with the line."""
        if self.content is None:
            return BadLine("The line is longer than any document may be.")
        return document_in(self.content)

    def digest(self) -> str:
        return hashlib.sha256(self.content or b"").hexdigest()


def _lines(raw: BinaryIO, longest: int) -> Iterator[_Line]:
    """Yield the lines that are not blank, numbered from 1; one too long has no content."""
    head = raw.read(2)
    raw.seek(0)
    file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if head == GZIP_MAGIC else raw
    number = 0
    while content := file.readline(longest + 1):
        number += 1
        if len(content) <= longest:
            if content.strip():
                yield _Line(number, content)
            continue
        while content and not content.endswith(b"\n"):
            content = file.readline(longest)
        yield _Line(number, None)


def _blocks(lines: Iterator[_Line], *, after: int) -> Iterator[list[_Line]]:
    block: list[_Line] = []
    for line in lines:
        if line.number <= after:
            continue
        block.append(line)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _upload_of(job_id: str) -> str:
    return f"{upload_folder(job_id)}/documents"
