"""A text to try: what would happen to it, without a trace.

Question: what would happen to this text?
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Response

from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.errors import BlindReviewHeld, InvalidRequest, ModelUnavailable
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import Reads, Sends
from setwise.service.pages.documents.predictions import candidates, content, evidence, why
from setwise.service.pages.rendering import page
from setwise.service.pages.routes import PageRoute
from setwise.service.services.all import Services
from setwise.service.services.analysis.reliability import LEAST_CHECKED
from setwise.service.sign_in.sessions import Visit

HERE = "/try"
NEWEST, LONGEST = 10, 1_000
"""Documents among which an example is looked for, and the most characters of it."""
JUDGED = 5_000
"""Most recent documents that say what an external model's confidences are worth."""

router = APIRouter(route_class=PageRoute)


@router.get(HERE)
def show(services: ServicesOf, visit: Reads, example: str = "") -> Response:
    """Ask for a text to try; the words of a stored document fill in an ``example``."""
    text = _example(services, visit.caller) if example else ""
    parts: list[ui.Piece] = list(_judgement(services, visit.caller))
    if example and not text:
        parts.insert(0, ui.note("None of the newest documents has a text, so there is no example."))
    return _trial(visit, text, parts=parts)


@router.post(HERE)
def act(services: ServicesOf, visit: Sends, text: Annotated[str, Form()] = "") -> Response:
    """Show what would happen to a text; nothing is stored."""
    try:
        prediction = services.documents.try_out(visit.caller, text)
    except (InvalidRequest, BlindReviewHeld, ModelUnavailable) as refusal:
        faults = [fault.detail for fault in getattr(refusal, "faults", ())]
        parts = _judgement(services, visit.caller)
        return _trial(visit, text, " ".join([str(refusal), *faults]), parts)
    weights = services.documents.explain(visit.caller, prediction)
    words = evidence(prediction, weights)
    parts = [
        ui.Card("What would happen", [ui.text(why(prediction))]),
        *_judgement(services, visit.caller),
        ui.Card("Text", [content(prediction.document, weights)]),
        ui.Card("Label sets", candidates(prediction)),
        *([ui.Card("Why these labels", words)] if words else []),
    ]
    return _trial(visit, text, parts=parts)


def _example(services: Services, caller: Caller) -> str:
    """Return the first words of the newest document with a text; empty without any."""
    newest = services.documents.find(caller, limit=NEWEST).page.items
    text = next(
        (each.prediction.document.text for each in newest if each.prediction.document.text), ""
    )
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0]


def _judgement(services: Services, caller: Caller) -> Sequence[ui.Piece]:
    """Return what another model's confidences are worth; empty for a model of texts."""
    if not caller.may(Permission.REPORT):
        return ()
    try:
        if not services.documents.predictors.active().external:
            return ()
    except ModelUnavailable:
        return ()
    curve = services.reports.reliability(caller, JUDGED).curve
    sentence = (
        f"Too few documents have been checked to tell: it takes {LEAST_CHECKED}."
        if curve is None
        else f"{curve.judgement} From {curve.checked:,} of the last {JUDGED:,} documents."
    )
    return (ui.Card("What the confidences of the external model are worth", [ui.text(sentence)]),)


def _trial(visit: Visit, text: str, refusal: str = "", parts: Sequence[ui.Piece] = ()) -> Response:
    view = ui.View(
        "Try a text",
        parts,
        lead="See the label sets of a text, and what would happen to it. Nothing is stored.",
    )
    values = {"view": view, "trial": text, "refusal": refusal, "place": HERE}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refusal else HTTPStatus.OK
    return page("try.html", values, visit=visit, status=status)
