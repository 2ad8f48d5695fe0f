"""The labels of the model, with names, guidelines and parents for the people who choose them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel

from setwise.models.figures.numerals import plural
from setwise.service.domain.errors import FieldFault, InvalidRequest, ModelUnavailable, NotFound
from setwise.service.domain.files import Format, header, lines
from setwise.service.domain.label_notes import MOST_LABEL_NOTES, LabelNote
from setwise.service.domain.labels import LabelMatches
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing
from setwise.service.pages.forms import Filled, Input
from setwise.service.pages.rendering import SECURITY_HEADERS

LABELS = "/board/labels"
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
            pointers=("/file",),
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


def _matches(call: Call, query: str, *, offset: int = 0, limit: int = PAGE) -> LabelMatches:
    try:
        return call.services.labels.search(call.caller, query, offset=offset, limit=limit)
    except ModelUnavailable:
        return LabelMatches((), 0)


def _described(labels: Sequence[str], notes: Mapping[str, LabelNote]) -> list[LabelNote]:
    return [notes.get(label) or LabelNote(label, None, None, None) for label in labels]


def _labels(call: Call) -> ui.View:
    query, after = call.query.get("query", "").strip(), call.after or "0"
    offset = int(after) if after.isdecimal() and len(after) < len(str(MOST_LABEL_NOTES)) else 0
    notes = {note.label: note for note in call.services.labels.notes(call.caller)}
    matches = _matches(call, query, offset=offset)
    model = frozenset(_matches(call, "", limit=MOST_LABEL_NOTES).labels)
    headings = [note for note in notes.values() if note.label not in model]
    n_described = sum(label in notes for label in model)
    more = offset + PAGE < matches.total
    parts: list[ui.Piece] = [
        ui.text(f"Described: {n_described:,} of the model's {len(model):,} labels."),
        ui.Filters(LABELS, {"query": Input("Code or words")}, Filled.of(query=query), "Find"),
        ui.Table(
            "Labels of the model",
            _COLUMNS,
            _described(matches.labels, notes),
            "No label matches." if query else "No model is active.",
        ),
        ui.Pager(
            LABELS,
            str(offset + PAGE) if more else None,
            {"query": query} if query else {},
            started=not offset,
            next_name="More",
        ),
    ]
    if headings:
        words = f"{plural(len(headings), 'described label')} unknown to the model"
        parts.append(ui.More(words, [ui.Table(words, _COLUMNS, headings)]))
    parts += [
        ui.text(ui.link(TEMPLATE.format(form="csv"), "Download all of them as a file to fill in")),
        call.form(DESCRIBE),
        ui.Buttons([ui.Go("Remove all descriptions", REMOVE.address, "danger")] if notes else []),
    ]
    lead = "What the review desk shows of a label: its name, when it applies, and where it belongs."
    return ui.View("Labels", parts, lead=lead)


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


_COLUMNS: Sequence[ui.Column[LabelNote]] = (
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
    hint="The file replaces all descriptions.",
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
        (DESCRIBE, REMOVE),
        name="Labels",
        meaning="The labels, with names, guidelines and hierarchy for reviewers.",
    ),
    BoardPage(TEMPLATE, _template, section=LABELS),
)
