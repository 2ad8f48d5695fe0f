"""Explanations: what they name is what the predictor uses, whatever the method."""

from types import SimpleNamespace

import numpy as np
import pytest

from setwise.models.data.documents import PredictionInput
from setwise.models.evaluation.explanation import (
    _by_mixture,
    describe_model,
    explain_rows,
    weigh_terms,
)
from setwise.models.options import METHODS, TrainingOptions
from setwise.models.predictions import RankedSet
from tests.models.corpora import dataset, texts

# Documents of two kinds; `reflection` mostly comes with `lake` and `water`, and has no feature.
NAMES = ("lake", "water", "reflection", "car")


def pictures(n=400, seed=0, hidden=0.0):
    rng = np.random.default_rng(seed)
    nature = rng.random(n) < 0.58
    chance = np.where(nature[:, None], [0.95, 0.95, 0.8, 0.05], [0.2, 0.2, 0.02, 0.95])
    Y = rng.random((n, 4)) < chance
    Y[~Y.any(axis=1), 3] = True
    seen = Y[:, [0, 1, 3]] & (rng.random((n, 3)) < 0.7) & (rng.random((n, 1)) >= hidden)
    made = dataset(np.column_stack([seen, rng.random(n) < 0.5]), Y)
    return made.__class__(**{**made.__dict__, "label_names": NAMES})


@pytest.fixture
def model(model_of):
    def fit(method, documents, **more):
        settings = {"n_components": 2, "n_folds": 2, "calibrator": "isotonic", "alpha": 1e-3}
        return model_of(documents, TrainingOptions(method=method, **settings, **more))

    return fit


@pytest.fixture(params=METHODS)
def predictor(request, model):
    return model(request.param, pictures())


def is_mixture(predictor):
    return predictor.manifest["method"].startswith("cbm")


def test_a_label_is_described_by_the_features_of_its_own(predictor):
    learnt = describe_model(predictor, n_terms=1)
    assert learnt.method == predictor.manifest["method"]
    by_label = {label.label: label.terms[0].name for label in learnt.labels}
    assert (by_label["lake"], by_label["water"], by_label["car"]) == ("f0", "f1", "f2")


def test_components_are_described_where_the_method_has_a_mixture(predictor):
    learnt = describe_model(predictor, n_labels=2, n_terms=2)
    if not is_mixture(predictor):
        assert learnt.components == ()
        return
    shares = [component.share for component in learnt.components]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == sorted(shares, reverse=True)
    first = {component.labels[0].label for component in learnt.components}
    assert "car" in first
    assert len(first) == 2


def test_what_features_add_is_the_documents_log_odds(predictor):
    X = pictures(seed=1).X[:40]
    logits = predictor.base.decision_function(X)
    negative = np.minimum(np.asarray(predictor.base.coef_.toarray()), 0.0)
    weighted = predictor.base.weighting_.transform(X).toarray()
    column = {name: place for place, name in enumerate(NAMES)}
    for row, why in enumerate(explain_rows(predictor, X, n_terms=100)):
        for reason in why.reasons:
            label = column[reason.label]
            against = float(weighted[row] @ negative[label])
            total = sum(term.weight for term in reason.terms) + against
            expected = logits[row, label] - predictor.base.intercept_[label]
            assert total == pytest.approx(expected, abs=1e-5)


def test_an_explanation_tells_of_the_set_that_is_predicted(predictor):
    X = pictures(seed=2).X
    predictions = predictor.predict(X)
    for row, why in enumerate(explain_rows(predictor, X)):
        ranked = predictions.ranked(row)
        assert (why.labels, why.confidence) == (ranked[0].labels, ranked[0].confidence)
        assert tuple(reason.label for reason in why.reasons) == why.labels
        for reason in why.reasons:
            rest = [each.confidence for each in ranked if reason.label not in each.labels]
            assert reason.confidence_without == (max(rest) if rest else None)
            assert f"`{reason.label}`" in reason.sentence


