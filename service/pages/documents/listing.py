"""The list of documents: what matches the filters, and what to do with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from setwise.service.api.documents import DocumentQuery
from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.documents import ListedDocument, SavedSearch
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.files import Format
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import HERE, Reads, Sends, of_document
from setwise.service.pages.documents.filters import Asked
from setwise.service.pages.documents.predictions import labels_of, name_of
from setwise.service.pages.documents.selections import Selection, export_of
from setwise.service.pages.figures.numerals import confidence, plural
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import go, page
from setwise.service.pages.routes import Page
from setwise.service.services.all import Services
from setwise.service.services.documents import MOST_COUNTED, Found
from setwise.service.services.documents.selections import MOST_EXPORTED
from setwise.service.sign_in.sessions import Visit

PAGE = 50

router = APIRouter(route_class=Page)


@router.get(HERE)
def show(request: Request, services: ServicesOf, visit: Reads) -> Response:
    """Show the documents that match the address."""
    chosen = Selection(people=services.selections.people(visit.caller))
    return _shown(Asked.of(request), services, visit, chosen)


@router.post(HERE)
def act(
    request: Request, services: ServicesOf, visit: Sends, form: Annotated[Filled, Depends(filled)]
) -> Response:
    """Do something with the ticked documents, and show the list again."""
    asked = Asked.of(request)
    chosen = Selection.of(services, visit, form, asked.wanted)
    if chosen.export:
        return go(chosen.export)
    question = chosen.question(asked.here)
    if question is not None:
        view = ui.View("", [question], title=question.heading)
        return page("documents.html", {"view": view, "refusal": ""}, visit=visit)
    return _shown(asked, services, visit, chosen)


@router.post(f"{HERE}/searches")
def save(
    request: Request, services: ServicesOf, visit: Sends, form: Annotated[Filled, Depends(filled)]
) -> Response:
    """Save the filters of the address under a name."""
    asked = Asked.of(request)
    try:
        search = SavedSearch(form.text("search_name"), asked.kept)
        services.documents.save_search(visit.caller, search)
    except InvalidRequest as refusal:
        form.take(refusal.faults, {"/name": "search_name"})
        chosen = Selection(people=services.selections.people(visit.caller))
        return _shown(asked, services, visit, chosen, form)
    return go(asked.here)


@router.post(f"{HERE}/searches/delete")
def forget(
    services: ServicesOf, visit: Sends, form: Annotated[Filled, Depends(filled)]
) -> Response:
    """Delete a saved search."""
    services.documents.forget_search(visit.caller, form.text("search_name"))
    return go(HERE)


@dataclass(frozen=True)
class Searches(ui.Part):
    """The saved searches of a person, and a form to save this one."""

    macro = "searches"
    address: str
    saved: Sequence[SavedSearch]
    query: str
    """Of the list that is shown; empty if it cannot be saved."""
    filled: Filled


def _shown(
    asked: Asked, services: Services, visit: Visit, chosen: Selection, saving: Filled | None = None
) -> Response:
    found: Found | None = None
    wanted, after = asked.wanted, asked.after
    if wanted is not None:
        try:
            found = services.documents.find(
                visit.caller, wanted.as_filter(), wanted.order, after=after, limit=PAGE
            )
        except InvalidRequest as refusal:
            for fault in refusal.faults:
                asked.form.blame(fault.pointer.removeprefix("/"), fault.detail)
    reviewers = services.documents.reviewers(visit.caller)
    view = ui.View(
        "Documents",
        [
            *chosen.report(found.page.items if found else ()),
            asked.filters(reviewers, visit.caller),
            Searches(
                HERE, services.documents.searches(visit.caller), asked.kept, saving or Filled.of()
            ),
            *asked.linked(),
            *(_list(found, asked, chosen, reviewers) if found else ()),
        ],
        lead="Every document with what became of it. The address keeps your filters.",
    )
    refused = chosen.filled.faults or saving
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return page("documents.html", {"view": view}, visit=visit, status=status)


def _list(
    found: Found, asked: Asked, chosen: Selection, reviewers: Mapping[str, str]
) -> Sequence[ui.Piece]:
    rows, started = found.page.items, asked.after is None
    columns = (
        chosen.column(),
        *_COLUMNS,
        ui.Column("Checked", lambda one: _became(one, reviewers)),
    )
    empty = (
        ui.joined("No document matches. ", ui.link(HERE, "Show all."))
        if asked.query
        else "No document has been sent to the service yet."
    )
    more = found.matches >= MOST_COUNTED
    count = (
        f"more than {MOST_COUNTED - 1:,} documents" if more else plural(found.matches, "document")
    )
    return (
        ui.status(count[0].upper() + count[1:]) if found.matches else Markup(""),
        ui.Table("Documents", columns, rows, empty),
        ui.Pager(HERE, found.page.next_after, asked.query, started=started),
        *(_exports(asked.wanted, found) if asked.wanted and rows else ()),
        *chosen.bar(asked.here, rows, count if found.matches > len(rows) else ""),
    )


def _exports(wanted: DocumentQuery, found: Found) -> Sequence[Markup]:
    """Return links to files of all that matches."""
    most = f" A file holds at most {MOST_EXPORTED:,}." if found.matches >= MOST_COUNTED else ""
    csv = ui.link(export_of(wanted, Format.CSV.value), "CSV")
    lines = ui.link(export_of(wanted, Format.JSON_LINES.value), "JSON Lines")
    return (ui.text(ui.joined("Export all of them as ", csv, " or ", lines, ".", most)),)


def _name(one: ListedDocument) -> Markup:
    return ui.link(of_document(one.prediction.id), name_of(one.prediction))


def _decision(one: ListedDocument) -> Markup:
    made = one.prediction
    sent = made.decision is Decision.AUTO
    return ui.joined(
        ui.badge("sent", "good") if sent else ui.badge("review", "warn"),
        ui.sub(_REASONS[made.reason]),
    )


def _became(one: ListedDocument, names: Mapping[str, str]) -> Markup:
    waits = ui.badge("waits for review", "leased") if one.waiting else Markup("")
    to = ", ".join(names.get(person, person) for person in one.assigned_to)
    facts = [f"assigned to {to}"] * bool(to) + ["first in the queue"] * one.prioritized
    waits = ui.joined(waits, ui.sub(", ".join(facts)))
    if not one.annotations and not one.outcomes:
        return waits or ui.quiet("not checked")
    if one.contradicted:
        return ui.joined(
            ui.badge("contradicted", "bad"), " ", waits, ui.sub(labels_of(one.final_labels))
        )
    return ui.joined(ui.badge("confirmed", "good"), " ", waits)


_REASONS: Mapping[Reason, str] = {
    Reason.ABOVE_THRESHOLD: "above the threshold",
    Reason.BELOW_THRESHOLD: "below the threshold",
    Reason.AUDIT: "drawn for an audit",
    Reason.NO_THRESHOLD: "no threshold in force",
    Reason.OUT_OF_DOMAIN: "unknown to the model",
    Reason.BREAKER: "the breaker had tripped",
    Reason.RULE: "held back by a rule",
}
_COLUMNS: Sequence[ui.Column[ListedDocument]] = (
    ui.Column("Document", _name, "head"),
    ui.Column("Received", lambda one: one.prediction.created_at),
    ui.Column("Labels", lambda one: labels_of(one.prediction.scored.labels), "wrap"),
    ui.Column("Confidence", lambda one: confidence(one.prediction.scored.confidence), "count"),
    ui.Column("Decision", _decision),
)
