"""Reads documents from JSON Lines, for training and for prediction."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from setwise.characters import has_word
from setwise.models.data.answer_parsing import ParsedAnswer, parse_answer
from setwise.models.data.document_error import DocumentError
from setwise.models.data.json_lines import json_records, quoted, record_of, type_name
from setwise.models.data.lines import (
    DataError,
    DataWarning,
    count_of,
    part_of,
)
from setwise.models.storage.checks import is_storable
from setwise.spelling import misnamed, spelled, spelled_keys

_LABELLED_KEYS = ("id", "text", "features", "labels", "annotator", "metadata")
_ANSWER_KEYS = ("scores", "candidates", "answer")
_INPUT_KEYS = ("id", "text", "features", "labels", "annotator", "metadata")
_REPEATED_ID = "give each document its own; answers of several people need --noise estimate"
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127
_ID_CURE = 'give every document an "id", or read the file with --format huggingface'


@dataclass
class LabelledDocuments:
    """A file of labelled documents, column by column."""

    ids: list[str] = field(default_factory=list)
    # All documents have texts, or all features; with answers, there may be neither.
    texts: list[str] = field(default_factory=list)
    features: list[dict[str, float]] = field(default_factory=list)
    labels: list[tuple[str, ...]] = field(default_factory=list)
    annotators: list[str | None] = field(default_factory=list)
    # answers and lines: only of files with another model's answers; lines count from 1.
    answers: list[ParsedAnswer] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


class PredictionInput(NamedTuple):
    """One document to predict: ``text`` or ``features`` is set, never both.

    Neither may be if there is another model's answer. Features without a value are zero.
    """

    text: str | None = None
    features: Mapping[str, float] | None = None
    answer: ParsedAnswer | None = None
    id: str | None = None


def read_documents(
    path: str | Path,
    lines: Iterable[tuple[int, bytes]] | None = None,
    *,
    external: bool = False,
    several: bool = False,
) -> LabelledDocuments:
    """Read labelled documents from JSON Lines, plain or gzipped.

    ``lines`` are the numbered lines if they were read or made already; ``path`` is then only named
    in messages.

    A line is ``{"id": str, "text": str, "labels": [str, …], "annotator": str?, "metadata":
    {…}?}``. In place of their texts, all may have ``"features": {name: number}``. Blank lines are
    skipped. A label repeated within a document is merged and a document without words is kept, each
    with one :class:`DataWarning` per file. With ``several``, an id may be repeated with the same
    content by another annotator.

    If ``external``, a line also has what another model says: ``"scores": {label: probability}``,
    ``"candidates": [{"labels": [str, …], "score": number?}, …]`` or ``"answer": [str, …]``, one
    label set. ``text``, or ``features``, is then on every line or on none.

    Raises
    ------
    DataError
        At the first line that is not such a document or repeats an id, or if the file is empty.
    """
    documents = LabelledDocuments()
    ids = _KnownIds(several=several)
    repeated, wordless = _Tally(), _Tally()
    records = json_records(path, lines)
    for number, record in records:
        line = _Line(path, number, record)
        line.refuse_unknown_keys(_LABELLED_KEYS + (_ANSWER_KEYS if external else ()))
        if external:
            documents.answers.append(line.answer())
            documents.lines.append(number)
        key = line.content_key(documents, external=external)
        id_ = line.string("id", cure=_ID_CURE, empty=False)
        if key == "text":
            text = line.string("text", cure='give the document as "text"', empty=True)
            documents.texts.append(text)
            if not has_word(text):
                wordless.add(number)
        elif key == "features":
            documents.features.append(line.features())
        annotator = line.annotator()
        ids.check(line, id_, record.get(key or ""), annotator)
        labels = line.labels()
        distinct = tuple(dict.fromkeys(labels))
        if len(distinct) < len(labels):
            repeated.add(number)
        line.check_metadata()
        documents.ids.append(id_)
        documents.labels.append(distinct)
        documents.annotators.append(annotator)
    if not documents.ids:
        raise DataError(path, None, "the file holds no documents", "give one JSON object a line")
    repeated.warn(path, "a label is repeated in {documents} (first on {part} {first}); merged")
    wordless.warn(
        path, "there are no words in {documents} (first on {part} {first}); kept without features"
    )
    return documents


def read_gold(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read the true labels of some documents by id.

    A line is ``{"id": str, "labels": [str, …]}``; the other keys of labelled documents are ignored.

    Raises
    ------
    DataError
        At the first line that is no such document or repeats an id, or if the file is empty.
    """
    gold: dict[str, tuple[str, ...]] = {}
    for number, record in json_records(path):
        line = _Line(path, number, record)
        line.refuse_unknown_keys(_LABELLED_KEYS)
        id_ = line.string("id", cure='give every document an "id"', empty=False)
        if id_ in gold:
            raise line.error(f"id {id_!r} is decided already", "decide each document once")
        gold[id_] = tuple(dict.fromkeys(line.labels()))
    if not gold:
        raise DataError(path, None, "the file decides nothing", "give one JSON object a line")
    return gold


