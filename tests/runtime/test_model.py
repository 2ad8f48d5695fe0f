"""The model that serves, and how it changes."""

import itertools
import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
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
from tests.fakes import START, FakeIds
from tests.models.corpora import texts
from tests.samples import calibration
from tests.sqlite import Database
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


class World:
    """A registry over a database, with a clock that is moved by hand."""

    def __init__(self, artifacts: Artifacts, poll_s: float = 0.01) -> None:
        self.database, self.ids, self.store = Database(), FakeIds(), Store(artifacts)
        self.now = 0.0
        self.silent = False
        self.registry = ModelRegistry(
            self._begin, self.store, poll_s=poll_s, clock=lambda: self.now
        )

    def _begin(self, *, read_only: bool = False) -> Any:
        if self.silent:
            raise errors.StorageUnavailable("asleep")
        return self.database(read_only=read_only)

    def activate(self, location: str) -> ModelVersion:
        model = ModelVersion(self.ids(), self.ids(), location, {}, False, START)
        with self.database() as transaction:
            transaction.models.add(model)
            transaction.models.activate(model.id, START, self.ids())
        return model


@pytest.fixture
def world(artifacts: Artifacts) -> World:
    return World(artifacts)


def _version(folder: Path) -> str:
    return load(folder).version


def test_without_an_active_model_nothing_serves(world: World) -> None:
    world.registry.follow()
    with pytest.raises(errors.ModelUnavailable, match="setwise model add"):
        world.registry.active()


def test_an_active_model_that_cannot_be_loaded_is_a_problem_of_its_own(world: World) -> None:
    model = world.activate("missing")
    world.registry.follow()
    with pytest.raises(errors.ModelUnreadable, match=f"{model.id}, cannot be loaded"):
        world.registry.active()
    world.activate("old")
    world.registry.follow()
    assert world.registry.active().labels


def test_the_active_model_serves_and_gives_way_to_the_next(
    world: World, artifacts: Artifacts
) -> None:
    world.activate("old")
    world.registry.follow()
    before = world.registry.active()
    world.activate("new")
    world.registry.follow()
    after = world.registry.active()
    assert (before.version, after.version) == (
        _version(artifacts.text),
        _version(artifacts.other_text),
    )
    # A request that holds the old one finishes with it.
    assert before.score([Document(text="judge")])[0].model_version == before.version


def test_a_model_is_loaded_once(world: World) -> None:
    world.activate("old")
    for _ in range(3):
        world.registry.follow()
    assert world.store.loads == ["old"]


def test_a_model_that_fails_to_load_leaves_the_old_one_serving(world: World) -> None:
    world.activate("old")
    world.registry.follow()
    serving = world.registry.active()
    world.activate("missing")
    with structlog.testing.capture_logs() as lines:
        world.registry.follow()
        world.registry.follow()
    assert world.registry.active() is serving
    assert [line["event"] for line in lines] == ["model.failed"]
    assert lines[0]["still_serving"] == serving.version


def test_a_model_that_failed_is_tried_again_after_a_while(world: World) -> None:
    world.activate("missing")
    world.registry.follow()
    world.now = RETRY_AFTER_S - 1
    world.registry.follow()
    assert world.store.loads == ["missing"]
    world.now = RETRY_AFTER_S
    world.registry.follow()
    assert world.store.loads == ["missing", "missing"]


def test_another_model_is_loaded_at_once_after_a_failure(world: World) -> None:
    world.activate("missing")
    world.registry.follow()
    world.activate("old")
    world.registry.follow()
    assert world.registry.active().labels


def test_a_silent_database_leaves_the_model_serving(world: World) -> None:
    world.activate("old")
    world.registry.follow()
    world.silent = True
    with structlog.testing.capture_logs() as lines:
        world.registry.follow()
        world.registry.follow()
    assert world.registry.active().labels
    assert [line["event"] for line in lines] == ["model.unknown"]  # said once
    world.silent = False
    world.activate("new")
    world.registry.follow()
    assert world.store.loads == ["old", "new"]


