"""The list of documents: what matches the filters, and what to do with it."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from setwise.models.figures.numerals import confidence, plural
from setwise.service.api.documents import DocumentQuery
from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.documents import ListedDocument
from setwise.service.domain.errors import InvalidRequest, ModelUnavailable
from setwise.service.domain.files import Format
from setwise.service.domain.models import MOST_LABEL_NOTES
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import HERE, Reads, Sends, address, of_document
from setwise.service.pages.documents.filters import Search
from setwise.service.pages.documents.predictions import labels_of, name_of
from setwise.service.pages.documents.selections import TickedDocuments, export_of
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import SECURITY_HEADERS, go, page
from setwise.service.pages.routes import PageRoute
from setwise.service.services.all import Services
from setwise.service.services.documents import MOST_COUNTED, Matches, fingerprint
from setwise.service.services.documents.selections import MOST_EXPORTED
from setwise.service.sign_in.sessions import Visit

PAGE = 50
ASKS_AGAIN_S = 30
"""How often an open list asks whether it has changed."""

router = APIRouter(route_class=PageRoute)


@router.get(HERE)
def show(request: Request, services: ServicesOf, visit: Reads) -> Response:
    """Show the documents that match the address."""
    ticked = TickedDocuments(people=services.selections.people(visit.caller))
    return _shown(Search.of(request), services, visit, ticked)


@router.get(f"{HERE}/changes/{{shown}}")
def changes(request: Request, services: ServicesOf, visit: Reads, shown: str) -> Response:
    """Say whether the first page of a list differs from the one whose fingerprint is shown."""
    search = Search.of(request)
    filters, now = search.filters, shown
    if filters is not None:
        now = services.documents.fingerprint(
            visit.caller, filters.as_filter(), filters.order, limit=PAGE
        )
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
    return Response(_changes(search, shown, now), media_type="text/html", headers=headers)


def _changes(search: Search, shown: str, now: str) -> Markup:
    """Return the line that a script asks for again until the list has changed."""
    if shown != now:
        link = ui.link(address(**search.query), "Show it as it is now")
        return Markup('<p id="changes" class="note" aria-live="polite">{}</p>').format(
            ui.joined("This list has changed. ", link)
        )
    query = urlencode(search.query, doseq=True)
    source = f"{HERE}/changes/{shown}" + (f"?{query}" if query else "")
    return Markup('<p id="changes" aria-live="polite" data-live="{}" data-source="{}"></p>').format(
        ASKS_AGAIN_S, source
    )


@router.post(HERE)
def act(
    request: Request, services: ServicesOf, visit: Sends, form: Annotated[Filled, Depends(filled)]
) -> Response:
    """Do something with the ticked documents, and show the list again."""
    search = Search.of(request)
    ticked = TickedDocuments.of(services, visit, form, search.filters)
    if ticked.export:
        return go(ticked.export)
    question = ticked.question(search.here)
    if question is not None:
        view = ui.View("", [question], title=question.heading)
        return page("documents.html", {"view": view, "refusal": ""}, visit=visit)
    return _shown(search, services, visit, ticked)


def _shown(search: Search, services: Services, visit: Visit, ticked: TickedDocuments) -> Response:
    matches: Matches | None = None
    filters, after = search.filters, search.after
    if filters is not None:
        try:
            matches = services.documents.find(
                visit.caller, filters.as_filter(), filters.order, after=after, limit=PAGE
            )
        except InvalidRequest as refusal:
            for fault in refusal.faults:
                search.form.blame(fault.pointer.removeprefix("/"), fault.detail)
    reviewers = services.documents.reviewers(visit.caller)
    view = ui.View(
        "Documents",
        [
            *ticked.report(matches.page.items if matches else ()),
            search.inputs(reviewers, visit.caller),
            *search.linked(),
            *(_meant(services, visit, search) if matches and not matches.number else ()),
            *(_list(matches, search, ticked, reviewers) if matches else ()),
        ],
        lead="Every document with what became of it. The address keeps your filters: bookmark it "
        "to keep a search.",
    )
    status = HTTPStatus.UNPROCESSABLE_ENTITY if ticked.filled.faults else HTTPStatus.OK
    return page("documents.html", {"view": view}, visit=visit, status=status)


def _list(
    matches: Matches, search: Search, ticked: TickedDocuments, reviewers: Mapping[str, str]
) -> Sequence[ui.Piece]:
    rows, started = matches.page.items, search.after is None
    at_first = fingerprint(rows)
    columns = (
        ticked.column(),
        *_COLUMNS,
        ui.Column("Checked", lambda document: _became(document, reviewers)),
    )
    empty = (
        ui.joined("No document matches. ", ui.link(HERE, "Show all."))
        if search.query
        else "No document has been sent to the service yet."
    )
    more = matches.number >= MOST_COUNTED
    count = (
        f"more than {MOST_COUNTED - 1:,} documents" if more else plural(matches.number, "document")
    )
    return (
        ui.status(count[0].upper() + count[1:]) if matches.number else Markup(""),
        *((_changes(search, at_first, at_first),) if started else ()),
        *ticked.bar(search.here, rows, count if matches.number > len(rows) else ""),
        ui.Table("Documents", columns, rows, empty, kind="dense"),
        ui.Pager(HERE, matches.page.next_after, search.query, started=started),
        *(_exports(search.filters, matches) if search.filters and rows else ()),
    )


def _meant(services: Services, visit: Visit, search: Search) -> Sequence[Markup]:
    try:
        labels = services.reviews.search_labels(visit.caller, limit=MOST_LABEL_NOTES).labels
    except ModelUnavailable:
        return ()
    return list(search.meant(labels))


def _exports(filters: DocumentQuery, matches: Matches) -> Sequence[Markup]:
    """Return links to files of all that matches."""
    most = f" A file holds at most {MOST_EXPORTED:,}." if matches.number >= MOST_COUNTED else ""
    csv = ui.link(export_of(filters, Format.CSV.value), "CSV")
    lines = ui.link(export_of(filters, Format.JSON_LINES.value), "JSON Lines")
    return (ui.text(ui.joined("Export all of them as ", csv, " or ", lines, ".", most)),)


def _name(document: ListedDocument) -> Markup:
    return ui.link(of_document(document.prediction.id), name_of(document.prediction))


def _decision(document: ListedDocument) -> Markup:
    prediction = document.prediction
    sent = prediction.decision is Decision.AUTO
    return ui.joined(
        ui.badge("sent", "good") if sent else ui.badge("review", "warn"),
        ui.sub(_REASONS[prediction.reason]),
    )


def _became(document: ListedDocument, names: Mapping[str, str]) -> Markup:
    waits = ui.badge("waits for review", "leased") if document.waiting else Markup("")
    to = ", ".join(names.get(person, person) for person in document.assigned_to)
    facts = [f"assigned to {to}"] * bool(to) + ["first in the queue"] * document.prioritized
    skips = [f"skipped: {skip.reason}" for skip in document.skips]
    waits = ui.joined(waits, ui.sub(", ".join(facts)), ui.sub("; ".join(skips)))
    if not document.annotations and not document.outcomes:
        return waits or ui.quiet("not checked")
    if document.contradicted:
        return ui.joined(
            ui.badge("contradicted", "bad"), " ", waits, ui.sub(labels_of(document.final_labels))
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
    ui.Column("Received", lambda each: each.prediction.created_at),
    ui.Column("Labels", lambda each: labels_of(each.prediction.scored.labels), "wrap"),
    ui.Column(
        "Confidence", lambda document: confidence(document.prediction.scored.confidence), "count"
    ),
    ui.Column("Decision", _decision),
)
