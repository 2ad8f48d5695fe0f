"""Tasks of Label Studio: read with annotations of people, written with predictions."""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.formats.verdicts import is_rejected
from setwise.models.data.json_lines import json_records, read_json, type_name
from setwise.models.data.lines import DataError, DataWarning, count_of, is_address

CONTROL = "labels"
"""Name of the control with the choices in tasks that Setwise writes."""

_PREDICTED = ("id", "labels", "confidence", "model_version")
_EXPORT = "export the project as JSON"
_READ = ("choices", "taxonomy")
"""Kinds of controls with labels of a whole document."""


def task_lines(
    path: str | Path,
    layout: FileLayout,
    *,
    labelled: bool,
    several: bool = False,
    external: bool = False,
) -> Iterator[tuple[int, bytes]]:
    """Yield each exported task as a numbered line of JSON Lines.

    The text is the value of ``layout.text_column`` in the task's data, the id the ``id`` there or
    the task's own. Labels are the choices of people, of a taxonomy the last name of each path. Of
    several annotations the one marked as ground truth counts, else the set that most of them chose,
    and the latest of equally many. Where labels are read, tasks without annotations are left out,
    and so are annotations that were cancelled, skipped or rejected by the latest review.

    Parameters
    ----------
    path : str or Path
        The JSON export, plain or gzipped.
    layout : FileLayout
        ``labels_column`` names the control if the project has several.
    labelled : bool
        Whether labels are read.
    several : bool
        Whether each person's latest annotation is a separate line; ground truth is by "gold".
    external : bool
        Whether the predictions of another model are the line's candidates, with their scores.

    Raises
    ------
    DataError
        At the first task that holds no such document.

    Warns
    -----
    DataWarning
        If tasks are left out.
    """
    reader = _Controls(path, layout.labels_column)
    unanswered = addresses = 0
    tasks = _tasks(path)
    for number, task in enumerate(tasks, 1):
        record = _document(path, number, task, layout.text_column)
        addresses += is_address(str(record["text"]))
        if external:
            record["candidates"] = _candidates(reader, number, task)
        if not labelled:
            yield number, json.dumps(record).encode()
            continue
        answers = _answers(reader, number, task)
        unanswered += not answers
        for answer in _each(answers) if several else _decided(answers):
            more = {} if answer.annotator is None else {"annotator": answer.annotator}
            line = {**record, "labels": sorted(answer.labels), **more}
            yield number, json.dumps(line).encode()
    if labelled:
        reader.check_used()
        _warn(path, unanswered, len(tasks))
    _refuse_addresses(path, layout.text_column, addresses, len(tasks))


def decided_choices(
    path: str | Path, control: str
) -> Iterator[tuple[int, dict[str, Any], frozenset[str] | None]]:
    """Yield each task's number, the task, and the deciding choices in a control.

    None without a choice; which of several annotations decides is as in `task_lines`.

    Raises
    ------
    DataError
        At the first task of another form.
    """
    reader = _Controls(path, control)
    for number, task in enumerate(_tasks(path), 1):
        if not isinstance(task, dict):
            raise DataError(path, number, "this is no task", _EXPORT)
        decided = _decided(_answers(reader, number, task))
        yield number, task, decided[0].labels or None if decided else None


def _refuse_addresses(path: str | Path, key: str, addresses: int, n: int) -> None:
    """Raise `DataError` if all texts are addresses; warn of some."""
    cure = "name the key of the texts (--text-column), or import them"
    if addresses and addresses == n:
        raise DataError(path, None, f"{key!r} holds addresses of texts, not texts", cure)
    if addresses:
        some = count_of(addresses, "task")
        warning = f"{path}: {key!r} holds an address, not a text, in {some} of {n:,}; {cure}"
        warnings.warn(warning, DataWarning, stacklevel=2)


def _warn(path: str | Path, unanswered: int, n: int) -> None:
    if unanswered and unanswered == n:
        fault = "no task has an annotation that was neither cancelled nor rejected"
        raise DataError(path, None, fault, "export a project with annotations")
    if unanswered:
        why = "they have no annotation, or only cancelled or rejected ones"
        warning = f"{path}: {count_of(unanswered, 'task')} left out: {why}"
        warnings.warn(warning, DataWarning, stacklevel=2)


