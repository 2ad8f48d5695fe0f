"""Routes for files: documents to score, results of jobs, exports."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from setwise.service.api.http.bodies import StrictRoute, check_charset
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    Need,
    ServicesOf,
    caller_of,
    needs,
)
from setwise.service.api.http.idempotency import REPLAYED
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import Json, answering, headers
from setwise.service.api.http.problem_kinds import UNSUPPORTED_MEDIA_TYPE
from setwise.service.api.http.problems import HttpFault
from setwise.service.api.http.streams import StreamedFile
from setwise.service.api.jobs import JobBody, accepted
from setwise.service.api.schemas import Query as Parameters
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.files import (
    COLUMNS,
    PERMISSIONS_TO_EXPORT,
    Exported,
    ExportRequest,
    Format,
)
from setwise.service.requests import Instant, RequestBody
from setwise.service.services.files import Upload

SCORING = "/v1/jobs/scoring"

MEDIA_TYPES = (
    "application/x-ndjson",
    "application/jsonl",
    "application/gzip",
    "application/octet-stream",
)
BUFFER_BYTES = 1 << 20
"""Size of the buffer that a thread writes at once."""

EXPORT_TYPES = {Format.JSON_LINES: "application/x-ndjson", Format.CSV: "text/csv; charset=utf-8"}

router = APIRouter(route_class=StrictRoute)


def exported(columns: Sequence[str]) -> dict[int | str, Json]:
    """Return what the OpenAPI document says of a streamed file of rows."""
    return {
        200: {
            "description": "The rows, streamed.",
            "headers": headers("Content-Disposition"),
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"id":"019aa4c1-…","document_id":"note-17","labels":["J18.9"],…}\n',
                },
                "text/csv": {
                    "schema": {"type": "string"},
                    "example": ",".join(columns) + "\r\n",
                },
            },
        },
        **documented(errors.BlindReviewHeld),
    }


def file_of(parts: Iterator[bytes], name: str, written: Format) -> StreamedFile:
    """Return a file of rows."""
    return StreamedFile(f"{name}.{written.value}", EXPORT_TYPES[written], parts)


_CONTENT = "With the documents themselves, as far as they are kept."


_TO_EXPORT = tuple(dict.fromkeys(chain.from_iterable(PERMISSIONS_TO_EXPORT.values())))


class _ToExport(Need):
    """What a caller needs depends on what is exported."""

    async def __call__(self, request: Request) -> None:
        """Raise `Forbidden` for a caller that may not export this."""
        what, caller = request.path_params["what"], await caller_of(request)
        caller.require(*PERMISSIONS_TO_EXPORT.get(what, self.permissions))


class _ExportMembers(BaseModel):
    """Which rows to export, and how; shared by the query and the body."""

    format: Format = Field(
        Format.JSON_LINES, description="One JSON object a line, or CSV with a header."
    )
    content: bool = Field(False, description=_CONTENT)
    created_from: Instant | None = Field(None, description="RFC 3339, included.")
    created_before: Instant | None = Field(None, description="RFC 3339, excluded.")
    after: str | None = Field(
        None, max_length=100, description="`id` of the last row that you have."
    )

    def as_request(self, what: Exported) -> ExportRequest:
        """Return the request for the service."""
        return ExportRequest(
            what=what,
            written=self.format,
            content=self.content,
            created_from=self.created_from,
            created_before=self.created_before,
            after=self.after,
        )


class ExportQuery(_ExportMembers, Parameters):
    """Which rows to export, and how."""


class ExportJobRequest(_ExportMembers, RequestBody):
    """An export to make in the background."""

    model_config = ConfigDict(strict=False)

    what: Exported
    content: bool = Field(False, strict=True, description=_CONTENT)


@router.post(
    SCORING,
    tags=["jobs"],
    status_code=202,
    response_model=JobBody,
    response_description="The job; `Location` is its address.",
    responses={
        **answering("Location", status=202),
        **documented(
            UNSUPPORTED_MEDIA_TYPE,
            errors.UploadTooLarge,
            errors.IdempotencyMismatch,
            errors.StorageFull,
        ),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "One JSON object a line, as in a batch; plain or gzipped. "
            f"{', '.join(f'`{kind}`' for kind in MEDIA_TYPES[:-1])} mean the same.",
            # Generated clients can send only this kind of file.
            "content": {
                MEDIA_TYPES[-1]: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"id": "note-17", "text": "Fever and cough.", '
                    '"metadata": {"site": "north"}}\n{"id": "note-18", "text": "Sore throat."}\n',
                }
            },
        }
    },
    dependencies=[needs(Permission.PREDICT)],
)
async def score_file(
    request: Request,
    caller: CallerOf,
    services: ServicesOf,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Your name for this file. Repeating it with the same content returns the "
            "first job instead of starting a second one."
        ),
    ] = None,
) -> Response:
    """Predict every document of a file in the background.

    The file is stored before the response is sent, and the job survives a crash: no document is
    predicted twice. A line without a valid document has a problem in the result, under its number;
    the other lines are predicted. The job's `message` names the first of these problems, and a job
    none of whose documents could be predicted has failed. `labels` and `annotator` are not read.
    Follow the job at `Location`, then read `/v1/jobs/{id}/result`.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in MEDIA_TYPES:
        raise HttpFault(
            UNSUPPORTED_MEDIA_TYPE,
            f"The body is declared as {content_type or 'nothing'}: send one JSON object a line, "
            f"plain or gzipped, with Content-Type: {MEDIA_TYPES[0]}. POST /v1/predictions/batch "
            "reads one JSON document.",
        )
    check_charset(request.headers.get("content-type"))
    with services.files.receive(caller) as upload:
        await _receive(request, upload)
    key = None if idempotency_key is None else services.idempotency.hashed(idempotency_key)
    job, new = await run_in_threadpool(
        services.files.submit_scoring, caller, upload, request_key=key
    )
    return accepted(job, headers={} if new else {REPLAYED: "true"})


