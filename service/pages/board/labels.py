"""The catalogue of labels: what people can choose, and what leads decide on proposed ones.

Question: which labels can people choose, and which proposals wait for me?
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel

from setwise.models.figures.numerals import plural
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest, ModelUnavailable, NotFound
from setwise.service.domain.files import Format, header, lines
from setwise.service.domain.labels import CatalogueLabel, LabelMatch, LabelMatches, LabelState
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES, LabelNote
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, SectionState
from setwise.service.pages.board.label_decisions import (
    IN_ROW,
    LABELS,
    READERS,
    at,
    badge,
    decides,
    narrowed,
    refused_in_row,
    row_menu,
)
from setwise.service.pages.documents import counted, of_document
from setwise.service.pages.forms import Filled, select
from setwise.service.pages.rendering import SECURITY_HEADERS
from setwise.service.requests import Input

TEMPLATE = LABELS + "/template.{form}"
PAGE = 50


class LabelFile(BaseModel):
    """The form that replaces what is known of labels."""

    file: Annotated[
        str,
        Input(
            "Label file (CSV)",
            "The first line is label,name,guideline,parent; only label must be filled in. A parent "
            "is a label of the same file; it may be a heading that the model does not know.",
            widget="file",
        ),
    ] = ""
    text: Annotated[str, Input("Or its text", widget="textarea")] = ""


def _replace(call: Call, form: LabelFile) -> None:
    if not (form.file or form.text):
        raise InvalidRequest("", [FieldFault("/file", "is empty; choose one, or enter its text")])
    call.services.labels.describe(call.caller, form.file or form.text)


def _remove(call: Call, _: Nothing) -> None:
    call.services.labels.describe(call.caller, "")


def _question(call: Call) -> ui.Question:
    number = len(call.services.labels.notes(call.caller))
    will = [f"Names, guidelines and parents of {plural(number, 'label')} are removed."]
    return ui.Question("Remove all descriptions?", will, "Remove", LABELS)


def _matches(
    call: Call,
    query: str,
    *,
    state: LabelState | None = None,
    offset: int = 0,
    limit: int = PAGE,
) -> LabelMatches:
    try:
        return call.services.labels.search(
            call.caller, query, state=state, offset=offset, limit=limit
        )
    except ModelUnavailable:
        return LabelMatches((), 0)


def _described(labels: Sequence[str], notes: Mapping[str, LabelNote]) -> list[LabelNote]:
    return [notes.get(label) or LabelNote(label, None, None, None) for label in labels]


def _labels(call: Call) -> ui.View:
    catalogue = call.services.labels.catalogue(call.caller)
    proposals = [each for each in catalogue if each.state is LabelState.PROPOSED]
    notes = {note.label: note for note in call.services.labels.notes(call.caller)}
    filters = {"query": Input("Code or words"), "state": select("State", _CHOICES)}
    filled = Filled.of(query=call.query.get("query", ""), state=call.query.get("state", ""))
    parts: list[ui.Piece] = [
        *_doubtful(call),
        *_proposed(call, proposals),
        *([ui.heading("Catalogue")] if proposals else []),
        *_listed(call, notes),
        _descriptions(call, notes),
    ]
    return ui.View(
        "Labels",
        parts,
        beside=ui.Filters(LABELS, filters, filled, "Find"),
        lead=_waiting(len(proposals)),
        values={"may_change": decides(call), "labels_typed": True},
    )


def _descriptions(call: Call, notes: Mapping[str, LabelNote]) -> ui.More:
    """Return the way to describe labels by a file, folded."""
    every = _matches(call, "", limit=MOST_LABEL_NOTES)
    model = frozenset(match.label for match in every.items if match.in_model)
    headings = [note for note in notes.values() if note.label not in every.labels]
    n_described = sum(label in notes for label in model)
    form = call.form(DESCRIBE)
    parts: list[ui.Piece] = [
        ui.text(f"Described: {n_described:,} of the model's {len(model):,} labels."),
        ui.text(ui.link(TEMPLATE.format(form="csv"), "Download all of them as a file to fill in")),
    ]
    if call.caller.may(Permission.ADMINISTER):
        remove = ui.Go("Remove all descriptions", REMOVE.address, "danger")
        parts += [form, ui.Buttons([remove] if notes else [])]
    if headings:
        words = f"{plural(len(headings), 'described label')} unknown to the model"
        parts.append(ui.More(words, [ui.Table(words, _NOTES, headings)]))
    return ui.More("Descriptions from a file", parts, open=bool(form.filled.faults))


def _doubtful(call: Call) -> Sequence[ui.Piece]:
    """Return the labels that may name a person whose document was erased."""
    if not call.caller.may(Permission.READ_ALL_PREDICTIONS):
        return ()
    doubtful = call.services.labels.doubtful(call.caller)
    columns: Sequence[ui.Column[CatalogueLabel]] = (
        ui.Column("Label", lambda each: ui.link(at(each.label), each.label), "head"),
        ui.Column("State", lambda each: badge(each.state, in_model=each.in_model)),
        ui.Column("Decide", lambda each: ui.row_link(at(each.label), "Decide", each.label), "acts"),
    )
    why = (
        "The text of the document that each was first given to is deleted. Accept the label, or "
        "remove it everywhere if it names a person."
    )
    return (
        (ui.heading("May name a person"), ui.text(why, "hint"), ui.Table("", columns, doubtful))
        if doubtful
        else ()
    )


def _proposed(call: Call, proposals: Sequence[CatalogueLabel]) -> Sequence[ui.Piece]:
    """Return the labels that wait for a lead, the newest first."""
    names = call.services.documents.reviewers(call.caller) if proposals else {}
    numbers = call.services.labels.missing(call.caller).labels if proposals else {}
    newest = sorted(proposals, key=lambda each: each.proposed_at or _LONG_AGO, reverse=True)

    def documents(each: CatalogueLabel) -> object:
        first = each.proposed_in and ui.link(of_document(each.proposed_in), "the first")
        number = numbers.get(each.label, 0)
        every = counted(number, final_label=each.label)
        return ui.joined(every, ui.joined(", ", first) if first else "")

    columns: Sequence[ui.Column[CatalogueLabel]] = (
        ui.Column("Label", lambda each: ui.link(at(each.label), each.label), "head"),
        ui.Column("Proposed by", lambda each: names.get(each.proposed_by or "", "a program")),
        ui.Column("When (UTC)", lambda each: each.proposed_at),
        ui.Column("Decided documents", documents),
        ui.Column("Decide", lambda each: ui.row_link(at(each.label), "Decide", each.label), "acts"),
    )
    if not newest:
        return ()
    beyond = "A document with such a label cannot be sent right until a model learns it."
    table = ui.Table("Proposed labels", columns, newest)
    return ui.heading("Proposed"), ui.text(beyond, "hint"), table


def _listed(call: Call, notes: Mapping[str, LabelNote]) -> Sequence[ui.Piece]:
    """Return the labels that match the address, and what is known of them."""
    query, after = call.query.get("query", "").strip(), call.after or "0"
    named = call.query.get("state", "")
    state = LabelState(named) if named in _STATES else None
    offset = int(after) if after.isdecimal() and len(after) < len(str(MOST_LABEL_NOTES)) else 0
    matches = _matches(call, query, state=state, offset=offset)
    more = offset + PAGE < matches.total
    filters = {name: value for name, value in narrowed(call).items() if name != "after"}
    refused = refused_in_row(call)
    unseen = (
        [ui.text(call.filled.said(), "alert")] if refused and refused not in matches.labels else []
    )
    return [
        *unseen,
        ui.Table(
            "Labels",
            _columns(call, matches, notes),
            matches.items,
            "No label matches." if filters else "No model is active.",
            kind="tight",
        ),
        ui.Pager(
            LABELS,
            str(offset + PAGE) if more else None,
            filters,
            started=not offset,
            next_name="More",
        ),
    ]


def _columns(
    call: Call, matches: LabelMatches, notes: Mapping[str, LabelNote]
) -> Sequence[ui.Column[LabelMatch]]:
    """Return the columns of matching labels; what is known of none of them has no column."""
    used = call.services.labels.used(call.caller, matches.labels)
    versions = call.services.labels.versions(call.caller, matches.labels) if decides(call) else {}

    def note(match: LabelMatch) -> LabelNote:
        return notes.get(match.label) or LabelNote(match.label, match.name, None, None)

    def name(match: LabelMatch) -> object:
        link = ui.link(at(match.label), match.label)
        usual = match.in_model and match.state is LabelState.ACCEPTED
        return link if usual else ui.joined(link, " ", badge(match.state, in_model=match.in_model))

    def menu(match: LabelMatch) -> object:
        version = versions.get(match.label, 0)
        label, state = match.label, match.state
        stored = CatalogueLabel(label, state=state, in_model=match.in_model, version=version)
        return row_menu(call, stored)

    told: Sequence[ui.Column[LabelMatch]] = (
        ui.Column("Name", lambda match: note(match).name or "", "wrap"),
        ui.Column("When it applies", lambda match: note(match).guideline or "", "wrap"),
        ui.Column("Parent", lambda match: note(match).parent or "", "wrap"),
    )
    return [
        ui.Column("Label", name, "head"),
        *(column for column in told if any(column.cell(match) for match in matches.items)),
        ui.Column(
            "Documents",
            lambda match: counted(used.get(match.label, 0), final_label=match.label),
            "count",
        ),
        ui.Column("Change", menu, "acts"),
    ]


def _state(call: Call) -> SectionState:
    catalogue = call.services.labels.catalogue(call.caller)
    return SectionState(_waiting(sum(each.state is LabelState.PROPOSED for each in catalogue)))


def _waiting(number: int) -> str:
    if not number:
        return "No label waits for a lead."
    return f"{plural(number, 'proposed label')} waiting for a lead."


def _template(call: Call) -> Response:
    """Return a label file with every label of the model, and what is known of it."""
    if call.id != "csv":
        raise NotFound("The labels are available as CSV.")
    notes = {note.label: note for note in call.services.labels.notes(call.caller)}
    labels = [*_matches(call, "", limit=MOST_LABEL_NOTES).labels, *notes]
    rows = [note._asdict() for note in _described(list(dict.fromkeys(labels)), notes)]
    content = header(Format.CSV, LabelNote._fields) + lines(Format.CSV, rows)
    saved = {"Content-Disposition": 'attachment; filename="labels.csv"'}
    fresh = {**SECURITY_HEADERS, "Cache-Control": "no-store", **saved}
    return Response(content, media_type="text/csv", headers=fresh)


_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STATES = frozenset({LabelState.PROPOSED, LabelState.RETIRED, LabelState.MERGED})
_CHOICES = (("", "In use"), *((state.value, state.value.capitalize()) for state in sorted(_STATES)))
_NOTES: Sequence[ui.Column[LabelNote]] = (
    ui.Column("Label", lambda note: note.label, "head"),
    ui.Column("Name", lambda note: note.name or "", "wrap"),
    ui.Column("When it applies", lambda note: note.guideline or "", "wrap"),
    ui.Column("Parent", lambda note: note.parent or "", "wrap"),
)
DESCRIBE = Action(
    LABELS,
    _replace,
    LabelFile,
    heading="Replace the descriptions",
    label="Replace",
    hint="The file replaces all descriptions. Parents make the tree on the desk; a rule of the "
    "policy can require them.",
    then=LABELS,
    notices={"described": "The descriptions are replaced."},
)
REMOVE = Action(
    LABELS + "/remove",
    _remove,
    ask=_question,
    then=LABELS,
    notices={"undescribed": "The descriptions are removed."},
)
PAGES = (
    BoardPage(
        LABELS,
        _labels,
        (DESCRIBE, REMOVE, *IN_ROW),
        name="Labels",
        meaning="The labels of the model and the catalogue, and those that people propose.",
        state=_state,
        needed=READERS,
    ),
    BoardPage(TEMPLATE, _template, needed=READERS, section=LABELS),
)
