"""The model that serves, and how it changes."""

import itertools
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from setwise.models.calibration.recalibration import COLUMNS, ConfidenceCorrection
from setwise.models.data.documents import PredictionInput
from setwise.models.options import TrainingOptions
from setwise.models.predictions import SetPredictions
from setwise.models.predictor import SetPredictor
from setwise.models.sets.decider import SetDecider
from setwise.models.sets.decisions import SharedThreshold
from setwise.models.storage.artifacts import load, save
from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.models.training import train
from setwise.service.domain import errors
from setwise.service.domain.models import ModelVersion, Shadow
from setwise.service.domain.predictions import Document, Refused
from setwise.service.domain.recalibration import Calibration
from setwise.service.runtime.model import RETRY_AFTER_S, ModelRegistry
from setwise.service.runtime.predictor import MOST_MARGINALS, LoadedPredictor
from tests.fakes import START
from tests.kit.clinic import Clinic
from tests.kit.waiting import PATIENCE_S, eventually
from tests.models.corpora import texts
from tests.samples import calibration
from tests.trained import Artifacts, documents


class Store:
    """Loads artifacts from where they were trained; some are missing."""

    def __init__(self, artifacts: Artifacts) -> None:
        self.folders = {"old": artifacts.text, "new": artifacts.other_text}
        self.loads: list[str] = []
        self.calibrators: dict[str, StoredRecalibration] = {}

    def load(self, location: str) -> SetPredictor:
        self.loads.append(location)
        if location not in self.folders:
            raise errors.ModelUnavailable(f"{location} vanished")
        return load(self.folders[location])

    def load_calibrator(self, location: str) -> StoredRecalibration:
        if location not in self.calibrators:
            raise errors.CalibrationDamaged(f"{location} vanished")
        return self.calibrators[location]


class Serving(Clinic):
    """A clinic with a registry, whose seconds are counted by hand."""

    def __init__(self, artifacts: Artifacts, poll_s: float = 0.01) -> None:
        super().__init__()
        self.artifacts, self.seconds, self.silent = Store(artifacts), 0.0, False
        self.registry = ModelRegistry(
            self._begin, self.artifacts, poll_s=poll_s, clock=lambda: self.seconds
        )

    def _begin(self, *, read_only: bool = False) -> Any:
        if self.silent:
            raise errors.StorageUnavailable("asleep")
        return self.begin(read_only=read_only)

    def activate(self, location: str) -> ModelVersion:
        model = self.add(location)
        with self.begin() as transaction:
            transaction.models.activate(model.id, START, self.new_id())
        return model

    def add(self, location: str) -> ModelVersion:
        model = ModelVersion(self.new_id(), self.new_id(), location, {}, False, START)
        with self.begin() as transaction:
            transaction.models.add(model)
        return model

    def shadow(self, location: str) -> ModelVersion:
        model = self.add(location)
        with self.begin() as transaction:
            transaction.comparisons.begin_shadow(Shadow(self.new_id(), model.id, START, "ada"))
        return model


@pytest.fixture
def clinic(artifacts: Artifacts) -> Serving:
    return Serving(artifacts)


def _version(folder: Path) -> str:
    return load(folder).version


def test_without_an_active_model_nothing_serves(clinic: Serving) -> None:
    clinic.registry.follow()
    with pytest.raises(errors.NoModel, match="setwise model add"):
        clinic.registry.active()


def test_before_the_database_says_so_it_is_unknown_whether_there_is_a_model(
    clinic: Serving,
) -> None:
    with pytest.raises(errors.ModelUnavailable) as unknown:
        clinic.registry.active()
    assert not isinstance(unknown.value, errors.NoModel)


def test_an_active_model_that_cannot_be_loaded_is_a_problem_of_its_own(clinic: Serving) -> None:
    model = clinic.activate("missing")
    clinic.registry.follow()
    with pytest.raises(errors.ModelUnreadable, match=f"{model.id}, cannot be loaded"):
        clinic.registry.active()
    clinic.activate("old")
    clinic.registry.follow()
    assert clinic.registry.active().labels


