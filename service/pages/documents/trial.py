"""A text to try: what would happen to it, without a trace."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Response

from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.errors import BlindReviewHeld, InvalidRequest, ModelUnavailable
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import Reads, Sends
from setwise.service.pages.documents.predictions import candidates, content, evidence, why
from setwise.service.pages.rendering import page
from setwise.service.pages.routes import PageRoute
from setwise.service.sign_in.sessions import Visit

HERE = "/try"

router = APIRouter(route_class=PageRoute)


@router.get(HERE)
def show(visit: Reads) -> Response:
    """Ask for a text to try."""
    return _trial(visit, "")


@router.post(HERE)
def act(services: ServicesOf, visit: Sends, text: Annotated[str, Form()] = "") -> Response:
    """Show what would happen to a text; nothing is stored."""
    try:
        prediction = services.documents.try_out(visit.caller, text)
    except (InvalidRequest, BlindReviewHeld, ModelUnavailable) as refusal:
        faults = [fault.detail for fault in getattr(refusal, "faults", ())]
        return _trial(visit, text, " ".join([str(refusal), *faults]))
    weights = services.documents.explain(visit.caller, prediction)
    parts = [
        ui.Card("What would happen", [ui.text(why(prediction))]),
        ui.Card("Text", [content(prediction.document, weights)]),
        *evidence(prediction, weights),
        ui.Card("Label sets", candidates(prediction)),
    ]
    return _trial(visit, text, parts=parts)


def _trial(visit: Visit, text: str, refusal: str = "", parts: Sequence[ui.Piece] = ()) -> Response:
    view = ui.View(
        "Try a text",
        parts,
        lead="See the label sets of a text, and what would happen to it. Nothing is stored.",
    )
    values = {"view": view, "trial": text, "refusal": refusal}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refusal else HTTPStatus.OK
    return page("try.html", values, visit=visit, status=status)
