"""Store files of jobs in a folder or object store, encrypted if there is a key."""

import base64
import io
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, cast

from fsspec.implementations.local import LocalFileSystem

from setwise.service.domain.errors import StorageDamaged
from setwise.service.runtime import disk
from setwise.service.runtime.object_stores import open_store
from setwise.service.services.ports import FileStore, Sink
from setwise.service.stores.columns.ciphers import SEALED, TextCipher
from setwise.service.stores.upkeep.encryption import PASSES, NotDone, Report, still_written

FRAME_BYTES = 1 << 16
"""Bytes that are encrypted together, and held in memory."""

DRAFT = ".incoming"
"""Ends the name of a local file until it is complete."""


class FileChanged(Exception):
    """A file is no longer the one that was to be replaced."""


class FolderOrObjectFiles:
    """Stores files in a folder, or in an object store of fsspec.

    ``url``: Folder, or fsspec URL such as ``s3://bucket/jobs``.
    """

    def __init__(self, url: str) -> None:
        self._files, self._root = open_store(url)
        self._local = isinstance(self._files, LocalFileSystem)

    @contextmanager
    def create(self, name: str, *, replacing: str | None = None) -> Iterator[Sink]:
        """Yield a file for writing, which appears complete when the block ends.

        ``replacing``: The version of the file that it replaces. Another one is left as it is, with
        `FileChanged`; in an object store, if it was there when writing began.

        Raises `StorageFull` if there is no space left.
        """
        with disk.needed(), self._draft(name, replacing) as file:
            yield file

    @contextmanager
    def _draft(self, name: str, replacing: str | None) -> Iterator[Sink]:
        target = f"{self._root}/{name}"
        # An object appears once it is closed; a local file needs a temporary name until then.
        # Each writer has its own: one that lost its job may write beside its successor.
        draft = f"{target}.{secrets.token_hex(8)}{DRAFT}" if self._local else target
        self._check(name, replacing)
        before = self.version(name)
        self._files.makedirs(draft.rsplit("/", 1)[0], exist_ok=True)
        file = self._files.open(draft, "wb")
        try:
            yield cast("Sink", file)
            if self._local:
                file.close()  # writes the rest, for which there may be no space
                self._check(name, replacing)
        except BaseException:
            if self._local:
                with suppress(OSError):
                    file.close()
                Path(draft).unlink(missing_ok=True)
            else:
                file.discard()
                if self.version(name) != before:  # some stores show the object before closing
                    self._files.rm_file(target)
            raise
        file.close()
        if self._local:
            Path(draft).chmod(0o600)  # it may contain documents
            Path(draft).replace(target)

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raises `FileNotFoundError`."""
        return cast("BinaryIO", self._files.open(f"{self._root}/{name}", "rb"))

    def _check(self, name: str, replacing: str | None) -> None:
        if replacing not in {None, self.version(name)}:
            raise FileChanged

    def version(self, name: str) -> str | None:
        """Return what changes with a file's content; None without the file."""
        self._files.invalidate_cache()
        try:
            return str(self._files.ukey(f"{self._root}/{name}"))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> Sequence[str]:
        """Return the sorted names of complete files and folders; empty without the folder."""
        return [name for name in self._names(folder) if not name.endswith(DRAFT)]

    def _names(self, folder: str) -> Sequence[str]:
        try:
            entries = self._files.ls(f"{self._root}/{folder}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return sorted(path.rstrip("/").rsplit("/", 1)[1] for path in entries)

    def tidy(self, folder: str) -> None:
        """Delete what writers left in a folder that died before their file was complete."""
        for name in self._names(folder):
            if name.endswith(DRAFT):
                with suppress(FileNotFoundError):
                    self._files.rm_file(f"{self._root}/{folder}/{name}")

    def everything(self) -> Iterator[str]:
        """Yield the names of all complete files, at any depth."""
        for path in self._files.find(self._root):
            name = path.removeprefix(self._root).lstrip("/")
            if not name.startswith(".") and not name.endswith(DRAFT):
                yield name

    def remove(self, folder: str) -> None:
        """Delete a folder and its content, if it exists."""
        if self._local:
            shutil.rmtree(f"{self._root}/{folder}", ignore_errors=True)
        elif self._files.exists(f"{self._root}/{folder}"):
            self._files.rm(f"{self._root}/{folder}", recursive=True)


class SealedFiles:
    """Encrypts the files of another store with the keys of the database.

    Each line of a file is an encrypted frame. A frame is bound to its file and position, and the
    last frame is empty, so exchanged, moved and missing frames are detected. Plain files are
    refused.

    ``writing``: Holds the key in use while a file becomes complete, as `encryption.writing` does.
    """

    def __init__(
        self,
        files: FileStore,
        cipher: TextCipher,
        writing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._files = files
        self._cipher = cipher
        self._writing = writing

    @contextmanager
    def create(self, name: str, *, replacing: str | None = None) -> Iterator[Sink]:
        """Yield a file for writing, which appears complete when the block ends."""
        with ExitStack() as completion, self._files.create(name, replacing=replacing) as sink:
            sealing = _Sealing(sink, self._cipher, name)
            yield sealing
            sealing.end()
            completion.enter_context(self._writing())

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raises `FileNotFoundError`."""
        file = self._files.open(name)
        if file.read(len(SEALED)) == SEALED.encode():
            return cast("BinaryIO", io.BufferedReader(_Opening(file, self._cipher, name)))
        file.close()
        raise StorageDamaged(f"The stored file {name} is not encrypted, but the service has a key.")

    def version(self, name: str) -> str | None:
        """Return what changes with a file's content; None without the file."""
        return self._files.version(name)

    def names(self, folder: str) -> Sequence[str]:
        """Return the sorted names in a folder; empty without the folder."""
        return self._files.names(folder)

    def tidy(self, folder: str) -> None:
        """Delete what writers left in a folder that died before their file was complete."""
        self._files.tidy(folder)

    def remove(self, folder: str) -> None:
        """Delete a folder and its content, if it exists."""
        self._files.remove(folder)

    def reseal(self, report: Report) -> int:
        """Encrypt all files of jobs under the first key; return how many changed.

        Servers may read and write files at the same time, and an interrupted call can be repeated.

        Raises `NotDone` if files cannot be opened.
        """
        changed = 0
        for _ in range(PASSES):
            renewed = self._reseal_all(report)
            if renewed == 0:
                report(1.0, "done")
                return changed
            changed += renewed
        raise NotDone(still_written(self._cipher))

    def _reseal_all(self, report: Report) -> int:
        changed, damaged = 0, []
        everything = list(self._walk("jobs"))
        for number, name in enumerate(everything):
            report(number / len(everything), name)
            try:
                changed += self._reseal(name)
            except FileNotFoundError:
                continue  # deleted in between
            except StorageDamaged as error:
                damaged.append(error.detail)
        if damaged:
            raise NotDone(f"{len(damaged)} files of jobs cannot be opened: {damaged[0]}")
        return changed

    def _walk(self, folder: str) -> Iterator[str]:
        for job_id in self._files.names(folder):
            for part in self._files.names(f"{folder}/{job_id}"):
                for name in self._files.names(f"{folder}/{job_id}/{part}"):
                    yield f"{folder}/{job_id}/{part}/{name}"

    def outdated(self) -> bool:
        """Return whether a file needs another key than the first."""
        return any(map(self._outdated, self._walk("jobs")))

    def _outdated(self, name: str) -> bool:
        current = f"{SEALED}{self._cipher.sealing_id}:".encode()
        try:
            with self._files.open(name) as file:
                return file.read(len(current)) != current
        except FileNotFoundError:
            return False  # deleted in between

    def _reseal(self, name: str) -> bool:
        if not self._outdated(name):
            return False
        version = self._files.version(name)
        # Otherwise a row that an erasure removes in between would come back. What has changed is
        # looked at again in the next pass.
        with (
            suppress(FileChanged),
            self.open(name) as old,
            self.create(name, replacing=version) as new,
        ):
            while content := old.read(FRAME_BYTES):
                new.write(content)
        return True


def _context(name: str, number: int) -> str:
    return f"files/{name}#{number}"


class _Sealing:
    """Writes encrypted frames."""

    def __init__(self, sink: Sink, cipher: TextCipher, name: str) -> None:
        self._sink, self._cipher, self._name = sink, cipher, name
        self._waiting = bytearray()
        self._number = 0

    def write(self, content: bytes) -> int:
        """Write the next bytes and return their number."""
        self._waiting += content
        while len(self._waiting) >= FRAME_BYTES:
            self._frame(bytes(self._waiting[:FRAME_BYTES]))
            del self._waiting[:FRAME_BYTES]
        return len(content)

    def end(self) -> None:
        """Write the remaining bytes and the final empty frame."""
        if self._waiting:
            self._frame(bytes(self._waiting))
        self._frame(b"")

    def _frame(self, content: bytes) -> None:
        text = base64.b64encode(content).decode()
        sealed = self._cipher.seal(text, _context(self._name, self._number))
        self._sink.write(sealed.encode() + b"\n")
        self._number += 1


class _Opening(io.RawIOBase):
    """Reads encrypted frames in order; can seek only to the beginning."""

    def __init__(self, file: BinaryIO, cipher: TextCipher, name: str) -> None:
        super().__init__()
        self._file, self._cipher, self._name = file, cipher, name
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._number, self._at, self._frame, self._ended = 0, 0, b"", False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if (offset, whence) != (0, io.SEEK_SET):
            raise io.UnsupportedOperation("an encrypted file can be read from its beginning only")
        self._begin()
        return 0

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what Python passes
        if not self._frame and not self._ended:
            self._next()
        n = min(len(buffer), len(self._frame))
        buffer[:n] = self._frame[:n]
        self._frame = self._frame[n:]
        self._at += n
        return n

    def _next(self) -> None:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise StorageDamaged(f"The stored file {self._name} is cut off.")
        text = self._cipher.open(line[:-1].decode(), _context(self._name, self._number))
        self._frame = base64.b64decode(text)
        self._number += 1
        self._ended = not self._frame

    def close(self) -> None:
        self._file.close()
        super().close()