def test_the_active_model_serves_and_gives_way_to_the_next(
    clinic: Serving, artifacts: Artifacts
) -> None:
    clinic.activate("old")
    clinic.registry.follow()
    before = clinic.registry.active()
    clinic.activate("new")
    clinic.registry.follow()
    after = clinic.registry.active()
    assert (before.version, after.version) == (
        _version(artifacts.text),
        _version(artifacts.other_text),
    )
    # A request that holds the old one finishes with it.
    assert before.score([Document(text="judge")])[0].model_version == before.version


def test_a_model_is_loaded_once(clinic: Serving) -> None:
    clinic.activate("old")
    for _ in range(3):
        clinic.registry.follow()
    assert clinic.artifacts.loads == ["old"]


def test_a_model_that_fails_to_load_leaves_the_old_one_serving(clinic: Serving) -> None:
    clinic.activate("old")
    clinic.registry.follow()
    serving = clinic.registry.active()
    clinic.activate("missing")
    with structlog.testing.capture_logs() as lines:
        clinic.registry.follow()
        clinic.registry.follow()
    assert clinic.registry.active() is serving
    assert [line["event"] for line in lines] == ["model.failed"]
    assert lines[0]["still_serving"] == serving.version


def test_a_model_that_failed_is_tried_again_after_a_while(clinic: Serving) -> None:
    clinic.activate("missing")
    clinic.registry.follow()
    clinic.seconds = RETRY_AFTER_S - 1
    clinic.registry.follow()
    assert clinic.artifacts.loads == ["missing"]
    clinic.seconds = RETRY_AFTER_S
    clinic.registry.follow()
    assert clinic.artifacts.loads == ["missing", "missing"]


def test_another_model_is_loaded_at_once_after_a_failure(clinic: Serving) -> None:
    clinic.activate("missing")
    clinic.registry.follow()
    clinic.activate("old")
    clinic.registry.follow()
    assert clinic.registry.active().labels


def test_a_silent_database_leaves_the_model_serving(clinic: Serving) -> None:
    clinic.activate("old")
    clinic.registry.follow()
    clinic.silent = True
    with structlog.testing.capture_logs() as lines:
        clinic.registry.follow()
        clinic.registry.follow()
    assert clinic.registry.active().labels
    assert [line["event"] for line in lines] == ["model.unknown"]  # said once
    clinic.silent = False
    clinic.activate("new")
    clinic.registry.follow()
    assert clinic.artifacts.loads == ["old", "new"]


def test_a_start_that_does_not_wait_says_what_is_missing(artifacts: Artifacts) -> None:
    clinic = Serving(artifacts)
    clinic.activate("old")
    may_load = threading.Event()
    load = clinic.artifacts.load

    def slowly(location: str) -> SetPredictor:
        assert may_load.wait(PATIENCE_S)
        return load(location)

    clinic.artifacts.load = slowly  # type: ignore[method-assign]
    clinic.registry.start(wait=False)
    said = set()

    def loads() -> bool:
        with pytest.raises(errors.ModelLoading) as refusal:
            clinic.registry.active()
        said.add(refusal.value.detail)
        return "is being loaded" in refusal.value.detail

    eventually(loads)
    assert all(words.endswith("; ask again in a moment.") for words in said), said
    assert clinic.registry.start_fault() is not None
    may_load.set()
    eventually(lambda: clinic.registry.start_fault() is None)
    assert clinic.registry.active().score([Document(text="rocket")])
    clinic.registry.start(wait=False)
    clinic.registry.stop()
    assert clinic.registry.start_fault() is None
    assert clinic.artifacts.loads == ["old"]


def test_a_start_without_a_model_ends_and_the_first_model_hides_no_server(
    artifacts: Artifacts,
) -> None:
    clinic = Serving(artifacts, poll_s=3600)
    clinic.registry.start(wait=False)
    eventually(lambda: clinic.registry.start_fault() is None)
    clinic.activate("old")
    during = []
    load = clinic.artifacts.load

    def watched(location: str) -> SetPredictor:
        during.append(clinic.registry.start_fault())
        return load(location)

    clinic.artifacts.load = watched  # type: ignore[method-assign]
    clinic.registry.follow()
    clinic.registry.stop()
    assert during == [None]


