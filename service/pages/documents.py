"""The documents: a list to search, and a page for all that happened to one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request, Response
from markupsafe import Markup
from pydantic import BaseModel, ValidationError

from setwise.service.api.documents import DocumentQuery
from setwise.service.api.http.dependencies import ServicesOf
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.documents import (
    LISTS,
    Audited,
    EventKind,
    Life,
    LifeEvent,
    ListedDocument,
    Order,
    SavedSearch,
    State,
)
from setwise.service.domain.errors import (
    BlindReviewHeld,
    Conflict,
    InvalidRequest,
    ModelUnavailable,
)
from setwise.service.domain.files import Format
from setwise.service.domain.predictions import (
    Candidate,
    Decision,
    Document,
    Prediction,
    Reason,
    TermWeight,
)
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.routing.segments import value_of
from setwise.service.pages.board import parts as ui
from setwise.service.pages.comments import Written, comments_of
from setwise.service.pages.figures.numerals import confidence, plural
from setwise.service.pages.forms import Filled, Input, filled, select, utc
from setwise.service.pages.rendering import go, page
from setwise.service.pages.routes import Page
from setwise.service.pages.selections import Selection, export_of, name_of
from setwise.service.pages.visitors import who_may, who_sends
from setwise.service.services.all import Services
from setwise.service.services.documents import ME, MOST_COUNTED, Found
from setwise.service.services.documents.selections import MOST_EXPORTED
from setwise.service.sign_in.sessions import Visit

HERE = "/documents"
PAGE = 50
MOST_WORDS = 3
"""Words marked for each label, the most important ones."""
MOST_EVIDENCE = 6
"""Words listed for and against each label."""
STRONG, MODERATE = 1.0, 0.3
"""Least weights: nearly triple the odds, and a third more."""
MOST_SHOWN = 20
"""Labels or label sets of another model that are shown."""
MOST_SETS = 5
"""Label sets shown at once; the others unfold."""

Reads = Annotated[Visit, Depends(who_may(Permission.READ_ALL_PREDICTIONS))]
Sends = Annotated[Visit, Depends(who_sends(Permission.READ_ALL_PREDICTIONS))]

router = APIRouter(route_class=Page)

_STATES = (
    ("", "any"),
    (State.SENT.value, "sent automatically"),
    (State.WAITING.value, "waits for review"),
    (State.HELD.value, "is being reviewed"),
    (State.PASSED_ON.value, "waits for a lead"),
    (State.REVIEWED.value, "reviewed"),
    (State.CONTRADICTED.value, "contradicted"),
    (State.FLAGGED.value, "flagged"),
)
_AUDITS = (
    ("", "any"),
    (Audited.DRAWN.value, "audited"),
    (Audited.AGREED.value, "audited, agreed"),
    (Audited.CONTRADICTED.value, "audited, contradicted"),
)
_ORDERS = (
    (Order.NEWEST.value, "newest first"),
    (Order.OLDEST.value, "oldest first"),
    (Order.LEAST_CONFIDENT.value, "least confident first"),
    (Order.MOST_CONFIDENT.value, "most confident first"),
)
_INPUTS: Mapping[str, Input] = {
    "text": Input("Words in the text"),
    "label": Input("With label"),
    "without_label": Input("Without label"),
    "state": select("State", _STATES),
    "audited": select("Audit", _AUDITS),
    "confidence_from": Input("Confidence from"),
    "confidence_to": Input("below"),
    "created_from": Input("From (UTC)", widget="datetime-local"),
    "created_before": Input("Until (UTC)", widget="datetime-local"),
    "order": select("Order", _ORDERS),
}
_MORE: Mapping[str, Input] = {
    "final_label": Input("Decided with label"),
    "without_final_label": Input("Decided without label"),
    "document_id": Input("Document id"),
    "segment": Input("Segment"),
    "model_version": Input("Model"),
    "calibrator_version": Input("Calibrator"),
}
_PEOPLE: Mapping[str, str] = {"reviewer": "Submitted by", "assigned_to": "Assigned to"}
# Links set these; the form keeps them.
_LINKED: Mapping[str, str] = {
    "reason": "routed for one reason",
    "decision": "with one decision",
    "client_id": "of one client",
    "group": "submitted by one group",
    "candidate": "compared with another model",
    "difference": "with one result of it",
    "undelivered_to": "that a webhook did not accept",
}
_INSTANTS = ("created_from", "created_before")


def address(**wanted: object) -> str:
    """Return the address of a list with these filters.

    >>> address(audited="contradicted", reviewer=None)
    '/documents?audited=contradicted'
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    return f"{HERE}?{urlencode(given)}" if given else HERE


