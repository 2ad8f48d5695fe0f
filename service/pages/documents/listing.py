"""The list of documents: what matches the filters, and what to do with it.

Question: which document am I looking for, and what became of it?
Its first screen is a search box above rows of a line each.
"""

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
FIRST_WORDS = 160
"""Characters of a text that a row holds; the style sheet shows as many as there is room for."""
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
        ui.Column("State", lambda document: _state(document, reviewers)),
        ui.Column("Received", lambda document: document.prediction.created_at),
    )
    empty = (
        ui.joined("No document matches. ", ui.link(HERE, "Show all."))
        if search.query
        else "No document has been sent to the service yet."
    )
    parts: list[ui.Piece] = [ui.Table("Documents", columns, listed, empty, kind="documents")]
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
    number = _number(matches) if matches and matches.number else ""
    view = ui.View(
        "",
        [
            *ticked.report(matches.page.items if matches else ()),
            search.bar(reviewers, visit.caller, number),
            *(_meant(services, visit, search) if matches and not matches.number else ()),
            *(_list(matches, search, ticked, reviewers) if matches else ()),
        ],
        title="Documents",
    )
    status = HTTPStatus.UNPROCESSABLE_ENTITY if ticked.filled.faults else HTTPStatus.OK
    return page("documents.html", {"view": view}, visit=visit, status=status)


def _list(
    matches: Matches, search: Search, ticked: TickedDocuments, reviewers: Mapping[str, str]
) -> Sequence[ui.Piece]:
    listed, started = matches.page.items, search.after is None
    count = _number(matches) if matches.number > len(listed) else ""
    return (
        *ticked.bar(search.here, listed, count),
        _live(listed, search, ticked, reviewers),
        *(_exports(search.filters, matches) if search.filters and listed else ()),
        ui.Pager(HERE, matches.page.next_after, search.query, started=started),
    )


def _number(matches: Matches) -> str:
    if matches.number >= MOST_COUNTED:
        return f"more than {MOST_COUNTED - 1:,} documents"
    return plural(matches.number, "document")


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
    links = ui.joined("Export all of them as ", csv, " or ", lines, ".", most)
    return (ui.text(links, "exports"),)


def _name(document: ListedDocument) -> Markup:
    return ui.link(of_document(document.prediction.id), name_of(document.prediction))


def _first_words(document: ListedDocument) -> Markup:
    text = document.prediction.document.text
    if text is None:
        return ui.quiet("no text")
    words = " ".join(text[: 2 * FIRST_WORDS].split())[:FIRST_WORDS]
    return Markup('<span dir="auto">{}</span>').format(words)


def _confidence(prediction: Prediction) -> str:
    at = prediction.scored.confidence
    return "" if at is None else confidence(at)


def _state(document: ListedDocument, names: Mapping[str, str]) -> Markup:
    """Return what became of a document, what is to be done, and why it was routed so."""
    prediction, checked = document.prediction, bool(document.annotations or document.outcomes)
    states = []
    if prediction.decision is Decision.AUTO:
        states.append(ui.badge("sent", "good"))
    if document.contradicted:
        states += [ui.badge("contradicted", "bad"), ui.sub(labels_of(document.final_labels))]
    elif checked:
        states.append(ui.badge("confirmed", "good"))
    if document.waiting:
        states.append(ui.badge("waits for review", "leased"))
    to = ", ".join(names.get(person, person) for person in document.assigned_to)
    facts = [f"assigned to {to}"] * bool(to) + ["ahead in the queue"] * document.prioritized
    due_at = prediction.document.due_at
    if document.waiting and due_at is not None:
        facts.append(f"due {due_at:%-d %b %Y, %H:%M}")
    facts += [f"skipped: {skip.reason}" for skip in document.skips]
    facts += filter(None, (_REASONS[prediction.reason], posted_again(prediction)))
    return Markup(" ").join([*(states or [ui.badge("review", "warn")]), ui.sub("; ".join(facts))])


# In a word; the confidence beside it says what the threshold did, or that there was no model.
_REASONS: Mapping[Reason, str] = {
    Reason.ABOVE_THRESHOLD: "",
    Reason.BELOW_THRESHOLD: "",
    Reason.AUDIT: "audit",
    Reason.NO_THRESHOLD: "no threshold",
    Reason.OUT_OF_DOMAIN: "unlike others",
    Reason.BREAKER: "breaker",
    Reason.RULE: "rule",
    Reason.NO_MODEL: "",
}
_COLUMNS: Sequence[ui.Column[ListedDocument]] = (
    ui.Column("Document", _name, "head"),
    ui.Column("Text", _first_words),
    ui.Column(
        "Labels", lambda each: labels_of(each.prediction.scored.labels, absent="no model yet")
    ),
    ui.Column("Confidence", lambda document: _confidence(document.prediction), "count"),
)
