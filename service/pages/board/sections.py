"""The board: what administrators change and auditors read, a file for each of its parts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from setwise.service.domain.callers import Permission
from setwise.service.pages.board.audit import audit_pages
from setwise.service.pages.board.breaker import breaker_pages
from setwise.service.pages.board.calibrators import calibrator_pages
from setwise.service.pages.board.certifications import certification_pages
from setwise.service.pages.board.deliveries import delivery_pages
from setwise.service.pages.board.frame import BOARD, framed
from setwise.service.pages.board.groups import group_pages
from setwise.service.pages.board.jobs import job_pages
from setwise.service.pages.board.keys import key_pages
from setwise.service.pages.board.models import model_pages
from setwise.service.pages.board.people import people_pages
from setwise.service.pages.board.policy import policy_pages
from setwise.service.pages.board.settings import setting_pages
from setwise.service.pages.board.states import states
from setwise.service.pages.board.webhooks import webhook_pages
from setwise.service.pages.rendering import Page
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.settings import ShownSetting
from setwise.service.sign_in.sessions import Visit

PARTS = (
    policy_pages,
    breaker_pages,
    certification_pages,
    model_pages,
    calibrator_pages,
    job_pages,
    webhook_pages,
    delivery_pages,
    key_pages,
    people_pages,
    group_pages,
    audit_pages,
)


def board(verbs: Verbs, visitors: Visitors, settings: Sequence[ShownSetting] = ()) -> APIRouter:
    """Return the routes of the board; ``settings`` are those of this server."""
    router = APIRouter(route_class=Page)

    @router.get(BOARD)
    def start(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
    ) -> Response:
        """Say what there is, and how it stands."""
        told = states(verbs, visit.caller, datetime.now(UTC))
        return framed("board_start.html", {"states": told}, visit=visit, section=BOARD)

    for part in PARTS:
        router.include_router(part(verbs, visitors))
    router.include_router(setting_pages(settings, visitors))
    return router