def counted(number: int, **wanted: object) -> object:
    """Return a number with a link to the documents that it counts."""
    return ui.link(address(**wanted), f"{number:,}") if number else 0


def of_document(prediction_id: str) -> str:
    """Return the address of a document's page."""
    return f"{HERE}/{prediction_id}"


@router.get(HERE)
def show(request: Request, services: ServicesOf, visit: Reads) -> Response:
    """Show the documents that match the address."""
    chosen = Selection(people=services.selections.people(visit.caller))
    return _shown(_asked(request), services, visit, chosen)


@router.post(HERE)
def act(
    request: Request,
    services: ServicesOf,
    visit: Sends,
    form: Annotated[Filled, Depends(filled)],
) -> Response:
    """Do something with the ticked documents, and show the list again."""
    asked = _asked(request)
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
    request: Request,
    services: ServicesOf,
    visit: Sends,
    form: Annotated[Filled, Depends(filled)],
) -> Response:
    """Save the filters of the address under a name."""
    asked = _asked(request)
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
    """The searches that somebody saved, and a form to save this one."""

    macro = "searches"
    address: str
    saved: Sequence[SavedSearch]
    query: str
    """Of the list that is shown; empty if it cannot be saved."""
    filled: Filled


class _Asked(NamedTuple):
    """What the address of a list asks for."""

    query: Mapping[str, str]
    form: Filled
    wanted: DocumentQuery | None
    """None if something is wrong with the query."""
    after: str | None

    @property
    def here(self) -> str:
        return address(**self.query, after=self.after)

    @property
    def kept(self) -> str:
        """The query to save, unless nothing can match or it names a document: those are erased."""
        named = "document_id" in self.query
        return "" if named or self.form.faults else urlencode(self.query)


def _asked(request: Request) -> _Asked:
    names = (*_INPUTS, *_MORE, *_PEOPLE, *_LINKED)
    query = {name: text for name in names if (text := request.query_params.get(name, "").strip())}
    form = Filled.of(**query)
    return _Asked(query, form, _read(query, form), request.query_params.get("after"))


def _shown(
    asked: _Asked,
    services: Services,
    visit: Visit,
    chosen: Selection,
    saving: Filled | None = None,
) -> Response:
    query, form, wanted, after = asked
    found: Found | None = None
    if wanted is not None:
        try:
            found = services.documents.find(
                visit.caller, wanted.as_filter(), wanted.order, after=after, limit=PAGE
            )
        except InvalidRequest as refusal:
            for fault in refusal.faults:
                form.blame(fault.pointer.removeprefix("/"), fault.detail)
    hidden = {name: Input(widget="hidden") for name in _LINKED if name in query}
    reviewers = services.documents.reviewers(visit.caller)
    more = {**_MORE, **_people(reviewers, visit.caller, form)}
    view = ui.View(
        "Documents",
        [
            *chosen.told(found.page.items if found else ()),
            ui.Filters(HERE, {**_INPUTS, **hidden}, form, more=more),
            Searches(
                HERE, services.documents.searches(visit.caller), asked.kept, saving or Filled.of()
            ),
            *_kept(query),
            *(_list(found, asked, chosen, reviewers) if found else ()),
        ],
        lead="Every document with what became of it. The address keeps your filters.",
    )
    refused = chosen.filled.faults or saving
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return page("documents.html", {"view": view}, visit=visit, status=status)


def _read(query: Mapping[str, str], form: Filled) -> DocumentQuery | None:
    given: dict[str, object] = dict(query)
    for name in LISTS:
        if name in given:
            given[name] = [given[name]]
    for name in _INSTANTS:
        try:
            given |= {name: utc(query[name])} if name in query else {}
        except ValueError as error:
            form.blame(name, str(error))
    try:
        wanted = DocumentQuery.model_validate(given)
    except ValidationError as error:
        for fault in error.errors():
            form.blame(str(fault["loc"][0]), fault["msg"])
        return None
    return None if form.faults else wanted


def _people(names: Mapping[str, str], caller: Caller, form: Filled) -> Mapping[str, Input]:
    """Return the lists to choose people from; a link may name someone who is not in them."""
    found = {}
    for field, label in _PEOPLE.items():
        given = form.text(field)
        known = {ME: "me", **{one: name for one, name in names.items() if one != caller.id}}
        others = [] if not given or given in known else [(given, given)]
        found[field] = select(label, [("", "anybody"), *known.items(), *others])
    return found


