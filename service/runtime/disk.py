"""Room in the folders that the service writes to."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from setwise.service.domain.errors import StorageFull

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Numbers of system errors when there is no space left."""

LEAST_FREE_BYTES = 50_000_000
"""With less, the next large write may fail; on small disks, with less than a twentieth."""

log = structlog.get_logger(__name__)


def fault(folders: Iterable[Path]) -> str | None:
    """Return which disk is full or away, or None.

    What nobody may write, such as a model, needs no room.
    """
    for folder in folders:
        try:
            place = existing(folder)
            disk = shutil.disk_usage(place)
        except OSError as error:
            return f"{folder} cannot be looked at: {error.strerror}."
        if disk.free < min(LEAST_FREE_BYTES, disk.total / 20) and os.access(place, os.W_OK):
            return f"Only {disk.free / 1e6:.0f} MB are free in {place}: make room."
    return None


@contextmanager
def needed() -> Iterator[None]:
    """Raise `StorageFull` where the block finds no space left."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        log.exception("disk.full")
        raise StorageFull("There is no space left on the disk.") from error


def existing(folder: Path) -> Path:
    """Return a folder that may not be there yet, or the first above it that is."""
    return next(path for path in (folder, *folder.parents) if path.exists())
