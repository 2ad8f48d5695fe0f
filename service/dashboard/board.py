"""The board: what administrators change and auditors read, a file for each of its parts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from service.dashboard.board_audit import audit_pages
from service.dashboard.board_breaker import breaker_pages
from service.dashboard.board_calibrators import calibrator_pages
from service.dashboard.board_certifications import certification_pages
from service.dashboard.board_deliveries import delivery_pages
from service.dashboard.board_frame import BOARD, framed
from service.dashboard.board_groups import group_pages
from service.dashboard.board_jobs import job_pages
from service.dashboard.board_keys import key_pages
from service.dashboard.board_models import model_pages
from service.dashboard.board_people import people_pages
from service.dashboard.board_policy import policy_pages
from service.dashboard.board_settings import setting_pages
from service.dashboard.board_states import states
from service.dashboard.board_webhooks import webhook_pages
from service.dashboard.rendering import Page
from service.dashboard.sessions import Visitors
from service.domain.people import Permission
from service.security.cookies import Visit
from service.settings import ShownSetting
from service.use_cases.verbs import Verbs

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
