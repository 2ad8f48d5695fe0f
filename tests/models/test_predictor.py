"""Predictions by name and by matrix, alone and in batches, known and unknown features."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from scipy.special import expit

from setwise.models.data.document_error import DocumentError, UnknownNames
from setwise.models.data.documents import PredictionInput
from setwise.models.options import TrainingOptions
from setwise.models.predictions import likely_columns, most_likely
from setwise.models.sets.search import k_best_sets
from tests.models.corpora import texts, vectors

QUICK = TrainingOptions(preset="paper", alpha=1e-3)
_MARGINALS = arrays(
    np.float64,
    st.tuples(st.integers(0, 4), st.integers(1, 9)),
    elements=st.sampled_from([0.1, 0.2, 0.3, 0.9]),  # so that many are equal
)
_LIMITS = st.integers(0, 12)


@pytest.fixture
def of_vectors(model_of):
    return model_of(vectors(), replace(QUICK, calibrator="boosted-squared"))


@pytest.fixture
def of_texts(model_of):
    return model_of(texts(), QUICK)


def equal(first, second):
    return (
        (first.confidence == second.confidence).all()
        and (first.marginals == second.marginals).all()
        and (first.known_features == second.known_features).all()
        and first.candidates.labels.tolist() == second.candidates.labels.tolist()
        and first.candidates.log_score.tolist() == second.candidates.log_score.tolist()
    )


def test_a_document_alone_gets_bit_for_bit_what_it_gets_in_a_batch(of_vectors):
    new = vectors(seed=1, n=50)
    batch = of_vectors.predict(new.X)
    for row in range(50):
        alone = of_vectors.predict(new.X[row : row + 1])
        assert alone.ranked(0) == batch.ranked(row)
        np.testing.assert_array_equal(alone.marginals[0], batch.marginals[row])
        assert alone.known_features[0] == batch.known_features[row]


def test_equals_the_plain_path_through_scipy_and_xgboost(of_vectors):
    """The reference: dense algebra, NumPy interpolation, explicit columns, XGBoost's predict."""
    X = of_vectors.scaled(vectors(seed=1, n=60).X)
    base, calibrator = of_vectors.base, of_vectors.label_calibrator
    logits = base.weighting_.transform(X).toarray() @ base.coef_.toarray().T + base.intercept_
    marginals = np.empty_like(logits)
    for label in range(logits.shape[1]):
        knots = slice(*calibrator.knot_indptr_[label : label + 2])
        isotonic = np.interp(
            logits[:, label], calibrator.knot_logits_[knots], calibrator.knot_values_[knots]
        )
        share = calibrator.isotonic_share
        marginals[:, label] = expit((1.0 - share) * logits[:, label] + share * isotonic)
    candidates = k_best_sets(marginals, 10, allow_empty=False)
    rows = candidates.to_matrix().toarray()
    by_set = marginals[candidates.document]
    log_score = np.where(rows, np.log(by_set), np.log1p(-by_set)).sum(axis=1)
    seen = {tuple(np.flatnonzero(row)): 0 for row in vectors().Y.toarray()}
    for row in vectors().Y.toarray():
        seen[tuple(np.flatnonzero(row))] += 1
    counts = [seen.get(tuple(candidates.labels_of(s)), 0) for s in range(len(candidates))]
    columns = np.column_stack(
        [np.exp(log_score), log_score, rows.sum(axis=1), np.log1p(10_000 * np.array(counts) / 300)]
    )
    sparse = np.where(rows == 0, np.nan, 1.0)
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(json.dumps(of_vectors.calibrator.model_), "utf-8"))
    confidence = booster.predict(xgboost.DMatrix(np.hstack([columns, sparse]), nthread=1))
    fitted, curve = of_vectors.calibrator, of_vectors.curve
    confidence = np.clip(confidence.astype(np.float64), fitted.least_, fitted.most_)
    for start, end in pairwise(candidates.doc_indptr):
        own = confidence[start:end]
        others, top = np.arange(len(own)) != own.argmax(), own.max()
        own[others] *= min(1.0, (1.0 - top) / own[others].sum())
        inside = np.clip(top, curve.edge, 1.0 - curve.edge)
        margin = curve.intercept + curve.right * np.log(inside) - curve.wrong * np.log1p(-inside)
        corrected = np.clip(expit(margin), curve.edge, 1.0 - curve.edge)
        own[others] = np.minimum(own[others] * (1.0 - corrected) / (1.0 - top), corrected)
        own[~others] = corrected

    found = of_vectors.predict(vectors(seed=1, n=60).X)
    np.testing.assert_allclose(found.label_probability, marginals, rtol=1e-5)
    expected = {
        (document, tuple(candidates.labels_of(s))): confidence[s]
        for s, document in enumerate(candidates.document)
    }
    differing = sum(
        abs(expected.get((document, tuple(found.candidates.labels_of(s))), 2.0) - own) > 1e-6
        for s, (document, own) in enumerate(
            zip(found.candidates.document, found.confidence, strict=True)
        )
    )
    # A score that lies within rounding of a split may fall on either side of it, and one that lies
    # within rounding of another may be the tenth in its place.
    assert differing <= 0.01 * len(found.confidence)


