"""Files of documents to score, and exports as JSON Lines or CSV."""

import csv
import gzip
import hmac
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from types import NoneType
from typing import Any, BinaryIO, Self, cast

from setwise.formulas import guard
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.documents import DocumentRow, ShownPrediction
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.labels import shown_set
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import ANSWERS, PRIORITIES, Document, Prediction
from setwise.service.domain.reviews import Annotation
from setwise.service.domain.routing.segments import value_of
from setwise.service.domain.text import (
    RepeatedName,
    each_once,
    hints,
    instant,
    instant_in,
    is_id,
)
from setwise.shown import Shown, members, names

# Files of documents

FIELDS = {
    "id", "text", "features", "metadata", "scores", "candidates", "answer", "priority", "due_at",
}  # fmt: skip
UNREAD = {"labels", "annotator"}
"""Fields of labelled files that are not read, except that `labels` may be the answer of another
model, see `document_in`.
"""

LARGEST_FEATURE = 3.4e38
"""Models compute in single precision: a larger value would become infinite."""

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class BadLine:
    """A line without a valid document, and why."""

    detail: str
    faults: tuple[FieldFault, ...] = ()


def document_in(line: bytes, *, answered: bool = False) -> Document | BadLine:
    """Return the document on a line, or the faults of the line.

    ``answered``: The document is for a model that reads another model's answers. A label set that
    stands alone is named ``answer``; there ``labels`` means it too if the line has no answer.

    >>> document_in(b'{"id": "note-17", "text": "fever"}').text
    'fever'
    >>> document_in(b'{"text": "wheat", "answer": ["grain"], "labels": ["corn"]}').answer
    {'labels': ['grain']}
    >>> document_in(b'{"text": 5}').detail
    'The line holds no document that could be predicted.'
    """
    try:
        content = json.loads(line.decode("utf-8-sig"), object_pairs_hook=each_once)
    except (ValueError, RecursionError, MemoryError) as error:
        return BadLine(f"The line is {_unread(error)}.")
    if not isinstance(content, dict):
        return BadLine('The line is not a JSON object; write {"id": …, "text": …}.')
    bare = "answer"
    own = ("answer", "scores", "candidates")
    if answered and all(content.get(name) is None for name in own):
        bare = "labels"
    faults = tuple(_form_faults(content, bare))
    if faults:
        return BadLine("The line holds no document that could be predicted.", faults)
    features = content.get("features")
    answer = {name: content[name] for name in ANSWERS[:2] if content.get(name) is not None}
    if content.get(bare) is not None:
        answer["labels"] = content[bare]
    return Document.received(
        id=content.get("id"),
        text=content.get("text"),
        features=None if features is None else {k: float(v) for k, v in features.items()},
        metadata=content.get("metadata") or {},
        answer=answer or None,
        priority=content.get("priority") or 0,
        due_at=None if content.get("due_at") is None else instant_in(content["due_at"]),
    )


def _unread(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte {error.start + 1} is wrong"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.colno}"
    if isinstance(error, RepeatedName):
        return f"not valid: {error}"
    return "JSON that cannot be read: nested too deeply, or with too long a number"


def _form_faults(content: dict[str, object], bare: str) -> Iterator[FieldFault]:
    unknown = sorted(set(content) - FIELDS - UNREAD)
    meant = hints(unknown, sorted(FIELDS))
    for name in unknown:
        yield FieldFault(f"/{name}", f"is not a member of a document{meant.get(name, '')}")
    for name in ("id", "text"):
        if not isinstance(content.get(name), str | None):
            yield FieldFault(f"/{name}", "must be a string")
    if not isinstance(content.get("metadata"), dict | None):
        yield FieldFault("/metadata", "must be an object")
    if type(content.get("priority", 0)) not in {int, NoneType}:  # True is an int too
        yield FieldFault("/priority", f"must be {PRIORITIES}")
    if content.get("due_at") is not None:
        yield from _time_faults(content["due_at"], "/due_at")
    for field in ("features", "scores"):
        yield from _number_faults(content.get(field), f"/{field}")
    if not _is_set(content.get(bare, [])):
        yield FieldFault(f"/{bare}", "must be an array of strings")
    yield from _candidate_faults(content.get("candidates"))


def _time_faults(value: object, pointer: str) -> Iterator[FieldFault]:
    try:
        instant_in(value if isinstance(value, str) else "")
    except ValueError as error:
        yield FieldFault(pointer, str(error))


def _candidate_faults(sets: object) -> Iterator[FieldFault]:
    if sets is None:
        return
    if not isinstance(sets, list):
        yield FieldFault("/candidates", "must be an array of label sets")
        return
    for place, label_set in enumerate(sets):
        if (
            not isinstance(label_set, dict)
            or set(label_set) - {"labels", "score"}
            or "labels" not in label_set
        ):
            yield FieldFault(f"/candidates/{place}", 'must be {"labels": […], "score": …}')
        elif not _is_set(label_set["labels"]):
            yield FieldFault(f"/candidates/{place}/labels", "must be an array of strings")
        elif label_set.get("score") is not None:
            yield from _number_faults({"score": label_set["score"]}, f"/candidates/{place}")


def _is_set(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(x, str) for x in value))


