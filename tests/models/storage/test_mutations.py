"""Artifacts changed anywhere are refused when loaded, or predict."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from setwise.models.data.document_error import DocumentError
from setwise.models.labels.given_scores import GivenScores
from setwise.models.options import MIN_DOCUMENTS_BEST, TrainingOptions
from setwise.models.predictions import SetPredictions
from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import load, read_calibration_rows, save
from setwise.models.storage.sealed_folder import ArtifactError
from setwise.models.training_external import start_external
from setwise.models.voters.voters import VOTERS
from tests.made_once import made_once
from tests.models import corpora
from tests.models.conftest import quietly
from tests.models.storage import mutations
from tests.models.test_units import measured

TEXTS = [*corpora.texts(20, seed=5).texts, "", "nothing known"]
VECTORS = corpora.vectors(20, seed=5).X

MODELS = {
    "fast": (measured(), TrainingOptions(preset="fast", n_jobs=1)),
    "best": (corpora.texts(MIN_DOCUMENTS_BEST), TrainingOptions(preset="best", n_jobs=1)),
    "dense": (measured(MIN_DOCUMENTS_BEST), TrainingOptions(preset="best", n_jobs=1)),
    "mixture": (
        corpora.vectors(150),
        TrainingOptions(method="cbm", optimize="f1", n_components=3, n_folds=2, alpha=1e-3),
    ),
    "boosted": (
        corpora.texts(100),
        TrainingOptions(
            method="cbm", experts="boosted", preset="paper", n_components=2, n_folds=2, alpha=1e-3
        ),
    ),
    "isotonic": (
        corpora.texts(120),
        TrainingOptions(
            preset="paper", calibrator="cardinality-isotonic", optimize="macro-f1", alpha=1e-3
        ),
    ),
    "clusters": (
        corpora.texts(150),
        TrainingOptions(preset="paper", labels_by="clusters", n_folds=2, alpha=1e-3, n_jobs=1),
    ),
    "characters": (
        corpora.texts(120),
        TrainingOptions(preset="fast", texts_by="characters", n_jobs=1),
    ),
    "external": (
        corpora.answered(corpora.texts(120)),
        TrainingOptions(preset="fast", optimize="f1", n_jobs=1),
    ),
}


ANSWERED = corpora.answered(corpora.texts(20, seed=5))


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of models, with what each predicted before it was saved."""

    def make(folder: Path) -> None:
        models = {name: quietly(*parts) for name, parts in MODELS.items()}
        models["unproven"] = start_external(ANSWERED.label_names)
        for name, model in models.items():
            save(model, folder / name)
            np.savez(folder / f"{name}.npz", **predicted(model))

    return made_once(tmp_path_factory, "mutations", make)


def predicted(model: SetPredictor) -> dict[str, np.ndarray]:
    found_predictions = predictions(model)
    shown = {"confidence": found_predictions.confidence, "marginals": found_predictions.marginals}
    return {**shown, "labels": found_predictions.candidates.labels}


def predictions(model: SetPredictor) -> SetPredictions:
    if model.kind == "external":
        return model.predict_answers(ANSWERED.answers, ANSWERED.texts)
    return model.predict_texts(TEXTS) if model.kind == "text" else model.predict(VECTORS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "unproven"])
def test_every_part_predicts_bit_for_bit_as_before(artifacts: Path, name: str) -> None:
    again, before = load(artifacts / name), np.load(artifacts / f"{name}.npz")
    for part, found in predicted(again).items():
        np.testing.assert_array_equal(found, before[part])
    if name == "dense":
        assert again.voters.names == tuple(VOTERS)


def assert_predicts(model: SetPredictor, what: str) -> None:
    if isinstance(model.base, GivenScores) and not model.base.reads_sets_:
        # A model that reads scores alone is sound; the answers here have none.
        with pytest.raises(DocumentError, match="the model learnt from: scores"):
            predictions(model)
        return
    try:
        found_predictions = predictions(model)
    except ValueError as error:
        fault = str(error)
    else:
        fault = None
    if fault is not None:
        # Columns of tiny values have such a scale; a usual value beside them is refused.
        assert "scale holds" in what, what
        assert "too large beside those of training" in fault, what
        return
    assert ((found_predictions.confidence >= 0.0) & (found_predictions.confidence <= 1.0)).all(), (
        what
    )
    assert ((found_predictions.marginals >= 0.0) & (found_predictions.marginals <= 1.0)).all(), what
    assert (np.diff(found_predictions.candidates.doc_indptr) > 0).all(), what


