"""The board: its sections in order, its first page and the settings.

Question: which section needs me?
"""

from collections.abc import Sequence

from fastapi import APIRouter

from setwise.service.domain.accounts.callers import Permission
from setwise.service.pages.board import (
    annotators,
    audit_trail,
    certification,
    jobs,
    keys,
    label_decisions,
    labels,
    models,
    people,
    policy,
    recalibration,
    start,
    webhooks,
)
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import BOARD, BoardPage, Call, SectionState, mount
from setwise.service.pages.routes import PageRoute
from setwise.service.services.all import Services
from setwise.service.settings import ShownSetting
from setwise.service.sign_in.sessions import Visit

SETTINGS = "/board/settings"


def _settings(call: Call) -> ui.View:
    """Return the page of the settings that this server was started with."""
    parts: list[ui.Piece] = []
    for heading, is_set in (("Set for this server", True), ("Defaults", False)):
        rows = [setting for setting in call.settings if setting.given is is_set]
        columns = _SETTINGS if is_set else _SETTINGS[:2]
        empty = "None: every setting has its default."
        parts += [ui.heading(heading), ui.Table(heading, columns, rows, empty)]
    lead = (
        "What this server was started with. Settings are read once, from the environment or "
        "the command line; secrets are never shown."
    )
    return ui.View("Settings", parts, lead=lead)


_SETTINGS: Sequence[ui.Column[ShownSetting]] = (
    ui.Column("Variable", lambda setting: ui.code(setting.variable), "head"),
    ui.Column("Value", lambda setting: setting.value or ui.quiet("empty")),
    ui.Column("From", lambda setting: setting.source),
)
PAGES: Sequence[BoardPage] = (
    *start.PAGES,
    *policy.PAGES,
    *certification.PAGES,
    *models.PAGES,
    *labels.PAGES,
    *label_decisions.PAGES,
    *recalibration.PAGES,
    *jobs.PAGES,
    *webhooks.PAGES,
    *keys.PAGES,
    *people.PAGES,
    *annotators.PAGES,
    *audit_trail.PAGES,
    BoardPage(SETTINGS, _settings, name="Settings", meaning="What this server was started with."),
)
SECTIONS = tuple(page for page in PAGES if page.name)


URGENT = (webhooks.WEBHOOKS, webhooks.DELIVERIES, keys.KEYS)
"""Sections whose trouble the start page shows too."""


def _states(call: Call, pages: Sequence[BoardPage]) -> dict[str, SectionState]:
    return {
        page.address: page.state(call)
        for page in pages
        if page.state and call.caller.may_one(page.needed)
    }


def attention(services: Services, visit: Visit) -> list[tuple[BoardPage, SectionState]]:
    """Return the urgent sections that need attention, as far as the visitor may read them."""
    urgent = [section for section in SECTIONS if section.address in URGENT]
    states = _states(Call(services, visit, {}, {}, ()), urgent)
    shown = [(section, states[section.address]) for section in urgent if section.address in states]
    return [(section, state) for section, state in shown if state.wrong]


def _start(call: Call) -> ui.View:
    """Return the first page: what needs the visitor, and how the other sections stand."""
    lead = (
        "What you can change, and what has changed."
        if call.caller.may(Permission.ADMINISTER)
        else "What administrators change. You can read all of it."
        if call.caller.may(Permission.INSPECT)
        else "What decides how documents are routed. Administrators change it."
    )
    states = _states(call, SECTIONS)
    needy = [address for address, state in states.items() if state.wrong]
    values = {"states": states, "needy": needy, "lead": lead}
    return ui.View("Board", template="board_start.html", values=values)


def board() -> APIRouter:
    """Return the routes of the board."""
    router = APIRouter(route_class=PageRoute)
    readers = {needed for page in PAGES for needed in page.needed}
    first = BoardPage(BOARD, _start, needed=tuple(sorted(readers)))
    router.include_router(start.router)
    mount(router, [first, *PAGES])
    return router
