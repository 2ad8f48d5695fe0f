"""Batches in two stages: while one is stored, the next is read, scored and put in words."""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from setwise.service.domain.errors import StorageUnavailable

_R = TypeVar("_R")

_PREPARING = max(1, (os.cpu_count() or 1) // 2)
"""More would take the interpreter from each other, and processors are needed for all the rest."""


class Pipeline:
    """Threads that prepare, and others that store.

    A thread that does both finds neither the objects of the one nor the pages of the other in its
    processor's cache, and as many threads as there are requests wait for the interpreter and for
    the database in turn: on two processors a batch took a seventh longer.

    Parameters
    ----------
    storing : int
        How many batches are stored at a time; SQLite has one writer.
    patience_s : float
        How long a batch waits to be stored, in seconds.
    """

    def __init__(self, *, storing: int = 1, patience_s: float = 10.0) -> None:
        self._patience_s = patience_s
        self._preparing = ThreadPoolExecutor(_PREPARING, thread_name_prefix="prepare")
        self._storing = ThreadPoolExecutor(storing, thread_name_prefix="store")

    async def prepare(self, job: Callable[[], _R]) -> _R:
        """Do what needs no transaction."""
        return await _run(self._preparing, job)

    async def store(self, job: Callable[[], _R]) -> _R:
        """Do the rest; raises `StorageUnavailable` if that cannot begin for too long."""
        latest = time.monotonic() + self._patience_s

        def soon() -> _R:
            if time.monotonic() > latest:
                raise StorageUnavailable(
                    "The database is not available: too many batches wait to be stored."
                )
            return job()

        return await _run(self._storing, soon)

    def close(self) -> None:
        """Return when all that has begun is done; nothing may come any more."""
        self._preparing.shutdown()
        self._storing.shutdown()


async def _run(threads: ThreadPoolExecutor, job: Callable[[], _R]) -> _R:
    # With the names and spans of the request that it belongs to.
    return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, job)
