"""What each preset trains, and that documents are predicted alike alone and together."""

import numpy as np
import pytest

from setwise.models import methods
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.options import (
    METHODS,
    MIN_DOCUMENTS_BEST,
    PRESETS,
    PUBLISHED_CALIBRATORS,
    RERANKING_METHODS,
    Extras,
    TrainingOptions,
    extras_of,
    preset_of,
)
from setwise.models.training import fit_base, train
from tests.models import corpora


@pytest.mark.slow
def test_a_document_alone_is_judged_as_in_a_batch() -> None:
    data = corpora.vectors(400)
    model = train(data, TrainingOptions(n_jobs=1))
    together = model.predict(data.X[:10])
    for i in range(10):
        alone = model.predict(data.X[i : i + 1])
        start, end = together.candidates.doc_indptr[i : i + 2]
        np.testing.assert_allclose(alone.confidence, together.confidence[start:end], atol=1e-5)


def test_each_method_has_a_class() -> None:
    assert tuple(methods.METHODS) == METHODS


def test_the_best_preset_is_the_default() -> None:
    assert TrainingOptions().preset == "best"
    assert extras_of(TrainingOptions()) == PRESETS["best"]


@pytest.mark.parametrize(
    ("X", "votes"),
    [
        (np.random.default_rng(0).normal(size=(60, 4)), True),
        (np.eye(60), False),
        (np.hstack([np.random.default_rng(0).normal(size=(60, 1)), np.eye(60)]), False),
    ],
    ids=["measurements", "words", "a measurement among words"],
)
def test_the_forest_votes_on_tables_of_measurements_alone(X, votes) -> None:
    data = corpora.dataset(X, np.arange(60)[:, None] % [2, 3] > 0)
    options = TrainingOptions(n_folds=2, alpha=1e-3, n_jobs=1)
    assert ("forest" in fit_base(data, options).proposal.voters.names) is votes


def test_both_ways_of_reranking_have_presets_and_no_other_method() -> None:
    for preset, extras in PRESETS.items():
        for method in RERANKING_METHODS:
            options = TrainingOptions(method=method, preset=preset)
            assert extras_of(options) == extras
    assert extras_of(TrainingOptions(method="br")) == Extras()


def test_few_documents_are_reranked_by_best_as_by_fast() -> None:
    n = MIN_DOCUMENTS_BEST - 1
    best, fast = (preset_of(TrainingOptions(preset=name), n) for name in ("best", "fast"))
    assert best == fast._replace(n_fits=best.n_fits, beginnings=best.beginnings)
    assert best.beginnings == PRESETS["best"].beginnings
    assert extras_of(TrainingOptions(), n_documents=n).voters == fast.voters
    assert preset_of(TrainingOptions(), n + 1) == PRESETS["best"]
    assert preset_of(TrainingOptions(method="br"), n) == PRESETS["best"]


def test_boosted_mixtures_are_the_published_ones_in_every_preset() -> None:
    for preset in PRESETS:
        options = TrainingOptions(method="cbm", experts="boosted", preset=preset)
        assert extras_of(options) == Extras(experts="boosted")


def test_only_the_best_mixture_is_a_mean_of_several() -> None:
    for preset, n_fits in [("paper", 1), ("fast", 1), ("best", PRESETS["best"].n_fits)]:
        options = TrainingOptions(method="cbm", preset=preset)
        assert extras_of(options) == Extras(n_fits=n_fits, experts=PRESETS[preset].experts)
    assert PRESETS["best"].n_fits > 1


def test_the_papers_preset_is_the_published_method() -> None:
    data = corpora.vectors(300)
    options = TrainingOptions(
        method="cbm-rerank", preset="paper", n_components=2, n_folds=2, alpha=1e-3, n_jobs=1
    )
    model = train(data, options)
    assert model.label_calibrator.isotonic_share == 1.0
    assert set(model.manifest["training"]["calibrator_brier"]) == set(PUBLISHED_CALIBRATORS)
    assert isinstance(model.source, MixtureCandidates)
    mixture = model.source.mixture_
    assert isinstance(mixture, ConditionalBernoulliMixture)
    assert mixture.experts == "separate"
    assert mixture.kernel_ is None
