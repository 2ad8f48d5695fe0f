"""The catalogue of labels: what people can choose, and what leads decide on proposed ones.

Question: which labels can people choose, and which proposals wait for me?
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Response
from markupsafe import Markup
from pydantic import BaseModel

from setwise.models.figures.numerals import plural
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest, ModelUnavailable, NotFound
from setwise.service.domain.files import Format, header, lines
from setwise.service.domain.labels import (
    CatalogueLabel,
    LabelChange,
    LabelMatch,
    LabelMatches,
    LabelState,
)
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES, LabelNote
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, SectionState
from setwise.service.pages.documents import address, counted, of_document
from setwise.service.pages.forms import Filled, select
from setwise.service.pages.rendering import SECURITY_HEADERS
from setwise.service.requests import Input

LABELS = "/board/labels"
LABEL = LABELS + "/label"
"""The page of the label that its address names."""
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


def _at(label: str, **more: str) -> str:
    return f"{LABEL}?{urlencode({'label': label, **more})}"


def _decides(call: Call) -> bool:
    """Return whether the reader decides on labels, as leads and administrators do."""
    return call.caller.may(Permission.REVIEW) and call.caller.may(Permission.REPORT)


def _badge(state: LabelState, *, in_model: bool) -> Markup:
    match state:
        case LabelState.PROPOSED:
            return ui.badge("proposed", "warn")
        case LabelState.ACCEPTED:
            return ui.badge("model", "good") if in_model else ui.badge("catalogue")
        case _:
            return ui.badge(state.value)


def _labels(call: Call) -> ui.View:
    proposals = [
        each
        for each in call.services.labels.catalogue(call.caller)
        if each.state is LabelState.PROPOSED
    ]
    notes = {note.label: note for note in call.services.labels.notes(call.caller)}
    parts: list[ui.Piece] = [
        *_doubtful(call),
        *_proposed(call, proposals),
        *_listed(call, notes),
    ]
    template = ui.text(
        ui.link(TEMPLATE.format(form="csv"), "Download all of them as a file to fill in")
    )
    described: list[ui.Piece] = [template]
    form = call.form(DESCRIBE)
    if call.caller.may(Permission.ADMINISTER):
        remove = ui.Go("Remove all descriptions", REMOVE.address, "danger")
        described += [form, ui.Buttons([remove] if notes else [])]
    parts.append(ui.More("Descriptions from a file", described, open=bool(form.filled.faults)))
    beyond = (
        "A document with a label that the model lacks cannot be sent right until one learns it."
    )
    lead = beyond if proposals else f"No label waits for a lead. {beyond}"
    return ui.View("Labels", parts, lead=lead, values={"may_change": _decides(call)})


def _doubtful(call: Call) -> Sequence[ui.Piece]:
    """Return the labels that may name a person whose document was erased."""
    if not call.caller.may(Permission.READ_ALL_PREDICTIONS):
        return ()
    doubtful = call.services.labels.doubtful(call.caller)
    columns: Sequence[ui.Column[CatalogueLabel]] = (
        ui.Column("Label", lambda each: ui.link(_at(each.label), each.label), "head"),
        ui.Column("State", lambda each: _badge(each.state, in_model=each.in_model)),
        ui.Column(
            "Decide", lambda each: ui.row_link(_at(each.label), "Decide", each.label), "acts"
        ),
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
        ui.Column("Label", lambda each: ui.link(_at(each.label), each.label), "head"),
        ui.Column("Proposed by", lambda each: names.get(each.proposed_by or "", "a program")),
        ui.Column("When (UTC)", lambda each: each.proposed_at),
        ui.Column("Decided documents", documents),
        ui.Column(
            "Decide", lambda each: ui.row_link(_at(each.label), "Decide", each.label), "acts"
        ),
    )
    return (ui.heading("Proposed"), ui.Table("Proposed labels", columns, newest)) if newest else ()


def _listed(call: Call, notes: Mapping[str, LabelNote]) -> Sequence[ui.Piece]:
    """Return the labels that match the address, and what is known of them."""
    query, after = call.query.get("query", "").strip(), call.after or "0"
    named = call.query.get("state", "")
    state = LabelState(named) if named in _STATES else None
    offset = int(after) if after.isdecimal() and len(after) < len(str(MOST_LABEL_NOTES)) else 0
    matches = _matches(call, query, state=state, offset=offset)
    every = _matches(call, "", limit=MOST_LABEL_NOTES)
    model = frozenset(match.label for match in every.items if match.in_model)
    headings = [note for note in notes.values() if note.label not in every.labels]
    n_described = sum(label in notes for label in model)
    more = offset + PAGE < matches.total
    filters = {"query": Input("Code or words"), "state": select("State", _CHOICES)}

    def note(match: LabelMatch) -> LabelNote:
        return notes.get(match.label) or LabelNote(match.label, match.name, None, None)

    used = call.services.labels.used(call.caller, matches.labels)
    told: Sequence[ui.Column[LabelMatch]] = (
        ui.Column("Name", lambda match: note(match).name or "", "wrap"),
        ui.Column("When it applies", lambda match: note(match).guideline or "", "wrap"),
        ui.Column("Parent", lambda match: note(match).parent or "", "wrap"),
    )
    columns: Sequence[ui.Column[LabelMatch]] = (
        ui.Column(
            "Label",
            lambda match: ui.joined(
                ui.link(_at(match.label), match.label),
                "" if _usual(match) else " ",
                "" if _usual(match) else _badge(match.state, in_model=match.in_model),
            ),
            "head",
        ),
        *(column for column in told if any(column.cell(match) for match in matches.items)),
        ui.Column(
            "Documents",
            lambda match: counted(used.get(match.label, 0), final_label=match.label),
            "count",
        ),
        ui.Column("Change", _menu, "acts"),
    )
    narrowed = {name: value for name, value in (("query", query), ("state", state or "")) if value}
    parts: list[ui.Piece] = [
        ui.heading("Catalogue"),
        ui.text(f"Described: {n_described:,} of the model's {len(model):,} labels."),
        ui.Filters(LABELS, filters, Filled.of(query=query, state=state or ""), "Find"),
        ui.Table(
            "Labels",
            columns,
            matches.items,
            "No label matches." if narrowed else "No model is active.",
            kind="tight",
        ),
        ui.Pager(
            LABELS,
            str(offset + PAGE) if more else None,
            narrowed,
            started=not offset,
            next_name="More",
        ),
    ]
    if headings:
        words = f"{plural(len(headings), 'described label')} unknown to the model"
        parts.append(ui.More(words, [ui.Table(words, _NOTES, headings)]))
    return parts


def _usual(match: LabelMatch) -> bool:
    """Return whether a label is like most: the model's, and in use."""
    return match.in_model and match.state is LabelState.ACCEPTED