def test_a_start_that_does_not_wait_says_what_is_missing(artifacts: Artifacts) -> None:
    world = World(artifacts)
    world.activate("old")
    may_load = threading.Event()
    load = world.store.load

    def slowly(location: str) -> SetPredictor:
        assert may_load.wait(120)
        return load(location)

    world.store.load = slowly  # type: ignore[method-assign]
    world.registry.start(wait=False)
    said = set()
    deadline = time.monotonic() + 120
    while not any("is being loaded" in words for words in said) and time.monotonic() < deadline:
        with pytest.raises(errors.ModelLoading) as refusal:
            world.registry.active()
        said.add(refusal.value.detail)
    assert all(words.endswith("; ask again in a moment.") for words in said), said
    may_load.set()
    while time.monotonic() < deadline:
        with suppress(errors.ModelUnavailable):
            world.registry.active()
            break
    assert world.registry.active().score([Document(text="rocket")])
    world.registry.start(wait=False)
    world.registry.stop()
    assert world.store.loads == ["old"]


def test_the_watcher_swaps_models_under_load(artifacts: Artifacts) -> None:
    world = World(artifacts)
    world.activate("old")
    world.registry.start()
    stop = threading.Event()
    seen: list[list[str]] = [[] for _ in range(4)]

    def ask(versions: list[str]) -> None:
        while not stop.is_set():
            scored = world.registry.active().score([Document(text="rocket and choir")])
            versions.append(scored[0].model_version)

    threads = [threading.Thread(target=ask, args=(versions,)) for versions in seen]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    new = _version(artifacts.other_text)
    while not all(seen) and time.monotonic() < deadline:  # each has asked the old one
        time.sleep(0.01)
    world.activate("new")
    while not all(new in versions for versions in seen) and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    world.registry.stop()
    for versions in seen:
        switches = sum(a != b for a, b in itertools.pairwise(versions))
        assert (versions[-1], switches) == (new, 1)


def test_a_text_is_scored_as_the_model_says(artifacts: Artifacts) -> None:
    predictor = load(artifacts.text)
    texts = ["the judge heard the violin concert", "wheat and hail in the silo today"]
    expected = predictor.predict_texts(texts)
    scored = LoadedPredictor(predictor).score([Document(text=text) for text in texts])
    for row, one in enumerate(scored):
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
    (scored,) = LoadedPredictor(load(artifacts.text)).score([Document(text=text)])
    assert scored.out_of_domain


def test_a_model_of_another_objective_is_served_with_the_set_that_its_rule_chose(
    artifacts: Artifacts,
) -> None:
    model = replace(load(artifacts.text), decider=SetDecider(SharedThreshold(0.3)))
    text = "judge verdict witness wheat orbit"
    (scored,) = LoadedPredictor(model).score([Document(text=text)])
    (plain,) = LoadedPredictor(replace(model, decider=None)).score([Document(text=text)])
    likely = {each.label for each in scored.marginals if each.probability > 0.3}
    assert set(scored.candidates[0].labels) == likely
    assert scored.confidence <= plain.confidence
    others = [candidate.confidence for candidate in scored.candidates[1:]]
    assert others == sorted(others, reverse=True)


def test_mixtures_serve_what_they_predict(tmp_path: Path) -> None:
    options = TrainingOptions(
        method="cbm", n_components=3, n_folds=2, calibrator="isotonic", alpha=1e-3
    )
    save(train(texts(), options), tmp_path / "model")
    predictor = load(tmp_path / "model")
    served = LoadedPredictor(predictor)
    served.warm_up()
    asked = ["note insulin glucose", "note stone kidney rash itch"]
    expected = predictor.predict_texts(asked)
    for row, one in enumerate(served.score([Document(text=text) for text in asked])):
        assert one.labels == expected.ranked(row)[0].labels
        assert one.confidence == expected.top_confidence()[row]


