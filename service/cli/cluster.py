"""Dask clusters for ``train`` and ``predict``, which need the extra `setwise[dask]`."""

# ruff: noqa: PLC0415 - Dask is optional

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from setwise.service.cli.console import CommandError

if TYPE_CHECKING:
    from distributed import Client, Future

Shared = TypeVar("Shared")
Own = TypeVar("Own")
Result = TypeVar("Result")

EngineName = Annotated[
    Literal["local", "dask"],
    typer.Option(help="What works in parallel: this machine's cores, or a Dask cluster."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler; by default a cluster is started here."),
]
Cluster = AbstractContextManager["Client"]

_PATIENCE_S = 10  # for a scheduler to answer
_GLANCE_S = 0.5  # between looks whether there are workers
_WARN_ABOVE = "distributed.admin.large-graph-warning-threshold"


def cluster_of(engine: str, scheduler: str | None, jobs: int | None) -> Cluster | None:
    """Return the cluster to work on; None for the engine ``local``.

    ``scheduler``: Its address; None starts workers on this machine.
    ``jobs``: Number of workers to start; None: one for each core.

    Raises `CommandError` if the options do not agree or Dask is not installed; when the cluster is
    entered, if no scheduler answers.
    """
    if engine != "dask":
        if scheduler is not None:
            raise CommandError("--scheduler needs --engine dask")
        return None
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise CommandError("--engine dask needs Dask; install setwise[dask]") from error

    @contextmanager
    def connected() -> "Iterator[Client]":
        with ExitStack() as stack:
            # A training has to send its data.
            stack.enter_context(dask.config.set({_WARN_ABOVE: "1TB"}))
            address: Any = scheduler
            if scheduler is None:
                address = stack.enter_context(
                    LocalCluster(
                        n_workers=jobs, threads_per_worker=1, dashboard_address="127.0.0.1:0"
                    )
                )
            try:
                client = stack.enter_context(Client(address, timeout=_PATIENCE_S))
            except OSError as error:
                raise CommandError(f"no Dask scheduler answers at {scheduler}: {error}") from error
            yield client

    return connected()


def threads(client: "Client") -> int:
    """Return the number of threads of the workers."""
    found: int = sum(client.nthreads().values())
    return found


def fault_of(task: "Future", workers: Callable[[], int]) -> BaseException | None:
    """Wait for a task and return its fault; if no worker is left, cancel it: `TimeoutError`."""
    while True:
        try:
            fault: BaseException | None = task.exception(timeout=_GLANCE_S)
        except TimeoutError as error:
            if workers() == 0:
                task.cancel()
                return error
        else:
            return fault


@contextmanager
def trained_on(cluster: Cluster | None) -> Iterator[None]:
    """Let a cluster run the parts of trainings in this block; None: this process runs them."""
    from setwise.models.parallel import parts_run_by

    if cluster is None:
        yield
        return
    with cluster as client, parts_run_by(DaskEngine(client)):
        yield


class DaskEngine:
    """Runs parts of a training on the workers of a cluster."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    @property
    def size(self) -> int:
        """Number of parts that run at once."""
        return max(threads(self._client), 1)

    def run(
        self, function: Callable[[Shared, Own], Result], shared: Shared, parts: Sequence[Own]
    ) -> list[Result]:
        """Return the results of the parts, in order; what they share goes to each worker once.

        If a worker ends, others run its parts; a part that ends several workers, and all parts
        while there are no workers, run in this process.
        """
        client = self._client
        # As the result of a task, it is made again if all workers that hold it end.
        sent = client.submit(_same, shared, pure=False)
        tasks = client.map(function, [sent] * len(parts), list(parts), pure=False)
        results = []
        for task, part in zip(tasks, parts, strict=True):
            fault_of(task, lambda: threads(client))
            results.append(task.result() if task.status == "finished" else function(shared, part))
        return results


def _same(shared: Shared) -> Shared:
    return shared
