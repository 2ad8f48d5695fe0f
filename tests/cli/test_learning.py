"""``train``, ``evaluate`` and ``predict``: results, streams and every way to be refused."""

import csv
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from setwise.models.data import dataset_files
from setwise.models.options import METHODS
from setwise.models.storage.artifacts import load
from tests.cli.running import status
from tests.made_once import made_once

WORDS = {"heart": ["chest", "pain"], "lung": ["cough", "wheeze"], "skin": ["rash", "itch"]}
PATIENCE_S = 600.0  # a command imports, and may compile, on a machine that is busy
FILLER = ["patient", "reports", "since", "monday", "mild", "seen", "again", "today"]


def notes(n, seed=0):
    """Short texts whose words tell the labels."""
    pick = random.Random(seed)
    for i in range(n):
        labels = pick.sample(sorted(WORDS), pick.choice([1, 1, 2]))
        words = [pick.choice(WORDS[label]) for label in labels] + pick.choices(FILLER, k=4)
        yield {"id": f"n{i}", "text": " ".join(words), "labels": labels}


def write_lines(path, records):
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_vectors(folder):
    folder.mkdir()
    pick = random.Random(1)
    names = sorted(WORDS)
    for part in ("train", "test"):
        lines = []
        for _ in range(60):
            labels = sorted(pick.sample(range(3), pick.choice([1, 2])))
            features = {label + 1: 1 for label in labels} | {pick.randint(4, 8): 0.5}
            row = " ".join(f"{i}:{v}" for i, v in sorted(features.items()))
            lines.append(f"{','.join(map(str, labels))} {row}\n")
        (folder / f"{part}.svm").write_text("".join(lines))
    (folder / "labels.txt").write_text("".join(name + "\n" for name in names))
    (folder / "features.txt").write_text("".join(f"f{i}\n" for i in range(1, 9)))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set of texts, one of vectors, and a model of each."""
    return made_once(tmp_path_factory, "learning", make_folder)


def make_folder(root):
    texts = root / "texts"
    texts.mkdir()
    write_lines(texts / "train.jsonl.gz", notes(80))
    write_lines(texts / "test.jsonl", notes(40, seed=1))
    vectors = write_vectors(root / "vectors")
    for data in (texts, vectors):
        assert status("train", data, "--out", root / f"{data.name}-model") == 0


def refusal(capsys, *arguments):
    """Run a command that must be refused; return its one line."""
    assert status(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("setwise: ")]
    lines = [line for line in lines if not line.startswith("setwise: warning: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0].removeprefix("setwise: ")


def predicted(capsys, *arguments):
    assert status("predict", *arguments) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# --- train --------------------------------------------------------------------------------------


def test_training_prints_one_json_document_and_nothing_else_on_stdout(folder, tmp_path, capsys):
    out = tmp_path / "new" / "model"
    train = ("train", folder / "texts", "--out", out)
    assert status(*train, "--method", "br", "--seed", "3", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    predictor = load(out)
    assert summary["artifact"] == str(out)
    assert (summary["method"], summary["n"], summary["n_labels"]) == ("br", 80, 3)
    assert summary["model_version"] == predictor.version
    assert predictor.manifest["training"]["seed"] == 3
    assert summary["metrics"]["set_accuracy"] == predictor.manifest["metrics"]["set_accuracy"]


def test_training_tells_people_how_good_it_is_and_how_far(folder, tmp_path, capsys):
    train = ("train", folder / "texts", "--out", tmp_path / "m", "--preset", "fast")
    assert status(*train, "--jobs", "1") == 0
    out, err = capsys.readouterr()
    assert "cross-fitted set_accuracy" in out
    assert out.count("cross-fitted") == 6  # the rest are in --json
    assert "n_undefined_labels" not in out
    assert "train: 100%" in err


def test_training_says_if_a_model_answers_alike_whatever_it_reads(folder, tmp_path, capsys):
    alike = [
        {"id": f"n{i}", "text": f"only{i}", "labels": ["lung" if i % 4 == 0 else "skin"]}
        for i in range(60)
    ]
    said = "gives the same set to every document"
    for name, records in (("alike", alike), ("notes", notes(60))):
        data = write_lines(tmp_path / f"{name}.jsonl", records)
        options = ("--preset", "fast", "--jobs", "1", "--json")
        assert status("train", data, "--out", tmp_path / name, *options) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["metrics"]["one_set"] == (said in err) == (name == "alike")


def test_an_unknown_method_is_refused_with_those_there_are(folder, tmp_path, capsys):
    arguments = ("train", folder / "texts", "--out", tmp_path / "m", "--method", "guess")
    message = refusal(capsys, *arguments)
    assert message == f"unknown method 'guess'; the methods are {', '.join(METHODS)}"
    assert not (tmp_path / "m").exists()


def test_a_model_of_another_objective_announces_its_set_first(folder, tmp_path, capsys):
    data, out = folder / "texts", tmp_path / "m"
    options = ("--preset", "fast", "--optimize", "micro-f1", "--json")
    assert status("train", data, "--out", out, *options) == 0
    summary = json.loads(capsys.readouterr().out)
    rule = load(out).manifest["training"]["decision_rule"]["rule"]
    assert (summary["optimize"], rule["objective"]) == ("micro-f1", "micro-f1")
    assert status("evaluate", out, data, "--json") == 0
    assert json.loads(capsys.readouterr().out)["micro_f1"] > 0.8
    assert status("predict", out, data / "test.jsonl") == 0
    for line in capsys.readouterr().out.splitlines():
        likely = {
            each["label"]
            for each in json.loads(line)["marginals"]
            if each["probability"] > rule["threshold"]
        }
        assert set(json.loads(line)["labels"]) == likely


def answered(n, seed=0):
    """Notes with label sets of a model that errs, and how long they are."""
    pick = random.Random(seed)
    for note in notes(n, seed):
        sets = [note["labels"] if pick.random() < 0.7 else [pick.choice([*WORDS])] for _ in "abc"]
        length = {"length": len(note["text"])}
        yield {**note, "candidates": [{"labels": labels} for labels in sets], "metadata": length}


def test_a_model_of_answers_is_trained_tested_and_predicts(tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    write_lines(data / "train.jsonl", answered(80))
    write_lines(data / "test.jsonl", answered(40, seed=1))
    options = ("--external", "--number", "length", "--preset", "fast", "--json")
    assert status("train", data, "--out", out, *options) == 0
    assert json.loads(capsys.readouterr().out)["n_labels"] == 3
    assert (load(out).kind, load(out).numbers) == ("external", ("length",))
    assert status("evaluate", out, data, "--json") == 0
    assert json.loads(capsys.readouterr().out)["set_accuracy"] > 0.6
    lines = predicted(capsys, out, data / "test.jsonl")
    assert lines[0]["id"] == "n0"
    assert len(lines) == 40
    alone = {"id": "x", "text": "cough", "labels": ["lung"]}
    (line,) = predicted(capsys, out, write_lines(tmp_path / "one.jsonl", [alone]))
    assert ["lung"] in [candidate["labels"] for candidate in line["candidates"]]
    for wrong, message in (
        ({"text": "cough"}, "line 2: it has no answer"),
        ({"labels": ["lung"]}, 'line 2: there is no "text", which this model reads; give "text"'),
        ({"text": "cough", "answer": ["toe"]}, "line 2: answer: unknown label 'toe'"),
    ):
        file = write_lines(tmp_path / "wrong.jsonl", [alone, wrong])
        assert status("predict", out, file) == 2
        output = capsys.readouterr()
        assert message in output.err
        assert len(output.out.splitlines()) == 1


def test_numbers_need_answers(folder, tmp_path, capsys):
    arguments = ("train", folder / "texts", "--out", tmp_path / "m", "--number", "length")
    assert refusal(capsys, *arguments) == "--number needs --external"


def test_noise_rates_are_read_from_a_file(folder, tmp_path, capsys):
    rates = tmp_path / "rates.json"
    rates.write_text('\ufeff{"*": {"alpha": 0.2, "beta": 0.01}}')
    chosen = ("--out", tmp_path / "m", "--preset", "fast", "--noise", rates)
    assert status("train", folder / "texts", *chosen) == 0
    assert "corrected for noise: brier" in capsys.readouterr().out
    assert "corrected" in load(tmp_path / "m").manifest["metrics"]
    assert load(tmp_path / "m").calibration_rows.beta.tolist() == [0.01] * 80


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[1]", "give an object"),
        ("{", "Expecting property name"),
        ('{"ann": {"alpha": 2}}', "between 0 and 1"),
        ("[" * 100_000, "nested little"),
        (None, "no such file; check the path"),
    ],
)
def test_what_is_no_file_of_noise_rates_is_refused(folder, tmp_path, capsys, content, fault):
    rates = tmp_path / "rates.json"
    if content is not None:
        rates.write_text(content)
    chosen = ("--out", tmp_path / "m", "--noise", rates)
    assert fault in refusal(capsys, "train", folder / "texts", *chosen)


def test_noise_that_cannot_be_estimated_is_refused(folder, tmp_path, capsys):
    chosen = ("--out", tmp_path / "m", "--noise", "estimate")
    assert "50 are needed" in refusal(capsys, "train", folder / "texts", *chosen)


def test_an_artifact_is_replaced_only_on_request(folder, tmp_path, capsys):
    out = shutil.copytree(folder / "texts-model", tmp_path / "model")
    train = ("train", folder / "texts", "--out", out, "--preset", "fast")
    assert refusal(capsys, *train).endswith("add --force to replace it")
    assert status(*train, "--force") == 0
    assert load(out).version != load(folder / "texts-model").version


def test_foreign_folders_and_files_are_never_replaced(folder, tmp_path, capsys):
    (tmp_path / "keep.txt").write_text("mine")
    message = refusal(capsys, "train", folder / "texts", "--out", tmp_path, "--force")
    assert message == f"{tmp_path}: the folder holds other files; name a new or empty folder"
    out = tmp_path / "keep.txt"
    assert "this is a file" in refusal(capsys, "train", folder / "texts", "--out", out, "--force")
    assert out.read_text() == "mine"


@pytest.mark.parametrize("out", ["keep.txt/model", "x" * 250, "deep/" + "x" * 250])
def test_a_target_that_cannot_be_written_is_refused_before_the_work(
    folder, tmp_path, capsys, monkeypatch, out
):
    (tmp_path / "keep.txt").write_text("mine")
    monkeypatch.setattr(dataset_files, "read_dataset", lambda *_, **__: pytest.fail("work began"))
    message = refusal(capsys, "train", folder / "texts", "--out", tmp_path / out)
    assert message.endswith("; name another folder")
    assert [path.name for path in tmp_path.iterdir() if path.name[0] == "."] == []


def test_a_model_is_written_to_the_current_folder_if_it_is_empty(
    folder, tmp_path, capsys, monkeypatch
):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert status("train", folder / "texts", "--out", ".", "--preset", "fast") == 0
    assert load(tmp_path / "empty").kind == "text"


def test_a_bad_line_ends_training_with_its_name(tmp_path, capsys):
    path = write_lines(tmp_path / "a.jsonl", [*notes(20), {"id": "x", "text": 3, "labels": []}])
    message = refusal(capsys, "train", path, "--out", tmp_path / "m")
    assert message == f"{path}, line 21: 'text' is a number; give a string"
    assert not (tmp_path / "m").exists()


def test_two_documents_are_too_few(tmp_path, capsys):
    path = write_lines(tmp_path / "a.jsonl", notes(2))
    assert "only 2 documents" in refusal(capsys, "train", path, "--out", tmp_path / "m")


def test_one_label_set_for_all_trains_with_a_warning(tmp_path, capsys):
    same = [record | {"labels": ["only"]} for record in notes(30)]
    path = write_lines(tmp_path / "a.jsonl", same)
    assert status("train", path, "--out", tmp_path / "m", "--preset", "fast") == 0
    assert "setwise: warning: " in (err := capsys.readouterr().err)
    assert "every document carries the same label set" in err
    (first, *_) = predicted(capsys, tmp_path / "m", path)
    assert first["labels"] == ["only"]


# --- evaluate -----------------------------------------------------------------------------------


def test_evaluation_prints_every_metric_as_json(folder, capsys):
    for kind in ("texts", "vectors"):
        assert status("evaluate", folder / f"{kind}-model", folder / kind, "--json") == 0
        metrics = json.loads(capsys.readouterr().out)
        assert metrics["n"] == {"texts": 40, "vectors": 60}[kind]
        assert metrics["set_accuracy"] > 0.8
        assert [point["target"] for point in metrics["automation"]] == [0.8, 0.9, 0.95, 0.99]
        assert metrics["documents_per_second"] > 0
        assert metrics["train_seconds"] > 0


def test_evaluation_agrees_with_prediction(folder, capsys):
    test = folder / "texts" / "test.jsonl"
    assert status("evaluate", folder / "texts-model", test, "--json") == 0
    metrics = json.loads(capsys.readouterr().out)
    predictions = predicted(capsys, folder / "texts-model", test)
    truth = [sorted(json.loads(line)["labels"]) for line in test.read_text().splitlines()]
    right = [sorted(p["labels"]) == y for p, y in zip(predictions, truth, strict=True)]
    assert metrics["set_accuracy"] == pytest.approx(np.mean(right))
    wrong_by = [p["confidence"] - v for p, v in zip(predictions, right, strict=True)]
    assert metrics["brier"] == pytest.approx(np.mean(np.square(wrong_by)))


def test_evaluation_prints_tables_for_people(folder, capsys):
    assert status("evaluate", folder / "texts-model", folder / "texts") == 0
    out = capsys.readouterr().out
    assert "at least (95 %)" in out
    assert "set_accuracy" in out
    assert "target accuracy" in out


def test_a_report_and_a_comparison_are_written(folder, tmp_path, capsys):
    path = write_lines(tmp_path / "new.jsonl", notes(40, seed=2))
    target, model = tmp_path / "report.html", str(folder / "texts-model")
    assert status("evaluate", model, path, "--report", target, "--compare", model, "--labels") == 0
    out, _ = capsys.readouterr()
    assert "only" in out.splitlines()[-1]
    assert "further checks" in out
    assert target.read_text("utf-8").startswith("<!doctype html>")


def test_a_model_is_not_written_into_a_link_to_itself(folder, tmp_path, capsys):
    (tmp_path / "model").symlink_to("model")
    line = refusal(capsys, "train", folder / "texts", "--out", tmp_path / "model")
    assert line == f"{tmp_path / 'model'}: this link leads to itself; name a folder"


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        (("--target", "95"), "--target is 95; give a share from 0 to 1; 95 % is 0.95"),
        (("--report", "report.pdf"), "report.pdf: this would be no .pdf file"),
    ],
)
def test_an_option_is_refused_before_any_work(folder, capsys, option, fault):
    line = refusal(capsys, "evaluate", folder / "texts-model", folder / "texts", *option)
    assert line.startswith(fault)


def test_an_accuracy_of_three_documents_has_its_bounds(folder, tmp_path, capsys):
    path = write_lines(tmp_path / "three.jsonl", notes(3, seed=2))
    assert status("evaluate", folder / "texts-model", path) == 0
    out, err = capsys.readouterr()
    assert "3 documents say little: with 90 % certainty, 37 % to 100 % of the label sets" in err
    assert "0.3684" in out, "0.05 ** (1 / 3)"


def test_a_label_that_training_never_saw_is_a_miss_with_a_warning(folder, tmp_path, capsys):
    records = [record | {"labels": [*record["labels"], "new"]} for record in notes(10, seed=2)]
    path = write_lines(tmp_path / "a.jsonl", records)
    assert status("evaluate", folder / "texts-model", path, "--json") == 0
    out, err = capsys.readouterr()
    assert "1 label unknown to the model, counted as misses: 'new'" in err
    metrics = json.loads(out)
    assert (metrics["n_labels"], metrics["set_accuracy"], metrics["oracle_accuracy"]) == (4, 0, 0)


def test_the_wrong_kind_of_data_is_refused(folder, capsys):
    message = refusal(capsys, "evaluate", folder / "texts-model", folder / "vectors")
    assert message.endswith("holds vectors, but the model takes text")


def test_what_is_no_artifact_is_refused(folder, tmp_path, capsys):
    for command in ("evaluate", "predict"):
        assert str(tmp_path) in refusal(capsys, command, tmp_path, folder / "texts")


# --- predict ------------------------------------------------------------------------------------


def test_predictions_have_the_form_of_the_contract(folder, tmp_path, capsys):
    path = write_lines(
        tmp_path / "in.jsonl", [{"id": "a", "text": "chest pain, cough"}, {"text": "?"}]
    )
    first, second = predicted(capsys, folder / "texts-model", path, "--top", "2")
    predictor = load(folder / "texts-model")
    assert first["id"] == "a"
    assert sorted(first["labels"]) == ["heart", "lung"]
    assert first["confidence"] == first["candidates"][0]["confidence"]
    assert first["labels"] == first["candidates"][0]["labels"]
    assert len(first["candidates"]) == 2
    assert set(first["candidates"][0]) == {"labels", "confidence", "score"}
    assert set(first["marginals"][0]) == {"label", "probability"}
    assert first["model_version"] == predictor.version
    assert first["calibrator_version"] == predictor.calibrator_version
    assert first["known_features"] == 6  # three words and how they begin
    assert (second["id"], second["known_features"]) == (None, 0)


def test_named_features_are_predicted(folder, tmp_path, capsys):
    path = write_lines(tmp_path / "in.jsonl", [{"features": {"f2": 1, "f5": 0.5}}])
    (prediction,) = predicted(capsys, folder / "vectors-model", path)
    assert prediction["labels"] == ["lung"]


@pytest.mark.parametrize(
    ("kind", "record", "fault"),
    [
        (
            "texts",
            {"features": {"f1": 1}},
            'features: this model reads text, not features; give "text"',
        ),
        ("vectors", {"text": "a"}, "text: this model reads features, not text; "),
        (
            "vectors",
            {"features": {"f9": 1}},
            "features: unknown feature 'f9'; give features of the model",
        ),
        ("texts", {"id": "a"}, "no 'text' or 'features'"),
    ],
)
def test_a_document_the_model_cannot_take_is_named(folder, tmp_path, capsys, kind, record, fault):
    path = write_lines(tmp_path / "in.jsonl", [record])
    message = refusal(capsys, "predict", folder / f"{kind}-model", path)
    assert message.startswith(f"{path}, line 1: {fault}")


def test_a_file_is_written_whole_or_not_at_all(folder, tmp_path, capsys):
    good = write_lines(tmp_path / "in.jsonl", notes(300, seed=4))
    out = tmp_path / "out.jsonl"
    assert status("predict", folder / "texts-model", good, "--out", out) == 0
    assert capsys.readouterr().out == ""
    text = out.read_text()
    assert [json.loads(line)["id"] for line in text.splitlines()] == [f"n{i}" for i in range(300)]
    assert (out.stat().st_mode & 0o777) == 0o666 & ~_umask()
    bad = write_lines(tmp_path / "bad.jsonl", [*notes(300), {"text": 1}])
    assert "line 301" in refusal(capsys, "predict", folder / "texts-model", bad, "--out", out)
    assert out.read_text() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bad.jsonl",
        "in.jsonl",
        "out.jsonl",
    ]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_target_that_cannot_be_written_is_refused(folder, tmp_path, capsys):
    path = write_lines(tmp_path / "in.jsonl", notes(1))
    predict = ("predict", folder / "texts-model", path, "--out")
    assert "this is a folder" in refusal(capsys, *predict, tmp_path)
    assert "cannot be written" in refusal(capsys, *predict, tmp_path / "no" / "where.jsonl")


@pytest.mark.parametrize("name", ["out.csv.gz", "out.TSV", "out.xlsx", "out.parquet.zip"])
def test_a_name_that_promises_another_format_is_refused(folder, tmp_path, capsys, name):
    path = write_lines(tmp_path / "in.jsonl", notes(1))
    line = refusal(capsys, "predict", folder / "texts-model", path, "--out", tmp_path / name)
    assert f"this would be no {(tmp_path / name).suffix.lower()} file; end its name in" in line
    assert not (tmp_path / name).exists()


# --- files of other tools -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV file with names of columns of its own."""
    path = tmp_path_factory.mktemp("table") / "notes.csv"
    rows = [(one["text"], "|".join(one["labels"])) for one in notes(80)]
    path.write_text("note,codes\n" + "".join(f"{text},{codes}\n" for text, codes in rows))
    return path


