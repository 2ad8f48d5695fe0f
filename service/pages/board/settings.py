"""Settings: what this server was started with, and where each value is from."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from setwise.service.domain.callers import Permission
from setwise.service.pages.board.frame import framed
from setwise.service.pages.rendering import Page
from setwise.service.pages.visitors import Visitors
from setwise.service.settings import ShownSetting
from setwise.service.sign_in.sessions import Visit

HERE = "/board/settings"


def setting_pages(settings: Sequence[ShownSetting], visitors: Visitors) -> APIRouter:
    """Return the route of the settings."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))]) -> Response:
        """List the settings."""
        values = {
            "given": [one for one in settings if one.given],
            "defaults": [one for one in settings if not one.given],
        }
        return framed("board_settings.html", values, visit=visit, section=HERE)

    return router