@pytest.mark.slow
@pytest.mark.parametrize("changes", [12, pytest.param(300, marks=pytest.mark.verify)])
@pytest.mark.parametrize("name", [*MODELS, "unproven"])
def test_a_changed_artifact_is_refused_or_predicts(
    artifacts: Path, tmp_path: Path, name: str, changes: int
) -> None:
    assert_predicts(load(artifacts / name), name)
    count = 0
    for seed in range(changes):
        what, files = mutations.mutated(artifacts / name, random.Random(seed))
        mutations.write(artifacts / name, tmp_path / "model", files)
        try:
            model = load(tmp_path / "model")
        except ArtifactError:
            count += 1
        else:
            assert_predicts(model, what)
    assert changes / 2 <= count <= changes


def changed(artifacts: Path, name: str, target: Path, file: str, change: object) -> Path:
    """Return a copy of an artifact in which one setting or array has changed."""
    files = {
        path.name: path.read_bytes()
        for path in (artifacts / name).iterdir()
        if path.name != "manifest.json"
    }
    assert callable(change)
    if file.endswith(".json"):
        document = json.loads(files[file])
        change(document)
        files[file] = json.dumps(document).encode()
    else:
        arrays = dict(safetensors.numpy.load(files[file]))
        change(arrays)
        files[file] = safetensors.numpy.save(arrays)
    mutations.write(artifacts / name, target, files)
    return target


NAMELESS = ["", " ", "a\0b", "\ud800", 1, True, None, "label 1", ["a"]]
"""What is no name of the first label; "label 1" is the second."""


@pytest.mark.parametrize("label", NAMELESS)
def test_labels_that_are_no_names_are_refused(
    artifacts: Path, tmp_path: Path, label: object
) -> None:
    def change(model: dict[str, list[object]]) -> None:
        model["label_names"][0] = label

    folder = changed(artifacts, "fast", tmp_path / "model", "model.json", change)
    for read in (load, read_calibration_rows):
        with pytest.raises(ArtifactError, match=r"label_names|not valid JSON"):
            read(folder)


@pytest.mark.parametrize("value", [True, 0, -1, 10**30, 30.0, "30", None, [30]])
def test_a_number_of_neighbours_that_is_none_is_refused(
    artifacts: Path, tmp_path: Path, value: object
) -> None:
    def change(voters: dict[str, dict[str, dict[str, dict[str, object]]]]) -> None:
        own = next(one for one in voters["voters"].values() if "n_neighbours" in one["parameters"])
        own["parameters"]["n_neighbours"] = value

    folder = changed(artifacts, "best", tmp_path / "model", "voters.json", change)
    with pytest.raises(ArtifactError, match="part 'voters' does not fit: parameter 'n_neighbours'"):
        load(folder)


@pytest.mark.parametrize("kind", ["odd type", "many dimensions"])
def test_arrays_that_numpy_lacks_are_refused(artifacts: Path, tmp_path: Path, kind: str) -> None:
    files = {path.name: path.read_bytes() for path in (artifacts / "fast").iterdir()}
    del files["manifest.json"]
    sound = files["base.safetensors"]
    for seed in range(20):
        files["base.safetensors"] = mutations._odd_header(
            sound, "intercept", kind, random.Random(seed)
        )
        mutations.write(artifacts / "fast", tmp_path / "model", files)
        with pytest.raises(ArtifactError, match="base"):
            load(tmp_path / "model")


@pytest.mark.parametrize("number", mutations.RAW)
def test_numbers_that_json_lacks_are_refused(artifacts: Path, tmp_path: Path, number: str) -> None:
    files = {path.name: path.read_bytes() for path in (artifacts / "fast").iterdir()}
    manifest = files["manifest.json"]
    mutations.write(
        artifacts / "fast",
        tmp_path / "model",
        {name: content for name, content in files.items() if name != "manifest.json"},
    )
    spoiled_content = manifest.replace(
        b'"metrics": {', b'"metrics": {"x": ' + number.encode() + b",", 1
    )
    (tmp_path / "model" / "manifest.json").write_bytes(spoiled_content)
    with pytest.raises(ArtifactError, match="no finite number"):
        load(tmp_path / "model")