def parse_document(
    path: str | Path, number: int, content: bytes, *, external: bool = False
) -> PredictionInput | None:
    """Parse a line with a document to predict; None if blank.

    A line is ``{"id": str?, "text": str}`` or ``{"id": str?, "features": {name: number}}``.
    ``labels``, ``annotator`` and ``metadata`` are ignored, so that a file of labelled documents
    can be predicted as it is.

    If ``external``, it also has another model's answer as in `read_documents`, beside the document
    or without it. ``labels`` is the answer if there is no other one.

    Parameters
    ----------
    path : str or Path
        Source of the line, for messages.
    number : int
        Its number, from 1.
    content : bytes

    Raises
    ------
    DataError
        If the line is not a document to predict.
    """
    record = record_of(path, number, content)
    if record is None:
        return None
    if external:
        return _parsed_external(_Line(path, number, record))
    line = _Line(path, number, record)
    line.refuse_unknown_keys(_INPUT_KEYS)
    id_ = line.string("id", cure="", empty=False) if "id" in record else None
    if ("text" in record) == ("features" in record):
        fault = "both 'text' and 'features'" if "text" in record else "no 'text' or 'features'"
        raise line.error(fault, 'give the document as either "text" or "features"')
    if "text" in record:
        return PredictionInput(text=line.string("text", cure="", empty=True), id=id_)
    return PredictionInput(features=line.features(), id=id_)


def fault_in_line(error: DocumentError, bare: str = "answer") -> str:
    """Return a document's fault and its place; ``bare`` is the key of a single set."""
    path = error.path
    if path.startswith("/labels"):
        path = f"/{bare}{path.removeprefix('/labels')}"
    return f"{path[1:]}: {error.fault}" if path else error.fault


def _parsed_external(line: "_Line") -> PredictionInput:
    record = line.record
    line.refuse_unknown_keys(_INPUT_KEYS + _ANSWER_KEYS)
    if "text" in record and "features" in record:
        raise line.error("both 'text' and 'features'", "give the document as one of them")
    return PredictionInput(
        text=line.string("text", cure="", empty=True) if "text" in record else None,
        features=line.features() if "features" in record else None,
        answer=line.answer(labels_answer=all(record.get(key) is None for key in _ANSWER_KEYS)),
        id=line.string("id", cure="", empty=False) if "id" in record else None,
    )


@dataclass
class _KnownIds:
    """The documents read so far."""

    several: bool  # whether several people may answer about a document
    lines: dict[str, int] = field(default_factory=dict)
    contents: dict[str, object] = field(default_factory=dict)
    answered: set[tuple[str, str | None]] = field(default_factory=set)

    def check(self, line: "_Line", id_: str, content: object, annotator: str | None) -> None:
        """Raise an error if the line repeats another."""
        first = f"{part_of(line.path)} {self.lines.setdefault(id_, line.number)}"
        if not self.several:
            if self.lines[id_] != line.number:
                raise line.error(f"id {id_!r} is on {first} already", _REPEATED_ID)
            return
        if self.contents.setdefault(id_, content) != content:
            raise line.error(f"id {id_!r} has another text on {first}", "give each text its own id")
        if (id_, annotator) in self.answered:
            who = "nobody" if annotator is None else repr(annotator)
            raise line.error(f"{who} labelled {id_!r} before", "give each answer once")
        self.answered.add((id_, annotator))


@dataclass
class _Tally:
    """Number of lines with an oddity, and the first such line."""

    count: int = 0
    first: int = 0

    def add(self, number: int) -> None:
        self.first = self.first or number
        self.count += 1

    def warn(self, path: str | Path, message: str) -> None:
        if self.count:
            documents = count_of(self.count, "document")
            text = message.format(documents=documents, part=part_of(path), first=self.first)
            warnings.warn(f"{path}: {text}", DataWarning, stacklevel=4)


