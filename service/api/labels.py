"""Routes for labels: search them, propose new ones, and decide on those."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import number_in
from setwise.service.api.http.dependencies import CallerOf, EdgeOf, ServicesOf, answer, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import Listed, Paged
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import (
    LabelNotFound,
    ModelUnavailable,
    PredictionNotFound,
    SimilarLabels,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.labels import CatalogueLabel, LabelChange, LabelMatch, LabelState
from setwise.service.requests import RequestBody

router = APIRouter(prefix="/v1", route_class=StrictRoute)


_IfMatch = Annotated[
    str | None, Header(description="The `ETag` of the label as you saw it. Required.")
]


class LabelPage(Listed[LabelMatch]):
    """One page of matching labels, those of the model first."""


class LabelQuery(Paged):
    """Which labels to list."""

    query: str = Field("", max_length=200, description="A part of the label, in either case.")
    state: LabelState | None = Field(
        None, description="Only those in a state; otherwise those to choose from."
    )


class LabelProposal(RequestBody):
    """A label that is missing."""

    label: str
    name: str | None = Field(None, description="What it means.")
    prediction_id: str | None = Field(None, description="The document that it is missing for.")
    insist: bool = Field(False, description="Add it although the catalogue has similar labels.")


class LabelChangeRequest(RequestBody):
    """What you decide on a label."""

    state: Literal["accepted", "retired", "merged"]
    label: str | None = Field(None, description="Its new name; null leaves it.")
    merged_into: str | None = Field(
        None, description="With `merged`: the label that stands for it from now on."
    )
    insist: bool = Field(False, description="Rename it although the catalogue has similar labels.")


@router.get(
    "/labels",
    tags=["reviews"],
    response_model=LabelPage,
    responses=documented(ModelUnavailable),
    dependencies=[needs(Permission.PREDICT, Permission.READ_QUEUE)],
)
def search_labels(
    caller: CallerOf, query: Annotated[LabelQuery, Query()], edge: EdgeOf
) -> Response:
    """Search the labels of the active model and of the catalogue.

    For a picker, or to check a spelling.
    """
    scope = f"labels?{query.state}&{query.query}"
    offset = int(edge.cursors.read(query.cursor, scope) or 0)
    matches = edge.services.labels.search(
        caller, query.query, state=query.state, offset=offset, limit=query.limit
    )
    end = offset + len(matches.items)
    return answer(
        LabelPage(
            items=list(matches.items),
            next_cursor=edge.cursors.write(str(end) if end < matches.total else None, scope),
            limit=query.limit,
        )
    )


@router.post(
    "/labels",
    tags=["reviews"],
    status_code=201,
    response_model=CatalogueLabel,
    response_description="The label, proposed.",
    responses={
        200: {
            "model": CatalogueLabel,
            "description": "The label exists, or another one stands for it; nothing changed.",
        },
        **documented(SimilarLabels, PredictionNotFound, ModelUnavailable),
    },
    dependencies=[needs(Permission.REVIEW)],
)
def propose_label(caller: CallerOf, body: LabelProposal, services: ServicesOf) -> Response:
    """Propose a label that neither the model nor the catalogue has.

    People may give it at once; a lead accepts it, renames it, merges it into another or retires it.
    """
    proposal = services.labels.propose(
        caller, body.label, name=body.name, prediction_id=body.prediction_id, insist=body.insist
    )
    return answer(proposal.label, status=201 if proposal.new else 200)


@router.get(
    "/admin/labels/{name:path}",
    tags=["administration"],
    response_model=CatalogueLabel,
    responses=answering("ETag") | documented(LabelNotFound),
    dependencies=[needs(Permission.READ_ALL_PREDICTIONS)],
)
def get_label(caller: CallerOf, name: str, services: ServicesOf) -> Response:
    """Read what the catalogue says of a label."""
    label = services.labels.get(caller, name)
    return answer(label, etag=label.version)


@router.put(
    "/admin/labels/{name:path}",
    tags=["administration"],
    response_model=CatalogueLabel,
    responses=answering("ETag")
    | documented(LabelNotFound, StaleVersion, VersionRequired, SimilarLabels),
    dependencies=[needs(Permission.REVIEW, leads=True)],
)
def change_label(
    caller: CallerOf,
    name: str,
    *,
    body: LabelChangeRequest,
    services: ServicesOf,
    if_match: _IfMatch = None,
) -> Response:
    """Accept, rename, merge or retire a label.

    Answers with a renamed or merged label read as the other one from now on: in searches, exports
    and figures. Webhooks receive `document.corrected` for what was sent. The history of each
    document keeps what was written. Labels that a model has predicted keep their names.
    """
    seen = number_in(if_match, lambda: services.labels.get(caller, name).version)
    change = LabelChange(LabelState(body.state), body.label, body.merged_into, body.insist)
    label = services.labels.change(caller, name, change, seen)
    return answer(label, etag=label.version)


@router.delete(
    "/admin/labels/{name:path}",
    tags=["administration"],
    status_code=204,
    response_description="The label is removed.",
    responses=documented(LabelNotFound, StaleVersion, VersionRequired),
    dependencies=[needs(Permission.REVIEW, leads=True)],
)
def remove_label(
    caller: CallerOf, name: str, *, services: ServicesOf, if_match: _IfMatch = None
) -> Response:
    """Remove a label that people gave everywhere, such as one that names a patient.

    Answers, their history and messages keep that a label applies, without its name; labels merged
    into it go too. Webhooks receive `document.corrected` for what was sent. Labels that a model
    predicts can only be retired. This cannot be undone.
    """
    seen = number_in(if_match, lambda: services.labels.get(caller, name).version)
    services.labels.remove(caller, name, seen)
    return Response(status_code=204)
