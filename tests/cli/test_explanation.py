"""``model explain``: tables, pages and JSON about models of texts and of vectors."""

import json

import pytest

from setwise.models.storage.artifacts import save
from setwise.models.training_external import start_external
from tests.cli.running import refusal, status
from tests.made_once import made_once
from tests.trained import LABELS, documents

EXPLAIN = ("model", "explain")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """An artifact of `cbm-rerank`, and three documents to explain."""
    return made_once(tmp_path_factory, "mixture", make_mixture)


def make_mixture(folder):
    for name, n, seed in (("train", 200, 5), ("new", 3, 6)):
        lines = (json.dumps(document) + "\n" for document in documents(n, seed))
        (folder / f"{name}.jsonl").write_text("".join(lines))
    train = ("train", folder / "train.jsonl", "--out", folder / "model")
    assert status(*train, "--method", "cbm-rerank") == 0


def explained(capsys, *arguments):
    capsys.readouterr()
    assert status(*EXPLAIN, *arguments) == 0
    return capsys.readouterr().out


def test_a_mixture_is_shown_component_by_component(mixture, capsys):
    table = explained(capsys, mixture / "model")
    head, *rows = table.splitlines()
    assert head.split() == ["component", "share", "labels", "terms"]
    body = json.loads(explained(capsys, mixture / "model", "--json"))
    assert body["method"] == "cbm-rerank"
    assert len(rows) >= len(body["components"]) >= 2
    for component in body["components"]:
        assert 0.0 <= component["share"] <= 1.0
        assert all(0.0 <= each["rate"] <= 1.0 for each in component["labels"])
    assert [label["label"] for label in body["labels"]] == list(LABELS)


def test_independent_labels_are_shown_by_their_terms(artifacts, capsys):
    body = json.loads(explained(capsys, artifacts.text, "--json", "--terms", "4"))
    assert body["components"] == []
    for label in body["labels"]:
        own = LABELS[label["label"]]
        assert label["terms"][0]["name"] in own
        assert len(label["terms"]) <= 4
    table = explained(capsys, artifacts.text)
    assert table.splitlines()[0].split() == ["label", "terms"]
    assert "violin" in next(line for line in table.splitlines() if "music" in line)


def test_a_page_holds_one_markdown_table_row_a_component_and_a_label(mixture, capsys):
    page = explained(capsys, mixture / "model", "--markdown")
    body = json.loads(explained(capsys, mixture / "model", "--json"))
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(body["components"]) + len(body["labels"])
    assert all(line.count("|") in {3, 5} for line in rows)


def test_documents_are_explained_as_they_are_predicted(mixture, capsys):
    new = mixture / "new.jsonl"
    capsys.readouterr()
    assert status("predict", mixture / "model", new) == 0
    predicted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    body = json.loads(explained(capsys, mixture / "model", "--document", new, "--json"))
    assert len(body["items"]) == 3
    for item, prediction in zip(body["items"], predicted, strict=True):
        assert item["id"] == prediction["id"]
        assert item["labels"] == prediction["labels"]
        assert item["confidence"] == prediction["confidence"]
        assert body["model_version"] == prediction["model_version"]
        assert [reason["label"] for reason in item["reasons"]] == item["labels"]
    story = explained(capsys, mixture / "model", "--document", new)
    for item in body["items"]:
        assert f"{item['id']}: " in story
        assert all(reason["sentence"] in story for reason in item["reasons"])
    assert "### doc-0: " in explained(capsys, mixture / "model", "--document", new, "--markdown")


def test_documents_of_features_are_explained(artifacts, tmp_path, capsys):
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"features": {"about music": 1.5, "length": 0.1}}) + "\n")
    story = explained(capsys, artifacts.vectors, "--document", file)
    assert story.startswith("document: `music`")
    assert "about music +" in story


def test_another_models_answer_is_the_evidence(tmp_path, capsys):
    save(start_external(["grain", "trade"]), tmp_path / "started")
    file = tmp_path / "answers.jsonl"
    file.write_text('\n{"answer": ["no"]}\n')
    assert "line 2" in refusal(capsys, *EXPLAIN, tmp_path / "started", "--document", file)
    sets = [["grain"], ["grain", "trade"], ["grain"], ["grain"]]
    answer = {"candidates": [{"labels": labels} for labels in sets]}
    file.write_text(json.dumps(answer | {"id": "note-1"}) + "\n")
    story = explained(capsys, tmp_path / "started", "--document", file)
    assert story.startswith("note-1: `grain`")
    assert "in 4 of 4 answers" in story


def test_what_cannot_be_explained_is_one_line(artifacts, mixture, tmp_path, capsys):
    message = refusal(capsys, *EXPLAIN, artifacts.text, "--json", "--markdown")
    assert message.endswith("--markdown and --json exclude each other; choose one")
    assert str(tmp_path) in refusal(capsys, *EXPLAIN, tmp_path)
    message = refusal(
        capsys, *EXPLAIN, artifacts.vectors, "--document", mixture / "new.jsonl", "--json"
    )
    assert "line 1: text: this model reads features, not text" in message
