"""Score uploaded files of documents, and export stored rows as files.

Scoring stores a checkpoint after each block and gives each line an idempotency key, so a worker
that resumes after a crash predicts no line twice. An export keeps one page of rows in memory. A job
reads all pages in one snapshot of the database; a streamed export holds no connection between two
pages, because its reader decides how long that takes.
"""

import gzip
import hmac
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast

from setwise.models.parallel import ahead
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission, Role
from setwise.service.domain.documents import ShownPrediction
from setwise.service.domain.files import (
    LONGEST_EXPORT_S,
    PERMISSIONS_TO_EXPORT,
    BadLine,
    Exported,
    ExportRequest,
    Format,
    Row,
    UploadedLine,
    annotation_row,
    content_row,
    event_row,
    header,
    lines,
    outcome_row,
    read_blocks,
)
from setwise.service.domain.jobs import Job, job_folder, result_folder, upload_folder
from setwise.service.domain.predictions import (
    Accepted,
    Document,
    IdempotencyKey,
    Refused,
    Submission,
    SubmissionOutcome,
)
from setwise.service.domain.reports import Span
from setwise.service.domain.text import text_faults
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import (
    FileStore,
    Predictor,
    PredictorSource,
    Progress,
    Sink,
    Workers,
)
from setwise.service.services.predictions import (
    LONGEST_IDEMPOTENCY_KEY,
    Score,
    Scores,
    disclose_all,
    scores,
    visible_to,
)
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction
from setwise.shown import members

SCORING = "scoring"
EXPORT = "export"
"""Kinds of jobs."""

BLOCK = 256
"""Documents predicted together, between two checkpoints."""

LONGEST_FAULT = 300
"""Characters of the first problem that a job shows."""

PAGE, PAGE_WITH_CONTENT = 500, 50
"""Rows of an export that are in memory together; documents may be large."""

PART_S = 2.0
"""Seconds of an export that are lost at most if its worker dies."""

ReadPage = Callable[[str | None], list[Row]]
"""Returns the page of rows after an id."""


class Upload:
    """A file that is being uploaded for a job; ``secret`` keys its digest."""

    def __init__(self, job_id: str, sink: Sink, max_bytes: int, secret: bytes) -> None:
        self.job_id = job_id
        self.size = 0
        self._digest = hmac.new(secret, digestmod="sha256")
        self._sink = sink
        self._max_bytes = max_bytes

    @property
    def digest(self) -> str:
        """The HMAC-SHA-256 of the content, in hexadecimal: it may be one short line."""
        return self._digest.hexdigest()

    def write(self, content: bytes) -> None:
        """Write the next bytes; raises `UploadTooLarge` beyond the limit."""
        self.size += len(content)
        if self.size > self._max_bytes:
            raise errors.UploadTooLarge(
                f"The file has more than the {self._max_bytes} bytes allowed."
            )
        self._digest.update(content)
        self._sink.write(content)


@dataclass(frozen=True)
class _Place:
    """Progress of scoring a file."""

    line: int = 0
    parts: int = 0
    documents: int = 0
    predicted: int = 0
    faulty: int = 0
    first_fault: str = ""
    """The first problem of a line, for people."""
    done: bool = False


@dataclass(frozen=True)
class _ExportPlace:
    """Progress of an export."""

    after: str | None = None
    """The last row that is written."""
    last: str | None = None
    """The last row of the export; None before it begins."""
    parts: int = 0
    rows: int = 0
    done: bool = False


class _Block(NamedTuple):
    """Lines of a file, with their documents or what is wrong with them."""

    read: Sequence[tuple[UploadedLine, Document | BadLine]]
    score: Score | None = None