def _number_faults(numbers: object, pointer: str) -> Iterator[FieldFault]:
    if not isinstance(numbers, dict | None):
        yield FieldFault(pointer, "must be an object of numbers")
        return
    for name, value in (numbers or {}).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield FieldFault(pointer, f"{name!r} must be a number")
        elif abs(value) > LARGEST_FEATURE:
            yield FieldFault(pointer, f"{name!r} is too large for single precision")


@dataclass(frozen=True)
class UploadedLine:
    """A line of an uploaded file, without content if too long."""

    number: int
    content: bytes | None

    def document(self, *, answered: bool = False) -> Document | BadLine:
        """Return the document, or the faults of the line; see `document_in`."""
        if self.content is None:
            return BadLine("The line is longer than any document may be.")
        return document_in(self.content, answered=answered)

    def digest(self, secret: bytes) -> str:
        """Return the HMAC-SHA-256 of the content, in hexadecimal."""
        return hmac.digest(secret, self.content or b"", "sha256").hex()


MOST_LINES = 20_000_000
"""Lines of a file, blank ones too."""

MOST_INFLATED_BYTES = 20_000_000_000
"""Bytes of a file once it is unpacked."""

PAUSE_LINES, PAUSE_BYTES = 10_000, 16_000_000
"""After this much without a document, an empty block shows that reading goes on."""


BLOCK_BYTES = 4_000_000
"""After so many bytes a block ends, because several are in memory together."""


def read_blocks(
    raw: BinaryIO, *, after: int, size: int, longest: int
) -> Iterator[list[UploadedLine]]:
    """Yield the lines of a file, ``size`` at a time, or fewer long ones.

    The file may be gzipped. Lines are numbered from 1. Blank lines and lines up to number
    ``after`` are skipped; empty blocks in their place let the reader report progress and stop.

    Raises `InvalidRequest` if the file has too many lines, or unpacks to too many bytes.
    """
    block: list[UploadedLine] = []
    n_bytes = 0
    for line in _lines(raw, longest):
        if line is None or (line.number <= after and line.number % PAUSE_LINES == 0):
            yield []
        elif line.number > after:
            block.append(line)
            n_bytes += len(line.content or b"")
            if len(block) == size or n_bytes >= BLOCK_BYTES:
                yield block
                block, n_bytes = [], 0
    if block:
        yield block


def _lines(raw: BinaryIO, longest: int) -> Iterator[UploadedLine | None]:
    head = raw.read(2)
    raw.seek(0)
    file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if head == GZIP_MAGIC else raw
    number = n_bytes = skipped = 0
    begins = True
    while content := file.readline(longest + 1):
        number += begins
        n_bytes += len(content)
        skipped += len(content)
        _check_size(number, n_bytes)
        whole = len(content) <= longest
        if begins and (not whole or content.strip()):
            yield UploadedLine(number, content if whole else None)
        elif number % PAUSE_LINES == 0 or skipped >= PAUSE_BYTES:
            skipped = 0
            yield None
        begins = whole or content.endswith(b"\n")


