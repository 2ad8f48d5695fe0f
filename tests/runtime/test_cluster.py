"""Parts run on Dask workers, and here when those or their scheduler are gone or unlike."""

import logging
import os
import signal

import pytest
from distributed import LocalCluster

from setwise.service.domain.errors import ModelUnavailable
from setwise.service.runtime import cluster
from setwise.service.runtime.cluster import workers_of


def times(shared, part):
    """Return a product and where it was made; a part with a file first ends its worker."""
    folder, here, factor = shared
    if (folder / f"{part}").exists():
        (folder / f"{part}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return factor * part, os.getpid() == here


@pytest.mark.slow
def test_parts_outlive_the_workers_that_they_end(dask_cluster, tmp_path, monkeypatch):
    shared = tmp_path, os.getpid(), 10
    (tmp_path / "3").touch()
    with workers_of(dask_cluster) as workers:
        assert workers.run(times, shared, range(6)) == [(10 * part, False) for part in range(6)]
        monkeypatch.setattr(dask_cluster.scheduler, "allowed_failures", 0)
        (tmp_path / "2").touch()
        found = workers.run(times, shared, range(6))
        assert [product for product, _ in found] == [10 * part for part in range(6)]
        assert found[2] == (20, True)  # what ends too many workers runs here
        assert workers.run(times, shared, []) == []
        with pytest.raises(ZeroDivisionError):
            workers.begin(divmod, 1, 0)()


@pytest.mark.slow
def test_a_worker_of_another_version_does_nothing(dask_cluster, tmp_path, monkeypatch, caplog):
    shared = tmp_path, os.getpid(), 10
    with workers_of(dask_cluster) as workers:
        monkeypatch.setattr(cluster, "version", lambda _: "0.0.1")
        assert workers.run(times, shared, range(3)) == [(10 * part, True) for part in range(3)]
    (told,) = [record for record in caplog.records if record.name == cluster.__name__]
    assert told.levelno == logging.WARNING
    assert "not 0.0.1" in told.getMessage()


def test_without_workers_this_process_does_all(monkeypatch):
    monkeypatch.setattr(cluster, "_GLANCE_S", 0.01)
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        workers_of(empty) as workers,
    ):
        assert workers.run(pow, 2, [3, 4]) == [8, 16]


@pytest.mark.slow
def test_without_a_scheduler_this_process_goes_on():
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as brief,
        workers_of(brief.scheduler_address) as workers,
    ):
        begun = [workers.begin(pow, 2, part) for part in range(40)]
        assert begun[0]() == 1
        brief.close()
        begun += [workers.begin(pow, 2, 40)]
        assert [result() for result in begun] == [2**part for part in range(41)]
        assert workers.size == 1


@pytest.mark.parametrize(
    "address", ["tls://127.0.0.1:1", "http://a:1", "scheduler", "tcp://127.0.0.1:1"]
)
def test_a_scheduler_that_cannot_be_reached_is_named(monkeypatch, address):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.1)
    with (
        pytest.raises(ModelUnavailable, match=f"no Dask scheduler answers at {address}"),
        workers_of(address),
    ):
        pass