def _kept(query: Mapping[str, str]) -> Sequence[Markup]:
    """Return what the filters of a link leave out, and the way back."""
    kept = [words for name, words in _LINKED.items() if name in query]
    if not kept:
        return ()
    rest = {name: value for name, value in query.items() if name not in _LINKED}
    return (
        ui.text(
            ui.joined(f"Only documents {', '.join(kept)}. ", ui.link(address(**rest), "Show all"))
        ),
    )


def _list(
    found: Found, asked: _Asked, chosen: Selection, reviewers: Mapping[str, str]
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

    def export(written: Format, name: str) -> Markup:
        return ui.link(export_of(wanted, written.value), name)

    most = f" A file holds at most {MOST_EXPORTED:,}." if found.matches >= MOST_COUNTED else ""
    links = export(Format.CSV, "CSV"), " or ", export(Format.JSON_LINES, "JSON Lines")
    return (ui.text(ui.joined("Export all of them as ", *links, ".", most)),)


def labels_of(labels: Sequence[str] | None) -> Markup:
    """Return a label set as people read it."""
    if labels is None:
        return ui.quiet("not sent")
    if not labels:
        return ui.quiet("no labels")
    return ui.joined(*(Markup('<span class="label">{}</span> ').format(one) for one in labels))


def _name(one: ListedDocument) -> Markup:
    return ui.link(of_document(one.prediction.id), name_of(one))


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


# One document


class Reopening(BaseModel):
    """The form that has a document decided again."""

    reason: Annotated[
        str,
        Input("Why", "Whoever decides reads it. The last answer stays in the history.", "textarea"),
    ]


@router.get(f"{HERE}/{{prediction_id}}")
def tell(services: ServicesOf, prediction_id: str, visit: Reads) -> Response:
    """Show a document and all that happened to it."""
    return _document(services, visit, prediction_id)


@router.post(f"{HERE}/{{prediction_id}}/reopen")
def reopen(
    services: ServicesOf,
    prediction_id: str,
    visit: Sends,
    form: Annotated[Filled, Depends(filled)],
) -> Response:
    """Have a document decided again."""
    given = form.read(Reopening)
    if given is not None:
        try:
            services.reviews.reopen(visit.caller, prediction_id, given.reason)
        except InvalidRequest as refusal:
            form.refused(refusal, Reopening)
        except Conflict as refusal:
            form.blame("", refusal.detail)
    if form.faults:
        return _document(services, visit, prediction_id, form)
    return go(of_document(prediction_id))


@router.post(f"{HERE}/{{prediction_id}}/comments")
def comment(
    services: ServicesOf,
    prediction_id: str,
    visit: Sends,
    written: Annotated[Written, Depends()],
) -> Response:
    """Comment on a document."""
    if written.stored(services, visit, prediction_id):
        return go(f"{of_document(prediction_id)}#comments")
    return _document(services, visit, prediction_id, tried=written)


def _document(
    services: Services,
    visit: Visit,
    prediction_id: str,
    form: Filled | None = None,
    tried: Written | None = None,
) -> Response:
    life = services.documents.get(visit.caller, prediction_id)
    made, document = life.prediction, life.prediction.document
    weights = services.documents.explain(visit.caller, made)
    view = ui.View(
        document.id or "Untitled document",
        [
            ui.text(why(made), "lead"),
            ui.Card("Text", [content(document, weights)]),
            *_evidence(made, weights),
            *_answered(made),
            ui.Card("Label sets", _candidates(made)),
            ui.Card("What happened", [ui.Table("All events", _events(life), life.events())]),
            *_reopening(life, form),
            ui.Card("Details", [_details(made)]),
        ],
    )
    talk = comments_of(services, visit, prediction_id, of_document(prediction_id), tried)
    values = {"view": view, "crumb": HERE, **talk}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form or tried else HTTPStatus.OK
    return page("documents.html", values, visit=visit, status=status)


def _reopening(life: Life, form: Filled | None) -> Sequence[ui.Form]:
    if not form and any(task.state is not ReviewState.COMPLETED for task in life.tasks):
        return ()  # somebody decides already
    address = f"{of_document(life.prediction.id)}/reopen"
    hint = "It waits for review; other programs hear of it if the answer changes."
    heading, filled_in = "Have it decided again", form or Filled.of()
    return (ui.Form(heading, "Reopen", hint, address, Reopening, filled_in),)


TRY = "/try"


@router.get(TRY)
def ask(visit: Reads) -> Response:
    """Ask for a text to try."""
    return _trial(visit, "")


@router.post(TRY)
def attempt(services: ServicesOf, visit: Sends, text: Annotated[str, Form()] = "") -> Response:
    """Show what would happen to a text; nothing is stored."""
    try:
        made = services.documents.try_out(visit.caller, text)
    except (InvalidRequest, BlindReviewHeld, ModelUnavailable) as refusal:
        faults = [fault.detail for fault in getattr(refusal, "faults", ())]
        return _trial(visit, text, " ".join([str(refusal), *faults]))
    weights = services.documents.explain(visit.caller, made)
    parts = [
        ui.Card("What would happen", [ui.text(why(made))]),
        ui.Card("Text", [content(made.document, weights)]),
        *_evidence(made, weights),
        ui.Card("Label sets", _candidates(made)),
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


def why(made: Prediction) -> str:
    """Return in one sentence why a document was routed as it was."""
    at, least = confidence(made.scored.confidence), made.threshold
    if made.reason is Reason.AUDIT and made.decision is Decision.AUTO:
        return f"Sent automatically at a confidence of {at}, and drawn for an audit."
    sentences = {
        Reason.ABOVE_THRESHOLD: f"Sent automatically: its confidence, {at}, reaches the threshold"
        + (f" of {confidence(least)}." if least is not None else "."),
        Reason.BELOW_THRESHOLD: f"Sent to review: its confidence, {at}, is below the threshold"
        + (f" of {confidence(least)}." if least is not None else "."),
        Reason.AUDIT: f"Drawn for an audit before it is sent; its confidence is {at}.",
        Reason.NO_THRESHOLD: "Sent to review, because nothing had taught the model how sure to be."
        if made.scored.uncalibrated
        else "Sent to review, because no threshold was in force.",
        Reason.OUT_OF_DOMAIN: "Sent to review, because the model knows no word or feature of it.",
        Reason.BREAKER: "Sent to review, because the breaker had stopped automatic sending.",
        Reason.RULE: f"Sent to review by the rule “{made.rule}”.",
    }
    return sentences[made.reason]


def content(document: Document, weights: Sequence[Sequence[TermWeight]] = ()) -> Markup:
    """Return a text with its evidence marked, or what there is instead of a text."""
    if document.text is not None:
        shown = marked(document.text, [term for terms in weights for term in terms[:MOST_WORDS]])
        return ui.joined(
            Markup('<div class="text" dir="auto" tabindex="0">{}</div>').format(shown),
            ui.text(
                ui.joined(
                    Markup('<mark class="for">{}</mark> ').format("words for"),
                    Markup('<mark class="against">{}</mark>').format("words against"),
                    " the predicted labels, by the active model",
                ),
                "hint",
            )
            if "<mark" in shown
            else Markup(""),
        )
    if document.features is None:
        erased = document.answer is None
        missing = "The text was erased." if erased else "This document came without its text."
        return ui.text(missing, "empty")
    named = sorted(document.features.items(), key=lambda one: -abs(one[1]))
    return Markup("<dl>{}</dl>").format(
        ui.joined(*(Markup("<dt>{}</dt><dd>{}</dd>").format(*one) for one in named))
    )


def _answered(made: Prediction) -> list[ui.Piece]:
    """Return a card with what another model answered."""
    answer = made.document.answer
    if answer is None:
        return []
    sets = [one["labels"] for one in answer.get("candidates", ())]
    sets += [answer["labels"]] if "labels" in answer else []
    given = [
        ("Probabilities", _listed([f"{x} {p:.3g}" for x, p in answer.get("scores", {}).items()])),
        ("Label sets", _listed([", ".join(labels) or "no labels" for labels in sets])),
    ]
    facts = [(name, said) for name, said in given if said]
    return [ui.Card("Another model's answer", [ui.Facts(facts)])]


_Evidence = tuple[str, Sequence[TermWeight]]
_EVIDENCE: Sequence[ui.Column[_Evidence]] = (
    ui.Column("Label", lambda one: one[0], "head"),
    ui.Column("For it", lambda one: _words("for", one[1]), "wrap"),
    ui.Column("Against it", lambda one: _words("against", one[1]), "wrap"),
)


def _evidence(made: Prediction, weights: Sequence[Sequence[TermWeight]]) -> list[ui.Piece]:
    """Return a card with the words for and against each predicted label."""
    rows = [(label, terms) for label, terms in zip(made.scored.labels, weights, strict=False)]
    if not any(weights):
        return []
    return [ui.Card("Evidence", [ui.Table("Words for and against each label", _EVIDENCE, rows)])]


def _words(kind: str, terms: Sequence[TermWeight]) -> Markup:
    found = [
        Markup('<mark class="{}" dir="auto">{}</mark> ({})').format(
            kind, one.term.replace("*", "…"), strength(one)
        )
        for one in terms
        if (one.weight > 0) == (kind == "for")
    ]
    return Markup(", ").join(found[:MOST_EVIDENCE]) or ui.quiet("nothing")


def strength(term: TermWeight) -> str:
    """Return how strongly a term speaks: a weight adds to the logarithm of the odds.

    >>> [strength(TermWeight("fever", weight)) for weight in (1.5, -0.5, 0.1)]
    ['strong', 'moderate', 'weak']
    """
    size = abs(term.weight)
    return "strong" if size >= STRONG else "moderate" if size >= MODERATE else "weak"


def _listed(parts: Sequence[str]) -> str:
    more = len(parts) - MOST_SHOWN
    return "; ".join(parts[:MOST_SHOWN]) + (f"; {more} more" if more > 0 else "")


def marked(text: str, terms: Sequence[TermWeight]) -> Markup:
    """Return a text with the words marked that speak for or against its labels.

    A term is one word, two that follow each other or, with a star behind, how words begin.

    >>> marked("<b> Dry coughs", [TermWeight("cough*", 1.0), TermWeight("dry", -0.5)])
    Markup('&lt;b&gt; <mark class="against">Dry</mark> <mark class="for">coughs</mark>')
    """
    for_it = {one.term for one in terms if one.weight > 0}
    patterns = {
        term: "for" if term in for_it else "against"
        for term in dict.fromkeys(t.term for t in terms)
    }
    if not patterns:
        return Markup("{}").format(text)
    # The longest first, so that two words are marked together rather than the first alone.
    ordered = sorted(patterns, key=len, reverse=True)
    wanted = re.compile("|".join(f"({_pattern(term)})" for term in ordered), re.IGNORECASE)
    pieces, end = [], 0
    for found in wanted.finditer(text):
        kind = patterns[ordered[(found.lastindex or 1) - 1]]
        pieces += [
            Markup("{}").format(text[end : found.start()]),
            Markup('<mark class="{}">{}</mark>').format(kind, found[0]),
        ]
        end = found.end()
    return ui.joined(*pieces, text[end:])


def _pattern(term: str) -> str:
    words = r"[\W_]+".join(map(re.escape, term.rstrip("*").split()))
    rest = r"[^\W_]*" if term.endswith("*") else ""
    return rf"(?<![^\W_]){words}{rest}(?![^\W_])"


def _candidates(made: Prediction) -> Sequence[ui.Part]:
    sets = made.scored.candidates
    likely, others = sets[:MOST_SETS], sets[MOST_SETS:]
    rest = f"{plural(len(others), 'less likely set')}"
    more = [ui.More(rest, [ui.Table("Less likely label sets", _SETS, others)])] if others else []
    return [ui.Table("Likeliest label sets", _SETS, likely), *more]


_SETS: Sequence[ui.Column[Candidate]] = (
    ui.Column("Label set", lambda one: labels_of(one.labels), "wrap"),
    ui.Column("Confidence", lambda one: confidence(one.confidence), "count"),
)
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


def _events(life: Life) -> Sequence[ui.Column[LifeEvent]]:
    def who(event: LifeEvent) -> object:
        name = None if event.by is None else life.names.get(event.by, event.by)
        return ui.joined(name) if name else ui.quiet("the service")

    def what(event: LifeEvent) -> Markup:
        return ui.joined(_HAPPENED[event.kind], ui.sub(event.detail))

    def labels(event: LifeEvent) -> object:
        if event.labels is None:
            return ui.joined(event.comment or "")
        differs = event.agreed is False
        return ui.joined(
            labels_of(event.labels),
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


def _details(made: Prediction) -> ui.Facts:
    scored, chance = made.scored, made.selection.inclusion_probability
    segment = value_of(made.segment)
    return ui.Facts(
        [
            ("Received", ui.instant(made.created_at, zone=True)),
            ("Segment", segment and ui.link(address(segment=segment), segment)),
            ("Model", ui.link(address(model_version=scored.model_version), scored.model_version)),
            (
                "Calibrator",
                ui.link(
                    address(calibrator_version=scored.calibrator_version), scored.calibrator_version
                ),
            ),
            ("Probability of audit", chance and confidence(chance)),
            *((f"Metadata: {name}", str(value)) for name, value in made.document.metadata.items()),
            ("Prediction", ui.code(made.id)),
        ]
    )
