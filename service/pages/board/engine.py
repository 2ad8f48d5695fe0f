"""The engine of the board: turns declared pages into routes.

A page declares where it is, who may read it, what it shows and what can be done there. An action
declares its form, its question, and what it says when it is done. The engine does the rest: it
checks permissions and tokens, reads forms, shows faults at their fields, asks for confirmation, and
leads back with a notice::

    REVOKE = Action(
        "/board/keys/{key_id}/revoke",
        _revoke,
        ask=_revoke_question,
        then="/board/keys",
        notices={"key-revoked": "The key is revoked."},
    )
    KEYS = BoardPage("/board/keys", _keys, (CREATE, REVOKE), name="Keys")
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from setwise.service.api.http.dependencies import edge_of
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.pages.board.parts import Form, Question, View
from setwise.service.pages.forms import Filled, filled, inputs
from setwise.service.pages.rendering import go, page
from setwise.service.pages.visitors import who_may, who_sends
from setwise.service.services.all import Services
from setwise.service.settings import ShownSetting
from setwise.service.sign_in.sessions import Visit

BOARD = "/board"
_OVERTAKEN = "Someone else changed this in the meantime. Check the current values and try again."


class Nothing(BaseModel):
    """The form of an action that needs none."""


@dataclass(frozen=True)
class Action:
    """Something that administrators do."""

    address: str
    """Where its form is sent, with the ids of the page in braces."""
    do: Callable[["Call", Any], object]  # Any: an instance of its model
    """Does it. It returns where to go, or a page to show; None leads to ``then`` with the notice.
    """
    model: type[BaseModel] = Nothing
    fields: Sequence[str] = ()
    """The fields that its form has, in this order, if not all."""
    heading: str = ""
    label: str = ""
    hint: str = ""
    """Its form, and what stands above, on and beside the form's button."""
    ask: Callable[["Call"], Question] | None = None
    """Asks for confirmation first."""
    needed: tuple[Permission, ...] = (Permission.ADMINISTER,)
    """Any one of these lets somebody do it."""
    then: str = ""
    notices: Mapping[str, str] = field(default_factory=dict)
    """What the page that follows says, by the word in its address."""
    blames: Mapping[type[errors.ServiceError], str] = field(default_factory=dict)
    """The field to which a refusal belongs."""


class SectionState(NamedTuple):
    """How a section stands, in a line, and whether it needs attention."""

    words: str
    wrong: bool = False


@dataclass(frozen=True)
class BoardPage:
    """A page of the board."""

    address: str
    show: Callable[["Call"], View | Response]
    """Returns what the page shows, or a file."""
    actions: Sequence[Action] = ()
    name: str = ""
    meaning: str = ""
    """What the section is called and is for; pages of one thing have none."""
    state: Callable[["Call"], SectionState] | None = None
    """How the section stands, for the first page."""
    needed: tuple[Permission, ...] = (Permission.INSPECT,)
    """Any one of these lets a reader in."""
    section: str = ""
    """Address of the section it belongs to; its own unless given."""


@dataclass(frozen=True)
class Call:
    """One request to a page of the board."""

    services: Services
    visit: Visit
    ids: Mapping[str, str]
    """What the address holds."""
    query: Mapping[str, str]
    """What follows the question mark."""
    settings: Sequence[ShownSetting]
    """Those that this server was started with."""
    origin: str = ""
    """Where the service is, such as ``https://setwise.example``."""
    tried: Action | None = None
    """What was tried and refused, with the ``filled`` form and its faults."""
    filled: Filled = field(default_factory=Filled.of)

    @property
    def caller(self) -> Caller:
        """Who calls."""
        return self.visit.caller

    @property
    def id(self) -> str:
        """The only id in the address."""
        (value,) = self.ids.values()
        return value

    @property
    def after(self) -> str | None:
        """Where a list goes on."""
        return self.query.get("after")

    def form(self, action: Action, **initial: str | Sequence[str]) -> Form:
        """Return the form of an action, as it was just sent or with ``initial`` values."""
        shown = self.filled if self.tried is action else Filled.of(**initial)
        address = action.address.format(**_quoted(self.ids))
        drawn = inputs(action.model, action.fields)
        return Form(action.heading, action.label, action.hint, address, drawn, shown)


def _quoted(ids: Mapping[str, str]) -> dict[str, str]:
    return {name: quote(value, safe="") for name, value in ids.items()}


