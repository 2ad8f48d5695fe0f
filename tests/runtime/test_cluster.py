"""Parts run on Dask workers, and here when those or their scheduler are gone or unlike."""

import gc
import json
import logging
import os
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from distributed import Future, LocalCluster

from setwise.service.domain.errors import FieldFault, InvalidRequest, ModelUnavailable
from setwise.service.domain.predictions import Refused
from setwise.service.runtime import cluster
from setwise.service.runtime.cluster import workers_of
from setwise.service.services import files
from tests.clusters import kill_one
from tests.fakes import FakePredictor
from tests.kit.clinic import Clinic
from tests.services.test_files import Worker, lines, result_of, submit


def times(shared, part):
    """Return a product and where it was made; a part with a file first ends its worker."""
    folder, here, factor = shared
    if (folder / f"{part}").exists():
        (folder / f"{part}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return factor * part, os.getpid() == here


@pytest.mark.slow
def test_a_worker_of_another_version_does_nothing(dask_cluster, tmp_path, monkeypatch, caplog):
    shared = tmp_path, os.getpid(), 10
    with workers_of(dask_cluster) as workers:
        monkeypatch.setattr(cluster, "version", lambda _: "0.0.1")
        assert workers.run(times, shared, range(3)) == [(10 * part, True) for part in range(3)]
    (told,) = [record for record in caplog.records if record.name == cluster.__name__]
    assert told.levelno == logging.WARNING
    assert "OtherVersion" in told.getMessage()


def test_without_workers_this_process_does_all_at_once(monkeypatch):
    waits = []

    def wait(_, timeout):
        waits.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(Future, "exception", wait)
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        workers_of(empty) as workers,
    ):
        assert workers.run(pow, 2, [3, 4]) == [8, 16]
    assert waits == []


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
    late = []  # what would be printed as a traceback after the error
    monkeypatch.setattr(sys, "unraisablehook", late.append)
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.1)
    with (
        pytest.raises(ModelUnavailable, match=f"No Dask scheduler answers at {address}"),
        workers_of(address),
    ):
        pass
    gc.collect()
    assert late == []


class Picky(FakePredictor):
    """Cannot read one text."""

    def score(self, documents):
        fault = InvalidRequest("bad", [FieldFault("/document/text", "is bad")])
        return [
            Refused(fault) if document.text == "bad" else scored
            for document, scored in zip(documents, super().score(documents), strict=True)
        ]


@pytest.mark.slow
def test_a_job_is_scored_on_workers_as_here_though_one_is_killed(dask_cluster, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 4)
    texts = [*(f"0.{n}" for n in range(100, 160)), "bad", "y" * 1_001, "0.5"]
    content = b"no JSON\n" + b"".join(json.dumps({"text": one}).encode() + b"\n" for one in texts)

    class Killer(Worker):
        def __call__(self, progress, message=""):
            super().__call__(progress, message)
            if len(self.told) == 3:
                kill_one(dask_cluster)

    def scored(workers, worker):
        clinic = Clinic(predicting={"max_text_bytes": 1_000})
        clinic.predictors.predictor = predictor = Picky()
        job, _ = submit(clinic, content)
        counts = replace(clinic.files, workers=workers).score(job, worker)
        contents = clinic.contents
        found = counts, result_of(clinic, job), contents.predictions, contents.reviews, worker.told
        return found, predictor.scored

    (here, n), (there, none) = (
        scored(nullcontext, Worker()),
        scored(partial(workers_of, dask_cluster), Killer()),
    )
    assert there == here
    assert (n, none) == (62, 0)  # with the one that the model cannot read
    assert here[0]["predicted"] == 61
    assert here[0]["faulty"] == 3


def test_a_job_waits_for_its_scheduler_and_nothing_is_skipped(monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.1)
    clinic, worker = Clinic(), Worker()
    job, _ = submit(clinic, lines(6))
    with pytest.raises(ModelUnavailable, match="No Dask scheduler"):
        replace(clinic.files, workers=partial(workers_of, "tcp://127.0.0.1:1")).score(job, worker)
    assert worker.kept is None
    assert clinic.files.score(job, worker)["predicted"] == 6


@pytest.mark.verify  # a worker is killed in the twin above
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
