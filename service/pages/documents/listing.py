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
from setwise.service.domain.documents import DocumentFilter, ListedDocument
from setwise.service.domain.errors import InvalidRequest, ModelUnavailable
from setwise.service.domain.files import Format
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import HERE, Reads, Sends, address, of_document
from setwise.service.pages.documents.filters import Search
from setwise.service.pages.documents.predictions import labels_of, name_of, posted_again
from setwise.service.pages.documents.selections import TickedDocuments, export_of
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import go, page
from setwise.service.pages.routes import PageRoute
from setwise.service.services.all import Services
from setwise.service.services.documents import MOST_COUNTED, Matches
from setwise.service.services.documents.selections import MOST_EXPORTED
from setwise.service.sign_in.sessions import Visit

PAGE = 50
REFRESH_S = 30
"""How often the rows of an open list are asked for again."""

router = APIRouter(route_class=PageRoute)


@router.get(HERE)
def show(request: Request, services: ServicesOf, visit: Reads) -> Response:
    """Show the documents that match the address."""
    ticked = TickedDocuments(people=services.selections.people(visit.caller))
    return _shown(Search.of(request), services, visit, ticked)


@router.get(f"{HERE}/rows")
def rows(request: Request, services: ServicesOf, visit: Reads, shown: str = "") -> Response:
    """Show listed documents as they are now, and count those that the list has beside them."""
    search, ids = Search.of(request), [id_ for id_ in shown.split(",") if id_][:PAGE]
    filters = search.filters or DocumentQuery()
    # Without ids, every document would match.
    listed = (
        services.documents.find(
            visit.caller, DocumentFilter(ids=ids), filters.order, limit=PAGE
        ).page.items
        if ids
        else ()
    )
    others = (
        0
        if search.after
        else services.documents.unlisted(
            visit.caller, filters.as_filter(), filters.order, ids, limit=PAGE
        )
    )
    names = services.documents.reviewers(visit.caller)
    view = ui.View("", [_live(listed, search, TickedDocuments(), names, others)], title="Documents")
    return page("documents.html", {"view": view}, visit=visit)


def _live(
    listed: Sequence[ListedDocument],
    search: Search,
    ticked: TickedDocuments,
    reviewers: Mapping[str, str],
    others: int = 0,
) -> ui.Live:
    """Return the rows of a list, which a script keeps as they are now."""
    ids = ",".join(document.prediction.id for document in listed)
    query = {**search.query, "after": search.after or (), "shown": ids}
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
    parts: list[ui.Piece] = [ui.Table("Documents", columns, listed, empty, kind="dense")]
    if others:
        more = plural(others, "other document is", "other documents are")
        link = ui.link(address(**search.query), "Show the list as it is now.")
        parts.insert(0, ui.note(ui.joined(f"{more} on this page now. ", link)))
    return ui.Live("rows", REFRESH_S, f"{HERE}/rows?{urlencode(query, doseq=True)}", parts)


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
        "to keep a search. Rows stay current; new documents wait behind a link, because whoever "
        "has seen one is given no blind review of it.",
    )
    status = HTTPStatus.UNPROCESSABLE_ENTITY if ticked.filled.faults else HTTPStatus.OK
    return page("documents.html", {"view": view}, visit=visit, status=status)


def _list(
    matches: Matches, search: Search, ticked: TickedDocuments, reviewers: Mapping[str, str]
) -> Sequence[ui.Piece]:
    listed, started = matches.page.items, search.after is None
    more = matches.number >= MOST_COUNTED
    count = (
        f"more than {MOST_COUNTED - 1:,} documents" if more else plural(matches.number, "document")
    )
    return (
        ui.status(count[0].upper() + count[1:]) if matches.number else Markup(""),
        *ticked.bar(search.here, listed, count if matches.number > len(listed) else ""),
        _live(listed, search, ticked, reviewers),
        ui.Pager(HERE, matches.page.next_after, search.query, started=started),
        *(_exports(search.filters, matches) if search.filters and listed else ()),
    )


def _meant(services: Services, visit: Visit, search: Search) -> Sequence[Markup]:
    try:
        labels = services.labels.search(visit.caller, limit=MOST_LABEL_NOTES).labels
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


def _predicted(prediction: Prediction) -> Markup:
    return labels_of(prediction.scored.labels, absent="no model yet")


def _confidence(prediction: Prediction) -> str:
    at = prediction.scored.confidence
    return "" if at is None else confidence(at)


def _decision(document: ListedDocument) -> Markup:
    prediction = document.prediction
    sent = prediction.decision is Decision.AUTO
    return ui.joined(
        ui.badge("sent", "good") if sent else ui.badge("review", "warn"),
        ui.sub(_REASONS[prediction.reason]),
        ui.sub(posted_again(prediction)),
    )


def _became(document: ListedDocument, names: Mapping[str, str]) -> Markup:
    waits = ui.badge("waits for review", "leased") if document.waiting else Markup("")
    to = ", ".join(names.get(person, person) for person in document.assigned_to)
    facts = [f"assigned to {to}"] * bool(to) + ["ahead in the queue"] * document.prioritized
    due_at = document.prediction.document.due_at
    if document.waiting and due_at is not None:
        facts.append(f"due {due_at:%-d %b %Y, %H:%M}")
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
    Reason.NO_MODEL: "there was no model yet",
}
_COLUMNS: Sequence[ui.Column[ListedDocument]] = (
    ui.Column("Document", _name, "head"),
    ui.Column("Received", lambda each: each.prediction.created_at),
    ui.Column(
        "Labels",
        lambda each: labels_of(each.prediction.scored.labels, absent="no model yet"),
        "wrap",
    ),
    ui.Column("Confidence", lambda document: _confidence(document.prediction), "count"),
    ui.Column("Decision", _decision),
)