def _check_size(lines: int, n_bytes: int) -> None:
    if lines > MOST_LINES:
        raise InvalidRequest(f"The file has more than {MOST_LINES:,} lines; split it.")
    if n_bytes > MOST_INFLATED_BYTES:
        raise InvalidRequest(f"The file unpacks to more than {MOST_INFLATED_BYTES:,} bytes.")


# Files of rows

Row = Mapping[str, object]

LONGEST_EXPORT_S = 600.0
"""How long an export may take."""


class Format(StrEnum):
    """Format of a file of rows."""

    JSON_LINES = "jsonl"
    CSV = "csv"


def header(written: Format, columns: Sequence[str]) -> bytes:
    """Return the header of a file; empty in JSON Lines."""
    return _csv([columns]) if written is Format.CSV else b""


def lines(written: Format, rows: Iterable[Row], *, guarded: bool = True) -> bytes:
    r"""Return rows as JSON Lines or CSV, one line each.

    CSV cells are text, numbers, times in RFC 3339, ``true`` and ``false``, or else JSON. If
    ``guarded``, an apostrophe stands before text that spreadsheets would run; Setwise's own reader
    takes it off again.

    >>> lines(Format.CSV, [{"id": "=1+1", "labels": ["a"], "n": -1, "at": None}])
    b'\'=1+1,"[""a""]",-1,\r\n'
    """
    if written is Format.CSV:
        return _csv([[_cell(value, guarded=guarded) for value in row.values()] for row in rows])
    return b"".join(_json(row).encode() + b"\n" for row in rows)


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cell(value: object, *, guarded: bool) -> object:
    match value:
        case str():
            return guard(value) if guarded else value
        case datetime():
            return instant(value)
        case bool() | Mapping() | Shown() | list() | tuple():
            return _json(value)
        case None | int() | float():
            return value
    raise TypeError(f"{type(value).__name__} cannot be written to a cell")


def _plain_value(value: object) -> object:
    if isinstance(value, Shown):
        return members(value)
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written to a file")


_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_value
).encode


def annotation_row(annotation: Annotation, of: Prediction) -> dict[str, object]:
    """Return an annotation with its prediction as a row."""
    return {
        "id": annotation.id,
        **_predicted(of),
        "review_id": annotation.task_id,
        "reviewer": annotation.reviewer,
        **members(shown_set(annotation.labels)),
        "comment": annotation.comment,
        "agreed": annotation.agreed,
        "chosen_rank": annotation.chosen_rank,
        "suggestion_shown": annotation.suggestion_shown,
        "kind": annotation.kind.value,
        "settles": annotation.settles,
        "group": annotation.group,
        "version": annotation.version,
        "audit_role": of.selection.role.value,
        "inclusion_probability": of.selection.inclusion_probability,
        "seconds": annotation.seconds,
        "created_at": instant(annotation.created_at),
    }


def outcome_row(outcome: Outcome, of: Prediction) -> dict[str, object]:
    """Return an outcome with its prediction as a row."""
    return {
        "id": outcome.id,
        **_predicted(of),
        "number": outcome.number,
        **members(shown_set(outcome.labels)),
        "source": outcome.source,
        "agreed": outcome.agreed,
        "sampling": outcome.sampling.value,
        "echo": outcome.echo,
        "counts": outcome.counts,
        "reported_by": outcome.reported_by,
        "created_at": instant(outcome.created_at),
    }


def event_row(event: AuditEvent) -> dict[str, object]:
    """Return an event of the audit trail as a row."""
    row = members(event) | {"actor_id": event.actor.id, "actor_name": event.actor.name}
    return {name: row[name] for name in COLUMNS[Exported.AUDIT_EVENTS]}


def content_row(of: Prediction) -> dict[str, object]:
    """Return the document's content that is still stored."""
    document = of.document
    return {
        "text": document.text,
        "features": None if document.features is None else dict(document.features),
        **{_ANSWER[name]: (document.answer or {}).get(name) for name in ANSWERS},
        "metadata": dict(document.metadata),
    }