@dataclass(frozen=True)
class _Line:
    """One record with its path and line number, for error messages."""

    path: str | Path
    number: int
    record: dict[str, object]

    def error(self, fault: str, cure: str) -> DataError:
        return DataError(self.path, self.number, fault, cure)

    def refuse_unknown_keys(self, keys: tuple[str, ...]) -> None:
        for key in self.record:
            if key not in keys:
                cure = f"the keys are {', '.join(keys)}"
                if key in _ANSWER_KEYS:
                    cure = "learn from another model's answers with `setwise train --external`"
                raise self.error(f"unknown key {quoted(key)}", cure)

    def string(self, key: str, *, cure: str, empty: bool) -> str:
        if key not in self.record:
            raise self.error(f"{key!r} is missing", cure)
        value = self.record[key]
        if not isinstance(value, str):
            raise self.error(f"{key!r} is {type_name(value)}", "give a string")
        if not empty:
            self._check_name(key, value)
            if why := misnamed(spelled(value)):
                raise self.error(f"{key!r} {why.fault}", why.cure)
        return value

    def labels(self) -> list[str]:
        if "labels" not in self.record:
            raise self.error("'labels' is missing", 'give "labels" as a list, [] for none')
        labels = self.record["labels"]
        if not isinstance(labels, list):
            cure = "give a list of strings"
            if labels is None:
                cure = "leave the document out if its labels are unknown; [] says that none applies"
            raise self.error(f"'labels' is {type_name(labels)}", cure)
        for position, label in enumerate(labels):
            if not isinstance(label, str):
                fault = f"label {position + 1} is {type_name(label)}"
                raise self.error(fault, "give labels as strings")
            self._check_name(f"label {position + 1}", label)
            if why := misnamed(spelled(label)):
                raise self.error(f"label {position + 1} {why.fault}", why.cure)
        return [spelled(label) for label in labels]

    def answer(self, *, labels_answer: bool = False) -> ParsedAnswer:
        """Return another model's answer; ``labels`` is it if ``labels_answer``."""
        parts: dict[str, object] = {}
        for key in ("scores", "candidates"):
            if self.record.get(key) is not None:
                parts[key] = self.record[key]
        bare = "labels" if labels_answer else "answer"
        if self.record.get(bare) is not None:
            parts["labels"] = self.record[bare]
        if not parts:
            raise self.error("it has no answer", f"give {', '.join(_ANSWER_KEYS)}")
        try:
            return parse_answer({**parts, "metadata": self.record.get("metadata")})
        except DocumentError as error:
            raise self.error(fault_in_line(error, bare), error.cure) from error

    def content_key(self, documents: LabelledDocuments, *, external: bool) -> str | None:
        """Return the key of the content; None for an answer alone."""
        here = [key for key in ("text", "features") if key in self.record]
        if len(here) > 1:
            raise self.error("both 'text' and 'features'", "give the document as one of them")
        key = here[0] if here else None if external else "text"
        first = "text" if documents.texts else "features" if documents.features else None
        if documents.ids and key != first:
            fault = f"{key!r} is here, but not before" if first is None else f"{first!r} is missing"
            raise self.error(fault, "give every document its text, or its features, or none")
        return key

    def annotator(self) -> str | None:
        value = self.record.get("annotator")
        if value is None:
            return None
        return self.string("annotator", cure="", empty=False)

    def check_metadata(self) -> None:
        value = self.record.get("metadata", {})
        if not isinstance(value, dict):
            raise self.error(f"'metadata' is {type_name(value)}", "give an object")

    def features(self) -> dict[str, float]:
        numbers = self.record["features"]
        if not isinstance(numbers, dict):
            raise self.error(f"'features' is {type_name(numbers)}", "give an object of numbers")
        features: dict[str, float] = {}
        for name, value in numbers.items():
            if not is_storable(name):
                raise self.error(f"feature {quoted(name)} is no name", "give a name in Unicode")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.error(f"feature {quoted(name)} is {type_name(value)}", "give a number")
            # Negated so that NaN fails too; Python compares integers of any size.
            if not abs(value) <= _FLOAT32_MAX:
                fault = f"feature {quoted(name)} is not a finite 32-bit number"
                raise self.error(fault, f"give a number of at most {_FLOAT32_MAX:.2g} in size")
            features[name] = float(value)
        try:
            features = spelled_keys(features)
        except ValueError as error:
            raise self.error(f"feature {error}", "give each name once") from error
        if "" in features:
            raise self.error("a feature has no name", "give a name in Unicode")
        return features

    def _check_name(self, what: str, value: str) -> None:
        if not spelled(value):
            raise self.error(f"{what!r} is empty", "give a name")
        if "\0" in value:
            raise self.error(f"{what!r} holds a NUL character", "remove it")
        if not is_storable(value):
            raise self.error(f"{what!r} holds half a surrogate pair", "give valid Unicode")