def test_a_mixture_names_the_labels_that_brought_another_one(model):
    """Where nothing is seen, the odds are for a landscape, but against a reflection by itself."""
    predictor = model("cbm", pictures(n=2000, hidden=0.4), preset="fast")
    explained = list(explain_rows(predictor, pictures(n=200, seed=3, hidden=0.4).X))
    reasons = [reason for why in explained for reason in why.reasons]
    brought = [r for r in reasons if r.label == "reflection" and len(r.companions) >= 2]
    assert brought
    for reason in brought:
        assert {companion.label for companion in reason.companions} <= {"lake", "water"}
        correlations = [companion.correlation for companion in reason.companions]
        assert correlations == sorted(correlations, reverse=True)
        assert all(0.0 < correlation <= 1.0 for correlation in correlations)
        assert reason.given_others > reason.probability
    added = [r for r in reasons if r.probability <= 0.5 < r.given_others]
    assert added
    assert {reason.sentence for reason in added} <= {
        "`reflection` was added because `lake` and `water` are likely",
        "`reflection` was added because `water` and `lake` are likely",
    }
    for why in explained:
        assert why.joint is not None
        assert why.product is not None
        assert sum(part.share for part in why.components) == pytest.approx(1.0)


def test_a_label_is_explained_by_the_labels_that_brought_it():
    """Labels 0, 1 and 2 come together in one component; 2 alone is hardly likely."""
    mu = np.array([[0.95, 0.9, 0.8, 0.1], [0.3, 0.3, 0.05, 0.1]])
    log_weights, logits = np.log([[0.55, 0.45]]), np.log(mu / (1 - mu))[None]
    mixture = SimpleNamespace(parameters=lambda row: (log_weights, logits))
    ranked = [RankedSet(("lake", "water", "reflection"), 0.6, 0.4)]
    why = _by_mixture(
        mixture, None, ranked, [0, 1, 2], [(), (), ()], component_labels={0: (), 1: ()}
    )
    third = why.reasons[2]
    assert third.probability < 0.5 < third.given_others
    assert third.sentence == "`reflection` was added because `lake` and `water` are likely"
    assert why.reasons[0].sentence == "`lake` has probability 0.66 on its own"
    assert why.joint > why.product
    assert why.components[0].component == 0
    assert why.components[0].share > why.components[0].weight


def test_the_empty_set_is_explained_without_a_reason(model):
    rng = np.random.default_rng(0)
    X = rng.random((200, 3)) * (rng.random((200, 3)) < 0.3)
    for method in ("br", "cbm"):
        predictor = model(method, dataset(X, X > 0.2))
        (why,) = explain_rows(predictor, dataset(np.zeros((1, 3)), np.ones((1, 3))).X)
        assert why.labels == ()
        assert why.reasons == ()


def test_a_document_is_explained_as_it_is_predicted(model):
    of_text, of_vectors = model("br", texts()), model("br", pictures())
    read = of_text.read([PredictionInput("note insulin glucose")])
    (why,) = explain_rows(of_text, read.rows.to_matrix())
    assert "label 3" in why.labels
    document = PredictionInput(features={"f2": 1.0, "f0": 0.5})
    (why,) = explain_rows(of_vectors, of_vectors.read([document]).rows.to_matrix())
    seen = of_vectors.score([document]).ranked(0)[0]
    assert (why.labels, why.confidence) == (seen.labels, seen.confidence)


def test_terms_for_and_against_add_up_to_the_labels_log_odds(predictor):
    X = pictures(seed=1).X[:20]
    logits = predictor.base.decision_function(X)
    for row in range(20):
        weighed = weigh_terms(predictor, X[row : row + 1], NAMES)
        for label, terms in enumerate(weighed):
            expected = logits[row, label] - predictor.base.intercept_[label]
            assert sum(term.weight for term in terms) == pytest.approx(expected, abs=1e-5)
            sizes = [abs(term.weight) for term in terms]
            assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(ValueError, match="'sun' is not a label"):
        weigh_terms(predictor, X[:1], ["lake", "sun"])
    assert weigh_terms(predictor, X[:1], []) == []
