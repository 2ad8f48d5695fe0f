"""Routes for annotators, their groups and the groups' noise rates."""

from datetime import datetime, timedelta
from typing import Annotated, Self

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import number_in
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import AnswerBody, Probability, WhollyListed
from setwise.service.domain.errors import (
    AnnotatorNotFound,
    GroupNotFound,
    StaleVersion,
)
from setwise.service.requests import Example
from setwise.service.requests.annotators import AnnotatorRequest, GroupNoiseBody, GroupRequest
from setwise.service.services.analysis.noise import GroupReport
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
_ANNOTATOR: Example = {
    "id": _ID,
    "name": "Ann Lee",
    "group": "coders",
    "answers": 412,
    "blind_answers": 57,
    "mean_seconds": 38.4,
    "pace": {"decisions": 96, "median_seconds": 31.5},
    "last_answer_at": "2026-11-21T09:00:00Z",
    "alpha": _RATE,
    "beta": None,
    "agreements": {
        "read_again": 40,
        "contradicted": 2,
        "rate": {"value": 0.05, "low": 0.009, "high": 0.149, "level": 0.9, "checked": 40},
    },
    "version": 1,
}
_IfMatch = Annotated[
    str | None, Header(description="The `ETag` of what you mean to change; optional.")
]
_Days = Annotated[int, Query(ge=1, le=366, description="Days until now that `pace` is about.")]
_DAYS = 28


class NoiseRate(AnswerBody):
    """How often answers are wrong, estimated from gold labels."""

    value: Probability
    low: Probability = Field(description="The interval holds the rate with probability `level`.")
    high: Probability
    level: Probability
    checked: int = Field(ge=0, description="Number of gold labels that it is based on.")


class NoiseFindingBody(AnswerBody):
    """A problem with learning from answers."""

    kind: str = Field(description="A stable name, such as `too-few-gold-wrong`.")
    about: str = Field(description="The group or annotator.")
    detail: str = Field(description="What is wrong, and what would be right.")
    blocking: bool = Field(description="While this is true, recalibration ignores these answers.")
    needed: int | None = Field(description="Further gold labels that would fix it.")


class NoiseEstimateBody(AnswerBody):
    """Noise rates of a group, from blind answers that leads checked."""

    alpha: NoiseRate = Field(description="Of contradictions, where the prediction is right.")
    beta: NoiseRate = Field(description="Of agreements, where it is wrong.")
    waiting: int = Field(
        ge=0,
        description="Contradictions that wait for a lead: the intervals allow for any decision.",
    )
    pooled: list[str] = Field(description="Groups too small alone, whose labels went together.")
    split: Probability | None = Field(
        description="The confidence that separates low from high, where alpha differs between them."
    )
    alpha_halves: list[NoiseRate] | None = Field(description="Alpha below the split, and above.")


class NoiseWithSuggestion(AnswerBody):
    """Noise rates of a group's answers given with the suggestion in view.

    Blind second readings show them: where both people agree, that counts as the truth, otherwise a
    lead's decision does.
    """

    usable: bool = Field(description="Calibrators may learn from such answers.")
    pooled: list[str] = Field(description="Groups too small alone, whose labels went together.")
    alpha: NoiseRate
    beta: NoiseRate


class NoiseOverlap(AnswerBody):
    """Noise rates of a group, estimated from second readings.

    They are only a comparison, because the first reader saw candidates.
    """

    alpha: Probability
    alpha_error: float = Field(description="Standard error.")
    beta: Probability
    documents: int
    misfit_p_value: Probability | None = Field(
        description="Small where two rates do not explain the answers."
    )


