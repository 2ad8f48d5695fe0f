"""Where the independent parts of a fit run: on threads, or where the caller of a training says.

A part is a call of a module's function with data that all parts share and data of its own. All that
it gets and returns can be pickled, so that it can run in another process.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

Shared = TypeVar("Shared")
Own = TypeVar("Own")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs parts of a fit."""

    @property
    def size(self) -> int:
        """Number of parts that run at once, at least 1."""
        ...

    def run(
        self, function: Callable[[Shared, Own], Result], shared: Shared, parts: Sequence[Own]
    ) -> list[Result]:
        """Return the results of the parts, in order."""
        ...


class Threads(NamedTuple):
    """Runs parts on threads; their functions release the interpreter's lock most of the time."""

    size: int

    def run(
        self, function: Callable[[Shared, Own], Result], shared: Shared, parts: Sequence[Own]
    ) -> list[Result]:
        """Return the results of the parts, in order."""
        call = partial(function, shared)
        if min(self.size, len(parts)) <= 1:
            return [call(part) for part in parts]
        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(call, parts))


# Threads do not inherit it, so that what runs on one beside other parts stays in this process.
_engine: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def parts_run_by(engine: Engine) -> Iterator[None]:
    """Let an engine run the parts of fits in this block."""
    token = _engine.set(engine)
    try:
        yield
    finally:
        _engine.reset(token)


def engine_for(n_jobs: int | None) -> Engine:
    """Return the engine of `parts_run_by`, otherwise threads for ``n_jobs``."""
    return _engine.get() or Threads(thread_count(n_jobs))


def ahead(items: Iterable[Own], room: Callable[[], int]) -> Iterator[Own]:
    """Yield items, of which ``room()`` are taken before they are needed.

    An error of taking one is raised after the items before it.
    """
    waiting: deque[Own] = deque()
    try:
        for item in items:
            waiting.append(item)
            if len(waiting) > room():
                yield waiting.popleft()
    except Exception:
        yield from waiting
        raise
    yield from waiting


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``; None or below 0 means every usable core."""
    return _usable_cores() if n_jobs is None or n_jobs < 0 else max(1, n_jobs)


def _usable_cores() -> int:
    """Return the number of processors this process can use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
