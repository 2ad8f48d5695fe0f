"""Groups of annotators: who belongs where, and what is taken for their mistakes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import InvalidRequest, StaleVersion
from setwise.service.pages.board.frame import done, framed
from setwise.service.pages.board.policy import percent
from setwise.service.pages.figures import numerals
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/groups"

_PLACES = {
    "/path/group_id": "group",
    "/name": "name",
    "/noise/alpha": "alpha",
    "/noise/beta": "beta",
}
SOURCES = (
    ("estimated", "Estimated", "From audits that a lead decided, with intervals."),
    ("fixed", "Set by hand", "You vouch for them."),
)


def group_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the groups."""
    router = APIRouter(route_class=Page)
    router.include_router(_one_group(verbs, visitors))

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
        done: str = "",
    ) -> Response:
        """List groups and annotators, and offer to make a group."""
        return _list(verbs, visit, Filled.of(), notice=done)

    @router.post(HERE)
    def make(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Make a group whose rates are estimated."""
        group = form.text("group")
        try:
            verbs.change_group(
                visit.caller, group, GroupChange(form.text("name")), 0,
                request_id=request_id_of(request),
            )  # fmt: skip
        except InvalidRequest as error:
            form.refused(error, _PLACES)
        except StaleVersion:
            form.blame("group", f"There is a group {group!r} already; choose another id.")
        else:
            return done(f"{HERE}/{group}", "group-made")
        return _list(verbs, visit, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    return router


def _one_group(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of one group and of who belongs to it."""
    router = APIRouter(route_class=Page)

    @router.post(f"{HERE}/place")
    def place(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Put an annotator into a group."""
        version = form.whole("version", 0, 10**9)
        try:
            verbs.place_annotator(
                visit.caller,
                form.text("annotator"),
                form.text("group"),
                version,
                request_id=request_id_of(request),
            )
        except (InvalidRequest, StaleVersion) as error:
            form.blame("", error.detail)
            plain = Filled(dict[str, list[str]](), form.faults)
            return _list(verbs, visit, plain, status=HTTPStatus.CONFLICT)
        return done(HERE, "annotator-placed")

    @router.get(f"{HERE}/{{group_id}}")
    def one(
        group_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
        done: str = "",
    ) -> Response:
        """Show one group with what is known of its mistakes."""
        return _one(verbs, visit, group_id, notice=done)

    @router.post(f"{HERE}/{{group_id}}")
    def change(
        request: Request,
        group_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Change a group's name, or where its rates come from."""
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        version, wanted = form.whole("version", 0, 10**9), _change(form)
        if wanted is not None and version is not None:
            try:
                verbs.change_group(
                    visit.caller, group_id, wanted, version, request_id=request_id_of(request)
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            except StaleVersion:
                form.blame("", "Somebody changed it meanwhile; look at it above and decide again.")
                status = HTTPStatus.PRECONDITION_FAILED
            else:
                return done(f"{HERE}/{group_id}", "group-changed")
        return _one(verbs, visit, group_id, form=form, status=status)

    return router


def _change(form: Filled) -> GroupChange | None:
    rates = None
    if form.text("source") == "fixed":
        alpha, beta = form.percent("alpha"), form.percent("beta")
        rates = None if alpha is None or beta is None else Rates(alpha, beta)
    return None if form.faults else GroupChange(form.text("name"), rates)


def _list(
    verbs: Verbs,
    visit: Visit,
    form: Filled,
    *,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    groups = verbs.list_groups(visit.caller)
    annotators = verbs.list_annotators(visit.caller)
    values = {
        "groups": [(one, one.shown()) for one in groups],
        "annotators": [(one, one.shown()) for one in annotators],
        "members": {
            one.group.id: sum(each.annotator.group == one.group.id for each in annotators)
            for one in groups
        },
        "form": form,
        "share": share,
    }
    return framed(
        "board_groups.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _one(
    verbs: Verbs,
    visit: Visit,
    group_id: str,
    *,
    form: Filled | None = None,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    report = verbs.get_group(visit.caller, group_id)
    fixed = report.group.fixed
    typed = {
        "name": report.group.name,
        "source": "estimated" if fixed is None else "fixed",
        "alpha": "" if fixed is None else percent(fixed.alpha),
        "beta": "" if fixed is None else percent(fixed.beta),
    }
    values = {
        "report": report,
        "known": report.shown(),
        "form": form or Filled.of(**typed),
        "sources": SOURCES,
        "share": share,
        "percent": percent,
    }
    return framed(
        "board_group.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def share(found: object) -> str:
    """Write an estimate with its interval, in percent.

    >>> share({"value": 0.05, "low": 0.01, "high": 0.125, "checked": 40})
    '5.0 % (1.0 % to 12.5 %, 40 checked)'
    """
    if not isinstance(found, Mapping) or not found["checked"]:
        return "unknown"
    value, low, high = (numerals.percent(float(found[name])) for name in ("value", "low", "high"))
    return f"{value} ({low} to {high}, {found['checked']:,} checked)"
