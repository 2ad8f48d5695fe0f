"""What a reviewer answered before, to read again and to correct.

Question: was my answer right?
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.documents import OwnAnswer
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.labels import UNNAMED, Additions
from setwise.service.domain.outcomes import DecidedBy, Resolution
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.annotators import in_a_line
from setwise.service.pages.desk import Reads, Submits
from setwise.service.pages.documents.comments import commented, stored
from setwise.service.pages.documents.predictions import NO_NAME, content, labels_of, name_of
from setwise.service.pages.forms import Filled, filled, inputs, lines
from setwise.service.pages.rendering import go, page
from setwise.service.pages.routes import PageRoute
from setwise.service.pages.typed_labels import unlisted
from setwise.service.requests import Input
from setwise.service.services.all import Services
from setwise.service.sign_in.sessions import Visit

HERE = "/recent"
PAGE = 50

router = APIRouter(route_class=PageRoute)


class Correction(BaseModel):
    """The form that corrects an answer."""

    labels: Annotated[
        str,
        Input("Labels", "One a line, and nothing if no label applies.", "textarea", labels="new"),
    ] = ""
    add: Annotated[
        bool, Input("Add those that are in no list; a lead decides on them", widget="tick")
    ] = False
    seen: Annotated[str, Input(widget="hidden")] = ""
    """New labels beside which known ones much like them were shown."""
    missing: Annotated[
        bool,
        Input(
            "A label is missing: one applies, besides these, that is in no list",
            widget="tick",
            pointers=("/label_missing",),
        ),
    ] = False
    reason: Annotated[str, Input("Why", "Shown with the document.", "textarea")]


_DECIDED_BY: Mapping[DecidedBy, str] = {
    DecidedBy.YOU: "Your answer counts.",
    DecidedBy.REVIEWER: "Another reviewer decided.",
    DecidedBy.LEAD: "A lead decided.",
    DecidedBy.OUTCOME: "Another program reported the right set.",
}


def _decided(answer: OwnAnswer) -> object:
    """Return the decided set, and how the answer differs from it."""
    resolution = answer.resolution
    if resolution is None:
        return ui.quiet("not decided yet")
    if resolution.agreed:
        return ui.badge("as you answered", "good")
    differs = " ".join(
        f"{name}: {', '.join(label or NO_NAME for label in labels)}."
        for name, labels in _differences(resolution)
    )
    by = _DECIDED_BY[resolution.by]
    return ui.joined(labels_of(resolution.labels), ui.sub(differs), ui.sub(by))


def _differences(resolution: Resolution) -> Iterator[tuple[str, Sequence[str]]]:
    if resolution.missed:
        yield "You missed", resolution.missed
    if resolution.surplus:
        yield "Too many", resolution.surplus


def _name(answer: OwnAnswer) -> object:
    return ui.link(f"{HERE}/{answer.prediction.id}", name_of(answer.prediction))


_COLUMNS: Sequence[ui.Column[OwnAnswer]] = (
    ui.Column("Document", _name, "head"),
    ui.Column("Your labels", lambda answer: labels_of(answer.annotation.labels), "wrap"),
    ui.Column("Decided", _decided, "wrap"),
    ui.Column("Submitted (UTC)", lambda answer: answer.annotation.created_at),
    ui.Column("Comment", lambda answer: answer.annotation.comment or "", "wrap"),
)


@router.get(HERE)
def show(request: Request, services: ServicesOf, visit: Reads) -> Response:
    """Show what the person answered, the newest first."""
    after = request.query_params.get("after")
    answers = services.answers.recent(visit.caller, after=after, limit=PAGE)
    own = [] if after else [ui.text(in_a_line(services.annotators.own(visit.caller)), "quiet")]
    parts: list[ui.Piece] = [
        *own,
        ui.Table("Your answers", _COLUMNS, answers.items, "You have not submitted a document yet."),
        ui.Pager(HERE, answers.next_after, {}, started=after is None),
    ]
    lead = (
        "The newest first, with what was decided once nobody reads the document any more. Open one "
        "to read it again, and to correct it unless another person decides."
    )
    values = {"view": ui.View("My answers", parts, lead=lead), "place": "/desk"}
    return page("documents.html", values, visit=visit)


@router.get(f"{HERE}/{{prediction_id}}")
def tell(services: ServicesOf, prediction_id: str, visit: Reads) -> Response:
    """Show a document and what the person answered."""
    return _answer(services, visit, prediction_id)


@router.post(f"{HERE}/{{prediction_id}}")
def correct(
    services: ServicesOf,
    prediction_id: str,
    visit: Submits,
    form: Annotated[Filled, Depends(filled)],
) -> Response:
    """Correct an answer."""

    def act(correction: Correction) -> None:
        labels = lines(correction.labels)
        prediction = services.answers.own(visit.caller, prediction_id).prediction
        new = list(unlisted(services, visit.caller, prediction, labels))
        unseen = [each for each in new if each.label not in form.all("seen")]
        form.show_again("seen", [each.label for each in new])
        if new and (unseen or not correction.add):
            asked = " ".join(each.said() for each in new)
            detail = f"cannot be stored yet: {asked} Correct them, or tick below to add them"
            raise InvalidRequest("", [FieldFault("/labels", detail)])
        additions = Additions(
            [each.label for each in new], insist=True, label_missing=correction.missing
        )
        services.answers.reopen(
            visit.caller, prediction_id, correction.reason, labels, additions=additions
        )

    if form.carry_out(Correction, act):
        return go(f"{HERE}/{prediction_id}")
    return _answer(services, visit, prediction_id, form)


@router.post(f"{HERE}/{{prediction_id}}/comments")
def comment(
    services: ServicesOf,
    prediction_id: str,
    visit: Submits,
    form: Annotated[Filled, Depends(filled)],
) -> Response:
    """Comment on a document."""
    if stored(form, services, visit, prediction_id):
        return go(f"{HERE}/{prediction_id}#comments")
    return _answer(services, visit, prediction_id, tried=form)


def _answer(
    services: Services,
    visit: Visit,
    prediction_id: str,
    form: Filled | None = None,
    tried: Filled | None = None,
) -> Response:
    own = services.answers.own(visit.caller, prediction_id)
    annotation, document = own.annotation, own.prediction.document
    facts = [
        ("Labels", labels_of(annotation.labels)),
        ("Submitted", ui.instant(annotation.created_at, zone=True)),
        ("Comment", annotation.comment),
    ]
    view = ui.View(
        document.id or "Untitled document",
        [
            ui.Card("Text", [content(document._replace(answer=None))]),
            ui.Card("Your answer", [ui.Facts(facts)]),
            ui.Card("What was decided", [_resolution(own)]),
            *_correction(own, form),
        ],
    )
    values = {"view": view, "crumb": HERE, "crumb_name": "My answers", "place": "/desk"}
    address, refused = f"{HERE}/{prediction_id}", form is not None
    return commented(services, visit, own.prediction, address, values, tried=tried, refused=refused)


def _resolution(own: OwnAnswer) -> ui.Piece:
    resolution = own.resolution
    if resolution is None:
        unread = "This is shown once nobody reads the document, or a copy of it, any more."
        return ui.text(unread, "quiet")
    return ui.Facts(
        [
            ("Labels", labels_of(resolution.labels)),
            *((name, labels_of(labels)) for name, labels in _differences(resolution)),
            ("By", _DECIDED_BY[resolution.by]),
            ("When", ui.instant(resolution.decided_at, zone=True)),
        ]
    )


def _correction(own: OwnAnswer, form: Filled | None) -> Sequence[ui.Piece]:
    if own.obstacle and not form:
        doubt = "You cannot correct your answer now; write a comment if you doubt it."
        return (ui.text(f"{own.obstacle} {doubt}", "quiet"),)
    annotation = own.annotation
    hint = (
        "What was sent is corrected. Certificates and figures keep your first answer, because it "
        "was given before any doubt arose."
    )
    named = [label for label in annotation.labels if label != UNNAMED]
    missing = {"missing": "yes"} if UNNAMED in annotation.labels else {}
    shown = form or Filled.of(labels="\n".join(named), **missing)
    address = f"{HERE}/{own.prediction.id}"
    return (ui.Form("Correct your answer", "Correct", hint, address, inputs(Correction), shown),)
