"""An artifact in MLflow predicts what it predicts alone."""

# ruff: noqa: PLC0415 - MLflow imports slowly, and warns of its own code

import warnings

import pytest

from setwise.integrations.mlflow import log_model, save_model
from setwise.models.storage.artifacts import load
from setwise.models.storage.sealed_folder import ArtifactError

pytestmark = pytest.mark.slow

TEXTS = ["storm and flood", "harvest of wheat"]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(action="ignore"):
        yield


def test_a_logged_artifact_predicts_texts(artifacts, tmp_path, monkeypatch):
    import mlflow.pyfunc
    import pandas as pd

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    with mlflow.start_run():
        info = log_model(artifacts.other_text, "notes")
    alone = load(artifacts.other_text)
    assert info.metadata["model_version"] == alone.version
    found = mlflow.pyfunc.load_model(info.model_uri).predict(pd.DataFrame({"text": TEXTS}))
    best = [alone.predict_texts(TEXTS).ranked(row)[0] for row in range(2)]
    assert found["labels"].tolist() == [list(one.labels) for one in best]
    assert found["confidence"].tolist() == [one.confidence for one in best]


def test_a_saved_artifact_predicts_vectors_and_holds_no_code(artifacts, tmp_path):
    import mlflow.pyfunc
    import pandas as pd

    save_model(artifacts.vectors, tmp_path / "saved")
    assert not list((tmp_path / "saved").rglob("*.pkl"))
    alone = load(artifacts.vectors)
    rows = [{alone.feature_names[0]: 1.0}, {alone.feature_names[1]: 2.0}]
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    found = served.predict(pd.DataFrame(rows, index=["a", "b"]))
    assert found.index.tolist() == ["a", "b"]
    assert found["confidence"].tolist() == alone.predict_features(rows).top_confidence().tolist()


def test_what_is_no_artifact_is_not_saved(tmp_path):
    with pytest.raises(ArtifactError):
        save_model(tmp_path, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