def test_a_table_is_trained_on_tested_on_and_predicted(table, tmp_path, capsys):
    out = tmp_path / "model"
    columns = ("--text-column", "note", "--labels-column", "codes", "--label-separator", "|")
    train = ("train", table, "--out", out, "--method", "br", "--preset", "fast", "--json")
    assert status(*train, *columns) == 0
    assert json.loads(capsys.readouterr().out)["n_labels"] == 3
    assert status("evaluate", out, table, "--json", *columns) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["set_accuracy"] > 0.8
    # The model remembers the columns, and files without them are read as ever.
    assert status("evaluate", out, table, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["automation"] == body["automation"]
    own = write_lines(tmp_path / "own.jsonl", notes(80))
    assert status("evaluate", out, own, "--json") == 0
    assert json.loads(capsys.readouterr().out)["set_accuracy"] == body["set_accuracy"]
    both = tmp_path / "both.csv"
    both.write_text("note,text\nx,cough\n")
    assert predicted(capsys, out, both) != predicted(capsys, out, both, "--text-column", "text")
    predictions = predicted(capsys, out, table)
    assert [one["id"] for one in predictions] == [str(i) for i in range(1, 81)]
    for name in ("table.csv", "table.parquet"):
        target = tmp_path / name
        assert status("predict", out, table, "--text-column", "note", "--out", target) == 0
    written = parquet.read_table(tmp_path / "table.parquet").to_pylist()
    assert written == [{column: one[column] for column in written[0]} for one in predictions]
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["labels"]) for row in rows] == [one["labels"] for one in predictions]
    assert [float(row["confidence"]) for row in rows] == [one["confidence"] for one in predictions]


