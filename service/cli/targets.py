"""Files that commands write: whole or not at all, and never over what they read."""

import errno
import io
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from setwise.service.cli.console import CommandError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_DESCRIPTOR = re.compile(r"/dev/(std(in|out|err)|fd/\d+)|/proc/[^/]+/(task/\d+/)?fd/\d+")
"""Paths of files that this process has open; their content is not this command's alone."""

_BESIDE = ("labels.txt", "labels.txt.gz", "features.txt", "features.txt.gz")
"""Files that are read with a file of data."""

_FORMATS = frozenset(
    (
        *(".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json", ".xml", ".html", ".htm"),
        *(".xlsx", ".xls", ".ods", ".svg", ".png", ".jpg", ".jpeg", ".pdf"),
        *(".gz", ".bz2", ".xz", ".zst", ".zip"),
    )
)
"""How the names of files of some format end."""

_MANIFEST = "manifest.json"
"""What a folder with a model holds; its module is slow to import."""

_MOST_LINKS = 40
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_REPLACEABLE = {errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES}
"""Such as a file that is mounted by itself into a container."""


@contextmanager
def written_whole(path: Path, inputs: Sequence[Path | str | None] = ()) -> Iterator[TextIO]:
    """Open a file that appears under its name only when complete.

    A device, a FIFO or a descriptor is written as it is; a link stays, and its target is written.

    Raises `CommandError` if it cannot be written, or is one of the files that the command reads.

    ``inputs``: Files and folders that the command reads, `-` for standard input.
    """
    if path.is_dir():
        raise CommandError(f"{path}: this is a folder; name a file")
    if Path(os.path.realpath(path)).is_symlink():  # which ends where links lead in a circle
        raise CommandError(f"{path}: this link leads to itself; name a file")
    refuse_inputs(path, inputs)
    with naming(path):
        if _is_written_as_it_is(path):
            with _stream(path) as file:
                yield file
            return
        with _draft(path) as (draft, file):
            yield file
        _publish(draft, Path(os.path.realpath(path)))


def refuse_ending(path: Path, *endings: str) -> None:
    """Raise `CommandError` if a file's name promises a format other than those of ``endings``."""
    ending = path.suffix.lower()
    if ending in _FORMATS and ending not in endings:
        listed = " or ".join(endings)
        raise CommandError(f"{path}: this would be no {ending} file; end its name in {listed}")


def refuse_inputs(path: Path, inputs: Sequence[Path | str | None]) -> None:
    """Raise `CommandError` if ``path`` is a file that the command reads, or one of its model."""
    for source in inputs:
        if source is not None and _is_in_model(path, Path(source)):
            raise CommandError(
                f"{path}: this is in the folder of a model; name another one to write"
            )
    try:
        target = path.stat()
    except OSError:
        return
    if not stat.S_ISREG(target.st_mode):
        return
    for source in inputs:
        if source is not None and _reads(source, path, target):
            raise CommandError(f"{path}: the command reads this file; name another one to write")


def _is_in_model(path: Path, source: Path) -> bool:
    """Return whether a new file would lie in a model, which then is no sound one any more."""
    if not (source / _MANIFEST).is_file() or path.exists():
        return False
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source))


def is_same(path: Path, other: Path) -> bool:
    """Return whether two names, with or without a file, are of one file."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)


def refuse_folder(folder: Path, inputs: Sequence[Path | str | None]) -> None:
    """Raise `CommandError` if the command reads something in a folder that it replaces."""
    for source in inputs:
        if not source or not Path(source).exists():
            continue
        if Path(os.path.realpath(source)).is_relative_to(os.path.realpath(folder)):
            raise CommandError(f"{folder}: {source} lies in it and is read; name another folder")


def _reads(source: Path | str, path: Path, target: os.stat_result) -> bool:
    if str(source) == "-":
        try:
            return os.path.samestat(os.fstat(sys.stdin.fileno()), target)
        except (OSError, ValueError):  # closed, or not a file
            return False
    source = Path(source)
    if source.is_dir():
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source))
    files = (source, source.with_suffix(".xml"), *(source.with_name(name) for name in _BESIDE))
    return any(file.exists() and os.path.samestat(file.stat(), target) for file in files)


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Name the file in errors that a full disk raises without one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            raise CommandError(f"{path}: {error.strerror}") from error
        raise


def _is_written_as_it_is(path: Path) -> bool:
    """Return whether a path is no plain file, or a descriptor that this process has open."""
    step = path.absolute()
    for _ in range(_MOST_LINKS):
        if _DESCRIPTOR.fullmatch(str(step)):
            return True
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / step.readlink()))
    return path.exists() and not path.is_file()


@contextmanager
def _stream(path: Path) -> Iterator[TextIO]:
    """Open a device, FIFO or descriptor; nothing in it is cut off."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise _unwritable(path, error) from error
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        yield file


@contextmanager
def standard_output() -> Iterator[None]:
    """Name standard output in errors of a command that writes to it, also at its end."""
    with naming("standard output"), _whole_writes():
        yield
        sys.stdout.flush()


@contextmanager
def _whole_writes() -> Iterator[None]:
    """Write all that is printed or raise, also without a buffer (PYTHONUNBUFFERED)."""
    before = sys.stdout
    if not isinstance(raw := getattr(before, "buffer", None), io.FileIO):
        yield
        return
    whole = cast("BinaryIO", _Unbuffered(raw))
    text = io.TextIOWrapper(whole, before.encoding, before.errors, write_through=True)
    sys.stdout = text
    try:
        yield
    finally:
        sys.stdout = before
        text.detach()


class _Unbuffered(io.RawIOBase):
    """A file of which no write is short, as one to a disk that becomes full is."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def write(self, content: "Buffer") -> int:
        whole = memoryview(content).cast("B")
        rest = whole
        while rest:
            rest = rest[self._raw.write(rest) or 0 :]
        return len(whole)


@contextmanager
def _draft(path: Path) -> Iterator[tuple[Path, TextIO]]:
    """Open a new file beside the target of a path; at an error, remove it."""
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}-")
    except OSError as error:
        raise _unwritable(path, error) from error
    draft = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            yield draft, file
    except BaseException:
        draft.unlink()
        raise


def _publish(draft: Path, target: Path) -> None:
    """Give a complete file its name; one that is there keeps its permissions and hard links."""
    there = target.stat() if target.exists() else None
    draft.chmod(0o666 & ~_umask() if there is None else stat.S_IMODE(there.st_mode))
    try:
        if there is not None and (there.st_nlink > 1 or not _replaced(draft, target)):
            shutil.copyfile(draft, target)
        elif there is None:
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _replaced(draft: Path, target: Path) -> bool:
    try:
        draft.replace(target)
    except OSError as error:
        if error.errno not in _NOT_REPLACEABLE:
            raise
        return False
    return True


def _unwritable(path: Path, error: OSError) -> CommandError:
    reason = error.strerror or type(error).__name__
    return CommandError(f"{path}: cannot be written ({reason}); name another file")


@contextmanager
def seekable(file: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a file that can be sought in; what is written to it goes to ``file`` at the end."""
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as whole:
        yield cast("BinaryIO", whole)
        whole.seek(0)
        shutil.copyfileobj(whole, file)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; it appears under its name when complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path = Path(os.path.realpath(path))
    draft = path.with_name(f".{path.name}-new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
