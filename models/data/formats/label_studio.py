"""Exports of Label Studio projects: tasks with the annotations of people."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.lines import DataError, decode, read_whole

_EXPORT = "export the project as JSON"


def task_lines(
    path: str | Path, layout: FileLayout, *, labelled: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield each task of an export as a numbered line of Setwise's own JSON Lines.

    The text is the value of ``layout.text_column`` in the task's data, the id the ``id`` there or
    the task's own. Labels are the choices of people. Of several annotations the one marked as
    ground truth counts, else the set that most of them chose, and the latest of equally many.
    Skipped tasks and those that nobody annotated are left out where labels are read.

    Parameters
    ----------
    path : str or Path
        The JSON export, plain or gzipped.
    layout : FileLayout
        ``labels_column`` names the control if the project has several with choices.
    labelled : bool
        Whether labels are read.

    Raises
    ------
    DataError
        At the first task that holds no such document.
    """
    for number, task in enumerate(_tasks(path), 1):
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            raise DataError(path, number, "the task has no data", _EXPORT)
        if not isinstance(data.get(layout.text_column), str):
            raise DataError(
                path,
                number,
                f"the data holds no text {layout.text_column!r}",
                f"name the key of the text (--text-column); there are {', '.join(data)}",
            )
        record: dict[str, object] = {
            "id": str(
                next(id_ for id_ in (data.get("id"), task.get("id"), number) if id_ is not None)
            ),
            "text": data[layout.text_column],
        }
        if labelled:
            answers = [
                answer
                for answer in task.get("annotations") or []
                if not answer.get("was_cancelled")
            ]
            if not answers:
                continue
            labels, who = _decided(path, number, answers, layout.labels_column)
            record["labels"] = sorted(labels)
            if who is not None:
                record["annotator"] = who
        yield number, json.dumps(record).encode()


def _tasks(path: str | Path) -> list[Any]:
    try:
        tasks = json.loads(decode(path, 1, read_whole(path)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(path, None, f"not JSON ({error})", _EXPORT) from error
    if not isinstance(tasks, list):
        raise DataError(path, None, "not a list of tasks", _EXPORT)
    return tasks


def _decided(
    path: str | Path, number: int, answers: list[Mapping[str, Any]], control: str | None
) -> tuple[frozenset[str], str | None]:
    """Return the labels that count, and who gave them if only one did."""
    by_time = sorted(answers, key=_instant)
    chosen = [answer for answer in by_time if answer.get("ground_truth")][-1:] or by_time
    sets = [_choices(path, number, answer, control) for answer in chosen]
    votes = Counter(reversed(sets))  # the latest comes first among equals
    labels = votes.most_common(1)[0][0]
    agreed = [answer for answer, own in zip(chosen, sets, strict=True) if own == labels]
    return labels, _annotator(agreed[0]) if len(agreed) == 1 else None


def _instant(answer: Mapping[str, Any]) -> str:
    return str(answer.get("updated_at") or answer.get("created_at") or "")


def _annotator(answer: Mapping[str, Any]) -> str | None:
    who = answer.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    return None if who is None else str(who)


def _choices(
    path: str | Path, number: int, answer: Mapping[str, Any], control: str | None
) -> frozenset[str]:
    found: dict[str, set[str]] = {}
    for region in answer.get("result") or []:
        choices = region.get("value", {}).get("choices")
        if choices is not None and control in (None, region.get("from_name")):
            found.setdefault(str(region.get("from_name")), set()).update(choices)
    if len(found) > 1:
        raise DataError(
            path,
            number,
            f"choices of several controls: {', '.join(sorted(found))}",
            "name the one with the labels (--labels-column)",
        )
    return frozenset(label for labels in found.values() for label in labels)