def test_the_watcher_swaps_models_under_load(artifacts: Artifacts) -> None:
    clinic = Serving(artifacts)
    clinic.activate("old")
    clinic.registry.start()
    stop = threading.Event()
    seen: list[list[str]] = [[] for _ in range(4)]

    def ask(versions: list[str]) -> None:
        while not stop.is_set():
            refusals = clinic.registry.active().score([Document(text="rocket and choir")])
            versions.append(refusals[0].model_version)

    threads = [threading.Thread(target=ask, args=(versions,)) for versions in seen]
    for thread in threads:
        thread.start()
    new = _version(artifacts.other_text)
    eventually(lambda: all(seen), "each has asked the old one")
    clinic.activate("new")
    eventually(lambda: all(new in versions for versions in seen))
    stop.set()
    for thread in threads:
        thread.join()
    clinic.registry.stop()
    for versions in seen:
        switches = sum(a != b for a, b in itertools.pairwise(versions))
        assert (versions[-1], switches) == (new, 1)


def test_a_text_is_scored_as_the_model_says(artifacts: Artifacts) -> None:
    predictor = load(artifacts.text)
    texts = ["the judge heard the violin concert", "wheat and hail in the silo today"]
    expected = predictor.predict_texts(texts)
    refusals = LoadedPredictor(predictor).score([Document(text=text) for text in texts])
    for row, one in enumerate(refusals):
        assert [(c.labels, c.confidence) for c in one.candidates] == [
            (ranked.labels, ranked.confidence) for ranked in expected.ranked(row)
        ]
        assert [c.score for c in one.candidates] == [
            float(f"{ranked.score:.6g}") for ranked in expected.ranked(row)
        ]
        assert one.confidence == expected.top_confidence()[row]
        assert {m.label: m.probability for m in one.marginals} == {
            expected.label_names[label]: float(f"{p:.6g}")
            for label, p in enumerate(expected.marginals[row])
            if p >= 0.005
        }
        assert [m.probability for m in one.marginals] == sorted(
            (m.probability for m in one.marginals), reverse=True
        )
        assert len(one.marginals) <= MOST_MARGINALS
        assert not one.out_of_domain
        assert one.model_version == predictor.version
        assert one.calibrator_version == predictor.calibrator_version


@pytest.mark.parametrize("text", ["zzz", "12345", "!?", "日本語の文章", "\x01\x02"])
def test_a_text_without_a_known_word_is_out_of_domain(artifacts: Artifacts, text: str) -> None:
    (refusal,) = LoadedPredictor(load(artifacts.text)).score([Document(text=text)])
    assert refusal.out_of_domain


def test_a_model_of_another_objective_is_served_with_the_set_that_its_rule_chose(
    artifacts: Artifacts,
) -> None:
    model = replace(load(artifacts.text), decider=SetDecider(SharedThreshold(0.3)))
    text = "judge verdict witness wheat orbit"
    (refusal,) = LoadedPredictor(model).score([Document(text=text)])
    (plain,) = LoadedPredictor(replace(model, decider=None)).score([Document(text=text)])
    likely = {each.label for each in refusal.marginals if each.probability > 0.3}
    assert set(refusal.candidates[0].labels) == likely
    assert refusal.confidence <= plain.confidence
    others = [candidate.confidence for candidate in refusal.candidates[1:]]
    assert others == sorted(others, reverse=True)


def test_mixtures_serve_what_they_predict(tmp_path: Path) -> None:
    options = TrainingOptions(
        method="cbm", n_components=3, n_folds=2, calibrator="isotonic", alpha=1e-3
    )
    save(train(texts(), options), tmp_path / "model")
    predictor = load(tmp_path / "model")
    served_predictor = LoadedPredictor(predictor)
    served_predictor.warm_up()
    requests = ["note insulin glucose", "note stone kidney rash itch"]
    expected = predictor.predict_texts(requests)
    for row, one in enumerate(served_predictor.score([Document(text=text) for text in requests])):
        assert one.labels == expected.ranked(row)[0].labels
        assert one.confidence == expected.top_confidence()[row]


