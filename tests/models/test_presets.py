"""What each preset trains, and that documents are predicted alike alone and together."""

import numpy as np
import pytest

from setwise.models import options
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.options import (
    MAX_REFINED,
    MIN_DOCUMENTS_REFINED,
    PRESETS,
    PUBLISHED_CALIBRATORS,
    RERANKING_METHODS,
    Extras,
    TrainingOptions,
    TrainingWarning,
    affordable_extras,
)
from setwise.models.training import train
from tests.models import corpora


@pytest.mark.slow
def test_a_document_alone_is_judged_as_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpora.vectors(400)
    monkeypatch.setattr(options, "MIN_DOCUMENTS_REFINED", data.n)
    model = train(data, TrainingOptions(n_jobs=1))
    together = model.predict(data.X[:10])
    for i in range(10):
        alone = model.predict(data.X[i : i + 1])
        start, end = together.candidates.doc_indptr[i : i + 2]
        np.testing.assert_allclose(alone.confidence, together.confidence[start:end], atol=1e-5)


def test_the_best_preset_is_the_default() -> None:
    assert TrainingOptions().preset == "best"
    assert affordable_extras(TrainingOptions(), MIN_DOCUMENTS_REFINED, 10) == PRESETS["best"]


def test_probabilities_are_refined_where_documents_are_neither_too_few_nor_too_many() -> None:
    best = TrainingOptions()
    plainer = PRESETS["best"]._replace(stacked=False)
    assert affordable_extras(best, MIN_DOCUMENTS_REFINED - 1, 10) == plainer
    with pytest.warns(TrainingWarning, match="too many to refine"):
        assert affordable_extras(best, MAX_REFINED // 10, 11) == plainer


def test_both_ways_of_reranking_have_presets_and_no_other_method() -> None:
    for preset, extras in PRESETS.items():
        for method in RERANKING_METHODS:
            options = TrainingOptions(method=method, preset=preset)
            assert affordable_extras(options, 1000, 10) == extras
    assert affordable_extras(TrainingOptions(method="br"), 1000, 10) == Extras()


def test_boosted_mixtures_are_the_published_ones_in_every_preset() -> None:
    for preset in PRESETS:
        options = TrainingOptions(method="cbm-boosted", preset=preset)
        assert affordable_extras(options, 1000, 10) == Extras()


def test_only_the_best_mixture_is_a_mean_of_several() -> None:
    for preset, n_fits in [("paper", 1), ("fast", 1), ("best", PRESETS["best"].n_fits)]:
        options = TrainingOptions(method="cbm", preset=preset)
        scored = preset != "paper"
        assert affordable_extras(options, 1000, 10) == Extras(n_fits=n_fits, scored=scored)
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
