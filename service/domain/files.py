"""Documents that come as a file of JSON Lines, and what is wrong with a line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.predictions import Document

FIELDS = {"id", "text", "features", "metadata"}
UNREAD = {"labels", "annotator"}
"""Fields of labelled files, which may be scored as they are; they are not read."""


@dataclass(frozen=True)
class BadLine:
    """A line that holds no document, and why."""

    detail: str
    faults: tuple[FieldFault, ...] = ()


def document_in(line: bytes) -> Document | BadLine:
    """Return the document that one line of a file describes.

    >>> document_in(b'{"id": "note-17", "text": "fever"}')
    Document(id='note-17', text='fever', features=None, metadata={})
    >>> document_in(b'{"text": 5}').detail
    'The line holds no document that could be predicted.'
    """
    try:
        content = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return BadLine(f"The line is not UTF-8: byte {error.start + 1} is wrong.")
    except json.JSONDecodeError as error:
        return BadLine(f"The line is not JSON: {error.msg} at character {error.colno}.")
    except (ValueError, RecursionError):  # numbers of thousands of digits, endless nesting
        return BadLine("The line is JSON that nobody can read: too deep, or too long a number.")
    if not isinstance(content, dict):
        return BadLine('The line is not a JSON object; write {"id": …, "text": …}.')
    faults = tuple(_form_faults(content))
    if faults:
        return BadLine("The line holds no document that could be predicted.", faults)
    features = content.get("features")
    return Document(
        id=content.get("id"),
        text=content.get("text"),
        features=None if features is None else {k: float(v) for k, v in features.items()},
        metadata=content.get("metadata") or {},
    )


def _form_faults(content: dict[str, object]) -> Iterator[FieldFault]:
    for name in sorted(set(content) - FIELDS - UNREAD):
        yield FieldFault(f"/{name}", "is not a field of a document")
    for name in ("id", "text"):
        if not isinstance(content.get(name), str | None):
            yield FieldFault(f"/{name}", "must be a string")
    if not isinstance(content.get("metadata"), dict | None):
        yield FieldFault("/metadata", "must be an object")
    features = content.get("features")
    if not isinstance(features, dict | None):
        yield FieldFault("/features", "must be an object of numbers")
        return
    for name, value in (features or {}).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield FieldFault("/features", f"{name!r} must be a number")
        elif abs(value) > LARGEST_FEATURE:
            yield FieldFault("/features", f"{name!r} is too large for single precision")


LARGEST_FEATURE = 3.4e38
"""Models compute in single precision; a larger value would become infinite."""
