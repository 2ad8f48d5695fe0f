"""What a Dask cluster trains and predicts is what one process does, though workers are killed."""

import io
import json
import sys

import pytest

from setwise.models.data.lines import DataError
from setwise.models.options import TrainingOptions
from setwise.models.training import train
from setwise.service.cli import prediction_lines
from setwise.service.cli.cluster import cluster_of, trained_on
from setwise.service.cli.prediction_lines import dask_workers, predicted_lines
from setwise.service.runtime import cluster
from tests.cli.running import refusal
from tests.clusters import kill_one
from tests.models import corpora

OPTIONS = TrainingOptions(preset="fast", n_folds=2, alpha=1e-3)


@pytest.fixture(scope="module")
def predictor():
    return train(corpora.texts(n=300), OPTIONS)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(prediction_lines, "_LINES_AT_ONCE", 7)
    monkeypatch.setattr(prediction_lines, "_BLOCKS_ALONE", 2)


def lines(n=120):
    texts = enumerate(corpora.texts(n=n, seed=1).texts, 1)
    return [(number, json.dumps({"text": text}).encode()) for number, text in texts]


@pytest.mark.verify  # in one process test_learning.py proves it
def test_all_before_a_fault_is_written(dask_cluster, predictor, small_blocks):
    found = cluster_of("dask", dask_cluster.scheduler_address, None)
    given = [*lines(60), (61, b"no JSON"), *((62 + n, line) for n, line in lines(30))]
    out = io.BytesIO()
    with pytest.raises(DataError, match=r"^a, line 61: not JSON"):
        out.writelines(predicted_lines(predictor, "a", given, 10, dask_workers(found)))
    assert len(out.getvalue().splitlines()) == 60


@pytest.mark.parametrize("command", [("train", "a.jsonl", "--out", "m"), ("predict", "m", "-")])
def test_without_dask_the_error_says_how_to_install_it(monkeypatch, capsys, folder, command):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "install setwise[dask]" in refusal(capsys, *command, "--engine", "dask")
    assert "--scheduler needs --engine dask" in refusal(
        capsys, *command, "--scheduler", "tcp://a:1"
    )


@pytest.mark.parametrize("command", [("train", "a.jsonl", "--out", "m"), ("predict", "m", "-")])
def test_a_scheduler_that_does_not_answer_is_named_before_anything_is_read(
    monkeypatch, capsys, folder, command
):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.1)
    given = "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in refusal(capsys, *command, *given)


def test_a_number_of_workers_is_for_those_that_start_here(capsys, folder):
    given = ("predict", "m", "-", "--engine", "dask", "--scheduler", "tcp://a:1", "--jobs", "3")
    assert "--jobs" in refusal(capsys, *given)


@pytest.mark.verify  # `runtime/test_cluster` is its twin
@pytest.mark.slow
def test_a_cluster_writes_what_one_process_writes_though_its_workers_are_killed(
    dask_cluster, predictor, small_blocks
):
    processes = dask_workers(cluster_of("dask", dask_cluster.scheduler_address, None))
    written = predicted_lines(predictor, "a", lines(), 10, processes)
    found = [next(written) for _ in range(3)]
    kill_one(dask_cluster)
    found += written
    assert b"".join(found) == b"".join(predicted_lines(predictor, "a", lines(), 10))


@pytest.mark.slow
def test_a_cluster_trains_the_same_model_though_its_workers_are_killed(dask_cluster, predictor):
    stages = []

    def report(_, stage):
        stages.append(stage)
        if stage in {"binary relevance on all documents", "binary relevance without fold 2"}:
            kill_one(dask_cluster)

    with trained_on(cluster_of("dask", dask_cluster.scheduler_address, None)):
        found = train(corpora.texts(n=300), OPTIONS, report)
    assert (found.version, found.calibrator_version) == (
        predictor.version,
        predictor.calibrator_version,
    )
    assert stages[-1] == "done"
