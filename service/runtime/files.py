"""Keeps the files of jobs in a folder or an object store."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from setwise.service.services.ports import Sink


class FolderOrObjectFiles:
    """Keeps files in a folder or in an object store that fsspec knows.

    Parameters
    ----------
    url : str
        Folder, or fsspec address such as ``s3://bucket/jobs``.
    """

    def __init__(self, url: str) -> None:
        # Any: fsspec ships no types.
        self._files: Any
        self._files, self._root = url_to_fs(url)
        self._local = isinstance(self._files, LocalFileSystem)

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        """Write a file, which appears under its name at the end of the block, and only whole."""
        target = f"{self._root}/{name}"
        # An object store shows an object only once it is closed; a folder needs a second name.
        draft = f"{target}.incoming" if self._local else target
        self._files.makedirs(draft.rsplit("/", 1)[0], exist_ok=True)
        file = self._files.open(draft, "wb")
        try:
            yield cast("Sink", file)
        except BaseException:
            if self._local:
                file.close()
                Path(draft).unlink(missing_ok=True)
            else:
                file.discard()
                with suppress(FileNotFoundError):  # some stores show it before it is closed
                    self._files.rm_file(target)
            raise
        file.close()
        if self._local:
            Path(draft).chmod(0o600)  # it may hold documents
            Path(draft).replace(target)

    def open(self, name: str) -> BinaryIO:
        """Read a file; raises `FileNotFoundError`."""
        return cast("BinaryIO", self._files.open(f"{self._root}/{name}", "rb"))

    def names(self, folder: str) -> Sequence[str]:
        """List the names directly below a folder, sorted; none if it is not there."""
        try:
            found = self._files.ls(f"{self._root}/{folder}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return sorted(path.rstrip("/").rsplit("/", 1)[1] for path in found)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        if self._local:
            shutil.rmtree(Path(self._root) / folder, ignore_errors=True)
        elif self._files.exists(f"{self._root}/{folder}"):
            self._files.rm(f"{self._root}/{folder}", recursive=True)
