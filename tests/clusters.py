"""A Dask cluster of two processes for the tests of a module. A pytest plugin."""

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import LocalCluster


@pytest.fixture(scope="module")
def dask_cluster() -> "Iterator[LocalCluster]":
    from distributed import LocalCluster  # noqa: PLC0415 -- imports slowly, and few tests need it

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


def kill_one(cluster: "LocalCluster") -> None:
    """Kill a worker; another one takes its place after a moment."""
    alive = [worker.process.pid for worker in cluster.workers.values() if worker.process]
    os.kill(next(process_id for process_id in alive if process_id), signal.SIGKILL)
