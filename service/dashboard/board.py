"""The board: what administrators change and auditors read, a file for each of its parts."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from service.dashboard.board_frame import BOARD, SECTIONS, framed
from service.dashboard.board_keys import key_pages
from service.dashboard.board_models import model_pages
from service.dashboard.board_people import people_pages
from service.dashboard.board_policy import policy_pages
from service.dashboard.rendering import Page
from service.dashboard.sessions import Visitors
from service.domain.people import Permission
from service.security.cookies import Visit
from service.use_cases.verbs import Verbs


def board(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the board."""
    router = APIRouter(route_class=Page)

    @router.get(BOARD)
    def start(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
    ) -> Response:
        """Say what there is, and how it stands."""
        return framed("board_start.html", {"cards": SECTIONS}, visit=visit, section=BOARD)

    for part in (policy_pages, model_pages, key_pages, people_pages):
        router.include_router(part(verbs, visitors))
    return router