def test_a_model_that_cannot_predict_is_not_activated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = world.activate("new")

    def absurd(self: SetPredictor, inputs: Sequence[PredictionInput]) -> SetPredictions:
        found = score(self, inputs)
        return replace(found, confidence=found.confidence * np.nan)

    score = SetPredictor.score
    monkeypatch.setattr(SetPredictor, "score", absurd)
    with pytest.raises(errors.ModelDamaged, match="failed to predict"):
        world.registry.load(model)


def test_vectors_are_scored_by_the_names_of_their_features(artifacts: Artifacts) -> None:
    predictor = LoadedPredictor(load(artifacts.vectors))
    (scored,) = predictor.score([Document(features={"about music": 1.5, "length": 0.2})])
    assert scored.labels == ("music",)
    assert not scored.out_of_domain
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
    world = World(artifacts)
    world.activate("old")
    world.registry.follow()
    model = world.activate("new")
    world.registry.load(model)
    world.registry.follow()
    assert world.store.loads == ["old", "new"]
    assert world.registry.active().version == load(artifacts.other_text).version


def test_a_shadow_is_loaded_beside_the_serving_model_and_let_go(artifacts: Artifacts) -> None:
    world = World(artifacts)
    serving = world.activate("old")
    candidate = ModelVersion(world.ids(), world.ids(), "new", {}, False, START)
    with world.database() as transaction:
        transaction.models.add(candidate)
        transaction.comparisons.begin_shadow(Shadow(world.ids(), candidate.id, START, "x"))
    world.registry.follow()
    found = world.registry.shadow()
    assert found is not None
    assert found[0] == candidate.id
    assert world.registry.active().version != found[1].version
    with world.database() as transaction:
        transaction.comparisons.end_shadow(candidate.id, START)
    world.registry.follow()
    assert world.registry.shadow() is None
    assert serving.id != candidate.id


def test_a_shadow_that_does_not_load_leaves_the_serving_model_alone(artifacts: Artifacts) -> None:
    world = World(artifacts)
    world.activate("old")
    missing = ModelVersion(world.ids(), world.ids(), "missing", {}, False, START)
    with world.database() as transaction:
        transaction.models.add(missing)
        transaction.comparisons.begin_shadow(Shadow(world.ids(), missing.id, START, "x"))
    for _ in range(3):
        world.registry.follow()
    assert world.registry.shadow() is None
    assert world.store.loads == ["old", "missing"]
    with pytest.raises(errors.ModelDamaged, match="vanished"):
        world.registry.load(missing)
    assert world.registry.active().labels


def test_a_text_is_explained_with_its_own_terms(artifacts: Artifacts) -> None:
    predictor = LoadedPredictor(load(artifacts.text))
    made = documents(1, seed=5)[0]
    document = Document(text=str(made["text"]))
    label = made["labels"][0]
    (terms,) = predictor.explain(document, [label])
    assert terms
    assert terms[0].weight > 0
    assert all(word in document.text.lower() for term in terms for word in term.term.split())
    assert predictor.seen([made["labels"], ["nonsense"]])[1] is False
    with pytest.raises(errors.InvalidRequest) as refused:
        predictor.explain(document, [label, "nonsense"])
    assert [fault.pointer for fault in refused.value.faults] == ["/labels/1"]
    with pytest.raises(errors.InvalidRequest, match="reads features"):
        LoadedPredictor(load(artifacts.vectors)).explain(document, [])


def _learnt(world: World, model: ModelVersion, intercept: float) -> Calibration:
    """Store a calibrator of the artifact behind ``model``, and let it serve with the model."""
    predictor = load(world.store.folders[model.location])
    fitted = ConfidenceCorrection(
        intercept, np.zeros(len(COLUMNS)), np.zeros(len(predictor.label_names))
    )
    kept = StoredRecalibration(predictor.version, predictor.calibrator_version, fitted)
    world.store.calibrators[kept.version] = kept
    made = replace(calibration(model, kept.version), id=world.ids(), location=kept.version)
    with world.database() as transaction:
        transaction.calibrations.add(made)
        transaction.calibrations.activate(model.id, made.id, START, world.ids())
    return made


