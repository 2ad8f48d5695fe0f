"""Reads text files, plain or gzipped, line by line; errors name the line.

Every file of text is opened here: a byte-order mark is skipped, a line ends with LF, CRLF or CR,
and what is no text in UTF-8 is named.
"""

import gzip
import hashlib
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from setwise.spelling import misnamed, spelled

Progress = Callable[[float], None]
"""Called with the fraction of a long task that is done, in [0, 1], never falling."""

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_NO_TEXT = (
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet", "unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet", "save the sheet as CSV"),
    (b"BZh", "a bzip2 file", "unpack it, or compress it with gzip"),
    (b"\xfd7zXZ", "an xz file", "unpack it, or compress it with gzip"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "unpack it, or compress it with gzip"),
    (_GZIP_MAGIC, "gzipped twice", "unpack it once"),
    (b"PAR1", "a Parquet file", "end its name in .parquet"),
    (b"\xff\xfe", "UTF-16", "save the file as UTF-8"),
    (b"\xfe\xff", "UTF-16", "save the file as UTF-8"),
)
"""How files begin that are taken for text, what they are, and what helps."""
_PACKED = {".zip", ".xlsx", ".xls", ".bz2", ".xz", ".zst"}
_ADDRESS = re.compile(
    r"\s*([a-z][a-z0-9+.-]*://|data:[a-z]+/|/data/(upload|local-files)/)\S+\s*", re.IGNORECASE
)
"""From where tools load a text, those below ``/data`` in Label Studio."""
_LINES_BETWEEN_REPORTS = 1024
# What is counted in files that have no lines.
_PARTS = {".parquet": "row", ".npz": "row", ".json": "entry"}


class DataError(ValueError):
    """A file that cannot be used as it is.

    Parameters
    ----------
    path : str or Path
        The file, or ``-`` for standard input.
    line : int or None
        The line at fault (row or entry of a file without lines), counted from 1; None if the whole
        file is.
    fault : str
        What is wrong.
    cure : str
        How to correct it.

    Examples
    --------
    >>> print(DataError("a.jsonl", 3, "'text' is missing", "add the document's text"))
    a.jsonl, line 3: 'text' is missing; add the document's text
    """

    def __init__(self, path: str | Path, line: int | None, fault: str, cure: str) -> None:
        self.path = path
        self.line = line
        self.fault = fault
        self.cure = cure
        name = "standard input" if str(path) == STDIN else str(path)
        place = name if line is None else f"{name}, {part_of(path)} {line}"
        super().__init__(f"{place}: {fault}; {cure}")

    def __reduce__(self) -> tuple[type["DataError"], tuple[str | Path, int | None, str, str]]:
        return type(self), (self.path, self.line, self.fault, self.cure)


def part_of(path: str | Path) -> str:
    """Return what messages about a file count: lines, rows or entries."""
    return _PARTS.get(Path(str(path).lower().removesuffix(".gz")).suffix, "line")


class DataWarning(UserWarning):
    """An oddity in a file that does not stop processing."""


class ContentHash:
    """Incremental SHA-256 of a file's uncompressed lines."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def update(self, content: bytes) -> None:
        """Add the next bytes."""
        self._sha256.update(content)

    def hexdigest(self) -> str:
        """Return the hash of everything added so far, in hexadecimal."""
        return self._sha256.hexdigest()


def read_lines(
    path: str | Path, *, progress: Progress | None = None, content: ContentHash | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a text file, plain or gzipped.

    Memory use is constant. Gzip is recognised by the file's first bytes, whatever its suffix. A
    byte-order mark is left out, also before a later line, where files were joined.

    Parameters
    ----------
    path : str or Path
        A file, or ``-`` for standard input.
    progress : callable, optional
        Called with the share of the file's bytes read so far.
    content : ContentHash, optional
        Updated with every line.

    Yields
    ------
    (int, bytes)
        Line number from 1, and the line with its line break.

    Raises
    ------
    DataError
        If the file cannot be opened or read, its gzip stream is broken, or it is no text.
    """
    number = 0
    for stretch in _stretches(path, progress, content):
        if number == 0:
            _refuse_binary(path, stretch)
        lines = stretch.splitlines(keepends=True) if b"\r" in stretch else (stretch,)
        for line in lines:
            number += 1
            yield number, line.removeprefix(_BOM)


def read_text(path: str | Path, *, content: ContentHash | None = None) -> str:
    """Return a text file as a whole; see `read_lines`."""
    lines = read_lines(path, content=content)
    return "".join(decode(path, number, line) for number, line in lines)


def read_bytes(path: str | Path, *, content: ContentHash | None = None) -> bytes:
    """Return the bytes of any file, plain or gzipped."""
    return b"".join(_stretches(path, None, content))


def is_address(text: str) -> bool:
    """Return whether a text is nothing but an address, from which tools would load one.

    >>> is_address("https://example.org/a.txt"), is_address("See https://example.org")
    (True, False)
    """
    return _ADDRESS.fullmatch(text) is not None


