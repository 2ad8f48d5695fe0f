"""What the service exports is read by the commands that the documentation names for it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.settings import Settings
from tests.cli.running import refusal, status
from tests.fakes import FakePredictor
from tests.kit.edge import Service, build_service

FAST = ("--method", "br", "--preset", "fast")
N = 24
Export = Callable[..., Path]


def fill(service: Service) -> None:
    """Predict texts that say their labels, let people review them, report outcomes."""
    reviewers = ["ann", "ben"]
    for name in reviewers:
        service.key(name, Role.REVIEWER)
    for number in range(N):
        text = f"{'wheat' if number % 2 else 'corn'} number {number}"
        answer = (
            {"scores": {"a": 0.9, "b": 0.2}} if number % 3 else {"candidates": [{"labels": []}]}
        )
        document = {"id": f"=note {number}", "text": text}
        if service.predictors.predictor is not None and service.predictors.predictor.external:
            document |= answer
        body = {"document": document}
        made = service.post("/v1/predictions", by="client", json=body).json()
        outcome = {"labels": ["a"], "source": "billing"}
        service.post(f"/v1/predictions/{made['id']}/outcome", by="client", json=outcome)
    for number in range(N):
        by = reviewers[number % 2]
        task = service.post("/v1/reviews/claim", by=by).json()
        labels = ["a", "b"] if "wheat" in task["document"]["text"] else ["a"]
        response = service.post(
            f"/v1/reviews/{task['id']}/complete",
            by=by,
            json={"labels": labels},
            headers={"If-Match": f'"{task["version"]}"'},
        )
        assert response.status_code == 200, response.text


@pytest.fixture(scope="module", params=["texts", "answers"])
def export(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Return a function that writes an export to a file."""
    service = build_service(Settings())
    service.predictors.predictor = FakePredictor(external=request.param == "answers")
    fill(service)

    def written(what: str, *, content: bool = True, form: str = "jsonl") -> Path:
        path = "/v1/documents/export" if what == "documents" else f"/v1/exports/{what}"
        answer = service.get(f"{path}?content={str(content).lower()}&format={form}", by="admin")
        assert answer.status_code == 200, answer.text
        file = tmp_path_factory.mktemp("export") / f"{what}.{form}"
        file.write_bytes(answer.content)
        return file

    return written


@pytest.fixture(scope="module")
def model(export: Export, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of texts that learnt from annotations."""
    folder = tmp_path_factory.mktemp("model") / "model"
    assert status("train", export("annotations"), "--out", folder, *FAST) == 0
    return folder


@pytest.mark.parametrize("what", ["predictions", "documents"])
def test_predictions_become_tasks(export: Export, tmp_path: Path, what: str) -> None:
    out, config = tmp_path / "tasks.json", tmp_path / "interface.xml"
    assert status("label-studio", export(what), "--out", out, "--config", config) == 0
    tasks = json.loads(out.read_text())
    assert len(tasks) == N
    assert all(task["predictions"][0]["result"] for task in tasks)
    assert '"b"' in config.read_text()


def test_predictions_without_content_become_tasks_of_the_documents(
    export: Export, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.jsonl"
    rows = map(json.loads, export("predictions").read_text().splitlines())
    texts.write_text(
        "".join(json.dumps({"id": row["document_id"], "text": row["text"]}) + "\n" for row in rows)
    )
    out, bare = tmp_path / "tasks.json", export("predictions", content=False)
    assert status("label-studio", bare, "--texts", texts, "--out", out) == 0
    assert len(json.loads(out.read_text())) == N


def test_annotations_are_learnt_evaluated_and_predicted(
    export: Export, model: Path, tmp_path: Path
) -> None:
    annotations, out = export("annotations"), tmp_path / "predicted.jsonl"
    assert status("evaluate", model, annotations, "--json") == 0
    assert status("predict", model, annotations, "--out", out) == 0
    assert len(out.read_text().splitlines()) == N


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("what", ["predictions", "documents", "outcomes"])
def test_exports_of_texts_are_predicted_under_their_ids(
    export: Export, model: Path, tmp_path: Path, what: str, form: str
) -> None:
    out = tmp_path / "predicted.jsonl"
    assert status("predict", model, export(what, form=form), "--out", out) == 0
    ids = {json.loads(line)["id"] for line in out.read_text().splitlines()}
    assert len(ids) == N
    assert form == "csv" or ids == {f"=note {number}" for number in range(N)}


@pytest.mark.parametrize("what", ["predictions", "documents", "outcomes"])
def test_what_nobody_has_checked_is_not_learnt(
    export: Export, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    line = refusal(capsys, "train", str(export(what)), "--out", str(tmp_path / "model"))
    assert "learn from GET /v1/exports/annotations" in line


def test_annotations_as_a_table_are_refused(
    export: Export, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(export("annotations", form="csv"))
    line = refusal(capsys, "train", table, "--out", str(tmp_path / "model"))
    assert "export it as JSON Lines" in line


@pytest.mark.parametrize("export", ["answers"], indirect=True)
def test_answers_of_another_model_are_learnt_from_annotations(
    export: Export, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    annotations = export("annotations")
    options = ("--external", "--preset", "fast")
    assert status("train", annotations, "--out", folder, *options) == 0
    assert status("evaluate", folder, annotations) == 0