def _menu(match: LabelMatch) -> Markup:
    """Return the ways to what can be decided on a label."""
    retired = match.state is not LabelState.ACCEPTED
    label = match.label
    decide = ui.row_link(_at(label), "Decide" if retired else "Retire", label)
    if match.in_model or match.state is LabelState.MERGED:  # a model's label keeps its name
        return ui.menu(label, decide)
    ways = (("form-rename-it", "Rename"), ("form-merge-it-into-another", "Merge"))
    links = (ui.row_link(f"{_at(label)}#{form}", words, label) for form, words in ways)
    return ui.menu(label, *links, decide)


# One label, and what a lead decides on it.


class LabelDecision(BaseModel):
    """The form that changes the state of a label."""

    of: Annotated[str, Input(widget="hidden")]
    version: Annotated[int, Input(widget="hidden")]


class Renaming(LabelDecision):
    """The form that renames a label."""

    name: Annotated[str, Input("New name", pointers=("/label",))]
    sure: Annotated[str, Input(widget="hidden")] = ""


class Removal(LabelDecision):
    """The button that removes a label everywhere."""

    sure: Annotated[str, Input(widget="hidden")] = ""


class Merging(LabelDecision):
    """The form that merges a label into another."""

    into: Annotated[
        str, Input("The label that stands for it", labels="known", pointers=("/merged_into",))
    ]
    sure: Annotated[str, Input(widget="hidden")] = ""


