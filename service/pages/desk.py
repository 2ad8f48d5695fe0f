"""The review desk: the page, and what its script asks for, with the same verbs as the API."""

from collections.abc import Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import LeaseLost
from setwise.service.domain.reviews import ReviewTask
from setwise.service.pages.desk_items import item, warnings_of
from setwise.service.pages.desk_plain import plain_desk
from setwise.service.pages.rendering import Page, page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

DESK = "/desk"
TASK = DESK + "/tasks/{task_id}"
DAY_S = 86_400.0
MOST_FOUND = 50
MOST_CHOSEN = 1_000
SKIP_REASONS = (
    "I lack the expertise",
    "The text cannot be read",
    "No label fits",
    "I know the person concerned",
)

_Id = Annotated[str, Field(max_length=40)]
_Label = Annotated[str, Field(max_length=1_000)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Having(_Asked):
    """What a tab has on its desk already."""

    having: Annotated[list[_Id], Field(max_length=100)] = []


class Chosen(_Asked):
    """Labels that a question is about."""

    labels: Annotated[list[_Label], Field(max_length=MOST_CHOSEN)]


class Decision(Chosen):
    """What a reviewer decided, on which version of the task."""

    comment: str | None = None
    version: int


class Skipped(_Asked):
    """Why a reviewer passes a task on."""

    reason: str


def desk(verbs: Verbs, visitors: Visitors, now: Callable[[], datetime]) -> APIRouter:
    """Return the routes of the review desk."""
    router = APIRouter(route_class=Page)
    reads, sends = (
        visitors.who_may(Permission.REVIEW),
        visitors.whose_script_sends(Permission.REVIEW),
    )

    @router.get(DESK)
    def show(visit: Annotated[Visit, Depends(reads)]) -> Response:
        """Show the desk; without a script, the task that lies on it."""
        mine = verbs.my_reviews(visit.caller)
        task = item(verbs, visit.caller, mine[0]) if mine else None
        values = {"now": now(), "task": task, "skip_reasons": SKIP_REASONS}
        return page("desk.html", values, visit=visit)

    @router.get(f"{DESK}/progress")
    def progress(
        visit: Annotated[Visit, Depends(reads)],
        within_s: Annotated[float, Query(ge=0, le=2 * DAY_S)] = DAY_S,
    ) -> Response:
        """Count what the person settled: since their own midnight, which the browser knows."""
        done = verbs.my_reviews.settled(visit.caller, timedelta(seconds=within_s))
        return _json({"done": done})

    @router.get(f"{DESK}/labels")
    def find(
        visit: Annotated[Visit, Depends(reads)],
        query: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        """Search the labels of the active model."""
        found = verbs.search_labels(visit.caller, query, limit=MOST_FOUND)
        return _json({"labels": found.labels, "total": found.total})

    @router.post(f"{DESK}/next")
    def take(
        request: Request,
        visit: Annotated[Visit, Depends(sends)],
        asked: Annotated[Having, Body()],
    ) -> Response:
        """Give a task that the person holds and this tab does not have, or claim one."""
        mine = (one for one in verbs.my_reviews(visit.caller) if one.id not in asked.having)
        task = next(mine, None) or verbs.claim_review(
            visit.caller, request_id=request_id_of(request)
        )
        if task is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return _json(item(verbs, visit.caller, task))

    router.include_router(_holding(verbs, sends))
    router.include_router(_deciding(verbs, sends))
    router.include_router(plain_desk(verbs, visitors, DESK))
    return router


def _holding(verbs: Verbs, sends: Callable[..., Visit]) -> APIRouter:
    """Return the routes on a task that stays undecided."""
    router = APIRouter(route_class=Page)

    def held(task: ReviewTask) -> Response:
        return _json({"version": task.version, "expires_in_s": verbs.my_reviews.left_s(task)})

    @router.post(TASK + "/heartbeat")
    def extend(task_id: str, visit: Annotated[Visit, Depends(sends)]) -> Response:
        """Keep a task for longer."""
        return held(verbs.extend_lease(visit.caller, task_id))

    @router.post(TASK + "/take-back")
    def take_back(
        request: Request, task_id: str, visit: Annotated[Visit, Depends(sends)]
    ) -> Response:
        """Keep a task after all, even if it went back to the queue meanwhile."""
        try:
            return held(verbs.extend_lease(visit.caller, task_id))
        except LeaseLost as lost:
            task = verbs.claim_review(visit.caller, only=task_id, request_id=request_id_of(request))
            if task is None:
                raise LeaseLost(
                    "Somebody else has this task now, or it waits for a lead."
                ) from lost
            return held(task)

    @router.post(TASK + "/release")
    def release(
        request: Request, task_id: str, visit: Annotated[Visit, Depends(sends)]
    ) -> Response:
        """Give a task back to the queue."""
        verbs.release_review(visit.caller, task_id, request_id=request_id_of(request))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @router.post(TASK + "/check")
    def check(
        task_id: str,
        visit: Annotated[Visit, Depends(sends)],
        chosen: Annotated[Chosen, Body()],
    ) -> Response:
        """Say what is odd about a label set."""
        task = verbs.my_reviews.one(visit.caller, task_id)
        (odd,) = verbs.check_sets(visit.caller, task, [chosen.labels])
        return _json({"warnings": warnings_of(odd)})

    @router.post(TASK + "/explain")
    def explain(
        task_id: str,
        visit: Annotated[Visit, Depends(sends)],
        chosen: Annotated[Chosen, Body()],
    ) -> Response:
        """Say which terms of the document speak for or against labels."""
        task = verbs.my_reviews.one(visit.caller, task_id)
        weighed = verbs.explain_labels(visit.caller, task, chosen.labels)
        return _json({"terms": [[one._asdict() for one in terms] for terms in weighed]})

    return router


def _deciding(verbs: Verbs, sends: Callable[..., Visit]) -> APIRouter:
    """Return the routes by which a task leaves the desk, and comes back."""
    router = APIRouter(route_class=Page)

    @router.post(TASK + "/decide")
    def decide(
        request: Request,
        task_id: str,
        visit: Annotated[Visit, Depends(sends)],
        decision: Annotated[Decision, Body()],
    ) -> Response:
        """Store a decision, and say for how long it may be taken back."""
        decided = verbs.decide_review(
            visit.caller,
            task_id,
            decision.labels,
            decision.comment,
            decision.version,
            request_id=request_id_of(request),
        )
        return _json({"version": decided.task.version, "undo_s": decided.undo_s})

    @router.post(TASK + "/undo")
    def undo(request: Request, task_id: str, visit: Annotated[Visit, Depends(sends)]) -> Response:
        """Take the last decision back, and give its task again."""
        task = verbs.undo_decision(visit.caller, task_id, request_id=request_id_of(request))
        return _json(item(verbs, visit.caller, task))

    @router.post(TASK + "/skip")
    def skip(
        request: Request,
        task_id: str,
        visit: Annotated[Visit, Depends(sends)],
        skipped: Annotated[Skipped, Body()],
    ) -> Response:
        """Pass a task on to somebody else."""
        verbs.skip_review(visit.caller, task_id, skipped.reason, request_id=request_id_of(request))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return router


def _json(content: object) -> Response:
    return JSONResponse(content, headers={"Cache-Control": "no-store"})
