"""Jobs: how far each is, what came of it, what went wrong; end one, or try one again."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import Conflict
from setwise.service.domain.jobs import Job, JobFilter, JobState
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.forms import Filled
from setwise.service.pages.rendering import Page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/jobs"
PAGE = 50

RECURRING = {
    "certify_if_due": "Certify when it is due",
    "expire_leases": "Return expired leases",
    "settle_decisions": "Settle decisions",
    "sweep_files": "Remove old files",
    "purge_texts": "Forget old texts",
    "watch_audits": "Watch the audits",
}
KINDS = {
    "scoring": "Score a file",
    "export": "Export",
    "compare": "Compare a model",
    "certification": "Certify a threshold",
    "calibration": "Learn a calibrator",
    **RECURRING,
}


RESULTS = {
    "active": "Serves now",
    "calibration_id": "Report",
    "calibrator_version": "Calibrator",
    "certification_id": "Report",
    "reason": "Why",
}
"""What a page calls parts of a job's result that would be hard to read as they are named."""


def job_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the jobs."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        state: str = "",
        kind: str = "",
        after: str | None = None,
    ) -> Response:
        """List jobs, newest first."""
        wanted = JobFilter(
            kind=kind or None, state=JobState(state) if state in set(JobState) else None
        )
        values = {
            "found": verbs.jobs.page(visit.caller, wanted, after=after, limit=PAGE),
            "form": Filled.of(state=state, kind=kind),
            "states": [("", "any state"), *((one.value, one.value) for one in JobState)],
            "kinds": [("", "any kind"), *KINDS.items()],
            "query": {k: v for k, v in (("state", state), ("kind", kind)) if v},
            "at_start": after is None,
            "name": name,
            "recurring": RECURRING,
        }
        return framed("board_jobs.html", values, visit=visit, section=HERE)

    @router.get(f"{HERE}/{{job_id}}")
    def one(
        job_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """Show one job."""
        return _one(verbs, visit, job_id, notice=done)

    @router.get(f"{HERE}/{{job_id}}/cancel")
    def ask(
        job_id: str, visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))]
    ) -> Response:
        """Say what cancelling a job does, and ask."""
        return _question(verbs.jobs.get(visit.caller, job_id)).ask(visit, HERE)

    @router.post(f"{HERE}/{{job_id}}/cancel")
    def cancel(
        request: Request,
        job_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """End a job before its time."""
        try:
            verbs.jobs.cancel(visit.caller, job_id, request_id=request_id_of(request))
        except Conflict as error:
            return _one(verbs, visit, job_id, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(f"{HERE}/{job_id}", "job-cancelled")

    @router.post(f"{HERE}/{{job_id}}/retry")
    def retry(
        request: Request,
        job_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Have a job tried again."""
        try:
            verbs.jobs.retry(visit.caller, job_id, request_id=request_id_of(request))
        except Conflict as error:
            return _one(verbs, visit, job_id, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(f"{HERE}/{job_id}", "job-retried")

    return router


def _one(
    verbs: Verbs,
    visit: Visit,
    job_id: str,
    *,
    refusal: str = "",
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    job = verbs.jobs.get(visit.caller, job_id)
    values = {
        "job": job,
        "name": name,
        "recurring": RECURRING,
        "refusal": refusal,
        "result": sorted((job.result or {}).items()),
        "results": RESULTS,
    }
    return framed("board_job.html", values, visit=visit, section=HERE, notice=notice, status=status)


def name(kind: str) -> str:
    """Return what people call a kind of job.

    >>> name("scoring"), name("knit_socks")
    ('Score a file', 'Knit socks')
    """
    return KINDS.get(kind, kind.replace("_", " ").capitalize())


def _question(job: Job) -> Question:
    return Question(
        heading=f"Cancel “{name(job.kind)}”?",
        will=(
            f"It stops at the next safe point; it is {job.progress:.0%} done."
            if job.started_at
            else "It has not begun, and will not begin.",
            "What it has done so far stays.",
            "It can be tried again, and then goes on where it stopped.",
        ),
        answer="Cancel it",
        address=f"{HERE}/{job.id}/cancel",
        back=f"{HERE}/{job.id}",
    )