def _label(call: Call) -> ui.View:
    stored = call.services.labels.get(
        call.caller, call.query.get("label") or call.filled.text("of")
    )
    names = call.services.documents.reviewers(call.caller) if stored.proposed_by else {}
    facts = [
        ("Name", stored.name),
        ("When it applies", stored.guideline),
        ("Parent", stored.parent and ui.link(_at(stored.parent), stored.parent)),
        (
            "Merged into",
            stored.merged_into and ui.link(_at(stored.merged_into), stored.merged_into),
        ),
        ("Proposed by", stored.proposed_by and names.get(stored.proposed_by, "a program")),
        ("Proposed", stored.proposed_at and ui.instant(stored.proposed_at, zone=True)),
        (
            "First document",
            stored.proposed_in and ui.link(of_document(stored.proposed_in), "Open it"),
        ),
        ("Documents", ui.link(address(final_label=stored.label), "Decided with this label")),
    ]
    parts: list[ui.Piece] = [ui.Card("What is known", [ui.Facts(facts)]), *_decision(call, stored)]
    values = {"may_change": _decides(call), "labels_typed": True}
    badge = _badge(stored.state, in_model=stored.in_model)
    return ui.View(stored.label, parts, badge=badge, values=values)


def _decision(call: Call, stored: CatalogueLabel) -> Sequence[ui.Piece]:
    if not _decides(call):
        return [ui.text("Leads and administrators decide on labels.", "quiet")]
    fields = {"of": stored.label, "version": str(stored.version)}
    forget = ui.Press("Remove everywhere …", FORGET.address, "danger", fields)
    if stored.state is LabelState.MERGED:
        hint = "Nothing is left to decide: the other label stands for it."
        return [ui.text(hint, "quiet"), ui.Buttons([forget])]
    accept = ui.Press(
        "Accept" if stored.state is LabelState.PROPOSED else "Offer again",
        ACCEPT.address,
        "",
        fields,
    )
    retire = ui.Press("Retire", RETIRE.address, "second", fields)
    buttons = {LabelState.PROPOSED: [accept, retire], LabelState.RETIRED: [accept]}
    hint = "A retired label is no longer offered, history keeps it, and you can offer it again."
    parts: list[ui.Piece] = [ui.Buttons(buttons.get(stored.state, [retire])), ui.text(hint, "hint")]
    if stored.in_model:
        kept = "A model predicts this label, so it keeps its name."
        return [*parts, ui.text(kept, "quiet")]
    hint = "For a label that names a person. Answers keep that a label applies, without its name."
    return [
        *parts,
        call.form(RENAME, **fields),
        call.form(MERGE, **fields),
        ui.Card("Remove it", [ui.Buttons([forget]), ui.text(hint, "hint")]),
    ]


def _change(call: Call, form: LabelDecision, change: LabelChange, done: str) -> str:
    changed = call.services.labels.change(call.caller, form.of, change, form.version)
    return _at(changed.label, done=done)


def _accept(call: Call, form: LabelDecision) -> str:
    return _change(call, form, LabelChange(LabelState.ACCEPTED), "label-accepted")


def _retire(call: Call, form: LabelDecision) -> str:
    return _change(call, form, LabelChange(LabelState.RETIRED), "label-retired")


def _rename(call: Call, form: Renaming) -> str | ui.View:
    if not form.sure:
        similar = call.services.labels.similar(call.caller, form.name)
        others = [other for other in similar if other != form.of]
        alike = f"The new name is spelt almost like {' and '.join(others)}."
        will = [*([alike] if others else []), *_follows(form.of, form.name)]
        fields = {**_fields(form), "name": form.name}
        return _sure(f"Rename “{form.of}” to “{form.name}”?", will, "Rename", form, fields)
    stored = call.services.labels.get(call.caller, form.of)
    state = LabelState.ACCEPTED if stored.state is LabelState.PROPOSED else stored.state
    return _change(call, form, LabelChange(state, label=form.name, insist=True), "label-renamed")


