"""A Dask cluster of two processes, shared by the tests of a module. A pytest plugin."""

import logging
import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import LocalCluster


WORKERS = 2


@pytest.fixture(scope="module")
def _started() -> "Iterator[LocalCluster]":
    from distributed import LocalCluster  # noqa: PLC0415 -- imports slowly, and few tests need it

    # It tells of killed workers whenever it notices, also in the output of another test.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


@pytest.fixture
def dask_cluster(_started: "LocalCluster") -> "LocalCluster":
    """Return the cluster with all workers, also after a test that killed some."""
    _started.wait_for_workers(WORKERS, timeout=180)
    return _started


def kill_one(cluster: "LocalCluster") -> None:
    """Kill a worker; another one takes its place after a moment.

    One that is starting is left alone: Dask does not start it again.
    """
    processes = [worker.process for worker in cluster.workers.values() if worker.process]
    os.kill(next(one.pid for one in processes if one.status.name == "running"), signal.SIGKILL)