async def _receive(request: Request, upload: Upload) -> None:
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= BUFFER_BYTES:
            await run_in_threadpool(upload.write, bytes(waiting))
            waiting.clear()
    await run_in_threadpool(upload.write, bytes(waiting))


@router.get(
    "/v1/jobs/{job_id}/result",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file, streamed.",
            "headers": headers("Content-Disposition"),
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"line": 1, "prediction": {"id": "019aa4c1-…", …}}\n'
                    '{"line": 2, "problem": {"detail": "The line is not JSON: …", "errors": []}}\n',
                },
                "text/csv": {"schema": {"type": "string"}},
            },
        },
        **documented(
            errors.JobNotFound, errors.JobUnfinished, errors.ResultNotFound, errors.BlindReviewHeld
        ),
    },
    dependencies=[needs(Permission.INSPECT, Permission.RUN_JOBS)],
)
async def read_result(caller: CallerOf, job_id: str, edge: EdgeOf) -> Response:
    """Download the result of a job.

    The result of a scoring job has a line for each document, in order, with the number of the
    `line` and a `prediction` or a `problem`. A job that failed or was cancelled has the lines that
    it finished.
    """

    def opened() -> StreamedFile:
        result = edge.services.jobs.result(caller, job_id)
        kind = "text/csv" if result.name.endswith(".csv") else "application/x-ndjson"
        return StreamedFile(result.name, kind, result.chunks)

    return edge.streams.send(caller, opened)


@router.get(
    "/v1/exports/{what}",
    tags=["exports"],
    response_class=StreamingResponse,
    responses=exported(COLUMNS[Exported.OUTCOMES]),
    dependencies=[Depends(_ToExport(_TO_EXPORT))],
)
async def export(
    caller: CallerOf, what: Exported, query: Annotated[ExportQuery, Query()], edge: EdgeOf
) -> Response:
    """Export the predictions, annotations, outcomes or audit events that exist now.

    Clients can export their own predictions and outcomes; leads can export those of all clients,
    and annotations. Administrators and auditors can also export the audit trail. If the connection
    breaks, continue with `after`. To fetch new rows regularly, use time ranges that end at least a
    minute ago, since a row may be written shortly after its time. Each row is as it is when it is
    sent. An export that takes more than ten minutes is cut off; use a job instead
    (`POST /v1/jobs/export`), which also reads all rows in one snapshot unless its worker dies. You
    can receive four files at a time. In CSV, lists are JSON, and text that a spreadsheet would run
    as a formula starts with an apostrophe.
    """

    def opened() -> StreamedFile:
        parts = edge.services.files.export(caller, query.as_request(what))
        return file_of(parts, what.value, query.format)

    return edge.streams.send(caller, opened)


@router.post(
    "/v1/jobs/export",
    tags=["exports"],
    status_code=202,
    response_model=JobBody,
    response_description="The job; `Location` is its address.",
    responses=answering("Location", status=202),
    dependencies=[needs(Permission.RUN_JOBS)],
)
def export_job(caller: CallerOf, body: ExportJobRequest, services: ServicesOf) -> Response:
    """Queue an export; `/v1/jobs/{id}/result` keeps it for some days."""
    return accepted(services.files.submit_export(caller, body.as_request(body.what)))
