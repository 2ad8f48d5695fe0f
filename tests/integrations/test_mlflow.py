"""An artifact in MLflow predicts what it predicts alone."""

# ruff: noqa: PLC0415 - MLflow imports slowly, and warns of its own code

import warnings

import pytest

from setwise.integrations.mlflow import _LabelSets, log_model, save_model
from setwise.models.data.document_error import DocumentError
from setwise.models.storage.artifacts import load, save
from setwise.models.storage.sealed_folder import ArtifactError
from setwise.models.training_external import start_external
from tests.models.corpora import answers_of

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


def test_candidates_and_marginals_are_listed_on_request(artifacts, tmp_path):
    import mlflow.pyfunc
    import pandas as pd

    save_model(artifacts.other_text, tmp_path / "saved")
    served, alone = mlflow.pyfunc.load_model(str(tmp_path / "saved")), load(artifacts.other_text)
    predictions = alone.predict_texts(TEXTS)
    found = served.predict(
        pd.DataFrame({"text": TEXTS}), params={"candidates": 2, "marginals": True}
    )
    for row, (sets, marginals) in enumerate(
        zip(found["candidates"], found["marginals"], strict=True)
    ):
        assert [(tuple(one["labels"]), one["confidence"]) for one in sets] == [
            (one.labels, one.confidence) for one in predictions.ranked(row)[:2]
        ]
        assert list(marginals.values()) == predictions.marginals[row].tolist()
    example = served.input_example
    assert served.predict(example)["confidence"].between(0, 1).all()
    assert list(served.predict(example)) == ["labels", "confidence"]


def test_documents_may_be_mappings_and_texts_must_be_strings(artifacts, tmp_path):
    import mlflow.pyfunc
    import pandas as pd

    save_model(artifacts.other_text, tmp_path / "saved")
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    alone = _LabelSets(load(artifacts.other_text))
    expected = served.predict(pd.DataFrame({"text": TEXTS})).to_dict("list")
    for several in ({"text": TEXTS}, [{"text": text} for text in TEXTS]):
        assert served.predict(several).to_dict("list") == expected
        assert alone.predict(several).to_dict("list") == expected
    assert served.predict({"text": TEXTS[0]})["labels"].tolist() == expected["labels"][:1]
    for missing in (None, float("nan")):
        with pytest.raises(DocumentError, match='document 2: there is no "text"'):
            served.predict(pd.DataFrame({"text": [TEXTS[0], missing]}))
    with pytest.raises(TypeError, match="text 1 is of type int; give strings"):
        alone.predict([{"text": TEXTS[0]}, {"text": 7}])


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


def test_a_model_of_answers_reads_them_from_columns(tmp_path):
    import mlflow.pyfunc
    import pandas as pd

    save(start_external(["flood", "storm"]), tmp_path / "started")
    save_model(tmp_path / "started", tmp_path / "saved")
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    rows = [
        {"scores": {"storm": 0.9, "flood": 0.2}},
        {"candidates": [{"labels": ["flood"]}, {"labels": ["storm"], "score": 0.1}]},
        {"labels": ["flood", "storm"]},
        {"scores": {"flood": 0.7}, "labels": []},
    ]
    found = served.predict(pd.DataFrame(rows))
    alone = load(tmp_path / "started")
    expected = alone.predict_answers(answers_of(alone.label_names, rows))
    assert found["confidence"].tolist() == expected.top_confidence().tolist()
    assert found["labels"].tolist()[:3:2] == [["storm"], ["flood", "storm"]]
    with pytest.raises(ValueError, match="'fog'"):
        served.predict(pd.DataFrame([{"labels": ["fog"]}]))
    assert served.predict(pd.DataFrame(rows[:1])).shape == (1, 2)
