"""Files that belong to jobs: what came with the request, and what came of it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol


class Sink(Protocol):
    """A file that is being written."""

    def write(self, content: bytes) -> int:
        """Write the next bytes; returns how many."""


class Files(Protocol):
    """Keeps files under names with slashes, where every process of the service finds them."""

    def create(self, name: str) -> AbstractContextManager[Sink]:
        """Write a file, which appears under its name at the end of the block, and only whole."""

    def open(self, name: str) -> BinaryIO:
        """Read a file; raises `FileNotFoundError`."""

    def names(self, folder: str) -> Sequence[str]:
        """List the names directly below a folder, sorted; none if it is not there."""

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""


def folder_of(job_id: str) -> str:
    """Return where the files of a job lie."""
    return f"jobs/{job_id}"
