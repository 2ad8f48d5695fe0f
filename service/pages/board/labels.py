"""Label names, guidelines and parents, for the people who choose labels."""

from typing import Annotated

from pydantic import BaseModel

from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call
from setwise.service.pages.forms import Input

LABELS = "/board/labels"


class LabelFile(BaseModel):
    """The form that replaces what is known of labels."""

    file: Annotated[
        str,
        Input(
            "Label file (CSV)",
            "The first line is label,name,guideline,parent; only label must be filled in. A parent "
            "is a label of the same file; it may be a heading that the model does not know.",
            widget="textarea",
            pointers=("/file",),
        ),
    ] = ""


def _replace(call: Call, form: LabelFile) -> None:
    call.services.models.describe_labels(call.caller, form.file)


def _labels(call: Call) -> ui.View:
    notes = call.services.models.label_notes(call.caller)
    described = f"{len(notes):,} labels are described." if notes else "No label is described yet."
    lead = "What the review desk shows of a label: its name, when it applies, and where it belongs."
    return ui.View("Labels", [ui.text(described), call.form(DESCRIBE)], lead=lead)


DESCRIBE = Action(
    LABELS,
    _replace,
    LabelFile,
    heading="Replace the descriptions",
    label="Replace",
    hint="An empty file removes them all.",
    then=LABELS,
    notices={"described": "The descriptions are replaced."},
)
PAGES = (
    BoardPage(
        LABELS,
        _labels,
        (DESCRIBE,),
        name="Labels",
        meaning="Names, guidelines and hierarchy of labels, for reviewers.",
    ),
)