def _predicted(of: Prediction) -> dict[str, object]:
    return {
        "prediction_id": of.id,
        "document_id": of.document.id,
        "client_id": of.client_id,
        "predicted_labels": None if of.scored.labels is None else list(of.scored.labels),
        "confidence": of.scored.confidence,
        "decision": of.decision.value,
        "model_version": of.scored.model_version,
        "segment": value_of(of.segment),
    }


class Exported(StrEnum):
    """Kinds of rows that can be exported."""

    PREDICTIONS = "predictions"
    ANNOTATIONS = "annotations"
    OUTCOMES = "outcomes"
    AUDIT_EVENTS = "audit-events"


_TO_PREDICT_OR_READ = (Permission.PREDICT, Permission.READ_ALL_PREDICTIONS)
PERMISSIONS_TO_EXPORT: dict[Exported, tuple[Permission, ...]] = {
    Exported.PREDICTIONS: _TO_PREDICT_OR_READ,
    Exported.ANNOTATIONS: (Permission.REPORT,),
    Exported.OUTCOMES: _TO_PREDICT_OR_READ,
    Exported.AUDIT_EVENTS: (Permission.READ_AUDIT_TRAIL,),
}
"""One of them is enough."""


_PREDICTED = (
    "prediction_id", "document_id", "client_id", "predicted_labels", "confidence", "decision",
    "model_version", "segment",
)  # fmt: skip
COLUMNS: dict[Exported, tuple[str, ...]] = {
    Exported.PREDICTIONS: (*names(ShownPrediction), "client_id"),
    Exported.ANNOTATIONS: (
        "id", *_PREDICTED, "review_id", "reviewer", "labels", "label_missing", "comment", "agreed",
        "chosen_rank", "suggestion_shown", "kind", "settles", "group", "version", "audit_role",
        "inclusion_probability", "seconds", "created_at",
    ),
    Exported.OUTCOMES: (
        "id", *_PREDICTED, "number", "labels", "label_missing", "source", "agreed", "sampling",
        "echo", "counts", "reported_by", "created_at",
    ),
    Exported.AUDIT_EVENTS: (
        "id", "at", "actor_id", "actor_name", "action", "subject", "request_id", "detail",
        "address",
    ),
}  # fmt: skip
DOCUMENT = names(DocumentRow)
_ANSWER = {"scores": "answer_scores", "candidates": "answer_candidates", "labels": "answer"}
"""Columns of another model's answer: `candidates` are the prediction's own, `labels` decided."""
CONTENT = ("text", "features", *_ANSWER.values(), "metadata")


@dataclass(frozen=True)
class ExportRequest:
    """Which rows to export, and how."""

    what: Exported
    written: Format = Format.JSON_LINES
    content: bool = False
    """Whether to include the documents' content that is still stored."""
    created_from: datetime | None = None
    created_before: datetime | None = None
    after: str | None = None
    """Id of the last row that the caller has; the export continues after it."""

    def check(self) -> None:
        """Raise `InvalidRequest` if the request has faults."""
        faults = []
        if self.after is not None and not is_id(self.after):
            faults.append(FieldFault("/query/after", "is not the id of a row"))
        first, last = self.created_from, self.created_before
        if first is not None and last is not None and first >= last:
            faults.append(FieldFault("/query/created_before", "must be later than created_from"))
        if self.content and self.what is Exported.AUDIT_EVENTS:
            faults.append(FieldFault("/query/content", "audit events have no documents"))
        if faults:
            raise InvalidRequest("This cannot be exported.", faults)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a row."""
        return COLUMNS[self.what] + (CONTENT if self.content else ())

    def as_json(self) -> dict[str, object]:
        """Return the request as JSON, for a job or an event."""
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:  # Any: JSON, as `as_json` returns it
        """Return the request that `as_json` wrote."""
        first, last = stored["created_from"], stored["created_before"]
        return cls(
            what=Exported(stored["what"]),
            written=Format(stored["written"]),
            content=stored["content"],
            created_from=None if first is None else datetime.fromisoformat(first),
            created_before=None if last is None else datetime.fromisoformat(last),
            after=stored["after"],
        )
