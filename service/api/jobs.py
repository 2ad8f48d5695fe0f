"""Routes for jobs: list, read, cancel, retry."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    needs,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import Listed, Paged
from setwise.service.api.views import View
from setwise.service.domain import jobs
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import JobFinished, JobNeeded, JobNotFound, JobUnfinished
from setwise.service.domain.jobs import JobFilter, JobState

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=StrictRoute)


class JobBody(
    View,
    of=jobs.Job,
    shows="id kind state progress message created_at started_at finished_at result error "
    "error_code",
):
    """Work that continues in the background."""


def accepted(job: jobs.Job, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response to a request that queued a job."""
    located = {"Location": f"/v1/jobs/{job.id}", **(headers or {})}
    return answer(JobBody.show(job), status=202, headers=located)


class JobPage(Listed[JobBody]):
    """One page of jobs, newest first."""


class JobQuery(Paged):
    """Which jobs to list."""

    kind: str | None = Field(None, max_length=100)
    state: JobState | None = None


@router.get(
    "", response_model=JobPage, dependencies=[needs(Permission.INSPECT, Permission.RUN_JOBS)]
)
def list_jobs(caller: CallerOf, query: Annotated[JobQuery, Query()], edge: EdgeOf) -> Response:
    """List jobs, newest first; only administrators see those of others."""
    read = partial(edge.services.jobs.page, caller, JobFilter(kind=query.kind, state=query.state))
    return listed(edge, query, f"jobs?{query.filters()}", read, JobBody.show)


@router.get(
    "/{job_id}",
    response_model=JobBody,
    responses=documented(JobNotFound),
    dependencies=[needs(Permission.INSPECT, Permission.RUN_JOBS)],
)
def get_job(caller: CallerOf, job_id: str, services: ServicesOf) -> Response:
    """Read the progress and the result of a job."""
    return answer(JobBody.show(services.jobs.get(caller, job_id)))


@router.post(
    "/{job_id}/cancel",
    response_model=JobBody,
    responses=documented(JobNotFound, JobFinished, JobNeeded),
    dependencies=[needs(Permission.RUN_JOBS)],
)
def cancel_job(caller: CallerOf, job_id: str, services: ServicesOf) -> Response:
    """Cancel a job.

    Its worker stops within seconds; finished work is kept. What the service does by itself, such as
    removing an erased document from files, cannot be cancelled.
    """
    return answer(JobBody.show(services.jobs.cancel(caller, job_id)))


@router.post(
    "/{job_id}/retry",
    response_model=JobBody,
    responses=documented(JobNotFound, JobFinished, JobUnfinished),
    dependencies=[needs(Permission.RUN_JOBS)],
)
def retry_job(caller: CallerOf, job_id: str, services: ServicesOf) -> Response:
    """Retry a failed or cancelled job; it resumes at its last checkpoint."""
    return answer(JobBody.show(services.jobs.retry(caller, job_id)))
