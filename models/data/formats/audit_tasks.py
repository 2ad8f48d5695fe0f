"""Answers to check as tasks of Label Studio, and the verdicts that come back."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from setwise.models.data.formats.label_studio import decided_choices
from setwise.models.data.lines import DataError

RIGHT, WRONG = "right", "wrong"
CONTROL = "right"
"""Name of the control in which people say whether an answer is right."""

CARRIED = ("id", "confidence", "audit_probability")
"""What a task carries unseen from the draw to the proof."""

CONFIG = (
    '<View>\n  <Text name="text" value="$text"/>\n  <Header value="$answer"/>\n'
    f'  <Choices name="{CONTROL}" toName="text" choice="single" required="true">\n'
    f'    <Choice value="{RIGHT}"/>\n    <Choice value="{WRONG}"/>\n  </Choices>\n</View>\n'
)
"""The labeling interface of a project with such tasks."""


def audit_task(row: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a task that asks whether an answer is right.

    Parameters
    ----------
    row : mapping
        With ``labels`` and what `CARRIED` names.
    text : str
        The document.
    """
    labels = row["labels"]
    shown = labels if isinstance(labels, str) else ", ".join(map(str, labels or ()))
    carried = {name: row[name] for name in CARRIED}
    return {"data": {"text": text, "answer": shown or "no label", **carried}}


def checked_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each task as a row of checked answers; ``right`` is None if unanswered.

    Raises
    ------
    DataError
        At the first task that `audit_task` did not make, or with another choice.
    """
    for number, task, choices in decided_choices(path, CONTROL):
        data = task.get("data")
        lacking = [name for name in CARRIED if not isinstance(data, dict) or name not in data]
        if lacking:
            cure = "import the tasks that audit-sample wrote, and export them as JSON"
            raise DataError(path, number, f"the data holds no {lacking[0]!r}", cure)
        if choices is not None and choices not in ({RIGHT}, {WRONG}):
            fault = f"the choice is {json.dumps(sorted(choices))}"
            raise DataError(path, number, fault, f"choose {RIGHT} or {WRONG}")
        right = None if choices is None else int(choices == {RIGHT})
        yield number, {**{name: task["data"][name] for name in CARRIED}, "right": right}