def test_predictions_become_tasks_of_label_studio(folder, tmp_path, capsys):
    texts = write_lines(tmp_path / "in.jsonl", notes(3))
    predictions, out = tmp_path / "out.jsonl", tmp_path / "tasks.json"
    assert status("predict", folder / "texts-model", texts, "--out", predictions) == 0
    config = tmp_path / "config.xml"
    convert = ("label-studio", predictions, "--out", out, "--config", config)
    assert "no text of the document 'n0'" in refusal(capsys, *convert)
    assert not out.exists()
    assert status(*convert, "--texts", texts) == 0
    assert [one["data"]["id"] for one in json.loads(out.read_text())] == ["n0", "n1", "n2"]
    assert config.read_text().count("<Choice ") == 3
    assert status(*convert, "--texts", texts, "--review") == 0
    assert json.loads(out.read_text()) == []


def test_a_bad_row_of_a_table_ends_with_its_name(table, tmp_path, capsys):
    train = ("train", table, "--out", tmp_path / "m")
    message = refusal(capsys, *train)
    assert message.startswith(f"{table}, line 2: there is no column 'text'; name it (--text-column")
    message = refusal(capsys, *train, "--format", "excel")
    assert message.startswith("unknown format 'excel'; the formats are jsonl, huggingface, csv")