def task_of(prediction: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a task with a predicted label set and its confidence.

    Parameters
    ----------
    prediction : mapping
        As `setwise predict` writes it, or a line of the export of predictions.
    text : str
        The document.

    Examples
    --------
    >>> prediction = {"id": "a", "labels": ["x"], "confidence": 0.9, "model_version": "3f9c"}
    >>> task_of(prediction, "Fever")["data"]
    {'id': 'a', 'text': 'Fever'}
    >>> task_of(prediction, "Fever")["predictions"][0]["result"][0]["value"]
    {'choices': ['x']}
    """
    data = {"id": prediction["id"], "text": text}
    if "document_id" in prediction:
        data |= {"id": prediction["document_id"], "prediction_id": prediction["id"]}
    if prediction["labels"] is None:  # received before there was a model
        return {"data": data, "predictions": []}
    region = {
        "id": "labels",
        "from_name": CONTROL,
        "to_name": "text",
        "type": "choices",
        "value": {"choices": list(prediction["labels"])},
    }
    predicted = {
        "model_version": prediction["model_version"],
        "score": prediction["confidence"],
        "result": [region] if prediction["labels"] else [],
    }
    return {"data": data, "predictions": [predicted]}


def predicted_tasks(
    path: str | Path, texts: Mapping[str, str], *, review: bool = False
) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Yield each prediction's task, with every label that it names.

    Parameters
    ----------
    path : str or Path
        JSON Lines of `setwise predict`, or exported predictions.
    texts : mapping
        Documents by id, for lines without a text.
    review : bool
        Whether only predictions with the decision "review" count.

    Raises
    ------
    DataError
        At the first line that is no prediction, or whose document is unknown; if no exported text
        is stored any more.

    Warns
    -----
    DataWarning
        If exported documents are left out, because their text is gone.
    """
    n_gone = n_tasks = 0
    for number, line in json_records(path):
        prediction: dict[str, Any] = line
        missing = [name for name in _PREDICTED if name not in prediction]
        if missing:
            fault = f"{missing[0]!r} is missing"
            raise DataError(path, number, fault, "give predictions as Setwise writes them")
        if review and prediction.get("decision") != "review":
            continue
        labels = prediction["labels"] or []
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            cure = "give predictions as Setwise writes them"
            raise DataError(path, number, "'labels' is no list of names", cure)
        id_ = str(prediction.get("document_id") or prediction["id"])
        text = prediction.get("text") or texts.get(id_)
        if text is None and "text" in prediction:
            n_gone += 1
            continue
        if not isinstance(text, str):
            cure = "export with content=true, or name the documents (--texts)"
            raise DataError(path, number, f"no text of the document {id_!r}", cure)
        n_tasks += 1
        yield task_of(prediction, text), _labels_in(prediction)
    if n_gone and not n_tasks:
        raise DataError(path, None, "no document has a text", "name the documents (--texts)")
    if n_gone:
        gone = f"{path}: {count_of(n_gone, 'document')} left out: the text is gone"
        warnings.warn(gone, DataWarning, stacklevel=2)


def _labels_in(prediction: Mapping[str, Any]) -> set[str]:
    likely = (entry["label"] for entry in prediction.get("marginals") or ())
    others = (entry["labels"] for entry in prediction.get("candidates") or ())
    return set(prediction["labels"] or ()).union(likely, *others)


def labeling_config(label_names: Iterable[str]) -> str:
    """Return the labeling interface in which such tasks open."""
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in label_names)
    return (
        '<View>\n  <Text name="text" value="$text"/>\n'
        f'  <Choices name="{CONTROL}" toName="text" choice="multiple">\n{choices}  </Choices>\n'
        "</View>\n"
    )


class _AnnotatedAnswer(NamedTuple):
    """What one person, known or not, chose."""

    labels: frozenset[str]
    annotator: str | None
    is_truth: bool


def _tasks(path: str | Path) -> list[Any]:
    tasks = read_json(path, _EXPORT)
    if not isinstance(tasks, list):
        raise DataError(path, None, "not a list of tasks", _EXPORT)
    return tasks


def _document(path: str | Path, number: int, task: Any, key: str) -> dict[str, object]:  # noqa: ANN401
    data = task.get("data") if isinstance(task, dict) else None
    if not isinstance(data, dict):
        cure = f"{_EXPORT}, or give one JSON object a line"
        raise DataError(path, number, "this is no task of Label Studio: it has no 'data'", cure)
    if not isinstance(data.get(key), str):
        raise DataError(
            path,
            number,
            f"the data holds no text {key!r}",
            f"name the key of the text (--text-column); there are {', '.join(data)}",
        )
    ids = (data.get("id"), task.get("id"), number)
    return {"id": str(next(id_ for id_ in ids if id_ is not None)), "text": data[key]}


def _candidates(
    reader: "_Controls", number: int, task: Mapping[str, Any]
) -> list[dict[str, object]]:
    """Return the label sets that predictions of a task chose."""
    predictions = task.get("predictions") or []
    if any(isinstance(entry, int) for entry in predictions):
        raise DataError(
            reader.path,
            number,
            "the task holds only the ids of its predictions",
            "export the tasks with their predictions, as the API lists them with fields=all",
        )
    try:
        return [
            {"labels": sorted(reader.choices(number, entry))}
            | ({} if entry.get("score") is None else {"score": entry["score"]})
            for entry in predictions
        ]
    except (AttributeError, TypeError) as error:
        raise reader.foreign(number, "predictions") from error