def mount(router: APIRouter, pages: Sequence[BoardPage]) -> None:
    """Add the routes of the pages and of their actions."""
    frame = Frame(pages)
    routes: list[tuple[str, str, Callable[..., Response]]] = []
    known = {board_page.address for board_page in pages}
    for board_page in pages:
        routes.append((board_page.address, "GET", _reader(frame, board_page)))
        for action in board_page.actions:
            if action.address not in known:
                routes.append((action.address, "GET", _asker(frame, board_page, action)))
            routes.append((action.address, "POST", _doer(frame, board_page, action)))
    # The first route that fits is taken, so words come before ids.
    for address, method, route in sorted(routes, key=lambda each: _specific(each[0])):
        router.add_api_route(address, route, methods=[method])


def _specific(address: str) -> list[bool]:
    return [part.startswith("{") for part in address.split("/")]


def _reader(frame: "Frame", page: BoardPage) -> Callable[..., Response]:
    def read(request: Request, visit: Annotated[Visit, Depends(who_may(*page.needed))]) -> Response:
        call = _call(request, visit)
        shown = page.show(call)
        if isinstance(shown, Response):
            return shown
        return frame.draw(shown, visit, page, notice=call.query.get("done", ""))

    return read


def _asker(frame: "Frame", page: BoardPage, action: Action) -> Callable[..., Response]:
    def ask(
        request: Request, visit: Annotated[Visit, Depends(who_may(*action.needed))]
    ) -> Response:
        call = _call(request, visit)
        if action.ask is None:
            return go(page.address.format(**_quoted(call.ids)))
        return frame.draw(_question(action.ask(call)), visit, page)

    return ask


def _doer(frame: "Frame", page: BoardPage, action: Action) -> Callable[..., Response]:
    def do(
        request: Request,
        visit: Annotated[Visit, Depends(who_sends(*action.needed))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        call = replace(_call(request, visit), tried=action, filled=form)
        status, outcome = _attempt(action, call)
        if status is not None:
            refusal = "" if action.heading else form.said()
            shown = page.show(call) if action.ask is None else _question(action.ask(call))
            if isinstance(shown, Response):
                return shown
            return frame.draw(replace(shown, status=status), visit, page, refusal=refusal)
        if isinstance(outcome, View):
            return frame.draw(outcome, visit, page)
        if isinstance(outcome, str):
            return go(outcome)
        return go(
            f"{action.then.format(**_quoted(call.ids))}"
            f"?{urlencode({'done': next(iter(action.notices))})}"
        )

    return do


def _call(request: Request, visit: Visit) -> Call:
    edge = edge_of(request)
    ids = {name: str(value) for name, value in request.path_params.items()}
    query = dict(request.query_params)
    return Call(edge.services, visit, ids, query, edge.settings, edge.sessions.base(request))


def _attempt(action: Action, call: Call) -> tuple[HTTPStatus | None, object]:
    """Return why an action failed, or None and what came of it; faults are noted in the form."""
    form, refused = call.filled, HTTPStatus.UNPROCESSABLE_ENTITY
    values = form.read(action.model, action.fields)
    if values is None:
        return refused, None
    try:
        return None, action.do(call, values)
    except errors.InvalidRequest as error:
        form.refused(error, inputs(action.model, action.fields))
    except (errors.Conflict, errors.StaleVersion, errors.ModelUnavailable) as error:
        kind = next((kind for kind in action.blames if isinstance(error, kind)), None)
        if kind is not None:
            form.blame(action.blames[kind], error.detail)
        elif isinstance(error, errors.StaleVersion) and action.heading:
            form.blame("", _OVERTAKEN)
            refused = HTTPStatus.PRECONDITION_FAILED
        else:
            form.blame("", error.detail)
            refused = HTTPStatus.CONFLICT
    return (refused if action.heading else HTTPStatus.CONFLICT), None


def _question(question: Question) -> View:
    return View("", (question,), title=question.heading)


class Frame:
    """The frame of all pages: sections beside them, notices and refusals above."""

    def __init__(self, pages: Sequence[BoardPage]) -> None:
        self._sections = [page for page in pages if page.name]
        self._notices = {
            word: says
            for page in pages
            for action in page.actions
            for word, says in action.notices.items()
        }

    def draw(
        self, view: View, visit: Visit, shown: BoardPage, *, notice: str = "", refusal: str = ""
    ) -> Response:
        """Return a page.

        ``notice``: The word of an action's notice; any other is ignored.
        ``refusal``: Why something could not be done.
        """
        readable = [each for each in self._sections if visit.caller.may_one(each.needed)]
        values = {
            "view": view,
            "section": next(
                (s for s in readable if s.address == (shown.section or shown.address)), None
            ),
            "at_section": not shown.section and view.heading,
            "sections": readable,
            "notice": self._notices.get(notice),
            "refusal": refusal,
            "may_change": visit.caller.may(Permission.ADMINISTER),
            **view.values,
        }
        return page(view.template, values, visit=visit, status=view.status)
