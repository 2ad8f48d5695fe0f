"""The desk of browsers without a script: one document after the other, settled with plain forms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.domain.reviews import ReviewTask
from setwise.service.pages.rendering import Page, go
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit


@dataclass(frozen=True)
class Submitted:
    """What the form of a document sends.

    Attributes
    ----------
    chosen : int
        Place of a suggested set; negative for the labels that are written, one a line.
    """

    task: Annotated[str, Form()]
    version: Annotated[int, Form()]
    chosen: Annotated[int, Form()] = -1
    labels: Annotated[str, Form()] = ""
    comment: Annotated[str, Form()] = ""

    def decided(self, task: ReviewTask) -> list[str]:
        """Return the labels that are meant."""
        offered = _offered(task)
        if 0 <= self.chosen < len(offered):
            return list(offered[self.chosen])
        return [line.strip() for line in self.labels.splitlines() if line.strip()]


def _offered(task: ReviewTask) -> Sequence[Sequence[str]]:
    """Return the sets to choose from, in the order of the page."""
    if task.answers:
        return task.answers
    return () if task.kind.blind else [one.labels for one in task.prediction.scored.candidates]


def plain_desk(verbs: Verbs, visitors: Visitors, desk: str) -> APIRouter:
    """Return the routes that take forms; they lead back to the page ``desk``."""
    router = APIRouter(route_class=Page)
    submits = visitors.who_sends(Permission.REVIEW)

    @router.post(f"{desk}/claim")
    def claim(request: Request, visit: Annotated[Visit, Depends(submits)]) -> Response:
        """Lay the next task on the desk."""
        if not verbs.my_reviews(visit.caller):
            verbs.claim_review(visit.caller, request_id=request_id_of(request))
        return go(desk)

    @router.post(f"{desk}/settle")
    def settle(
        request: Request,
        visit: Annotated[Visit, Depends(submits)],
        form: Annotated[Submitted, Depends()],
    ) -> Response:
        """Decide, and lay the next task on the desk."""
        task = verbs.my_reviews.one(visit.caller, form.task)
        verbs.decide_review(
            visit.caller,
            task.id,
            form.decided(task),
            form.comment.strip() or None,
            form.version,
            request_id=request_id_of(request),
        )
        return claim(request, visit)

    return router
