"""Files of texts that people bring, as the lines that a scoring job takes."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

from setwise.service.domain.errors import FieldFault, InvalidRequest


def lines_of_file(file: Path, column: str) -> Iterator[bytes]:
    """Yield the documents of any readable file as JSON Lines; raises `InvalidRequest`.

    ``column``: That of the texts, where there are columns. A file of plain text has one text a
    line.
    """
    from setwise.models.data.formats.layout import FileLayout  # noqa: PLC0415 -- numpy loads slowly
    from setwise.models.data.formats.reading import document_lines  # noqa: PLC0415 -- as above
    from setwise.models.data.lines import DataError, DataWarning, read_lines  # noqa: PLC0415 -- as above

    try:
        if ".txt" in file.suffixes and ".xc" not in file.suffixes:
            for _, line in read_lines(file):
                if text := line.decode(errors="replace").strip():
                    yield line_of(text)
            return
        with warnings.catch_warnings(action="ignore", category=DataWarning):
            for _, line in document_lines(file, FileLayout(text_column=column)):
                yield line.rstrip(b"\r\n") + b"\n"
    except DataError as error:
        where = "" if error.line is None else f" on line {error.line}"
        fault = FieldFault("/texts", f"cannot be read{where}: {error.fault}; {error.cure}")
        raise InvalidRequest(f"Nothing was added of {file.name}.", [fault]) from error


def line_of(text: str) -> bytes:
    """Return the line of a text."""
    return json.dumps({"text": text}).encode() + b"\n"