def _merge(call: Call, form: Merging) -> str | ui.View:
    if not form.sure:
        fields = {**_fields(form), "into": form.into}
        will = [*_follows(form.of, form.into), f"“{form.of}” is no longer offered."]
        return _sure(f"Merge “{form.of}” into “{form.into}”?", will, "Merge", form, fields)
    change = LabelChange(LabelState.MERGED, merged_into=form.into)
    return _change(call, form, change, "label-merged")


def _forget(call: Call, form: Removal) -> ui.View | None:
    if not form.sure:
        will = (
            "Answers, outcomes, history and messages keep that a label applies, without its name.",
            "Labels that were merged into it go too. The audit trail keeps its id.",
            "Programs that were sent such a set are sent the corrected one.",
            "This cannot be undone.",
        )
        heading = f"Remove “{form.of}” everywhere?"
        return _sure(heading, will, "Remove", form, _fields(form))
    call.services.labels.remove(call.caller, form.of, form.version)
    return None


def _fields(form: LabelDecision) -> dict[str, str]:
    return {"of": form.of, "version": str(form.version), "sure": "yes"}


def _follows(old: str, new: str) -> Sequence[str]:
    return (
        f"Answers and outcomes that name “{old}” name “{new}” from then on.",
        "Programs that were sent such a set are sent the corrected one.",
        "The history of each document keeps what was written. This cannot be undone.",
    )


def _sure(
    heading: str, will: Sequence[str], label: str, form: LabelDecision, fields: Mapping[str, str]
) -> ui.View:
    question = ui.Question(heading, will, label, _at(form.of), fields=fields)
    return ui.View("", (question,), title=heading)


def _state(call: Call) -> SectionState:
    waiting = sum(
        each.state is LabelState.PROPOSED for each in call.services.labels.catalogue(call.caller)
    )
    if not waiting:
        return SectionState("No label waits for a lead.")
    return SectionState(f"{plural(waiting, 'proposed label')} waiting for a lead.")


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
_DECIDES = (Permission.REVIEW,)
"""Services let leads and administrators decide."""
ACCEPT = Action(
    LABEL + "/accept",
    _accept,
    LabelDecision,
    needed=_DECIDES,
    notices={"label-accepted": "The label is accepted."},
)
RETIRE = Action(
    LABEL + "/retire",
    _retire,
    LabelDecision,
    needed=_DECIDES,
    notices={"label-retired": "The label is retired."},
)
RENAME = Action(
    LABEL + "/rename",
    _rename,
    Renaming,
    heading="Rename it",
    label="Rename …",
    hint="Documents follow. A proposed label is accepted with its new name.",
    needed=_DECIDES,
    notices={"label-renamed": "The label is renamed, and documents follow."},
)
MERGE = Action(
    LABEL + "/merge",
    _merge,
    Merging,
    heading="Merge it into another",
    label="Merge …",
    hint="For a second name of a label that exists. Documents follow.",
    needed=_DECIDES,
    notices={"label-merged": "The label is merged, and documents follow."},
)
FORGET = Action(
    LABEL + "/forget",
    _forget,
    Removal,
    needed=_DECIDES,
    then=LABELS,
    notices={"label-removed": "The label is removed."},
)
_DECISIONS = (ACCEPT, RETIRE, RENAME, MERGE, FORGET)
_READERS = (Permission.REPORT, Permission.INSPECT)
PAGES = (
    BoardPage(
        LABELS,
        _labels,
        (DESCRIBE, REMOVE),
        name="Labels",
        meaning="The labels of the model and the catalogue, and those that people propose.",
        state=_state,
        needed=_READERS,
    ),
    BoardPage(
        LABEL, _label, (ACCEPT, RETIRE, RENAME, MERGE, FORGET), needed=_READERS, section=LABELS
    ),
    BoardPage(TEMPLATE, _template, needed=_READERS, section=LABELS),
)
