"""One document: its prediction, and all that happened to it.

Question: what became of this document, and why?
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from markupsafe import Markup

from setwise.models.figures.numerals import confidence
from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.documents import EventKind, Life, LifeEvent
from setwise.service.domain.labels import UNNAMED
from setwise.service.domain.predictions import Prediction, Priority
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.routing.segments import value_of
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import HERE, Reads, Sends, address, of_document
from setwise.service.pages.documents.comments import commented, stored
from setwise.service.pages.documents.predictions import (
    answered,
    candidates,
    content,
    evidence,
    labels_of,
    posted_again,
    why,
)
from setwise.service.pages.forms import Filled, filled, inputs
from setwise.service.pages.rendering import go
from setwise.service.pages.routes import PageRoute
from setwise.service.requests.reviews import ReopenRequest
from setwise.service.services.all import Services
from setwise.service.sign_in.sessions import Visit

router = APIRouter(route_class=PageRoute)


@router.get(f"{HERE}/{{prediction_id}}")
def tell(services: ServicesOf, prediction_id: str, visit: Reads) -> Response:
    """Show a document and all that happened to it."""
    return _document(services, visit, prediction_id)


@router.post(f"{HERE}/{{prediction_id}}/reopen")
def reopen(
    services: ServicesOf, prediction_id: str, visit: Sends, form: Annotated[Filled, Depends(filled)]
) -> Response:
    """Have a document decided again."""

    def act(reopening: ReopenRequest) -> None:
        services.answers.reopen(visit.caller, prediction_id, reopening.reason)

    if form.carry_out(ReopenRequest, act):
        return go(of_document(prediction_id))
    return _document(services, visit, prediction_id, form)


@router.post(f"{HERE}/{{prediction_id}}/comments")
def comment(
    services: ServicesOf, prediction_id: str, visit: Sends, form: Annotated[Filled, Depends(filled)]
) -> Response:
    """Comment on a document."""
    if stored(form, services, visit, prediction_id):
        return go(f"{of_document(prediction_id)}#comments")
    return _document(services, visit, prediction_id, tried=form)


def _document(
    services: Services,
    visit: Visit,
    prediction_id: str,
    form: Filled | None = None,
    tried: Filled | None = None,
) -> Response:
    life = services.documents.get(visit.caller, prediction_id)
    prediction, document = life.prediction, life.prediction.document
    weights = services.documents.explain(visit.caller, prediction)
    words = evidence(prediction, weights)
    view = ui.View(
        document.id or "Untitled document",
        [
            ui.text(why(prediction), "lead"),
            *_posted_again(prediction),
            ui.Card("Text", [content(document, weights)]),
            *answered(prediction),
            *([ui.Card("Label sets", sets)] if (sets := candidates(prediction)) else []),
            ui.Card("What happened", [ui.Table("All events", _events(), life.events())]),
            *([ui.More("Words for and against each label", words)] if words else []),
            ui.More("Details", [_details(prediction)]),
            *_reopening(life, form),
        ],
    )
    values = {"view": view, "crumb": HERE}
    return commented(
        services,
        visit,
        prediction,
        of_document(prediction.id),
        values,
        tried=tried,
        refused=form is not None,
    )


def _posted_again(prediction: Prediction) -> Sequence[ui.Piece]:
    earlier = posted_again(prediction)
    if not earlier:
        return ()
    return (ui.text(f"Its client posted it {earlier}, within 30 days.", "quiet"),)


def _reopening(life: Life, form: Filled | None) -> Sequence[ui.Piece]:
    if not form:
        for task in life.tasks:
            if task.state is not ReviewState.COMPLETED:
                return (ui.text(f"{task.awaited} Then you can reopen it.", "quiet"),)
    address = f"{of_document(life.prediction.id)}/reopen"
    hint = "It goes back to review; other programs are notified if the answer changes."
    shown = form or Filled.of()
    return (ui.Form("Reopen the document", "Reopen", hint, address, inputs(ReopenRequest), shown),)


_HAPPENED: Mapping[EventKind, str] = {
    EventKind.PREDICTED: "Predicted",
    EventKind.DRAWN: "Drawn for an audit",
    EventKind.COMMENT: "Comment",
    EventKind.FLAGGED: "Flagged",
    EventKind.RESOLVED: "Flag resolved",
    EventKind.REOPENED: "Reopened",
    EventKind.QUEUED: "Review opened",
    EventKind.SKIPPED: "Skipped",
    EventKind.ANSWERED: "Submitted",
    EventKind.OUTCOME: "Outcome reported",
    EventKind.SENT: "Sent",
    EventKind.DELIVERED: "Delivered to a webhook",
    EventKind.UNDELIVERED: "Not delivered to a webhook",
}


def _events() -> Sequence[ui.Column[LifeEvent]]:
    def who(event: LifeEvent) -> object:
        name = event.name or event.by
        return ui.joined(name) if name else ui.quiet("the service")

    def what(event: LifeEvent) -> Markup:
        if event.kind is EventKind.PREDICTED and event.labels is None:
            return ui.joined("Received")
        return ui.joined(_HAPPENED[event.kind], ui.sub(event.detail))

    def labels(event: LifeEvent) -> object:
        if event.labels is None:
            return ui.joined(event.comment or "")
        differs = event.agreed is False
        return ui.joined(
            labels_of([*event.labels, UNNAMED] if event.label_missing else event.labels),
            " " if differs else "",
            ui.badge("differs", "bad") if differs else "",
            ui.sub(event.comment),
        )

    return (
        ui.Column("When (UTC)", lambda event: event.at),
        ui.Column("What", what, "head"),
        ui.Column("By", who),
        ui.Column("Labels", labels, "wrap"),
    )


def _details(prediction: Prediction) -> ui.Facts:
    scored, chance = prediction.scored, prediction.selection.inclusion_probability
    segment, document = value_of(prediction.segment), prediction.document
    version, calibrator = scored.model_version, scored.calibrator_version
    return ui.Facts(
        [
            ("Received", ui.instant(prediction.created_at, zone=True)),
            ("Segment", segment and ui.link(address(segment=segment), segment)),
            ("Model", version and ui.link(address(model_version=version), version)),
            (
                "Calibrator",
                calibrator and ui.link(address(calibrator_version=calibrator), calibrator),
            ),
            ("Probability of audit", chance and confidence(chance)),
            ("Priority", Priority(document.priority).name.lower()),
            ("Due", document.due_at and ui.instant(document.due_at, zone=True)),
            *((f"Metadata: {name}", str(value)) for name, value in document.metadata.items()),
            ("Prediction", ui.code(prediction.id)),
        ]
    )