def test_named_features_in_any_order_equal_the_matrix(of_vectors):
    X = vectors(seed=1, n=8).X
    named = [
        {f"f{column}": float(X[row, column]) for column in reversed(X[[row]].indices)}
        for row in range(8)
    ]
    assert equal(of_vectors.predict_features(named), of_vectors.predict(X))


def test_a_feature_is_known_in_every_spelling(of_vectors):
    respelled = of_vectors.predict_features([{"f0 ": 1.0, "\u200bf1": 2.0}])
    assert equal(respelled, of_vectors.predict_features([{"f0": 1.0, "f1": 2.0}]))
    with pytest.raises(ValueError, match="'f0' is given twice, in two spellings"):
        of_vectors.predict_features([{"f0 ": 1.0, "f0": 2.0}])


def test_unknown_features_are_named(of_vectors):
    with pytest.raises(UnknownNames, match="unknown features 'g', 'h'") as refusal:
        of_vectors.predict_features([{"f0": 1.0}, {"g": 1.0, "f1": 0.0, "h": 2.0}, {"i": 1.0}])
    assert (refusal.value.document, refusal.value.names) == (1, ("g", "h"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_numbers_without_a_finite_float32_are_refused_by_name(of_vectors, value):
    with pytest.raises(DocumentError) as refusal:
        of_vectors.predict_features([{"f1": 0.0}, {}, {"f1": 1.0, "f3": value}])
    assert (refusal.value.document, refusal.value.path) == (2, "/features/f3")


def test_known_features_count_what_training_saw(model_of):
    data = vectors()
    X = data.X.toarray()
    X[:, 7] = 0.0  # a column that no training document has
    predictor = model_of(replace(data, X=csr_array(X)), QUICK)
    documents = [{}, {"f7": 1.0}, {"f7": 1.0, "f1": 0.3}, {"f1": 0.0}]
    assert predictor.predict_features(documents).known_features.tolist() == [0, 0, 1, 0]


def test_one_word_and_words_never_seen_are_outside_what_confidences_speak_of(of_texts):
    known = texts().texts
    usual = max(known, key=len)
    strange = " ".join([usual, *(f"zz{number}" for number in range(200))])
    lengths = of_texts.predict_texts(known).known_features
    found = of_texts.predict_texts([usual, strange, usual.split()[0] if lengths.min() > 2 else ""])
    assert found.supported.tolist() == [True, False, False]
    many = of_texts.predict_texts([usual, strange] * 200)
    assert many.supported.tolist() == [True, False] * 200


def test_a_text_without_a_known_word_is_out_of_domain_and_still_gets_sets(of_texts):
    found = of_texts.predict_texts(["zzz qqq", "fever cough", ""])
    assert found.known_features.tolist() == [0, 2, 0]
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()


def test_a_model_shows_itself_in_one_line_and_as_a_table(of_texts):
    many = replace(of_texts, label_names=tuple(f"<{n}>" for n in range(500)))
    for shown in (of_texts, many, of_texts.predict_texts(["fever"]), texts()):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 200
    assert of_texts.version in repr(of_texts)
    table = many._repr_html_()
    assert "&lt;7&gt; and 492 more" in table
    assert "<7>" not in table


def test_ranked_sets_carry_names_confidence_and_score(of_texts):
    found = of_texts.predict_texts(["fever cough rash itch"])
    best = found.ranked(0)[0]
    assert best.labels == ("label 0", "label 1")
    assert best.confidence == found.top_confidence()[0]
    assert best.score == pytest.approx(np.exp(found.candidates.log_score[0]))
    assert found.chosen().toarray().tolist() == [[1, 1, 0, 0, 0, 0]]
    assert set(most_likely(found.marginals, 2)[0].tolist()) == {0, 1}


def test_confidence_falls_along_the_candidates(of_vectors):
    found = of_vectors.predict(vectors(seed=1).X)
    for row in range(len(found)):
        confidences = [ranked.confidence for ranked in found.ranked(row)]
        assert confidences == sorted(confidences, reverse=True)


def test_no_documents_give_no_predictions(of_vectors, of_texts):
    assert len(of_vectors.predict_features([])) == 0
    assert len(of_texts.predict_texts([])) == 0


@pytest.mark.parametrize(
    ("kind", "document", "path", "fault"),
    [
        ("of_vectors", PredictionInput("fever"), "/text", "this model reads features, not text"),
        ("of_texts", PredictionInput(features={}), "/features", "this model reads text, not"),
        ("of_vectors", PredictionInput(), "", 'there is no "features"'),
        ("of_texts", PredictionInput(), "", 'there is no "text"'),
    ],
)
def test_the_first_document_of_another_form_is_named(kind, document, path, fault, request):
    readable = PredictionInput("cough", {"f0": 1.0})
    with pytest.raises(DocumentError, match=fault) as refusal:
        request.getfixturevalue(kind).score([readable, document, document])
    assert (refusal.value.document, refusal.value.path) == (1, path)


def test_one_string_is_no_sequence_of_texts(of_texts):
    with pytest.raises(TypeError, match="not one string"):
        of_texts.predict_texts("fever")


def test_another_number_of_columns_is_refused(of_vectors):
    with pytest.raises(ValueError, match="this model knows 12"):
        of_vectors.predict(np.zeros((1, 3)))


def test_a_value_that_is_not_finite_is_refused(of_vectors):
    with pytest.raises(ValueError, match="NaN"):
        of_vectors.predict(np.full((1, 12), np.nan))


@given(_MARGINALS, _LIMITS)
@settings(deadline=None)  # the first call compiles
def test_most_likely_labels_are_those_of_a_stable_sort(marginals, limit):
    wanted = np.argsort(-marginals, axis=1, kind="stable")[:, :limit]
    np.testing.assert_array_equal(most_likely(marginals, limit), wanted)


@given(_MARGINALS, _LIMITS, st.sampled_from([0.0, 0.2, 0.25, 1.0]))
@settings(deadline=None)  # as above
def test_likely_columns_are_the_most_likely_ones_but_for_small_values(marginals, limit, least):
    indptr, columns, values = likely_columns(marginals, limit, least)
    for row, order in enumerate(most_likely(marginals, limit)):
        own = slice(indptr[row], indptr[row + 1])
        wanted = order[marginals[row, order] >= least]
        np.testing.assert_array_equal(columns[own], wanted)
        np.testing.assert_array_equal(values[own], marginals[row, wanted])
    assert (len(indptr), indptr[-1]) == (len(marginals) + 1, len(columns))