class Group(AnswerBody):
    """A group of annotators and its error rates."""

    examples = (_GROUP,)

    id: str
    name: str
    noise: GroupNoiseBody
    usable: bool = Field(description="Calibrators may learn from its blind answers.")
    estimate: NoiseEstimateBody | None = Field(
        description="Of blind answers; null while there are no gold labels."
    )
    with_suggestion: NoiseWithSuggestion | None = Field(
        description="Of other answers; null while there are no second readings."
    )
    overlap: NoiseOverlap | None = Field(description="null while there are too few pairs.")
    findings: list[NoiseFindingBody]
    version: int
    changed_at: datetime
    changed_by: str

    @classmethod
    def of(cls, report: GroupReport) -> Self:
        """Return the body for a group."""
        group, shown = report.group, report.group.fixed_with_suggestion
        noise: dict[str, object] = (
            {"mode": "estimated"}
            if group.fixed is None
            else {"mode": "fixed", **group.fixed._asdict()}
        )
        noise["with_suggestion"] = None if shown is None else shown._asdict()
        own = {name: value for name, value in vars(group).items() if not name.startswith("fixed")}
        return cls.model_validate({**own, "noise": noise, **report.shown()})


class GroupPage(WhollyListed[Group]):
    """Every group, by id."""


class Pace(AnswerBody):
    """How much, and how fast, an annotator has decided lately."""

    decisions: int = Field(ge=0)
    median_seconds: float | None = Field(
        ge=0, description="From claim to decision; null without decisions."
    )


class RereadAgreements(AnswerBody):
    """An annotator's agreements with the model that leads read again, drawn by chance."""

    read_again: int = Field(ge=0)
    contradicted: int = Field(ge=0, description="Of these, by the lead.")
    rate: NoiseRate | None = Field(
        description="Share of them, with its exact interval; null if none was read again."
    )


class AnnotatorBody(AnswerBody):
    """An annotator, their pace and error rates.

    The setting `PERSONAL_FIGURES` decides who sees figures of others; for anyone else they are
    null.
    """

    examples = (_ANNOTATOR,)

    id: str = Field(description="Of the person or key.")
    name: str | None = Field(description="null for a deleted account.")
    group: str
    answers: int | None = Field(ge=0)
    blind_answers: int | None = Field(ge=0, description="Given without seeing another answer.")
    mean_seconds: float | None = Field(ge=0)
    last_answer_at: datetime | None
    pace: Pace | None = Field(description="Of the last `days`.")
    alpha: NoiseRate | None = Field(
        description="Shrunk towards the group's; null without gold labels. Only for talking with "
        "people: calibrators use the group's."
    )
    beta: NoiseRate | None
    agreements: RereadAgreements | None
    version: int = Field(description="0 for an annotator who was never placed in a group.")

    @classmethod
    def of(cls, report: AnnotatorReport) -> Self:
        """Return the body for an annotator."""
        counts = ("answers", "blind_answers", "mean_seconds", "last_answer_at")
        return cls.model_validate(
            {
                **vars(report.annotator),
                "name": report.name,
                **dict(zip(counts, report.answers or (None,) * len(counts), strict=True)),
                "pace": report.pace and report.pace._asdict(),
                **report.shown(),
            }
        )


class AnnotatorPage(WhollyListed[AnnotatorBody]):
    """All current and past annotators, by name."""


@router.get("/annotators", response_model=AnnotatorPage)
def list_annotators(caller: CallerOf, services: ServicesOf, days: _Days = _DAYS) -> Response:
    """List current and past annotators with their groups, in one page."""
    return listed_wholly(
        map(AnnotatorBody.of, services.annotators.page(caller, timedelta(days=days)))
    )


@router.get(
    "/annotators/{annotator_id}",
    response_model=AnnotatorBody,
    responses=answering("ETag") | documented(AnnotatorNotFound),
)
def get_annotator(
    caller: CallerOf, annotator_id: str, services: ServicesOf, days: _Days = _DAYS
) -> Response:
    """Read an annotator's group, number of answers, pace and error rates."""
    report = services.annotators.get(caller, annotator_id, timedelta(days=days))
    return answer(AnnotatorBody.of(report), etag=report.annotator.version, counts=True)


@router.put(
    "/annotators/{annotator_id}",
    response_model=AnnotatorBody,
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
        number_in(
            if_match, lambda: services.annotators.get(caller, annotator_id).annotator.version
        ),
    )
    return answer(AnnotatorBody.of(placed), etag=placed.annotator.version, counts=True)


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
