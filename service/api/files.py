"""Files in and out: documents to score in the background, and what came of a job."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from setwise.service.api.dependencies import CallerOf, RequestId, VerbsOf, answer
from setwise.service.api.jobs import Job
from setwise.service.api.openapi import documented
from setwise.service.api.problem_kinds import UNSUPPORTED_MEDIA_TYPE
from setwise.service.api.problems import HttpFault
from setwise.service.domain.errors import (
    IdempotencyMismatch,
    JobNotFound,
    JobUnfinished,
    ResultNotFound,
    UploadTooLarge,
)
from setwise.service.services.score import Upload

SCORING = "/v1/jobs/scoring"

MEDIA_TYPES = (
    "application/x-ndjson",
    "application/jsonl",
    "application/gzip",
    "application/octet-stream",
)
BUFFER_BYTES = 1 << 20
"""What is gathered before a thread writes it."""

router = APIRouter(tags=["jobs"])


@router.post(
    SCORING,
    status_code=202,
    response_model=Job,
    response_description="The job; `Location` is its address.",
    responses={
        200: {"model": Job, "description": "The job that this key asked for before."},
        **documented(UNSUPPORTED_MEDIA_TYPE, UploadTooLarge, IdempotencyMismatch),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "One JSON object a line, as in a batch; plain or gzipped.",
            "content": {
                media_type: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"id": "note-17", "text": "Fever and cough.", '
                    '"metadata": {"site": "north"}}\n{"id": "note-18", "text": "Sore throat."}\n',
                }
                for media_type in MEDIA_TYPES
            },
        }
    },
)
async def score_file(
    request: Request,
    caller: CallerOf,
    verbs: VerbsOf,
    request_id: RequestId,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Your name for this file. Sent again with the same content it gives the "
            "first job instead of a second one."
        ),
    ] = None,
) -> Response:
    """Predict every document of a file in the background; each is sent or queued as it is done.

    The file is stored before the answer leaves, and the job outlives any crash: no document is
    predicted twice. A line that holds no document has a problem in the result, under its number,
    and spoils no other. `labels` and `annotator` are not read. Follow the job at `Location`, then
    read `/v1/jobs/{id}/result`.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in MEDIA_TYPES:
        raise HttpFault(
            UNSUPPORTED_MEDIA_TYPE,
            f"Send a file as {MEDIA_TYPES[0]}, gzipped or not, instead of {given or 'nothing'}.",
        )
    with verbs.receive_upload(caller) as upload:
        await _receive(request, upload)
    job, new = await run_in_threadpool(
        verbs.submit_scoring, caller, upload, request_key=idempotency_key, request_id=request_id
    )
    return answer(
        Job.of(job), status=202 if new else 200, headers={"Location": f"/v1/jobs/{job.id}"}
    )


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
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file, streamed.",
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"line": 1, "prediction": {"id": "019aa4c1-…", …}}\n'
                    '{"line": 2, "problem": {"detail": "The line is not JSON: …", "errors": []}}\n',
                }
            },
        },
        **documented(JobNotFound, JobUnfinished, ResultNotFound),
    },
)
def read_result(caller: CallerOf, job_id: str, verbs: VerbsOf) -> Response:
    """Download what a job made. Of a scoring job: a line for each document, in order.

    Each has the number of the `line` and a `prediction` or a `problem`. What a job did before it
    failed or was cancelled is there as well.
    """
    result = verbs.jobs.result(caller, job_id)
    kind = "text/csv" if result.name.endswith(".csv") else "application/x-ndjson"
    return StreamingResponse(
        result.chunks,
        media_type=kind,
        headers={
            "Content-Disposition": f'attachment; filename="{result.name}"',
            "Cache-Control": "no-store",
        },
    )
