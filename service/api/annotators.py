"""Routes for annotators, their groups and the groups' noise rates."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import number_in
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import AnswerBody, Example, RequestBody, WhollyListed
from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.errors import (
    AnnotatorNotFound,
    FieldFault,
    GroupNotFound,
    InvalidRequest,
    StaleVersion,
)
from setwise.service.services.analysis.noise import (
    BlindNoise,
    GroupReport,
    NoiseOverlap,
    NoiseProblem,
    NoiseWithSuggestion,
)
from setwise.service.services.annotators import AnnotatorReport

router = APIRouter(prefix="/v1/admin", tags=["administration"], route_class=StrictRoute)

_ID = "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"
_RATE: Example = {"value": 0.2, "low": 0.14, "high": 0.27, "level": 0.9, "checked": 96}
_FINDING: Example = {
    "kind": "too-few-gold-wrong",
    "about": "coders",
    "detail": "'coders' has 12 gold labels on wrong predictions; 20 are needed",
    "blocking": True,
    "needed": 8,
}
_GROUP: Example = {
    "id": "coders",
    "name": "Coders",
    "noise": {"mode": "estimated", "alpha": None, "beta": None},
    "usable": False,
    "estimate": {
        "alpha": _RATE,
        "beta": {"value": 0.08, "low": 0.01, "high": 0.3, "level": 0.9, "checked": 12},
        "waiting": 3,
        "pooled": ["coders"],
        "split": None,
        "alpha_halves": None,
    },
    "with_suggestion": None,
    "overlap": None,
    "findings": [_FINDING],
    "version": 1,
    "changed_at": "2026-11-21T09:00:00Z",
    "changed_by": _ID,
}
_IfMatch = Annotated[
    str | None, Header(description="The `ETag` of what you mean to change; optional.")
]
_Days = Annotated[int, Query(ge=1, le=366, description="Days until now that `pace` is about.")]
_DAYS = 28


class FixedRates(RequestBody):
    """Noise rates that you set."""

    alpha: float = Field(
        allow_inf_nan=False, description="How often right predictions are contradicted."
    )
    beta: float = Field(
        allow_inf_nan=False, description="How often wrong predictions are agreed with."
    )


class GroupNoiseBody(RequestBody):
    """Where a group's noise rates come from.

    People tend to follow a suggestion they see, so answers given with it in view have other rates.
    """

    mode: Literal["fixed", "estimated"] = Field(
        description="Of blind answers. `fixed`: set by you; `estimated`: from gold labels."
    )
    alpha: float | None = Field(
        None, allow_inf_nan=False, description="How often right predictions are contradicted."
    )
    beta: float | None = Field(
        None, allow_inf_nan=False, description="How often wrong predictions are agreed with."
    )

    with_suggestion: FixedRates | None = Field(
        None,
        description="Rates that you set for answers given with the suggestion in view. null: "
        "estimated from blind second readings; if there are too few, calibrators leave such "
        "answers out.",
    )

    def as_rates(self) -> Rates | None:
        """Return the rates of blind answers; raises `InvalidRequest` if they are inconsistent."""
        rates = {"alpha": self.alpha, "beta": self.beta}
        fixed = self.mode == "fixed"
        faults = [
            FieldFault(
                f"/noise/{name}",
                "is missing; mode 'fixed' needs a number from 0, below 1"
                if fixed
                else "must be null in mode 'estimated', where gold labels give it",
            )
            for name, rate in rates.items()
            if (rate is None) is fixed
        ]
        if faults:
            raise InvalidRequest("The group cannot be stored like this.", faults)
        return None if self.alpha is None or self.beta is None else Rates(self.alpha, self.beta)


class GroupRequest(RequestBody):
    """A group of annotators with the same error rates."""

    examples = (
        {"name": "Coders", "noise": {"mode": "estimated"}},
        {
            "name": "Students",
            "noise": {
                "mode": "fixed",
                "alpha": 0.2,
                "beta": 0.05,
                "with_suggestion": {"alpha": 0.05, "beta": 0.3},
            },
        },
    )

    name: str
    noise: GroupNoiseBody = Field(
        default_factory=lambda: GroupNoiseBody(mode="estimated", alpha=None, beta=None)
    )

    def as_change(self) -> GroupChange:
        """Return the change for the service."""
        shown = self.noise.with_suggestion
        return GroupChange(
            self.name,
            self.noise.as_rates(),
            None if shown is None else Rates(shown.alpha, shown.beta),
        )


class Group(AnswerBody):
    """A group of annotators and its error rates."""

    examples = (_GROUP,)

    id: str
    name: str
    noise: GroupNoiseBody
    usable: bool = Field(description="Calibrators may learn from its blind answers.")
    estimate: BlindNoise | None = Field(
        description="Of blind answers; null while there are no gold labels."
    )
    with_suggestion: NoiseWithSuggestion | None = Field(
        description="Of other answers; null while there are no second readings."
    )
    overlap: NoiseOverlap | None = Field(description="null while there are too few pairs.")
    findings: list[NoiseProblem]
    version: int
    changed_at: datetime
    changed_by: str

    @classmethod
    def of(cls, report: GroupReport) -> Self:
        """Return the body for a group."""
        group, shown = report.group, report.group.fixed_with_suggestion
        fixed = {} if group.fixed is None else group.fixed._asdict()
        return cls(
            id=group.id,
            name=group.name,
            noise=GroupNoiseBody(
                mode="fixed" if fixed else "estimated",
                with_suggestion=None if shown is None else FixedRates(**shown._asdict()),
                **fixed,
            ),
            usable=report.usable,
            estimate=report.blind,
            with_suggestion=report.in_view,
            overlap=report.compared,
            findings=report.problems,
            version=group.version,
            changed_at=group.changed_at,
            changed_by=group.changed_by,
        )


class GroupPage(WhollyListed[Group]):
    """Every group, by id."""


class AnnotatorRequest(RequestBody):
    """The group of an annotator."""

    examples = ({"group": "coders"},)

    group: str = Field(description="Its id. Answers given before stay with the group before.")


class AnnotatorPage(WhollyListed[AnnotatorReport]):
    """All current and past annotators, by name."""


@router.get("/annotators", response_model=AnnotatorPage)
def list_annotators(caller: CallerOf, services: ServicesOf, days: _Days = _DAYS) -> Response:
    """List current and past annotators with their groups, in one page."""
    return listed_wholly(services.annotators.page(caller, timedelta(days=days)))


@router.get(
    "/annotators/{annotator_id}",
    response_model=AnnotatorReport,
    responses=answering("ETag") | documented(AnnotatorNotFound),
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


@router.get("/groups", response_model=GroupPage)
def list_groups(caller: CallerOf, services: ServicesOf) -> Response:
    """List the groups of annotators with noise rates, in one page."""
    return listed_wholly(map(Group.of, services.annotators.groups(caller)))


@router.get(
    "/groups/{group_id}",
    response_model=Group,
    responses=answering("ETag") | documented(GroupNotFound),
)
def get_group(caller: CallerOf, group_id: str, services: ServicesOf) -> Response:
    """Read a group's noise rates, their intervals, and problems with them."""
    report = services.annotators.get_group(caller, group_id)
    return answer(Group.of(report), etag=report.group.version, counts=True)


@router.put(
    "/groups/{group_id}",
    response_model=Group,
    responses=answering("ETag") | documented(StaleVersion),
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
