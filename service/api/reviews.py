"""Routes for the review queue: claim, extend, complete or skip tasks."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import number_in
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    needs,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import (
    ClaimQuery,
    Completion,
    OwnAnswerBody,
    OwnAnswerPage,
    Paged,
    ReleaseQuery,
    ReviewPage,
    ReviewQuery,
    ReviewTaskBody,
)
from setwise.service.domain import errors, reviews
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.requests.reviews import CompletionRequest, SkipRequest

router = APIRouter(prefix="/v1", tags=["reviews"], route_class=StrictRoute)

_HELD_TASK = (errors.ReviewNotFound, errors.LeaseLost, errors.ReviewAlreadyDecided)


@router.get("/reviews", response_model=ReviewPage, dependencies=[needs(Permission.READ_QUEUE)])
def list_reviews(
    caller: CallerOf, query: Annotated[ReviewQuery, Query()], edge: EdgeOf
) -> Response:
    """List review tasks, oldest first."""
    read = partial(edge.services.queue.page, caller, state=query.state, reason=query.reason)
    row = partial(ReviewTaskBody.of, caller=caller)
    return listed(edge, query, f"reviews?{query.filters()}", read, row)


@router.post(
    "/reviews/claim",
    response_model=ReviewTaskBody,
    responses={
        **answering("ETag"),
        204: {"description": "No task waits for you."},
        **documented(errors.TooManyLeases),
    },
    dependencies=[needs(Permission.REVIEW)],
)
def claim_review(
    caller: CallerOf, query: Annotated[ClaimQuery, Query()], services: ServicesOf
) -> Response:
    """Lease the next task; only you hold it until the lease expires.

    You get no blind task for a document whose suggestion you have read.
    """
    task = services.queue.claim(caller, reviews.QueueFilter(**query.model_dump()))
    return Response(status_code=204) if task is None else _shown(task, caller)


@router.get(
    "/reviews/recent", response_model=OwnAnswerPage, dependencies=[needs(Permission.REVIEW)]
)
def list_own_answers(caller: CallerOf, query: Annotated[Paged, Query()], edge: EdgeOf) -> Response:
    """List your own answers, newest first.

    To correct the last one to a document, reopen the document with your `labels`.
    """
    read = partial(edge.services.answers.recent, caller)
    return listed(edge, query, "reviews/recent", read, OwnAnswerBody.of)


@router.get(
    "/reviews/{task_id}",
    response_model=ReviewTaskBody,
    responses=answering("ETag") | documented(errors.ReviewNotFound, errors.BlindReviewHeld),
    dependencies=[needs(Permission.READ_QUEUE)],
)
def get_review(caller: CallerOf, task_id: str, services: ServicesOf) -> Response:
    """Read one task, for example after reloading a page."""
    return _shown(services.queue.get(caller, task_id), caller)


@router.post(
    "/reviews/{task_id}/heartbeat",
    response_model=ReviewTaskBody,
    responses=answering("ETag") | documented(*_HELD_TASK),
    dependencies=[needs(Permission.REVIEW)],
)
def extend_lease(caller: CallerOf, task_id: str, services: ServicesOf) -> Response:
    """Extend the lease on a task; the version does not change."""
    return _shown(services.queue.extend(caller, task_id), caller)


@router.post(
    "/reviews/{task_id}/release",
    response_model=ReviewTaskBody,
    responses=answering("ETag") | documented(*_HELD_TASK),
    dependencies=[needs(Permission.REVIEW)],
)
def release_review(
    caller: CallerOf, task_id: str, query: Annotated[ReleaseQuery, Query()], services: ServicesOf
) -> Response:
    """Return a task to the queue."""
    return _shown(services.queue.release(caller, task_id, later=query.later), caller)


@router.post(
    "/reviews/{task_id}/skip",
    response_model=ReviewTaskBody,
    responses=answering("ETag") | documented(*_HELD_TASK),
    dependencies=[needs(Permission.REVIEW)],
)
def skip_review(
    caller: CallerOf, task_id: str, body: SkipRequest, services: ServicesOf
) -> Response:
    """Leave a task to another reviewer or, after two skips, a lead."""
    return _shown(services.queue.skip(caller, task_id, body.reason), caller)


@router.post(
    "/reviews/{task_id}/complete",
    response_model=Completion,
    responses=answering("ETag")
    | documented(
        *_HELD_TASK,
        errors.StaleVersion,
        errors.VersionRequired,
        errors.SimilarLabels,
        errors.ModelUnavailable,
    ),
    dependencies=[needs(Permission.REVIEW)],
)
def complete_review(
    caller: CallerOf,
    task_id: str,
    *,
    body: CompletionRequest,
    services: ServicesOf,
    if_match: Annotated[
        str | None, Header(description="The `ETag` of the task as you saw it. Required.")
    ] = None,
) -> Response:
    """Submit the right label set of a task; it cannot change later.

    The set may have labels of the catalogue that the model lacks, and new ones.
    """
    seen = number_in(if_match, lambda: services.queue.get(caller, task_id).version)
    annotation = services.reviews.complete(
        caller, task_id, body.labels, body.comment, seen, additions=body.additions()
    )
    # Completing adds one to the version. Reading the task again could fail although the work is
    # stored.
    return answer(Completion.of(annotation), etag=None if seen is None else seen + 1)


def _shown(task: reviews.ReviewTask, caller: Caller) -> Response:
    return answer(ReviewTaskBody.of(task, caller), etag=task.version)