def is_packed(path: str | Path) -> bool:
    """Return whether a file's name says that something else must unpack it."""
    return Path(path).suffix.lower() in _PACKED


def _stretches(
    path: str | Path, progress: Progress | None, content: ContentHash | None
) -> Iterator[bytes]:
    """Yield the bytes of a file up to each line feed."""
    number = 0
    with _opened(path) as (stretches, raw, size):
        try:
            for number, stretch in enumerate(stretches, 1):
                if content is not None:
                    content.update(stretch)
                if progress is not None and size and number % _LINES_BETWEEN_REPORTS == 0:
                    progress(min(raw.tell() / size, 1.0))
                yield stretch
        except EOFError as error:
            raise DataError(
                path, number + 1, "the gzip stream ends early", "copy the whole file again"
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                path, number + 1, f"the gzip stream is corrupt ({error})", "copy the file again"
            ) from error
    if progress is not None:
        progress(1.0)


def _refuse_binary(path: str | Path, start: bytes) -> None:
    for magic, what, cure in _NO_TEXT:
        if start.startswith(magic) and (magic != b"BZh" or start[4:10] == b"1AY&SY"):
            raise DataError(path, None, f"this is {what}", cure)
    if b"\0" in start[:200]:
        raise DataError(path, 1, "there are NUL characters, as in UTF-16", "save the file as UTF-8")


@contextmanager
def opened_anywhere(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a seekable file; only a compressed one is held in memory."""
    if Path(path).is_file():
        with _opened(path) as (stream, raw, _):
            if stream is raw:
                yield raw
                return
    yield io.BytesIO(read_bytes(path))


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[BinaryIO, BinaryIO, int]]:
    """Yield a file's line stream, raw stream and size (0: unknown)."""
    if str(path) == STDIN:
        raw = sys.stdin.buffer
        yield _decompressed(raw), raw, 0
        return
    try:
        with Path(path).open("rb") as raw:
            yield _decompressed(raw), raw, Path(path).stat().st_size
    except FileNotFoundError as error:
        raise DataError(path, None, "no such file", "check the path") from error
    except IsADirectoryError as error:
        raise DataError(path, None, "this is a folder", "name a file in it") from error
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(path, None, f"cannot be read ({reason})", "check the file") from error


def _decompressed(raw: BinaryIO) -> BinaryIO:
    first = raw.peek(2)[:2] if hasattr(raw, "peek") else b""
    if first != _GZIP_MAGIC:
        return raw
    # GzipFile reads and iterates like any binary file; its stubs do not derive from BinaryIO.
    return cast("BinaryIO", gzip.GzipFile(fileobj=raw))


def decode(path: str | Path, number: int | None, line: bytes) -> str:
    """Decode a line as UTF-8.

    Raises
    ------
    DataError
        If the line is not UTF-8; the message names the byte.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            path,
            number,
            f"byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8",
            "save the file as UTF-8",
        ) from error


def read_names(path: str | Path, what: str, *, content: ContentHash | None = None) -> list[str]:
    """Read a list of distinct names, one per line.

    Parameters
    ----------
    path : str or Path
        ``labels.txt`` or ``features.txt``, plain or gzipped.
    what : str
        What a line names, for messages: "label" or "feature".
    content : ContentHash, optional
        Updated with every line.

    Returns
    -------
    list of str
        The names in the file's order, spelled as `setwise.spelling.spelled` does.

    Raises
    ------
    DataError
        If the file is empty, or a name is empty or given twice.
    """
    lines: dict[str, int] = {}
    for number, line in read_lines(path, content=content):
        name = spelled(decode(path, number, line))
        if not name:
            cure = f"give one {what} name a line, and no blank lines"
            raise DataError(path, number, f"no {what} name", cure)
        if "\0" in name:
            raise DataError(path, number, f"the {what} holds a NUL character", "remove it")
        if what == "label" and (why := misnamed(name)):
            raise DataError(path, number, f"the label {name[:60]!a} {why.fault}", why.cure)
        if name in lines:
            raise DataError(
                path,
                number,
                f"the {what} {name!r} is on line {lines[name]} already",
                f"name each {what} once",
            )
        lines[name] = number
    if not lines:
        raise DataError(path, None, "the file is empty", f"give one {what} name a line")
    return list(lines)


def names_beside(
    path: str | Path, what: str, *, content: ContentHash | None = None
) -> list[str] | None:
    """Return the names in ``labels.txt`` or ``features.txt``, None without it."""
    for name in (f"{what}s.txt", f"{what}s.txt.gz"):
        if (beside := Path(path).with_name(name)).is_file():
            return read_names(beside, what, content=content)
    return None


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun in the right form, for messages.

    Examples
    --------
    >>> count_of(1, "label"), count_of(2, "label")
    ('1 label', '2 labels')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
