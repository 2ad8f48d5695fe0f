"""Setwise's own export of annotations, as labelled documents.

A row is one person's answer to one prediction. What a lead decided is the truth: such a document is
by `GOLD`. Documents drawn to certify are left out: what proves a threshold must teach nothing. So
are documents whose set is not known whole: they would teach that the rest is complete. Documents
with rare labels stay, and so do these labels: without them a model would be taught, and judged, on
documents that are easier than those to come.
"""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from setwise.models.data.lines import DataError, DataWarning, count_of, decode

GOLD = "gold"
"""Annotator of documents that are decided."""

SHOWN = " (suggestion shown)"
"""Follows the name of annotators who saw the prediction: they agree with it more often."""

ANNOTATION_COLUMNS = frozenset(
    {"prediction_id", "reviewer", "labels", "kind", "settles", "suggestion_shown"}
)
"""Columns by which an export of annotations is known."""
PREDICTION_COLUMNS = frozenset({"id", "document_id", "client_id", "decision", "calibrator_version"})
"""Columns by which an export of predictions or of found documents is known."""
OUTCOME_COLUMNS = frozenset({"prediction_id", "document_id", "client_id", "source", "reported_by"})
"""Columns by which an export of outcomes is known."""

_DECIDES = frozenset({"adjudication", "reopened"})
_CERTIFIES = "they were drawn to certify"
_ANSWERS = {"answer_scores": "scores", "answer_candidates": "candidates", "answer": "answer"}
"""Columns of another model's answer, and what a line of documents calls them."""

_UNANSWERED = "they have no answers of another model"
_UNNAMED = "a label applies to them that nobody named"
RARE = 10
"""Labels that fewer documents have are named in a warning: among many, some may be misspelt."""
MOST_NAMED = 20
"""Rare labels that a warning names."""


def columns_of_export(line: bytes) -> frozenset[str] | None:
    """Return the columns by which an export is known, None if a line is no row of one."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return None
    exports = (ANNOTATION_COLUMNS, PREDICTION_COLUMNS, OUTCOME_COLUMNS)
    names = row.keys() if isinstance(row, dict) else {*""}
    return next((columns for columns in exports if names >= columns), None)


@dataclass
class _Answered:
    """The newest prediction of a document, and the answers to it."""

    prediction: str
    line: int
    rows: list[dict[str, Any]] = field(default_factory=list)


_Kept = tuple[int, dict[str, Any], list[tuple[str, dict[str, Any]]]]
"""Number of a document's line, its content, and the answers that count, with who gave them."""


def reviewed_lines(
    path: str | Path,
    lines: Iterable[tuple[int, bytes]],
    *,
    content: Literal["text", "features"] | None = None,
    answered: bool = False,
    several: bool = False,
    left_out: Counter[str] | None = None,
    least: int = 1,
) -> Iterator[tuple[int, bytes]]:
    """Yield each exported document as numbered lines of JSON Lines.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    lines : iterable of (int, bytes)
        Its numbered lines.
    content : {"text", "features"}, optional
        What is learnt from; by default what most documents have.
    answered : bool, default False
        Whether another model's answers are learnt from, beside the content if most have it.
    several : bool, default False
        Whether to yield every blind or shown answer, to learn from how people err. Otherwise a
        lead's decision counts, or else the last answer that settled the document.
    left_out : Counter, optional
        Filled with the documents left out by reason, in place of warnings.
    least : int, default 1
        Documents with a label that fewer of them have are left out, unless a model predicted it.

    Raises
    ------
    DataError
        At a line that is no row of the export, or if no document has the content.

    Warns
    -----
    DataWarning
        If documents are left out, or labels are rare.
    """
    documents, proving = _documents(path, lines)
    counts = Counter[str]() if left_out is None else left_out
    last = [document.rows[-1] for document in documents.values()]
    beside = content or _commonest(last, least=len(last) / 2 if answered else 0.0)
    kept: list[_Kept] = []
    for (name, document), row in zip(documents.items(), last, strict=True):
        decisions = _answers(document.rows, several=several)
        record = _record(name, row, beside, answered=answered)
        if name in proving or _content(row) in proving:
            counts[_CERTIFIES] += 1
        elif isinstance(record, str):
            counts[record] += 1
        elif any(decision.get("label_missing") for _, decision in decisions):
            counts[_UNNAMED] += 1
        else:
            kept.append((document.line, record, decisions))
    rare = _rare(documents, [decisions for *_, decisions in kept], max(RARE, least))
    yield from _learnable(kept, {label: n for label, n in rare.items() if n < least}, least, counts)
    missing = _UNANSWERED if counts[_UNANSWERED] else f"they have no {beside}"
    if counts[missing] == len(documents):
        fault = f"no document has {missing.removeprefix('they have no ')}"
        raise DataError(path, None, fault, "export with content=true")
    for why, n in counts.items() if left_out is None else ():
        warning = f"{path}: {count_of(n, 'document')} left out: {why}"
        warnings.warn(warning, DataWarning, stacklevel=2)
    rare = {label: n for label, n in rare.items() if least <= n < RARE}
    if left_out is None and rare:
        warning = (
            f"{path}: {count_of(len(rare), 'label')} learnt from fewer than {RARE} documents: "
            f"{_named(rare)}; correct misspelt ones, or leave out documents with rare labels by "
            "--least-documents"
        )
        warnings.warn(warning, DataWarning, stacklevel=2)