def _answers(reader: "_Controls", number: int, task: Mapping[str, Any]) -> list[_AnnotatedAnswer]:
    """Return the answers about a task, the latest last."""
    try:
        annotations = [
            annotation
            for annotation in task.get("annotations") or task.get("completions") or []
            if not (_is_withdrawn(annotation) or is_rejected(task))
        ]
        return [
            _AnnotatedAnswer(
                reader.choices(number, annotation),
                _annotator(annotation),
                bool(annotation.get("ground_truth")),
            )
            for annotation in sorted(annotations, key=_instant)
        ]
    except (AttributeError, TypeError) as error:
        raise reader.foreign(number, "annotations") from error


def _is_withdrawn(annotation: Mapping[str, Any]) -> bool:
    """Return whether an annotation was withdrawn; earlier releases had other names."""
    if is_rejected(annotation):
        return True
    reviews = sorted(annotation.get("reviews") or [], key=_instant)
    return bool(reviews) and reviews[-1].get("accepted") is False


def _decided(answers: list[_AnnotatedAnswer]) -> list[_AnnotatedAnswer]:
    """Return the deciding answer, with its annotator if only one gave it."""
    truth = [answer for answer in answers if answer.is_truth]
    if truth or not answers:
        return truth[-1:]
    votes = Counter(answer.labels for answer in reversed(answers))  # of equals the latest is first
    labels = votes.most_common(1)[0][0]
    agreed = [answer for answer in answers if answer.labels == labels]
    return [agreed[0] if len(agreed) == 1 else _AnnotatedAnswer(labels, None, False)]


def _each(answers: list[_AnnotatedAnswer]) -> list[_AnnotatedAnswer]:
    """Return the latest answer of each person, and of the truth."""
    by_annotator = {
        ("gold" if answer.is_truth else answer.annotator): answer.labels for answer in answers
    }
    return [_AnnotatedAnswer(labels, who, who == "gold") for who, labels in by_annotator.items()]


def _instant(answer: Mapping[str, Any]) -> str:
    return str(answer.get("updated_at") or answer.get("created_at") or "")


def _annotator(answer: Mapping[str, Any]) -> str | None:
    who = answer.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    return None if who is None else str(who)


class _Controls:
    """Reads what people chose, and notices controls that hold no labels."""

    def __init__(self, path: str | Path, control: str | None) -> None:
        self.path = path
        self._control = control
        self._is_used = False
        self._others: dict[str, str] = {}  # kinds of results that are not read, by control

    def choices(self, number: int, answer: Mapping[str, Any]) -> frozenset[str]:
        """Return the labels in a result."""
        by_control: dict[str, set[str]] = {}
        for region in answer.get("result") or []:
            name, value = str(region.get("from_name")), region.get("value", {})
            if self._control not in {None, name}:
                continue
            kind = next((kind for kind in _READ if value.get(kind) is not None), None)
            if kind is None:
                self._others[name] = str(region.get("type"))
                continue
            chosen = by_control.setdefault(name, set())
            chosen.update(
                self._label(number, kind, choice) for choice in self._list(number, value[kind])
            )
        if len(by_control) > 1:
            raise DataError(
                self.path,
                number,
                f"choices of several controls: {', '.join(sorted(by_control))}",
                "name the one with the labels (--labels-column)",
            )
        self._is_used = self._is_used or bool(by_control)
        return frozenset(label for labels in by_control.values() for label in labels)

    def _list(self, number: int, chosen: object) -> list[Any]:
        if not isinstance(chosen, list):
            fault = f"the choices are {type_name(chosen)}"
            raise DataError(self.path, number, fault, 'write them as a list: ["fever"]')
        return chosen

    def _label(self, number: int, kind: str, choice: object) -> str:
        label = choice[-1] if kind == "taxonomy" and isinstance(choice, list) and choice else choice
        if not isinstance(label, str):
            fault = f"a choice is {type_name(label)}"
            raise DataError(self.path, number, fault, "give names as strings")
        return label

    def foreign(self, number: int, what: str) -> DataError:
        """Return the error for a task in another form."""
        return DataError(self.path, number, f"the {what} are not Label Studio's", _EXPORT)

    def check_used(self) -> None:
        """Raise `DataError` if no task held choices, but something else."""
        if self._is_used or (self._control is None and not self._others):
            return
        kinds = " and ".join(f"{name!r} ({kind})" for name, kind in self._others.items())
        raise DataError(
            self.path,
            None,
            f"no task has a choice in {self._control!r}"
            if self._control is not None and self._control not in self._others
            else f"results are of {kinds}, not of choices",
            "name a control of Choices or Taxonomy (--labels-column)",
        )