def test_vectors_are_predicted_from_the_files_that_train_reads(folder, capsys):
    path = folder / "vectors" / "test.svm"
    assert len(predicted(capsys, folder / "vectors-model", path)) == 60


# --- the command itself -------------------------------------------------------------------------


def run(*arguments, **options):
    command = [str(Path(sys.executable).with_name("setwise")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S, **options)


@pytest.mark.slow
def test_documents_stream_through_pipes(folder):
    lines = "".join(json.dumps(record) + "\n" for record in notes(5)).encode()
    done = run("predict", folder / "texts-model", "-", input=gzip.compress(lines))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [
        f"n{i}" for i in range(5)
    ]
    assert done.stderr == b""


@pytest.mark.slow
def test_a_reader_that_leaves_early_hears_nothing_more(folder, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", notes(2000))
    setwise = Path(sys.executable).with_name("setwise")
    command = f"{setwise} predict {folder / 'texts-model'} {path} | head -n 1"
    process = subprocess.run(
        command, shell=True, capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert process.stdout.count(b"\n") == 1
    assert process.stderr == b""


HEAVY = ("alembic", "fastapi", "models", "numba", "numpy", "pydantic", "scipy", "sklearn",
         "sqlalchemy", "structlog", "uvicorn", "xgboost")  # fmt: skip


def test_help_lists_every_command_at_once():
    """At once: nothing that takes long to import is imported."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from setwise.service.cli import main\n"
        "main(['--help'])\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    for command in ("train", "evaluate", "predict"):
        assert f"  {command} " in process.stdout
    imported = set(process.stderr.split())
    assert "typer" in imported
    assert not imported & set(HEAVY), "a command module imports something heavy at its top"


def test_commands_on_the_database_load_no_learner():
    program = "import sys, setwise.service.build; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"numba", "scipy.stats", "sklearn", "xgboost"} & set(process.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'; see setwise --help"),
        (["train", "x"], "Missing option '--out'; see setwise --help"),
        (["train", "x", "--out", "y", "--jobs", "0"], "Invalid value for '--jobs': "),
        (
            ["train", "x", "--out", "y", "--optimize", "recall"],
            "unknown objective 'recall'; the objectives are set-accuracy, f1, hamming,",
        ),
        (
            ["train", "x", "--out", "y", "--texts-by", "letters"],
            "unknown text reading 'letters'; the text readings are words, characters",
        ),
        (["train", "x", "--out", "y", "--preset", "slow"], "unknown preset 'slow'; the presets "),
        (["predict", "x", "y", "--depth", "3"], "No such option: --depth"),
    ],
)
def test_usage_errors_take_one_line(capsys, arguments, message):
    assert refusal(capsys, *arguments).startswith(message)


def test_a_text_or_files_of_texts_are_documents(folder, tmp_path, capsys):
    model = folder / "texts-model"
    texts = ["\ufefffever and\ncough", "a rash"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    documents = [{"id": "0.txt", "text": texts[0][1:]}, {"id": "1.txt", "text": texts[1]}]
    expected = predicted(capsys, model, write_lines(tmp_path / "in.jsonl", documents))
    assert predicted(capsys, model, tmp_path) == expected
    assert predicted(capsys, model, tmp_path / "1.txt") == expected[1:]
    assert predicted(capsys, model, "--text", texts[1]) == [expected[1] | {"id": None}]
    for arguments in ((), (tmp_path, "--text", "x")):
        assert "or give one --text" in refusal(capsys, "predict", model, *arguments)


@pytest.mark.parametrize(("option", "id_"), [((), "-17"), (("--spreadsheet",), "'-17")])
def test_ids_go_out_as_they_came_unless_a_spreadsheet_reads_them(folder, tmp_path, option, id_):
    model, out = folder / "texts-model", tmp_path / "out.csv"
    path = write_lines(tmp_path / "in.jsonl", [{"id": "-17", "text": "a rash"}])
    assert status("predict", model, path, "--out", out, *option) == 0
    with out.open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [id_]
