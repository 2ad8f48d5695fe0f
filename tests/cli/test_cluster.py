"""What a Dask cluster trains and predicts is what one process does, though workers are killed."""

import json
import os
import signal
import sys

import pytest
from distributed import Client, LocalCluster

from setwise.models.labels.linear import fit_elastic_net
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from setwise.service.cli import cluster, prediction_lines
from setwise.service.cli.cluster import DaskEngine, cluster_of, trained_on
from setwise.service.cli.console import CommandError
from setwise.service.cli.prediction_lines import dask_workers, predicted_lines
from tests.cli.running import refusal
from tests.models import corpora

OPTIONS = TrainingOptions(preset="fast", n_folds=2, alpha=1e-3)


@pytest.fixture(scope="module")
def predictor():
    return train(corpora.texts(n=300), OPTIONS)


@pytest.fixture(scope="module")
def workers():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(prediction_lines, "_LINES_AT_ONCE", 7)
    monkeypatch.setattr(prediction_lines, "_LINES_ALONE", 14)


def lines(n=120):
    texts = enumerate(corpora.texts(n=n, seed=1).texts, 1)
    return [(number, json.dumps({"text": text}).encode()) for number, text in texts]


def kill_one(workers):
    with Client(workers) as client:
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def times(shared, part):
    """Return a product and where it was made; a part with a file first ends its worker."""
    folder, here, factor = shared
    if (folder / f"{part}").exists():
        (folder / f"{part}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return factor * part, os.getpid() == here


@pytest.mark.slow
def test_a_cluster_trains_the_same_model_though_its_workers_are_killed(workers, predictor):
    stages = []

    def report(_, stage):
        stages.append(stage)
        if stage in {"binary relevance without fold 2", "set calibrators"}:
            kill_one(workers)

    with trained_on(cluster_of("dask", workers.scheduler_address, None)):
        found = train(corpora.texts(n=300), OPTIONS, report)
    assert (found.version, found.calibrator_version) == (
        predictor.version,
        predictor.calibrator_version,
    )
    assert stages[-1] == "done"


@pytest.mark.slow
def test_parts_outlive_the_workers_that_they_end(workers, tmp_path, monkeypatch):
    shared = tmp_path, os.getpid(), 10
    (tmp_path / "3").touch()
    with Client(workers) as client:
        engine = DaskEngine(client)
        assert engine.run(times, shared, range(6)) == [(10 * part, False) for part in range(6)]
        monkeypatch.setattr(workers.scheduler, "allowed_failures", 0)
        (tmp_path / "2").touch()
        found = engine.run(times, shared, range(6))
        assert [product for product, _ in found] == [10 * part for part in range(6)]
        assert found[2] == (20, True)  # what ends too many workers runs here
        assert engine.run(times, shared, []) == []


@pytest.mark.slow
def test_a_cluster_writes_what_one_process_writes_though_its_workers_are_killed(
    workers, predictor, small_blocks, tmp_path
):
    artifact = tmp_path / "artifact"
    save(predictor, artifact)
    kept = load(artifact)

    def written_from(folder):
        found = cluster_of("dask", workers.scheduler_address, None)
        return predicted_lines(kept, "a", lines(), 10, dask_workers(found, folder, "a", 10))

    written = written_from(artifact)
    found = [next(written) for _ in range(3)]
    kill_one(workers)
    found += written
    assert "".join(found) == "".join(predicted_lines(kept, "a", lines(), 10))
    with pytest.raises(CommandError, match=r"missing.* on a worker"):
        list(written_from(tmp_path / "missing"))


def test_without_workers_this_process_does_all(predictor, small_blocks, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_GLANCE_S", 0.01)
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty:
        with Client(empty) as client:
            assert DaskEngine(client).run(pow, 2, [3, 4]) == [8, 16]
        found = cluster_of("dask", empty.scheduler_address, None)
        processes = dask_workers(found, tmp_path, "a", 10)
        written = "".join(predicted_lines(predictor, "a", lines(40), 10, processes))
    assert written == "".join(predicted_lines(predictor, "a", lines(40), 10))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.1)
    with (
        pytest.raises(CommandError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"),
        trained_on(cluster_of("dask", "tcp://127.0.0.1:1", None)),
    ):
        fit_elastic_net([[0.0], [1.0]], [0, 1], alpha=0.1, l1_ratio=0.0)


@pytest.mark.parametrize("command", [("train", "a.jsonl", "--out", "m"), ("predict", "m", "-")])
def test_without_dask_the_error_says_how_to_install_it(monkeypatch, capsys, folder, command):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "install setwise[dask]" in refusal(capsys, *command, "--engine", "dask")
    assert "--scheduler needs --engine dask" in refusal(
        capsys, *command, "--scheduler", "tcp://a:1"
    )