@dataclass(frozen=True)
class Files(Recorded):
    """Uploads of documents to score, and exports of rows."""

    now: LeaseClock
    store: FileStore
    predict: Callable[[Sequence[Submission], Score | None], Sequence[SubmissionOutcome]]
    """Predicts documents together; returns the outcome of each."""
    predictors: PredictorSource
    max_upload_bytes: int
    """Largest upload, in bytes."""
    longest_line: int
    """Longest line that is read, in bytes."""
    secret: bytes = field(repr=False)
    """Keys the digests of files and of their lines."""
    workers: Callable[[], AbstractContextManager[Workers | None]] = nullcontext
    """Connects to processes that score documents of files; None: this one does. Raises
    `ModelUnavailable`.
    """
    stopwatch: Callable[[], float] = time.monotonic
    """Returns monotonic time in seconds."""

    # Scoring

    @contextmanager
    def receive(self, caller: Caller) -> Iterator[Upload]:
        """Yield a file for writing, which is deleted if the block fails."""
        caller.require(Permission.PREDICT)
        job_id = self.new_id()
        try:
            with self.store.create(_upload_path(job_id)) as sink:
                yield Upload(job_id, sink, self.max_upload_bytes, self.secret)
        except BaseException:
            self.store.remove(job_folder(job_id))
            raise

    def submit_scoring(
        self, caller: Caller, upload: Upload, *, request_key: str | None = None
    ) -> tuple[Job, bool]:
        """Queue a job that predicts the documents of an upload.

        Returns the job and whether it is new: with one key, the same file is scored once.

        Raises `InvalidRequest` if the file is empty or the key cannot be stored;
        `IdempotencyMismatch` if the key was already used for another file.
        """
        caller.require(Permission.PREDICT)
        queued = False
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
                    "digest": upload.digest,
                    "request_id": caller.request_id,
                },
            )
            with self.begin() as transaction:
                queued = transaction.jobs.enqueue(job)
                if queued:
                    self._note(
                        transaction,
                        caller,
                        "job.requested",
                        job.id,
                        kind=SCORING,
                        bytes=upload.size,
                    )
                    return job, True
                before = transaction.jobs.requested(caller.id, request_key or "")
        finally:
            if not queued:
                self.store.remove(job_folder(upload.job_id))
        if before is None or before.payload.get("digest") != upload.digest:
            raise errors.IdempotencyMismatch(
                "This Idempotency-Key was used before for another file; use a new key."
            )
        return before, False

    def score(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Run a scoring job from its checkpoint; return the counts.

        Every document is routed, sent or queued, and audited like a single one. If a line has no
        valid document, or one that cannot be predicted, the result describes the problem.

        Raises `InvalidRequest` if the file is missing, is damaged gzip, has too many lines or
        bytes, or if none of its documents could be predicted; `ModelUnavailable` or
        `StorageUnavailable` if predictions cannot be made or stored now, or a cluster to make them
        does not answer; the job is then retried.
        """
        place = _Place(**cast("dict[str, Any]", dict(job.checkpoint or {})))  # Any: as stored
        if not place.done:
            place = replace(self._score_rest(job, place, progress), done=True)
            progress.checkpoint(asdict(place))
        # The predictions contain the documents now.
        self.store.remove(upload_folder(job.id))
        if not place.predicted:
            raise errors.InvalidRequest(_nothing_predicted(place))
        counts = {
            "documents": place.documents,
            "predicted": place.predicted,
            "faulty": place.faulty,
            "location": f"/v1/jobs/{job.id}/result",
        }
        if not place.faulty:
            return counts
        fault = f"Finished with errors: {place.faulty} of {place.documents} documents refused."
        return {**counts, "message": f"{fault} {place.first_fault}"}

    def _score_rest(self, job: Job, place: _Place, progress: Progress) -> _Place:
        total = max(1, cast("int", job.payload["bytes"]))
        try:
            with self.store.open(_upload_path(job.id)) as raw, self.workers() as workers:
                blocks = read_blocks(raw, after=place.line, size=BLOCK, longest=self.longest_line)
                begun = ((raw.tell(), self._begun(workers, block)) for block in blocks)
                for position, block in ahead(begun, workers.ahead if workers else int):
                    progress(min(1.0, position / total), f"{place.documents} documents")
                    if block.read:
                        place = self._predict(job, place, block)
                        progress.checkpoint(asdict(place))
        except FileNotFoundError as error:
            raise errors.InvalidRequest("The uploaded file is no longer there.") from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise errors.InvalidRequest(
                f"The gzip data is cut off or damaged after line {place.line}; what came before "
                "is predicted."
            ) from error
        return place

    def _begun(self, workers: Workers | None, lines: Sequence[UploadedLine]) -> _Block:
        if not lines:
            return _Block([])
        active = self._active()
        external = active is not None and active.external
        read = [(line, line.document(answered=external)) for line in lines]
        if workers is None or active is None:
            return _Block(read)
        documents = [document for _, document in read if not isinstance(document, BadLine)]
        collect = workers.begin(_scores, active, documents)

        def score(part: Sequence[Document]) -> Scores:
            by_identity = dict(zip(map(id, documents), collect(), strict=True))
            return [by_identity[id(document)] for document in part]

        return _Block(read, score)

    def _active(self) -> Predictor | None:
        try:
            return self.predictors.active()
        except errors.NoModel:
            return None

    def _predict(self, job: Job, place: _Place, block: _Block) -> _Place:
        caller = Caller(
            cast("str", job.owner_id),
            str(job.payload["client_name"]),
            Role.CLIENT,
            request_id=cast("str | None", job.payload.get("request_id")),
        )
        submissions = [
            Submission(
                caller,
                document,
                # No client can send this key, because a header cannot contain a line break.
                IdempotencyKey(f"{job.id}\n{line.number}", line.digest(self.secret)),
            )
            for line, document in block.read
            if not isinstance(document, BadLine)
        ]
        outcomes = iter(self.predict(submissions, block.score))
        rows = [
            {
                "line": line.number,
                **(_problem(document) if isinstance(document, BadLine) else _row(next(outcomes))),
            }
            for line, document in block.read
        ]
        predicted = sum("prediction" in row for row in rows)
        with self.store.create(f"{result_folder(job.id)}/{place.parts:08d}.jsonl") as sink:
            sink.write(lines(Format.JSON_LINES, rows))
        return replace(
            place,
            line=block.read[-1][0].number,
            parts=place.parts + 1,
            documents=place.documents + len(rows),
            predicted=place.predicted + predicted,
            faulty=place.faulty + len(rows) - predicted,
            first_fault=place.first_fault or _first_fault(rows),
        )

    # Exports

    def export(self, caller: Caller, request: ExportRequest) -> Iterator[bytes]:
        """Return the parts of an export; raise errors before the first part.

        Clients get their own predictions and outcomes. Leads and administrators get those of all
        clients, and annotations. Only administrators get the audit trail. The export has the rows
        that exist now, each as it is when its part is read.

        Raises `Forbidden` or `InvalidRequest` if the caller may not read these rows, or the request
        is invalid; `BlindReviewHeld` if the caller holds a blind review.
        """
        client_id = _exported_client(caller, request)
        with self.begin() as transaction:
            if request.what is not Exported.AUDIT_EVENTS:
                disclose_all(transaction, self.now, caller)
            self._note(transaction, caller, "export.read", request.what.value, **request.as_json())
            last = transaction.history.last_id(request.what)

        def read(after: str | None) -> list[Row]:
            with self.begin(read_only=True) as transaction:
                return _page(transaction, request, client_id, after)

        return self._parts(request, read, last or "")

    def submit_export(self, caller: Caller, request: ExportRequest) -> Job:
        """Queue an export job; raises the errors of `export`."""
        caller.require(Permission.RUN_JOBS)
        client_id = _exported_client(caller, request)
        now = self.now()
        job = Job(
            id=self.new_id(),
            kind=EXPORT,
            key=None,
            due_at=now,
            created_at=now,
            owner_id=caller.id,
            payload={"client_id": client_id, "wanted": request.as_json()},
        )
        with self.begin() as transaction:
            transaction.jobs.enqueue(job)
            self._note(
                transaction, caller, "job.requested", job.id, kind=EXPORT, **request.as_json()
            )
        return job

    def run_export(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Run an export job from its checkpoint; return the number of rows.

        It has the rows that exist when it first runs, read in one snapshot of the database; after
        an interruption, the rest is read in another one.
        """
        payload = cast("dict[str, Any]", dict(job.payload))  # Any: JSON of `submit_export`
        request = ExportRequest.from_json(payload["wanted"])
        place = _ExportPlace(**cast("dict[str, Any]", dict(job.checkpoint or {})))  # Any: as stored
        with self.begin(read_only=True, snapshot=True) as transaction:
            if place.last is None:
                last = transaction.history.last_id(request.what) or ""
                place = replace(place, after=request.after, last=last)
            read = partial(_page, transaction, request, payload.get("client_id"))
            pages = _pages(request, read, place.after, until=place.last or "")
            while not place.done:
                place = self._export_part(job, request, place, pages, progress)
                progress.checkpoint(asdict(place))
        return {"rows": place.rows, "location": f"/v1/jobs/{job.id}/result"}

    def _export_part(
        self,
        job: Job,
        request: ExportRequest,
        place: _ExportPlace,
        pages: Iterator[Sequence[Row]],
        progress: Progress,
    ) -> _ExportPlace:
        """Write a file with the pages of the next few seconds; return the place after it."""
        started = self.stopwatch()
        written = replace(place, parts=place.parts + 1, done=True)
        name = f"{result_folder(job.id)}/{place.parts:08d}.{request.written.value}"
        with self.store.create(name) as sink:
            if place.parts == 0:
                sink.write(header(request.written, request.columns))
            for rows in pages:
                sink.write(lines(request.written, rows))
                total = written.rows + len(rows)
                written = replace(written, rows=total, after=str(rows[-1]["id"]))
                progress(0.5, f"{total} rows")
                if self.stopwatch() - started > PART_S:
                    written = replace(written, done=False)
                    break
            # Raises if another worker has the job, whose files this one must not replace.
            progress.checkpoint(asdict(place))
        return written

    def _parts(self, request: ExportRequest, read: ReadPage, until: str) -> Iterator[bytes]:
        started = self.stopwatch()

        def read_in_time(after: str | None) -> list[Row]:
            if after != request.after and self.stopwatch() - started > LONGEST_EXPORT_S:
                raise errors.StorageSlow(
                    f"The export took longer than {LONGEST_EXPORT_S:.0f} s and was cut off; "
                    "go on after the last row that you have."
                )
            return read(after)

        yield header(request.written, request.columns)
        for rows in _pages(request, read_in_time, request.after, until=until):
            yield lines(request.written, rows)


def _pages(
    request: ExportRequest, read: ReadPage, after: str | None, *, until: str
) -> Iterator[Sequence[Row]]:
    """Yield pages of rows after an id and up to another one, without an empty one."""
    while True:
        rows = [row for row in read(after) if str(row["id"]) <= until]
        if rows:
            yield rows
        if len(rows) < _page_size(request):
            return
        after = str(rows[-1]["id"])


def _scores(predictor: Predictor, documents: Sequence[Document]) -> Scores:
    """Return results, or raise what may be the fault of the worker, not of a document."""
    outcomes = scores(predictor, documents)
    for outcome in outcomes:
        if isinstance(outcome, Refused) and not isinstance(outcome.error, errors.ServiceError):
            raise outcome.error
    return outcomes


def _first_fault(rows: Sequence[Mapping[str, Any]]) -> str:  # Any: rows of a result
    """Return the first problem of a result's rows in words; "" without one."""
    for row in rows:
        if "problem" in row:
            faults = [f"{fault['pointer']} {fault['detail']}" for fault in row["problem"]["errors"]]
            named = f" ({faults[0].strip()})" if faults else ""
            return f"Line {row['line']}: {row['problem']['detail']}{named}"[:LONGEST_FAULT]
    return ""


def _nothing_predicted(place: _Place) -> str:
    if not place.documents:
        return "The file holds no documents."
    return f"None of the {place.documents} documents could be predicted. {place.first_fault}"


def _upload_path(job_id: str) -> str:
    return f"{upload_folder(job_id)}/documents"


def _check(upload: Upload, request_key: str | None) -> None:
    faults = []
    if upload.size == 0:
        faults.append(errors.FieldFault("", "is empty; send one JSON object a line"))
    if request_key is not None:
        pointer = "/header/Idempotency-Key"
        faults += text_faults(request_key, pointer, longest=LONGEST_IDEMPOTENCY_KEY)
    if faults:
        raise errors.InvalidRequest("This file cannot be scored.", faults)


def _row(outcome: SubmissionOutcome) -> dict[str, object]:
    if isinstance(outcome, Accepted):
        return {"prediction": ShownPrediction.of(outcome.prediction)}
    error = outcome.error
    if isinstance(error, errors.ModelUnavailable | errors.StorageUnavailable):
        raise error  # not the document's fault: retry the job
    if isinstance(error, errors.ServiceError):
        faults = error.faults if isinstance(error, errors.InvalidRequest) else ()
        placed = [errors.FieldFault(f.pointer.removeprefix("/document"), f.detail) for f in faults]
        return _problem(BadLine(error.detail, tuple(placed)))
    raise error


def _problem(line: BadLine) -> dict[str, object]:
    return {"problem": {"detail": line.detail, "errors": [asdict(f) for f in line.faults]}}


def _exported_client(caller: Caller, request: ExportRequest) -> str | None:
    """Return the client whose rows to export; None for all clients."""
    caller.require(*PERMISSIONS_TO_EXPORT[request.what])
    client_id = None
    if request.what in {Exported.PREDICTIONS, Exported.OUTCOMES}:
        client_id = visible_to(caller)
    elif request.what is Exported.ANNOTATIONS and request.content:  # documents of every client
        caller.require(Permission.READ_ALL_PREDICTIONS)
    request.check()
    return client_id


def check_result(caller: Caller, job: Job) -> None:
    """Raise `Forbidden` unless the caller may read the rows of a job's result."""
    of: object
    if job.kind == SCORING:
        readable, of = visible_to(caller), job.owner_id
    elif job.kind == EXPORT:
        payload = cast("dict[str, Any]", dict(job.payload))  # Any: JSON of `submit_export`
        readable = _exported_client(caller, ExportRequest.from_json(payload["wanted"]))
        of = payload.get("client_id")
    else:
        return
    if readable not in {None, of}:
        raise errors.Forbidden("This job holds predictions of others, which you may not read.")


def _page_size(request: ExportRequest) -> int:
    return PAGE_WITH_CONTENT if request.content else PAGE


def _page(
    transaction: Transaction, request: ExportRequest, client_id: str | None, after: str | None
) -> list[Row]:
    history = transaction.history
    span = Span(client_id, request.created_from, request.created_before)
    page: dict[str, Any] = {"after": after, "limit": _page_size(request)}  # Any: arguments of all
    match request.what:
        case Exported.PREDICTIONS:
            rows = [
                ({**members(ShownPrediction.of(each)), "client_id": each.client_id}, each)
                for each in history.predictions(span, **page)
            ]
        case Exported.ANNOTATIONS:
            rows = [
                (annotation_row(annotation, of), of)
                for annotation, of in history.annotations(span, **page)
            ]
        case Exported.OUTCOMES:
            rows = [
                (outcome_row(outcome, of), of) for outcome, of in history.outcomes(span, **page)
            ]
        case Exported.AUDIT_EVENTS:
            return [event_row(event) for event in history.events(span, **page)]
    return [{**row, **content_row(of)} if request.content else row for row, of in rows]
