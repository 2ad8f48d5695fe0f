from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from setwise.models.data.documents import PredictionInput
from setwise.models.evaluation.explanation import weigh_terms
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.clustered_relevance import CLUSTER_POWER, ClusteredRelevance
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from tests.models import corpora

ALPHA = 1e-2
SMALL = TrainingOptions(preset="paper", labels_by="clusters", n_folds=2, n_jobs=1)


def make(seed=0, n=300, groups=3, size=3):
    """Return documents of one group of labels each, and some of none."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups + 1, n)
    X = rng.random((n, groups * (size + 1))) * 0.2
    Y = np.zeros((n, groups * size), dtype=np.uint8)
    for i in np.flatnonzero(group < groups):
        own = rng.random(size) < 0.5
        Y[i, group[i] * size : (group[i] + 1) * size] = own
        X[i, group[i] * size : (group[i] + 1) * size] += own
        X[i, groups * size + group[i]] += own.any()
    return sp.csr_array(X.astype(np.float32)), Y


def clustered(**chosen):
    return ClusteredRelevance(**{"alpha": ALPHA, "weighting": "none", "tol": 1e-10, **chosen})


def factors(model, X, Y):
    """Return the clusters' probabilities and those of labels in their clusters, by plain fits."""
    of_clusters, within = np.zeros(Y.shape), np.zeros(Y.shape)
    for cluster in range(model.cluster_.max() + 1):
        labels = np.flatnonzero(model.cluster_ == cluster)
        held = Y[:, labels].any(axis=1)
        first = BinaryRelevance(alpha=ALPHA, weighting="none", tol=1e-10).fit(X, held[:, None] * 1)
        second = BinaryRelevance(alpha=ALPHA, weighting="none", tol=1e-10)
        of_clusters[:, labels] = expit(first._logits(X)).reshape(len(Y), -1)[:, -1:]
        within[:, labels] = expit(second.fit(X[held], Y[held][:, labels])._logits(X))
    return of_clusters, within


@pytest.mark.parametrize("clusters", [1, 3])
def test_probabilities_are_the_product_of_two_plain_fits(clusters):
    X, Y = make()
    model = clustered(clusters=clusters).fit(X, Y)
    of_clusters, within = factors(model, X, Y)
    np.testing.assert_allclose(
        model.predict_proba(X), of_clusters**CLUSTER_POWER * within, atol=1e-5
    )


def test_labels_that_occur_together_share_a_cluster():
    model = clustered(clusters=3).fit(*make())
    assert len({tuple(model.cluster_[k : k + 3]) for k in (0, 3, 6)}) == 3
    assert all(len(set(model.cluster_[k : k + 3])) == 1 for k in (0, 3, 6))


def test_labels_that_never_occur_take_no_place_in_the_search():
    X, Y = make()
    known = clustered(clusters=3, n_searched=1).fit(X, Y)
    wider = np.hstack([Y[:, :2], np.zeros((len(Y), 40), np.uint8), Y[:, 2:]])
    model = clustered(clusters=3, n_searched=1).fit(X, wider)
    found = np.delete(model.decision_function(X), np.s_[2:42], axis=1)
    np.testing.assert_allclose(found, known.decision_function(X))


def test_labels_of_clusters_not_searched_share_a_probability():
    X, Y = make()
    model = clustered(clusters=3, n_searched=1).fit(X, Y)
    of_clusters, within = factors(model, X, Y)
    likeliest = np.isclose(of_clusters, of_clusters.max(axis=1, keepdims=True), atol=1e-9)
    usual = np.zeros(len(model.cluster_))
    for labels in (model.cluster_ == cluster for cluster in range(3)):
        usual[labels] = expit(model.intercept_[labels]).mean()
    expected = np.where(likeliest, of_clusters**CLUSTER_POWER * within, of_clusters * usual)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


def test_a_label_that_never_occurs_and_weights_of_zero_do_no_harm():
    X, Y = make(n=120)
    Y[:, 4] = 0
    some = (np.arange(120) < 100).astype(float)
    weighted = clustered(clusters=3).fit(X, Y, some)
    plain = clustered(clusters=3).fit(X[:100], Y[:100])
    np.testing.assert_allclose(weighted.decision_function(X), plain.decision_function(X))
    assert (plain.predict_proba(X)[:, 4] < 0.1).all()


GAPS = "clusters must number a cluster for each label, without gaps"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"clusters": 10}, "clusters must be 1 to 9, the labels; it is 10"),
        ({"clusters": 0}, "clusters must be 1 to 9"),
        (
            {"clusters": [0, 0, 0, 2, 2, 2, 1, 1, 4]},
            GAPS,
        ),
        ({"clusters": [0, 1]}, GAPS),
    ],
)
def test_parameters_out_of_range_are_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        clustered(**chosen).fit(*make(n=40))


def test_refused_where_no_label_has_a_classifier_of_its_own():
    with pytest.raises(ValueError, match="'cbm' has a mixture"):
        TrainingOptions(method="cbm", labels_by="clusters")
    with pytest.raises(ValueError, match="labels_by must be one of each, clusters"):
        TrainingOptions(labels_by="trees")
    with pytest.raises(ValueError, match="another model's answers score the labels"):
        train(corpora.answered(corpora.texts(30)), SMALL)


def test_terms_add_up_to_the_log_odds_of_a_label_and_a_power_of_its_cluster(tmp_path):
    data = corpora.texts(120)
    save(train(data, replace(SMALL, calibrator="isotonic")), tmp_path / "model")
    model = load(tmp_path / "model")
    row = model.read([PredictionInput("rash itch")]).rows.to_matrix()
    terms = dict(weigh_terms(model, row, ["label 1"])[0])
    assert terms["rash"] > 0.0
    base, features = model.base, model.base.weighting_.transform(model.scaled(row))
    cluster = base.cluster_[1]
    added = (features @ base.coef_.T).toarray()[0, 1] + CLUSTER_POWER * (
        features @ base.clusters_.coef_.T
    ).toarray()[0, cluster]
    np.testing.assert_allclose(sum(terms.values()), added, rtol=1e-5)
