"""Dask clusters for ``train`` and ``predict``, which need the extra `setwise[dask]`."""

# ruff: noqa: PLC0415 - Dask is optional

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Annotated, Literal

import typer

from setwise.service.cli.console import CommandError
from setwise.service.runtime.cluster import DaskWorkers, workers_of

EngineName = Annotated[
    Literal["local", "dask"],
    typer.Option(help="Run on this machine's cores, or on a Dask cluster."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler; by default a cluster is started here."),
]
Cluster = AbstractContextManager[DaskWorkers]


def cluster_of(engine: str, scheduler: str | None, jobs: int | None) -> Cluster | None:
    """Return the cluster to work on; None for the engine ``local``.

    ``scheduler``: Its address; None starts workers on this machine.
    ``jobs``: Number of workers to start; None: one for each core.

    Raises `CommandError` if the options do not agree or Dask is not installed, and
    `ModelUnavailable` if no scheduler answers, now or when the cluster is entered.
    """
    if engine != "dask":
        if scheduler is not None:
            raise CommandError("--scheduler needs --engine dask")
        return None
    try:
        from distributed import LocalCluster
    except ImportError as error:
        raise CommandError("--engine dask needs Dask; install setwise[dask]") from error
    if scheduler is not None:
        with workers_of(scheduler):  # a wrong address is refused before anything is read
            pass

    @contextmanager
    def connected() -> Iterator[DaskWorkers]:
        with ExitStack() as stack:
            address: object = scheduler
            if scheduler is None:
                address = stack.enter_context(
                    LocalCluster(
                        n_workers=jobs, threads_per_worker=1, dashboard_address="127.0.0.1:0"
                    )
                )
            yield stack.enter_context(workers_of(address))

    return connected()


@contextmanager
def trained_on(cluster: Cluster | None) -> Iterator[None]:
    """Let a cluster run the parts of trainings in this block; None: this process runs them."""
    from setwise.models.parallel import parts_run_by

    if cluster is None:
        yield
        return
    with cluster as workers, parts_run_by(workers):
        yield