def exported_documents(
    path: str | Path, lines: Iterable[tuple[int, bytes]], *, answered: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield each prediction's document once, without labels, as JSON Lines.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    lines : iterable of (int, bytes)
        The numbered lines of an export of annotations, predictions or outcomes.
    answered : bool
        Whether another model's answers are read.

    Raises
    ------
    DataError
        At a line that is no row of the export, or if no document has content.

    Warns
    -----
    DataWarning
        If documents are left out, because their content is gone.
    """
    seen: set[str] = set()
    n_gone = 0
    for number, line in lines:
        if not line.strip():
            continue
        if columns_of_export(line) is None:
            raise DataError(path, number, "no row of an export", "export the file again")
        row: dict[str, Any] = json.loads(decode(path, number, line))
        prediction_id = str(row.get("prediction_id") or row["id"])
        if prediction_id in seen:
            continue
        seen.add(prediction_id)
        document = {"id": row.get("document_id") or prediction_id}
        kind = next((key for key in ("text", "features") if row.get(key) is not None), None)
        if kind is not None:
            document[kind] = row[kind]
        answer = _answer(row) if answered else {}
        if kind is None and not answer:
            n_gone += 1
            continue
        document |= {**answer, "metadata": row.get("metadata") or {}}
        yield number, json.dumps(document).encode()
    if n_gone == len(seen):
        raise DataError(path, None, "no document has content", "export with content=true")
    if n_gone:
        gone = f"{path}: {count_of(n_gone, 'document')} left out: the content is gone"
        warnings.warn(gone, DataWarning, stacklevel=2)


def _answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return another model's answer to a document, as a line of documents holds it."""
    return {key: row[column] for column, key in _ANSWERS.items() if row.get(column) is not None}


def _record(
    name: str, row: Mapping[str, Any], beside: str | None, *, answered: bool
) -> dict[str, Any] | str:
    """Return a document without its labels, or why it is left out."""
    answer = _answer(row) if answered else {}
    if answered and not answer:
        return _UNANSWERED
    record = {"id": name, **answer}
    if beside is not None:
        if row.get(beside) is None:
            return f"they have no {beside}"
        record[beside] = row[beside]
    if answered:
        record["metadata"] = row.get("metadata") or {}
    return record


def _learnable(
    kept: Sequence[_Kept], rare: Mapping[str, int], least: int, counts: Counter[str]
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of documents without rare labels."""
    for line, record, decisions in kept:
        if any(rare.keys() & decision["labels"] for _, decision in decisions):
            counts[f"fewer than {least} of them have a label of theirs: {_named(rare)}"] += 1
            continue
        for annotator, decision in decisions:
            labelled = {**record, "labels": decision["labels"], "annotator": annotator}
            yield line, json.dumps(labelled).encode()


def _named(rare: Mapping[str, int]) -> str:
    named = [f"{label} ({n})" for label, n in sorted(rare.items())]
    return ", ".join(named[:MOST_NAMED]) + (" …" if len(named) > MOST_NAMED else "")


def _rare(
    documents: Mapping[str, _Answered],
    decisions: Iterable[Sequence[tuple[str, Mapping[str, Any]]]],
    least: int,
) -> dict[str, int]:
    """Return the labels of fewer documents than ``least`` that no model predicted, with counts."""
    counts = Counter(label for decided in decisions for label in set(decided[-1][1]["labels"]))
    learnt = {
        label
        for document in documents.values()
        for row in document.rows
        for label in row.get("predicted_labels") or ()
    }
    return {label: n for label, n in counts.items() if label not in learnt and n < least}


def _documents(
    path: str | Path, lines: Iterable[tuple[int, bytes]]
) -> tuple[dict[str, _Answered], set[object]]:
    """Return answers by document, and what was drawn to certify."""
    documents: dict[str, _Answered] = {}
    proving: set[object] = set()
    for number, line in lines:
        if not line.strip():
            continue
        row = _row(path, number, line)
        prediction_id = row["prediction_id"]
        name = "/".join(
            str(part) for part in (row.get("client_id"), row.get("document_id") or prediction_id)
        )
        if row.get("audit_role") == "certification":
            proving |= {name, _content(row) or name}
        document = documents.setdefault(name, _Answered(prediction_id, number))
        if prediction_id > document.prediction:  # ids rise with time
            documents[name] = document = _Answered(prediction_id, number)
        if prediction_id == document.prediction:
            document.rows.append(row)
    return documents, proving


def _commonest(rows: Sequence[Mapping[str, Any]], *, least: float) -> str | None:
    """Return most rows' content, None if fewer than ``least`` have it."""
    count = {key: sum(row.get(key) is not None for row in rows) for key in ("text", "features")}
    key = max(count, key=lambda name: count[name])
    return key if count[key] >= least else None


def _content(row: Mapping[str, Any]) -> str | None:
    """Return what copies of a document share, None if it is gone."""
    if row.get("features") is not None:
        return json.dumps(row["features"], sort_keys=True)
    text: str | None = row.get("text")
    return text


def _row(path: str | Path, number: int, line: bytes) -> dict[str, Any]:
    """Return a row, checked as far as it is used here."""
    if columns_of_export(line) is not ANNOTATION_COLUMNS:
        cure = "give the file as GET /v1/exports/annotations wrote it, in JSON Lines"
        raise DataError(path, number, "no row of an export of annotations", cure)
    row: dict[str, Any] = json.loads(decode(path, number, line))
    if not isinstance(row["labels"], list):
        raise DataError(path, number, "'labels' is no list", "export the annotations again")
    if not all(isinstance(row[name], str) for name in ("prediction_id", "reviewer", "kind")):
        raise DataError(path, number, "a name is no string", "export the annotations again")
    return row


def _answers(rows: list[dict[str, Any]], *, several: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return the answers that count, with who gave them."""
    decided = [row for row in rows if row["kind"] in _DECIDES]
    if several:
        # Leads decide where people differ. Of pairs drawn at random all answers tell how often
        # people err; one answer that a lead was asked about would tell that they always do.
        drawn = any(row["kind"] == "overlap" for row in rows)
        others = [row for row in rows if row["kind"] not in _DECIDES]
        named = {_name(row): row for row in (others if drawn or not decided else [])}
        return [*named.items(), *((GOLD, row) for row in decided[-1:])]
    if decided:
        return [(GOLD, decided[-1])]
    settled = [row for row in rows if row["settles"]]
    last = (settled or rows)[-1]
    return [(_name(last), last)]


def _name(row: dict[str, Any]) -> str:
    return f"{row['reviewer']}{SHOWN if row['suggestion_shown'] else ''}"