def test_a_model_that_cannot_predict_is_not_activated(
    clinic: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = clinic.activate("new")

    def absurd(self: SetPredictor, inputs: Sequence[PredictionInput]) -> SetPredictions:
        predictions = score(self, inputs)
        return replace(predictions, confidence=predictions.confidence * np.nan)

    score = SetPredictor.score
    monkeypatch.setattr(SetPredictor, "score", absurd)
    with pytest.raises(errors.ModelDamaged, match="failed to predict"):
        clinic.registry.load(model)


def test_vectors_are_scored_by_the_names_of_their_features(artifacts: Artifacts) -> None:
    predictor = LoadedPredictor(load(artifacts.vectors))
    (refusal,) = predictor.score([Document(features={"about music": 1.5, "length": 0.2})])
    assert refusal.labels == ("music",)
    assert not refusal.out_of_domain
    (empty,) = predictor.score([Document(features={"about music": 0.0})])
    assert empty.out_of_domain


def refusal(predictor: LoadedPredictor, document: Document) -> errors.InvalidRequest:
    (result,) = predictor.score([document])
    assert isinstance(result, Refused)
    assert isinstance(result.error, errors.InvalidRequest)
    return result.error


def test_unknown_features_are_named(artifacts: Artifacts) -> None:
    predictor = LoadedPredictor(load(artifacts.vectors))
    document = Document(features={"length": 1.0, "a/b": 2.0, "colour": 3.0})
    assert [fault.pointer for fault in refusal(predictor, document).faults] == [
        "/document/features/a~1b",
        "/document/features/colour",
    ]


def test_a_document_of_the_wrong_kind_is_refused(artifacts: Artifacts) -> None:
    vectors = LoadedPredictor(load(artifacts.vectors))
    (fault,) = refusal(vectors, Document(text="x")).faults
    assert (fault.pointer, "reads features, not text" in fault.detail) == ("/document/text", True)
    text = LoadedPredictor(load(artifacts.text))
    (fault,) = refusal(text, Document(features={"length": 1.0})).faults
    assert (fault.pointer, "reads text, not features" in fault.detail) == (
        "/document/features",
        True,
    )


def test_a_model_that_was_loaded_for_activation_is_not_loaded_again(artifacts: Artifacts) -> None:
    clinic = Serving(artifacts)
    clinic.activate("old")
    clinic.registry.follow()
    model = clinic.activate("new")
    clinic.registry.load(model)
    clinic.registry.follow()
    assert clinic.artifacts.loads == ["old", "new"]
    assert clinic.registry.active().version == load(artifacts.other_text).version


def test_a_shadow_is_loaded_beside_the_serving_model_and_let_go(artifacts: Artifacts) -> None:
    clinic = Serving(artifacts)
    serving = clinic.activate("old")
    candidate = clinic.shadow("new")
    clinic.registry.follow()
    found = clinic.registry.shadow()
    assert found is not None
    assert found[0] == candidate.id
    assert clinic.registry.active().version != found[1].version
    with clinic.begin() as transaction:
        transaction.comparisons.end_shadow(candidate.id, START)
    clinic.registry.follow()
    assert clinic.registry.shadow() is None
    assert serving.id != candidate.id


def test_a_shadow_that_does_not_load_leaves_the_serving_model_alone(artifacts: Artifacts) -> None:
    clinic = Serving(artifacts)
    clinic.activate("old")
    missing = clinic.shadow("missing")
    for _ in range(3):
        clinic.registry.follow()
    assert clinic.registry.shadow() is None
    assert clinic.artifacts.loads == ["old", "missing"]
    with pytest.raises(errors.ModelDamaged, match="vanished"):
        clinic.registry.load(missing)
    assert clinic.registry.active().labels


def test_a_text_is_explained_with_its_own_terms(artifacts: Artifacts) -> None:
    predictor = LoadedPredictor(load(artifacts.text))
    made = documents(1, seed=5)[0]
    document = Document(text=str(made["text"]))
    label = made["labels"][0]
    (terms,) = predictor.explain(document, [label])
    assert terms
    assert terms[0].weight > 0
    assert all(word in document.text.lower() for term in terms for word in term.term.split())
    with pytest.raises(errors.InvalidRequest) as error:
        predictor.explain(document, [label, "nonsense"])
    assert [fault.pointer for fault in error.value.faults] == ["/labels/1"]
    with pytest.raises(errors.InvalidRequest, match="reads features"):
        LoadedPredictor(load(artifacts.vectors)).explain(document, [])


def _learnt(clinic: Serving, model: ModelVersion, intercept: float) -> Calibration:
    """Store a calibrator of the artifact behind ``model``, and let it serve with the model."""
    predictor = load(clinic.artifacts.folders[model.location])
    correction = ConfidenceCorrection(
        intercept, np.zeros(len(COLUMNS)), np.zeros(len(predictor.label_names))
    )
    recalibration = StoredRecalibration(predictor.version, predictor.calibrator_version, correction)
    clinic.artifacts.calibrators[recalibration.version] = recalibration
    new_calibration = replace(
        calibration(model, recalibration.version),
        id=clinic.new_id(),
        location=recalibration.version,
    )
    with clinic.begin() as transaction:
        transaction.calibrations.add(new_calibration)
        transaction.calibrations.activate(model.id, new_calibration.id, START, clinic.new_id())
    return new_calibration


JUDGE = Document(text="judge verdict wheat")


def test_a_calibrator_that_is_activated_corrects_what_the_model_says(clinic: Serving) -> None:
    model = clinic.activate("old")
    clinic.registry.follow()
    (own,) = clinic.registry.active().score([JUDGE])
    assert own.replaced is None
    calibration = _learnt(clinic, model, -1.0)
    clinic.registry.follow()
    (now,) = clinic.registry.active().score([JUDGE])
    assert clinic.artifacts.loads == ["old"], "the model is not loaded again"
    assert now.calibrator_version == calibration.version != own.calibrator_version
    assert clinic.registry.active().own_calibrator_version == own.calibrator_version
    assert now.model_version == own.model_version
    assert now.replaced == tuple(candidate.confidence for candidate in own.candidates)
    assert now.own_confidences == own.own_confidences
    assert now.labels == own.labels
    odds = own.confidence / (1 - own.confidence)
    assert now.confidence == pytest.approx(1 / (1 + math.e / odds))


def test_without_a_calibrator_the_model_speaks_for_itself_again(clinic: Serving) -> None:
    model = clinic.activate("old")
    _learnt(clinic, model, -1.0)
    clinic.registry.follow()
    with clinic.begin() as transaction:
        transaction.calibrations.activate(model.id, None, START, clinic.new_id())
    clinic.registry.follow()
    (own,) = clinic.registry.active().score([JUDGE])
    assert own.replaced is None
    assert own.calibrator_version == clinic.registry.active().own_calibrator_version


def test_a_model_comes_with_the_calibrator_that_it_served_with(clinic: Serving) -> None:
    model = clinic.activate("old")
    calibration = _learnt(clinic, model, -1.0)
    clinic.activate("new")
    clinic.registry.follow()
    assert clinic.registry.active().calibrator_version != calibration.version
    assert clinic.registry.load(model).calibrator_version == calibration.version


@pytest.mark.parametrize("how", ["missing", "foreign"])
def test_a_calibrator_that_fails_leaves_the_present_one_serving(clinic: Serving, how: str) -> None:
    model = clinic.activate("old")
    clinic.registry.follow()
    serving = clinic.registry.active()
    calibration = _learnt(clinic, model, -1.0)
    recalibration = clinic.artifacts.calibrators.pop(calibration.version)
    if how == "foreign":
        clinic.artifacts.calibrators[calibration.version] = replace(
            recalibration, model_version="another"
        )
    with pytest.raises(errors.CalibrationDamaged):
        clinic.registry.load_calibration(model, calibration)
    with structlog.testing.capture_logs() as lines:
        clinic.registry.follow()
        clinic.registry.follow()
    assert clinic.registry.active() is serving
    assert [line["event"] for line in lines] == ["model.failed"]
    clinic.artifacts.calibrators[calibration.version] = recalibration
    clinic.seconds = RETRY_AFTER_S
    clinic.registry.follow()
    assert clinic.registry.active().calibrator_version == calibration.version


def test_a_calibrator_tried_before_is_not_loaded_again(clinic: Serving) -> None:
    model = clinic.activate("old")
    clinic.registry.follow()
    calibration = _learnt(clinic, model, -1.0)
    clinic.registry.load_calibration(model, calibration)
    clinic.artifacts.calibrators.clear()
    clinic.registry.follow()
    assert clinic.registry.active().calibrator_version == calibration.version


def test_a_shadow_answers_with_its_own_calibrator(clinic: Serving) -> None:
    clinic.activate("old")
    other = clinic.shadow("new")
    calibration = _learnt(clinic, other, -1.0)
    clinic.registry.follow()
    shadow = clinic.registry.shadow()
    assert shadow is not None
    assert (shadow[0], shadow[1].calibrator_version) == (other.id, calibration.version)
