"""Encrypts the files of jobs, which hold documents, under the keys of the database."""

import base64
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.services.ports import FileStore, Sink
from setwise.service.stores.ciphers import TextCipher

FRAME_BYTES = 1 << 16
"""Bytes that are sealed together, and kept in memory."""


class SealedFiles:
    """Encrypts what another file store keeps.

    A file is a sealed frame a line. A frame is bound to its file and its place there, and the last
    one is empty, so that frames that were exchanged, moved or cut off are noticed. A file that was
    written before there was a key is read as it is.
    """

    def __init__(self, files: FileStore, cipher: TextCipher) -> None:
        self._files = files
        self._cipher = cipher

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        """Write a file, which appears under its name at the end of the block, and only whole."""
        with self._files.create(name) as sink:
            sealing = _Sealing(sink, self._cipher, name)
            yield sealing
            sealing.end()

    def open(self, name: str) -> BinaryIO:
        """Read a file; raises `FileNotFoundError`."""
        file = self._files.open(name)
        is_sealed = file.read(4) == b"sw1:"
        file.seek(0)
        if not is_sealed:
            return file
        return cast("BinaryIO", io.BufferedReader(_Opening(file, self._cipher, name)))

    def names(self, folder: str) -> Sequence[str]:
        """List the names directly below a folder, sorted; none if it is not there."""
        return self._files.names(folder)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        self._files.remove(folder)


def _place(name: str, number: int) -> str:
    return f"files/{name}#{number}"


class _Sealing:
    """Writes frames."""

    def __init__(self, sink: Sink, cipher: TextCipher, name: str) -> None:
        self._sink, self._cipher, self._name = sink, cipher, name
        self._waiting = bytearray()
        self._number = 0

    def write(self, content: bytes) -> int:
        """Write the next bytes; returns how many."""
        self._waiting += content
        while len(self._waiting) >= FRAME_BYTES:
            self._frame(bytes(self._waiting[:FRAME_BYTES]))
            del self._waiting[:FRAME_BYTES]
        return len(content)

    def end(self) -> None:
        """Write what is left, and the empty frame."""
        if self._waiting:
            self._frame(bytes(self._waiting))
        self._frame(b"")

    def _frame(self, content: bytes) -> None:
        text = base64.b64encode(content).decode()
        sealed = self._cipher.seal(text, _place(self._name, self._number))
        self._sink.write(sealed.encode() + b"\n")
        self._number += 1


class _Opening(io.RawIOBase):
    """Reads frames in order; going back is possible to the beginning only."""

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
            raise io.UnsupportedOperation("an encrypted file is read from its beginning")
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
            raise StorageUnavailable(f"The stored file {self._name} is cut off.")
        text = self._cipher.open(line[:-1].decode(), _place(self._name, self._number))
        self._frame = base64.b64decode(text)
        self._number += 1
        self._ended = not self._frame

    def close(self) -> None:
        self._file.close()
        super().close()
