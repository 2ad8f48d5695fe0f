"""Routes for annotators, their groups and the groups' noise rates."""

from datetime import timedelta
from typing import Annotated, Self

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import number_in
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import WhollyListed
from setwise.service.api.views import View
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.annotators import AnnotatorGroup
from setwise.service.domain.errors import (
    AnnotatorNotFound,
    GroupNotFound,
    StaleVersion,
)
from setwise.service.requests.annotators import (
    AnnotatorRequest,
    FixedRates,
    GroupNoiseBody,
    GroupRequest,
)
from setwise.service.services.analysis.noise import (
    BlindNoise,
    GroupReport,
    NoiseProblem,
)
from setwise.service.services.annotators import AnnotatorReport

router = APIRouter(prefix="/v1/admin", tags=["administration"], route_class=StrictRoute)

_IfMatch = Annotated[
    str | None, Header(description="The `ETag` of what you mean to change; optional.")
]
_Days = Annotated[int, Query(ge=1, le=366, description="Days until now that `pace` is about.")]
_DAYS = 28


class Group(View, of=AnnotatorGroup, shows="id name version changed_at changed_by"):
    """A group of annotators and its error rates."""

    noise: GroupNoiseBody
    usable: bool = Field(description="Calibrators may learn from its blind answers.")
    estimate: BlindNoise | None = Field(
        description="Of blind answers; null while there are no gold labels."
    )
    findings: list[NoiseProblem]

    @classmethod
    def of(cls, report: GroupReport) -> Self:
        """Return the body for a group."""
        group, shown = report.group, report.group.fixed_with_suggestion
        fixed = {} if group.fixed is None else group.fixed._asdict()
        return cls.show(
            group,
            noise=GroupNoiseBody(
                mode="fixed" if fixed else "estimated",
                with_suggestion=None if shown is None else FixedRates(**shown._asdict()),
                **fixed,
            ),
            usable=report.usable,
            estimate=report.blind,
            findings=report.problems,
        )


class GroupPage(WhollyListed[Group]):
    """Every group, by id."""


class AnnotatorPage(WhollyListed[AnnotatorReport]):
    """All current and past annotators, by name."""


@router.get(
    "/annotators",
    response_model=AnnotatorPage,
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def list_annotators(caller: CallerOf, services: ServicesOf, days: _Days = _DAYS) -> Response:
    """List current and past annotators with their groups, in one page."""
    return listed_wholly(services.annotators.page(caller, timedelta(days=days)))


@router.get(
    "/annotators/{annotator_id}",
    response_model=AnnotatorReport,
    responses=answering("ETag") | documented(AnnotatorNotFound),
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def get_annotator(
    caller: CallerOf, annotator_id: str, services: ServicesOf, days: _Days = _DAYS
) -> Response:
    """Read an annotator's group, number of answers, pace and error rates."""
    report = services.annotators.get(caller, annotator_id, timedelta(days=days))
    return answer(report, etag=report.version, counts=True)


@router.put(
    "/annotators/{annotator_id}",
    response_model=AnnotatorReport,
    responses=answering("ETag") | documented(AnnotatorNotFound, StaleVersion),
    dependencies=[needs(Permission.ADMINISTER)],
)
def place_annotator(
    caller: CallerOf,
    annotator_id: str,
    body: AnnotatorRequest,
    services: ServicesOf,
    *,
    if_match: _IfMatch = None,
) -> Response:
    """Assign an annotator to a group, from their next answer on."""
    placed = services.annotators.place(
        caller,
        annotator_id,
        body.group,
        number_in(if_match, lambda: services.annotators.get(caller, annotator_id).version),
    )
    return answer(placed, etag=placed.version, counts=True)


@router.get(
    "/groups",
    response_model=GroupPage,
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def list_groups(caller: CallerOf, services: ServicesOf) -> Response:
    """List the groups of annotators with noise rates, in one page."""
    return listed_wholly(map(Group.of, services.annotators.groups(caller)))


@router.get(
    "/groups/{group_id}",
    response_model=Group,
    responses=answering("ETag") | documented(GroupNotFound),
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def get_group(caller: CallerOf, group_id: str, services: ServicesOf) -> Response:
    """Read a group's noise rates, their intervals, and problems with them."""
    report = services.annotators.get_group(caller, group_id)
    return answer(Group.of(report), etag=report.group.version, counts=True)


@router.put(
    "/groups/{group_id}",
    response_model=Group,
    responses=answering("ETag") | documented(StaleVersion),
    dependencies=[needs(Permission.ADMINISTER)],
)
def change_group(
    caller: CallerOf,
    group_id: str,
    body: GroupRequest,
    services: ServicesOf,
    *,
    if_match: _IfMatch = None,
) -> Response:
    """Create a group, or change its name or its noise rates."""
    changed = services.annotators.change_group(
        caller,
        group_id,
        body.as_change(),
        number_in(if_match, lambda: services.annotators.get_group(caller, group_id).group.version),
    )
    return answer(Group.of(changed), etag=changed.group.version, counts=True)
