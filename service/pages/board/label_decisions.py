"""What leads decide on a label: on its own page, and in its row of the catalogue.

Question: what is this label, and what do I make of it?
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import BaseModel

from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.labels import CatalogueLabel, LabelChange, LabelState
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call
from setwise.service.pages.documents import address, of_document
from setwise.service.pages.forms import Filled
from setwise.service.requests import Input

LABELS = "/board/labels"
LABEL = LABELS + "/label"
"""The page of the label that its address names."""
READERS = (Permission.REPORT, Permission.INSPECT)


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


class Decisions(NamedTuple):
    """The actions on a label, where one page offers them."""

    accept: Action
    retire: Action
    rename: Action
    merge: Action


def at(label: str, **more: str) -> str:
    """Return the address of a label's page."""
    return f"{LABEL}?{urlencode({'label': label, **more})}"


def narrowed(call: Call) -> dict[str, str]:
    """Return what narrows the list of labels, as its address says it."""
    return {name: call.query[name] for name in ("query", "state", "after") if call.query.get(name)}


def decides(call: Call) -> bool:
    """Return whether the reader decides on labels, as leads and administrators do."""
    return call.caller.may(Permission.REVIEW) and call.caller.may(Permission.REPORT)


def badge(state: LabelState, *, in_model: bool) -> Markup:
    """Return the state of a label in a word."""
    match state:
        case LabelState.PROPOSED:
            return ui.badge("proposed", "warn")
        case LabelState.ACCEPTED:
            return ui.badge("model", "good") if in_model else ui.badge("catalogue")
        case _:
            return ui.badge(state.value)


def row_menu(call: Call, stored: CatalogueLabel) -> ui.Menu:
    """Return what can be decided on a label in its row of the list."""
    ways: Sequence[ui.Piece] = [ui.Buttons(_buttons(call, stored, IN_ROW))]
    if stored.state is LabelState.MERGED:
        ways = [ui.link(at(stored.label), "Another label stands for it")]
    elif stored.in_model:
        ways = [*ways, ui.text("A model predicts it: it keeps its name.", "hint")]
    else:
        ways = [*_forms(call, stored, IN_ROW), *ways]
    return ui.Menu(stored.label, ways, open=refused_in_row(call) == stored.label)


def refused_in_row(call: Call) -> str:
    """Return the label whose form in a row was refused; "" unless one was."""
    refused = call.tried in (IN_ROW.rename, IN_ROW.merge) and call.filled.faults
    return call.filled.text("of") if refused else ""


