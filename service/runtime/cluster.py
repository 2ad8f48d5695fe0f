"""Work on the workers of a Dask cluster, which need the extra `setwise[dask]`."""

# ruff: noqa: PLC0415 - Dask is optional

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from setwise.service.domain.errors import ModelUnavailable

if TYPE_CHECKING:
    from distributed import Client, Future

Shared = TypeVar("Shared")
Own = TypeVar("Own")
Result = TypeVar("Result")

_PATIENCE_S = 10  # for a scheduler to answer
_GLANCE_S = 0.5  # a part is waited for before the workers are counted again
_AHEAD_PER_THREAD = 3  # parts: enough to keep workers busy
_WARN_ABOVE = "distributed.admin.large-graph-warning-threshold"

log = logging.getLogger(__name__)


class NoWorkers(Exception):
    """The cluster has no workers now."""


class OtherVersion(Exception):
    """A worker has another version of Setwise."""


class DaskWorkers:
    """Runs parts on the workers of a cluster, in this process what they cannot do.

    If a worker ends, others run its parts. A part that ends several workers, or fails on one, runs
    in this process, and so do all parts while there are no workers or no scheduler.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._shared: object = None
        self._sent: Future | None = None
        self._faults: set[type[Exception]] = set()  # each kind is told once

    @property
    def size(self) -> int:
        """Number of parts that run at once, at least 1."""
        return max(self._threads(), 1)

    def ahead(self) -> int:
        """Return the number of parts to begin before the first result is needed."""
        return _AHEAD_PER_THREAD * self.size

    def run(
        self, function: Callable[[Shared, Own], Result], shared: Shared, parts: Sequence[Own]
    ) -> list[Result]:
        """Return the results of the parts, in order; what they share goes to each worker once."""
        results = [self.begin(function, shared, part) for part in parts]
        self._shared = self._sent = None
        return [result() for result in results]

    def begin(
        self, function: Callable[[Shared, Own], Result], shared: Shared, part: Own
    ) -> Callable[[], Result]:
        """Begin a part; return a function that waits for its result.

        What it shares with the part before it is not sent again.
        """
        client = self._client
        if client.status != "running":
            return partial(function, shared, part)
        if self._sent is None or shared is not self._shared or self._sent.cancelled():
            # As the result of a task, it is made again if all workers that hold it end.
            self._shared, self._sent = shared, client.submit(_same, shared, pure=False)
        task = client.submit(_run, version("setwise"), function, self._sent, part, pure=False)

        def result() -> Result:
            try:
                self._wait_for(task)
                result: Result = task.result()
            except Exception as error:  # noqa: BLE001 - what it may be, Dask does not say
                result = function(shared, part)  # raises the fault if it is the part's own
                if type(error) not in self._faults:
                    self._faults.add(type(error))
                    # Its message could quote a document.
                    log.warning("done here, not on a worker: %s", type(error).__name__)
                return result
            return result

        return result

    def _wait_for(self, task: "Future") -> None:
        while not task.done():
            if self._threads() == 0:
                raise NoWorkers
            with suppress(TimeoutError):
                task.exception(timeout=_GLANCE_S)

    def _threads(self) -> int:
        try:
            running = self._client.status == "running"
            return sum(self._client.nthreads().values()) if running else 0
        except (OSError, RuntimeError):  # the scheduler has just gone
            return 0


@contextmanager
def workers_of(scheduler: object) -> Iterator[DaskWorkers]:
    """Connect to a Dask scheduler, or to its address; raises `ModelUnavailable`."""
    import dask
    from distributed import Client

    with ExitStack() as stack:
        # A training has to send its data.
        stack.enter_context(dask.config.set({_WARN_ABOVE: "1TB"}))
        try:
            if isinstance(scheduler, str):
                asyncio.run(_reach(scheduler))
            client = Client(scheduler, timeout=_PATIENCE_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise ModelUnavailable(f"No Dask scheduler answers at {scheduler}: {error}") from error
        yield DaskWorkers(stack.enter_context(client))


async def _reach(address: str) -> None:
    """Connect once: a `Client` that cannot is never closed, and says so with a traceback."""
    from distributed.comm import connect
    from distributed.security import Security

    options = Security().get_connection_args("client")
    await (await connect(address, timeout=_PATIENCE_S, **options)).close()


def _same(shared: Shared) -> Shared:
    return shared


def _run(
    expected: str, function: Callable[[Shared, Own], Result], shared: Shared, part: Own
) -> Result:
    if version("setwise") != expected:
        raise OtherVersion(f"this worker has Setwise {version('setwise')}, not {expected}")
    return function(shared, part)
