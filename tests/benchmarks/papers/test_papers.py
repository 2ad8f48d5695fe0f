"""`python -m benchmarks.papers`: methods, seeds, splits, failures, and the published rows."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.papers.__main__ import main
from benchmarks.papers.published import published_results
from benchmarks.papers.runs import NON_EMPTY_BR, PLAIN_BR
from setwise.models.options import METHODS
from tests.cli.test_learning import notes, write_lines


def status(*arguments):
    """Return the exit status of the comparison."""
    with pytest.raises(SystemExit) as error:
        main([str(argument) for argument in arguments])
    return error.value.code


def write_dataset(folder, seed=0):
    folder.mkdir(parents=True)
    write_lines(folder / "train.jsonl", notes(70, seed))
    new = ({**note, "id": f"new-{note['id']}"} for note in notes(30, seed + 10))
    write_lines(folder / "test.jsonl", new)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    write_dataset(folder / "notes")
    write_dataset(folder / "scene", seed=1)  # a name that papers report on
    return folder


def measured(folder, *arguments):
    """Compare on the notes; return the one data set of the JSON."""
    path = folder / "out.json"
    assert status(*arguments, "--datasets", "notes", "--json", path) == 0
    (dataset,) = json.loads(path.read_text())["datasets"]
    return dataset


@pytest.mark.verify
def test_every_method_is_measured(data, tmp_path):
    dataset = measured(tmp_path, "--data", data, "--methods", ",".join(METHODS))
    assert (dataset["n_train"], dataset["n_test"], dataset["n_labels"]) == (70, 30, 3)
    rows = {row["method"]: row for row in dataset["rows"]}
    assert set(METHODS) | {PLAIN_BR, NON_EMPTY_BR} == set(rows)
    for method in METHODS:
        assert rows[method]["summary"]["train_seconds"]["mean"] > 0
        assert rows[method]["summary"]["predict_seconds"]["mean"] > 0


@pytest.mark.parametrize(
    ("method", "row"),
    [
        ("br-support", "br-support"),
        pytest.param("ml-knn-rerank", "ml-knn-rerank --preset paper", marks=pytest.mark.verify),
    ],
)
def test_a_method_of_the_papers_is_a_row_with_intervals(data, tmp_path, method, row):
    arguments = ("--methods", method, "--preset", "paper", "--bootstrap", 20)
    (measured_row,) = measured(tmp_path, "--data", data, *arguments)["rows"]
    assert measured_row["method"] == row
    metrics = measured_row["runs"][0]["metrics"]
    low, high = metrics["intervals"]["set_accuracy"]
    assert low <= metrics["set_accuracy"] <= high
    assert metrics["train_cpu_seconds"] > 0


@pytest.mark.verify
def test_mean_and_standard_error_are_those_of_the_seeds(data, tmp_path):
    dataset = measured(tmp_path, "--data", data, "--methods", "br", "--seeds", 2)
    for row in dataset["rows"]:
        assert [run["seed"] for run in row["runs"]] == [0, 1]
        values = [run["metrics"]["brier"] for run in row["runs"]]
        spread = row["summary"]["brier"]
        assert spread["mean"] == pytest.approx(np.mean(values))
        assert spread["standard_error"] == pytest.approx(abs(values[0] - values[1]) / 2)


@pytest.mark.verify
def test_forbidding_the_empty_set_changes_empty_predictions_only(data, tmp_path):
    dataset = measured(tmp_path, "--data", data, "--methods", "br")
    rows = {row["method"]: row["summary"] for row in dataset["rows"]}
    plain, forbidden = rows[PLAIN_BR], rows[NON_EMPTY_BR]
    assert forbidden["set_accuracy"]["mean"] >= plain["set_accuracy"]["mean"]
    assert forbidden["map"] == plain["map"]


@pytest.mark.verify
def test_published_numbers_stand_beside_the_measured_ones(data, tmp_path, capsys):
    path = tmp_path / "out.json"
    arguments = ("--data", data, "--datasets", "scene", "--methods", "br", "--json", path)
    assert status(*arguments) == 0
    out, err = capsys.readouterr()
    assert "scene: published" in out
    assert "69.70" in out
    assert "scene, br, seed 0: set accuracy" in err
    (dataset,) = json.loads(path.read_text())["datasets"]
    accuracies = {row["method"]: row.get("set_accuracy") for row in dataset["published"]}
    assert (accuracies["BR, logistic"], accuracies["CBM, logistic"]) == (0.515, 0.697)


@pytest.mark.verify
def test_a_failing_data_set_names_itself_and_the_others_go_on(data, tmp_path, capsys):
    root = tmp_path / "data"
    shutil.copytree(data / "notes", root / "b-good")
    shutil.copytree(data / "notes", root / "a-broken")
    (root / "a-broken" / "test.jsonl").write_text("no JSON\n")
    path = tmp_path / "out.json"
    assert status("--data", root, "--methods", "br", "--json", path) == 2
    out, err = capsys.readouterr()
    assert f"a-broken: {root}/a-broken/test.jsonl, line 1: not JSON" in err
    assert err.endswith("1 of 2 data sets failed: a-broken\n")
    assert "b-good: 70 training and 30 test documents" in out
    broken, good = json.loads(path.read_text())["datasets"]
    assert broken["rows"] == []
    assert good["error"] is None
    assert good["rows"] != []


@pytest.mark.verify
def test_a_random_split_pools_the_parts_and_depends_on_the_seed_alone(data, tmp_path):
    documents = []
    for name in ("a", "b"):
        path = tmp_path / name
        arguments = ("--data", data / "notes", "--methods", "br", "--split", "random")
        assert status(*arguments, "--json", path) == 0
        documents.append(json.loads(path.read_text())["datasets"][0])
    first, second = documents
    assert (first["n_train"], first["n_test"]) == (90, 10)
    for row, other in zip(first["rows"], second["rows"], strict=True):
        assert row["summary"]["brier"] == other["summary"]["brier"]


@pytest.mark.verify
def test_presets_are_rows_of_their_own_for_the_method_that_has_them(data, tmp_path):
    path = tmp_path / "out.json"
    arguments = ("--data", data / "notes", "--methods", "br,br-rerank", "--preset", "fast,best")
    assert status(*arguments, "--json", path) == 0
    (dataset,) = json.loads(path.read_text())["datasets"]
    names = [row["method"] for row in dataset["rows"]]
    assert names == ["br", PLAIN_BR, NON_EMPTY_BR, "br-rerank --preset fast", "br-rerank"]


@pytest.mark.verify
def test_plain_binary_relevance_is_measured_once_for_all_objectives(data, tmp_path):
    path = tmp_path / "results.json"
    arguments = ("--data", data / "notes", "--methods", "br", "--optimize", "f1,hamming")
    assert status(*arguments, "--json", path) == 0
    (dataset,) = json.loads(path.read_text())["datasets"]
    assert {row["method"]: len(row["runs"]) for row in dataset["rows"]} == {
        "br --optimize f1": 1, PLAIN_BR: 1, NON_EMPTY_BR: 1, "br --optimize hamming": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimize", "recall"], "unknown objective 'recall'; the objectives are set-accuracy,"),
        (["--preset", "slow"], "unknown preset 'slow'; the presets are paper, fast, best"),
        (
            ["--methods", "br,2br", "--optimize", "f1,micro-f1"],
            "2br optimises set-accuracy, f1, hamming, macro-f1; use 2br-rerank for micro-f1",
        ),
        (["--methods", "guess"], "unknown method 'guess'; the methods are "),
        (["--datasets", "absent"], "absent: no such data set; check --datasets"),
        (["--datasets", ","], "',' names nothing"),
        (["--json", "missing/out.json"], "missing/out.json: cannot be written"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(data, capsys, arguments, message):
    assert status("--data", data, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_only_what_the_papers_share_with_the_data_is_called_the_same():
    kdd = "Wang et al., KDD 2017"
    same = {
        name: {
            (result.experiment.same_features, result.experiment.same_split)
            for result in published_results(name)
            if result.experiment.source.startswith(kdd)
        }
        for name in ("medical", "bibtex", "ohsumed", "tmc2007_500")
    }
    assert same == {
        "medical": {(False, False)},  # 679 features, not 1,449; 90 label sets in training, not 61
        "bibtex": {(True, True)},
        "ohsumed": {(False, False)},
        "tmc2007_500": {(False, True)},
    }


def test_published_shares_are_printed_percentages():
    rows = {result.method: result for result in published_results("bibtex")}
    assert rows["BR-rerank"].set_accuracy == 0.215
    assert rows["CBM + GFM"].instance_f1 == 0.504
    assert rows["BR, boosted"].brier == 0.068
    for name in ("bibtex", "medical", "ohsumed", "scene", "tmc2007_500", "yeast"):
        for result in published_results(name):
            numbers = [v for v in asdict(result).values() if isinstance(v, float)]
            assert numbers
            assert all(0 < number < 1 for number in numbers)
    assert published_results("notes") == []