def _label(call: Call) -> ui.View:
    stored = call.services.labels.get(
        call.caller, call.query.get("label") or call.filled.text("of")
    )
    names = call.services.documents.reviewers(call.caller) if stored.proposed_by else {}
    facts = [
        ("Name", stored.name),
        ("When it applies", stored.guideline),
        ("Parent", stored.parent and ui.link(at(stored.parent), stored.parent)),
        (
            "Merged into",
            stored.merged_into and ui.link(at(stored.merged_into), stored.merged_into),
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
    values = {"may_change": decides(call), "labels_typed": True}
    shown = badge(stored.state, in_model=stored.in_model)
    return ui.View(stored.label, parts, badge=shown, values=values)


def _decision(call: Call, stored: CatalogueLabel) -> Sequence[ui.Piece]:
    if not decides(call):
        return [ui.text("Leads and administrators decide on labels.", "quiet")]
    fields = {"of": stored.label, "version": str(stored.version)}
    forget = ui.Press("Remove everywhere …", FORGET.address, "danger", fields)
    if stored.state is LabelState.MERGED:
        hint = "Nothing is left to decide: the other label stands for it."
        return [ui.text(hint, "quiet"), ui.Buttons([forget])]
    hint = "A retired label is no longer offered, history keeps it, and you can offer it again."
    parts: list[ui.Piece] = [ui.Buttons(_buttons(call, stored, ON_PAGE)), ui.text(hint, "hint")]
    if stored.in_model:
        kept = "A model predicts this label, so it keeps its name."
        return [*parts, ui.text(kept, "quiet")]
    hint = "For a label that names a person. Answers keep that a label applies, without its name."
    remove = ui.Card("Remove it", [ui.Buttons([forget]), ui.text(hint, "hint")])
    return [*parts, *_forms(call, stored, ON_PAGE), remove]


def _buttons(call: Call, stored: CatalogueLabel, by: Decisions) -> list[ui.Press]:
    fields = {"of": stored.label, "version": str(stored.version)}
    offer = "Accept" if stored.state is LabelState.PROPOSED else "Offer again"
    accept = ui.Press(offer, _sent_to(call, by.accept), "", fields)
    retire = ui.Press("Retire", _sent_to(call, by.retire), "second", fields)
    some = {LabelState.PROPOSED: [accept, retire], LabelState.RETIRED: [accept]}
    return some.get(stored.state, [retire])


def _forms(call: Call, stored: CatalogueLabel, by: Decisions) -> list[ui.Form]:
    """Return the forms that rename and merge a label; a refused one keeps what was typed."""
    forms = []
    for action in (by.rename, by.merge):
        form, sent = call.form(action), call.filled.text("of") == stored.label
        tried = form.filled if call.tried is action and sent else Filled.of()
        now = Filled.of(of=stored.label, version=str(stored.version), sure="")
        filled = Filled({**tried.values, **now.values}, tried.faults)
        forms.append(replace(form, address=_sent_to(call, action), filled=filled))
    return forms


def _sent_to(call: Call, action: Action) -> str:
    """Return the address of an action; one in a row keeps what narrows the list."""
    kept = urlencode(narrowed(call)) if action in IN_ROW else ""
    return f"{action.address}?{kept}" if kept else action.address


def _back(call: Call, label: str, **more: str) -> str:
    """Return where a decision was made: the list as it was, or the label's page."""
    if call.tried not in IN_ROW:
        return at(label, **more)
    query = urlencode({**narrowed(call), **more})
    return f"{LABELS}?{query}" if query else LABELS


def _change(call: Call, form: LabelDecision, change: LabelChange, done: str) -> str:
    changed = call.services.labels.change(call.caller, form.of, change, form.version)
    return _back(call, changed.label, done=done)


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
        heading = f"Rename “{form.of}” to “{form.name}”?"
        return _sure(call, heading, will, "Rename", fields)
    stored = call.services.labels.get(call.caller, form.of)
    state = LabelState.ACCEPTED if stored.state is LabelState.PROPOSED else stored.state
    return _change(call, form, LabelChange(state, label=form.name, insist=True), "label-renamed")


def _merge(call: Call, form: Merging) -> str | ui.View:
    if not form.sure:
        fields = {**_fields(form), "into": form.into}
        will = [*_follows(form.of, form.into), f"“{form.of}” is no longer offered."]
        heading = f"Merge “{form.of}” into “{form.into}”?"
        return _sure(call, heading, will, "Merge", fields)
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
        return _sure(call, heading, will, "Remove", _fields(form))
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
    call: Call, heading: str, will: Sequence[str], label: str, fields: Mapping[str, str]
) -> ui.View:
    question = ui.Question(heading, will, label, _back(call, fields["of"]), fields=fields)
    return ui.View("", (question,), title=heading)


_DECIDES = (Permission.REVIEW,)
"""Services let leads and administrators decide."""
ON_PAGE = Decisions(
    accept=Action(
        LABEL + "/accept",
        _accept,
        LabelDecision,
        needed=_DECIDES,
        notices={"label-accepted": "The label is accepted."},
    ),
    retire=Action(
        LABEL + "/retire",
        _retire,
        LabelDecision,
        needed=_DECIDES,
        notices={"label-retired": "The label is retired."},
    ),
    rename=Action(
        LABEL + "/rename",
        _rename,
        Renaming,
        heading="Rename it",
        label="Rename …",
        hint="Documents follow. A proposed label is accepted with its new name.",
        needed=_DECIDES,
        notices={"label-renamed": "The label is renamed, and documents follow."},
    ),
    merge=Action(
        LABEL + "/merge",
        _merge,
        Merging,
        heading="Merge it into another",
        label="Merge …",
        hint="For a second name of a label that exists. Documents follow.",
        needed=_DECIDES,
        notices={"label-merged": "The label is merged, and documents follow."},
    ),
)
IN_ROW = Decisions(
    *(replace(each, address=each.address.replace(LABEL, LABELS)) for each in ON_PAGE)
)
FORGET = Action(
    LABEL + "/forget",
    _forget,
    Removal,
    needed=_DECIDES,
    then=LABELS,
    notices={"label-removed": "The label is removed."},
)
PAGES = (BoardPage(LABEL, _label, (*ON_PAGE, FORGET), needed=READERS, section=LABELS),)