JUDGE = Document(text="judge verdict wheat")


def test_a_calibrator_that_is_activated_corrects_what_the_model_says(world: World) -> None:
    model = world.activate("old")
    world.registry.follow()
    (own,) = world.registry.active().score([JUDGE])
    assert own.replaced is None
    made = _learnt(world, model, -1.0)
    world.registry.follow()
    (now,) = world.registry.active().score([JUDGE])
    assert world.store.loads == ["old"], "the model is not loaded again"
    assert now.calibrator_version == made.version != own.calibrator_version
    assert world.registry.active().own_calibrator_version == own.calibrator_version
    assert now.model_version == own.model_version
    assert now.replaced == tuple(candidate.confidence for candidate in own.candidates)
    assert now.own_confidences == own.own_confidences
    assert now.labels == own.labels
    odds = own.confidence / (1 - own.confidence)
    assert now.confidence == pytest.approx(1 / (1 + math.e / odds))


def test_without_a_calibrator_the_model_speaks_for_itself_again(world: World) -> None:
    model = world.activate("old")
    _learnt(world, model, -1.0)
    world.registry.follow()
    with world.database() as transaction:
        transaction.calibrations.activate(model.id, None, START, world.ids())
    world.registry.follow()
    (own,) = world.registry.active().score([JUDGE])
    assert own.replaced is None
    assert own.calibrator_version == world.registry.active().own_calibrator_version


def test_a_model_comes_with_the_calibrator_that_it_served_with(world: World) -> None:
    model = world.activate("old")
    made = _learnt(world, model, -1.0)
    world.activate("new")
    world.registry.follow()
    assert world.registry.active().calibrator_version != made.version
    assert world.registry.load(model).calibrator_version == made.version


@pytest.mark.parametrize("how", ["missing", "foreign"])
def test_a_calibrator_that_fails_leaves_the_present_one_serving(world: World, how: str) -> None:
    model = world.activate("old")
    world.registry.follow()
    serving = world.registry.active()
    made = _learnt(world, model, -1.0)
    kept = world.store.calibrators.pop(made.version)
    if how == "foreign":
        world.store.calibrators[made.version] = replace(kept, model_version="another")
    with pytest.raises(errors.CalibrationDamaged):
        world.registry.load_calibration(model, made)
    with structlog.testing.capture_logs() as lines:
        world.registry.follow()
        world.registry.follow()
    assert world.registry.active() is serving
    assert [line["event"] for line in lines] == ["model.failed"]
    world.store.calibrators[made.version] = kept
    world.now = RETRY_AFTER_S
    world.registry.follow()
    assert world.registry.active().calibrator_version == made.version


def test_a_calibrator_tried_before_is_not_loaded_again(world: World) -> None:
    model = world.activate("old")
    world.registry.follow()
    made = _learnt(world, model, -1.0)
    world.registry.load_calibration(model, made)
    world.store.calibrators.clear()
    world.registry.follow()
    assert world.registry.active().calibrator_version == made.version


def test_a_shadow_answers_with_its_own_calibrator(world: World) -> None:
    world.activate("old")
    other = ModelVersion(world.ids(), world.ids(), "new", {}, False, START)
    with world.database() as transaction:
        transaction.models.add(other)
        transaction.comparisons.begin_shadow(Shadow(world.ids(), other.id, START, "ada"))
    made = _learnt(world, other, -1.0)
    world.registry.follow()
    shadow = world.registry.shadow()
    assert shadow is not None
    assert (shadow[0], shadow[1].calibrator_version) == (other.id, made.version)
