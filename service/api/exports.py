"""What is stored as files, streamed at once or made by a job."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, ConfigDict, Field

from setwise.service.api.bodies import StrictRoute
from setwise.service.api.dependencies import CallerOf, RequestId, VerbsOf, answer
from setwise.service.api.jobs import Job
from setwise.service.api.schemas import Query as Parameters
from setwise.service.api.schemas import RequestBody
from setwise.service.domain.lines import Format
from setwise.service.services.export import COLUMNS, Exported, ExportRequest

router = APIRouter(prefix="/v1", tags=["exports"], route_class=StrictRoute)

MEDIA_TYPE = {Format.JSON_LINES: "application/x-ndjson", Format.CSV: "text/csv; charset=utf-8"}


class _Wanted:
    """The members that the query and the body share."""

    format: Format
    content: bool
    created_from: AwareDatetime | None
    created_before: AwareDatetime | None
    after: str | None

    def as_request(self, what: Exported) -> ExportRequest:
        """Return what the use case takes."""
        return ExportRequest(
            what=what,
            written=self.format,
            content=self.content,
            created_from=self.created_from,
            created_before=self.created_before,
            after=self.after,
        )


_FORMAT = Field(Format.JSON_LINES, description="One JSON object a line, or CSV with a header.")
_CONTENT = Field(False, description="With the documents themselves, as far as they are kept.")
_FROM = Field(None, description="RFC 3339, included.")
_BEFORE = Field(None, description="RFC 3339, excluded.")
_AFTER = Field(None, max_length=100, description="`id` of the last row that you have.")


class ExportQuery(_Wanted, Parameters):
    """Which rows to export, and how."""

    format: Format = _FORMAT
    content: bool = _CONTENT
    created_from: AwareDatetime | None = _FROM
    created_before: AwareDatetime | None = _BEFORE
    after: str | None = _AFTER


class ExportJobRequest(_Wanted, RequestBody):
    """A file to make in the background."""

    model_config = ConfigDict(
        strict=False,  # times and names of kinds come as strings
        json_schema_extra={
            "examples": [
                {
                    "what": "annotations",
                    "format": "csv",
                    "created_from": "2026-11-01T00:00:00Z",
                    "created_before": "2026-12-01T00:00:00Z",
                }
            ]
        },
    )

    what: Exported
    format: Format = _FORMAT
    content: Annotated[bool, Field(strict=True)] = _CONTENT
    created_from: AwareDatetime | None = _FROM
    created_before: AwareDatetime | None = _BEFORE
    after: str | None = _AFTER

    def wanted(self) -> ExportRequest:
        """Return what the use case takes."""
        return self.as_request(self.what)


@router.get(
    "/exports/{what}",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The rows, streamed in the order of their ids.",
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"id":"019aa4c1-…","document_id":"note-17","labels":["J18.9"],…}\n',
                },
                "text/csv": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": ",".join(COLUMNS[Exported.OUTCOMES]) + "\r\n",
                },
            },
        },
    },
)
def export(
    caller: CallerOf,
    what: Exported,
    wanted: Annotated[ExportQuery, Query()],
    verbs: VerbsOf,
    request_id: RequestId,
) -> Response:
    """Export predictions, annotations, outcomes or the audit trail as they are at this moment.

    Clients get their own predictions and outcomes; leads everybody's, and the annotations; only
    administrators the audit trail. A connection that breaks loses nothing: go on with `after`. To
    fetch what is new now and then, use ranges of time that end a minute ago or earlier, since a row
    may be written a little after its time. An export of more than ten minutes breaks off; let a
    job make it (`POST /v1/jobs/export`). In CSV lists are JSON, and text that a spreadsheet would
    run as a formula has an apostrophe in front.
    """
    parts = verbs.export(caller, wanted.as_request(what), request_id=request_id)
    return StreamingResponse(
        parts,
        media_type=MEDIA_TYPE[wanted.format],
        headers={
            "Content-Disposition": f'attachment; filename="{what.value}.{wanted.format.value}"',
            "Cache-Control": "no-store",
        },
    )


@router.post(
    "/jobs/export",
    status_code=202,
    response_model=Job,
    response_description="The job; `Location` is its address.",
)
def export_job(
    caller: CallerOf, body: ExportJobRequest, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Make an export in the background; read it at `/v1/jobs/{id}/result` for some days."""
    job = verbs.submit_export(caller, body.wanted(), request_id=request_id)
    return answer(Job.of(job), status=202, headers={"Location": f"/v1/jobs/{job.id}"})
