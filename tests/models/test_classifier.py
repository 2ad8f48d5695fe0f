"""``SetClassifier`` as scikit-learn's users use one."""

import pickle
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer
from sklearn.svm import LinearSVC

import setwise
from setwise.models.classifier import SetClassifier, group_folds
from setwise.models.data.answers import ModelAnswers
from setwise.models.labels.foreign_classifier import ForeignClassifier
from setwise.models.options import TrainingWarning
from tests.trained import documents, write_documents

MADE = documents(160, seed=5)
TEXTS = [str(document["text"]) for document in MADE]
LISTS = [list(document["labels"]) for document in MADE]  # type: ignore[call-overload]


def tiny(**parameters: object) -> SetClassifier:
    settings = {
        "preset": "paper",
        "n_folds": 2,
        "n_candidates": 3,
        "calibrator": "isotonic",
        "n_jobs": 1,
    }
    return SetClassifier(**{**settings, **parameters})


@pytest.fixture(scope="module")
def classifier() -> SetClassifier:
    return tiny().fit(TEXTS, LISTS)


@pytest.fixture(scope="module")
def words() -> sp.csr_matrix:
    return CountVectorizer().fit_transform(TEXTS)


def test_texts_with_label_lists_give_sets_confidences_and_marginals(classifier) -> None:
    new = ["judge verdict appeal", "orbit rocket gale hail"]
    assert classifier.predict_set(new) == [("court",), ("space", "storm")]
    matrix = classifier.predict(new)
    assert matrix.tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]]
    np.testing.assert_array_equal(classifier.predict_proba(new) > 0.5, matrix == 1)
    assert classifier.predict_confidence(new).shape == (2,)
    assert classifier.classes_.tolist() == [
        "court",
        "finance",
        "harvest",
        "music",
        "space",
        "storm",
    ]


def test_matrices_and_label_lists_give_the_same_model(classifier, words) -> None:
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    lists, dense, sparse = (
        tiny().fit(words, y).predict_proba(words) for y in (LISTS, Y, sp.csr_matrix(Y))
    )
    np.testing.assert_array_equal(lists, dense)
    np.testing.assert_array_equal(dense, sparse)
    np.testing.assert_array_equal(tiny().fit(words.toarray(), Y).predict_proba(words), dense)
    assert classifier.score(TEXTS, LISTS) == classifier.score(TEXTS, Y) > 0.5


def test_a_label_that_the_model_lacks_counts_as_a_miss(classifier) -> None:
    assert classifier.score(TEXTS[:2], [["nowhere"], LISTS[1]]) <= 0.5


def test_saves_the_artifact_that_the_service_loads(classifier, tmp_path: Path) -> None:
    classifier.save(tmp_path / "model")
    loaded = setwise.load(tmp_path / "model")
    again = loaded.predict_texts(TEXTS[:9])
    np.testing.assert_array_equal(again.top_confidence(), classifier.predict_confidence(TEXTS[:9]))
    data = setwise.read_dataset(write_documents(tmp_path / "test.jsonl", 30, seed=6))
    assert setwise.evaluate(classifier, data).set_accuracy == (
        setwise.evaluate(loaded, data).set_accuracy
    )


def test_a_document_without_labels_is_scored(classifier) -> None:
    assert classifier.predict_set(["nothing here", TEXTS[0]])[1] == tuple(LISTS[0])
    empty = [found == () for found in classifier.predict_set(["nothing here"])]
    assert classifier.score(["nothing here"], [[]]) == np.mean(empty)
    assert classifier.score(TEXTS[:1], [[]]) == 0.0


def test_no_documents_have_no_predictions(classifier) -> None:
    assert classifier.predict_set([]) == []
    assert classifier.predict([]).shape == classifier.predict_proba([]).shape == (0, 6)
    assert classifier.predict_confidence([]).shape == (0,)


def test_label_lists_are_cross_validated_with_plain_folds() -> None:
    assert cross_val_predict(tiny(), TEXTS, LISTS, cv=KFold(2)).shape == (len(TEXTS), 6)
    search = GridSearchCV(tiny(), {"n_candidates": np.arange(2, 4)}, cv=KFold(2))
    assert search.fit(TEXTS, LISTS).best_score_ > 0.3


def test_sets_of_labels_are_cross_validated_with_folds_by_number() -> None:
    search = GridSearchCV(tiny(), {"n_candidates": [3]}, cv=2, error_score="raise")
    by_lists = GridSearchCV(tiny(), {"n_candidates": [3]}, cv=KFold(2)).fit(TEXTS, LISTS)
    assert search.fit(TEXTS, list(map(set, LISTS))).best_score_ == by_lists.best_score_


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3)])
def test_seeds_and_counts_of_numpy_are_integers(seed, tmp_path: Path) -> None:
    plain, drawn = (
        tiny(random_state=number, n_candidates=count).fit(TEXTS, LISTS)
        for number, count in ((3, 3), (seed, np.int64(3)))
    )
    assert plain.predictor_.version == drawn.predictor_.version
    drawn.save(tmp_path / "model")


def test_is_cloned_pickled_searched_and_put_into_pipelines(classifier) -> None:
    assert clone(classifier).get_params() == classifier.get_params()
    for model in (tiny(), classifier):
        copy = pickle.loads(pickle.dumps(model))
        assert copy.get_params() == model.get_params()
    np.testing.assert_array_equal(copy.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    pipeline = make_pipeline(CountVectorizer(), tiny())
    grid = {"setclassifier__calibrator": ["isotonic", "uncalibrated"]}
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(TEXTS, Y)
    assert search.best_score_ > 0.3
    marginals = cross_val_predict(tiny(), TEXTS, Y, cv=2, method="predict_proba")
    assert marginals.shape == Y.shape


def test_folds_never_split_a_group(words, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.repeat(np.arange(40), 4)
    used = {}

    def train(*arguments, folds, **named):
        used["folds"] = folds
        return setwise.train(*arguments, folds=folds, **named)

    monkeypatch.setattr("setwise.models.classifier.train", train)
    tiny(n_folds=5).fit(words, LISTS, groups=groups)
    folds = used["folds"].reshape(40, 4)
    assert (folds == folds[:, :1]).all()
    assert np.bincount(folds[:, 0]).tolist() == [8] * 5
    with pytest.raises(ValueError, match="single group"):
        group_folds(["a"] * 5, 5, 2)
    with pytest.raises(ValueError, match="2 entries for 5 documents"):
        group_folds(["a", "b"], 5, 2)
    for missing in (None, float("nan"), np.nan):
        with pytest.raises(ValueError, match="groups has no value in row 0: fill it in"):
            group_folds([missing, "a", "b"], 3, 2)
    for missing in (np.array([np.nan, 1, 2]), np.array(["NaT", "2026-01-01", "2026-01-02"], "M8")):
        with pytest.raises(ValueError, match="groups has no value in row 0: fill it in"):
            group_folds(missing, 3, 2)
    assert group_folds([7, "a", "a"], 3, 2).tolist() == [1, 0, 0]


def test_weights_reach_the_label_classifiers(words) -> None:
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    weight = np.where(Y[:, 0] == 1, 5.0, 1.0)
    plain, weighted = tiny().fit(words, Y), tiny().fit(words, Y, sample_weight=weight)
    base, other = plain.predictor_.base, weighted.predictor_.base
    assert other.intercept_[0] > base.intercept_[0]


def test_data_frames_name_features_and_labels(words) -> None:
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(words.toarray(), columns=[f"word {j}" for j in range(words.shape[1])])
    Y = pd.DataFrame(MultiLabelBinarizer().fit_transform(LISTS), columns=list("abcdef"))
    model = tiny().fit(X, Y)
    assert model.classes_.tolist() == list("abcdef")
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.predictor_.feature_names == tuple(X.columns)
    column = pd.DataFrame({"text": TEXTS, "labels": LISTS})
    assert (
        tiny().fit(column["text"], column["labels"]).score(column["text"], column["labels"]) > 0.5
    )


def test_columns_of_frames_count_by_name() -> None:
    pd = pytest.importorskip("pandas")
    labels = ["court", "finance", "harvest", "music", "space", "storm"]
    Y = pd.DataFrame(MultiLabelBinarizer().fit_transform(LISTS), columns=labels)
    scores, back = Y * 0.8 + 0.1, labels[::-1]
    model = tiny().fit(TEXTS, Y, scores=scores)
    unnamed = tiny().fit(TEXTS, Y.to_numpy(), scores=scores)
    for each in (model, unnamed):
        assert each.classes_.tolist() == labels
        assert each.predict_set(TEXTS, scores=scores) == each.predict_set(
            TEXTS, scores=scores[back]
        )
        assert each.score(TEXTS, Y[back], scores=scores.astype("Float64")) > 0.9
    with pytest.raises(ValueError, match="columns of scores must be the model's labels"):
        model.predict(TEXTS, scores=scores.rename(columns={"storm": "fog"}))
    with pytest.raises(ValueError, match="columns of y must be the model's labels"):
        model.score(TEXTS, Y.rename(columns={"storm": "fog"}), scores=scores)


def test_names_count_in_any_spelling(words) -> None:
    pd = pytest.importorskip("pandas")

    def otherwise(name: str) -> str:
        return unicodedata.normalize("NFD", f"{name} ")

    lists = [["fièvre", *labels] for labels in LISTS[:80]] + LISTS[80:]
    others = [list(map(otherwise, labels)) for labels in lists]
    model, other = tiny().fit(TEXTS, lists), tiny().fit(TEXTS, others)
    assert other.classes_.tolist() == list(other.predictor_.label_names) == model.classes_.tolist()
    assert (
        model.score(TEXTS, lists) == model.score(TEXTS, others) == other.score(TEXTS, lists) > 0.3
    )
    names = [f"mot é {j}" for j in range(words.shape[1])]
    X = pd.DataFrame(words.toarray(), columns=names)
    by_words = tiny().fit(X.set_axis(list(map(otherwise, names)), axis=1), lists)
    assert by_words.feature_names_in_.tolist() == names
    assert by_words.predict_set(X) == by_words.predict_set(X.rename(columns=otherwise))


def test_classes_count_in_any_spelling(words) -> None:
    first = [labels[0] for labels in LISTS]
    others = [f"{name}\u00a0" for name in first]
    model = tiny().fit(words, others)
    assert set(model.classes_) == set(first)
    assert model.score(words, others) == model.score(words, first) > 0.5


def test_annotators_count_in_any_spelling() -> None:
    noise = {unicodedata.normalize("NFD", "José"): {"alpha": 0.2}}
    tiny(noise=noise).fit(TEXTS, LISTS, annotators=["José "] * len(TEXTS))


def test_a_table_of_one_column_of_texts_is_the_column(classifier) -> None:
    pd = pytest.importorskip("pandas")
    expected = classifier.predict_set(TEXTS[:5])
    assert classifier.predict_set(pd.DataFrame({"text": TEXTS[:5]})) == expected
    assert classifier.predict_set(np.array(TEXTS[:5])[:, None]) == expected
    with pytest.raises(ValueError, match="column 'text' of X holds texts"):
        classifier.predict_set(pd.DataFrame({"text": TEXTS[:5], "length": 1}))


def test_one_class_per_row_is_an_ordinary_classification(words) -> None:
    first = [labels[0] for labels in LISTS]
    model = tiny().fit(words, first)
    found = model.predict(words)
    assert set(found) <= set(first)
    np.testing.assert_allclose(model.predict_proba(words).sum(axis=1), 1.0)
    assert model.score(words, first) > 0.5


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (TEXTS[:5], LISTS[:5], "at least 10"),
        (TEXTS, LISTS[:-1], "inconsistent numbers of samples"),
        (TEXTS, [[1, 2]] * len(TEXTS), "0 and 1"),
        ([*TEXTS[:-1], None], LISTS, "text 159 is of type NoneType"),
        ([None, *TEXTS[1:]], LISTS, "text 0 is of type NoneType"),
        (TEXTS, [[]] * len(TEXTS), "no document carries a label"),
        (TEXTS, [["a", 1]] * len(TEXTS), "something other than strings"),
    ],
)
def test_bad_data_is_refused(X, y, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        tiny().fit(X, y)


def test_a_model_of_texts_refuses_numbers_and_the_reverse(classifier, words) -> None:
    with pytest.raises(ValueError, match="fitted on texts"):
        classifier.predict(words)
    with pytest.raises(ValueError, match="reads features, not text"):
        tiny().fit(words, LISTS).predict(TEXTS)


ONCE_PER_LABEL = LogisticRegression(C=10)
CLASSIFIERS = (
    LinearSVC(),
    RandomForestClassifier(10, random_state=0),
    RidgeClassifier(),
    make_pipeline(SelectKBest(k=30), ONCE_PER_LABEL),
    MultiOutputClassifier(ONCE_PER_LABEL),
    make_pipeline(MaxAbsScaler(), ClassifierChain(ONCE_PER_LABEL)),
    GridSearchCV(MultiOutputClassifier(ONCE_PER_LABEL), {"estimator__C": [10]}, cv=2),
)


@pytest.mark.parametrize(
    "estimator",
    [ONCE_PER_LABEL, *(pytest.param(other, marks=pytest.mark.verify) for other in CLASSIFIERS)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_classifier_takes_the_place_of_the_label_scores(
    words, tmp_path: Path, estimator
) -> None:
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    model = tiny(estimator=estimator).fit(words, Y)
    assert model.score(words, Y) > 0.5
    assert model.predict_proba(words).shape == Y.shape
    model.save(tmp_path / "model")
    loaded = setwise.load(tmp_path / "model")
    assert loaded.kind == "external"
    given = ModelAnswers.of_scores(model.estimator_.probability(words))
    again = loaded.predict_answers(given, X=words).top_confidence()
    np.testing.assert_array_equal(again, model.predict_confidence(words))
    with pytest.raises(ValueError, match="must be a classifier"):
        tiny(estimator=LinearRegression()).fit(words, Y)


def test_a_label_that_varies_nowhere_needs_no_classifier(words) -> None:
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    Y[:, 0], Y[:, 1] = 0, 1
    for estimator in (MultiOutputClassifier(LogisticRegression()), LogisticRegression()):
        found = ForeignClassifier(estimator).fit(words, sp.csr_array(Y)).probability(words)
        assert found[:, :2].tolist() == [[0.0, 1.0]] * len(Y)
        assert ((found[:, 2:] > 0.5) == Y[:, 2:]).mean() > 0.9


def test_scores_of_a_document_come_from_a_classifier_that_never_saw_it(monkeypatch) -> None:
    seen: list[tuple[set[str], set[str]]] = []
    fit = ForeignClassifier.fit

    def spied(self, X, *rest):
        self.texts = set(X)
        return fit(self, X, *rest)

    def probability(self, X):
        seen.append((self.texts, set(X)))
        return np.full((len(X), 6), 0.5)

    monkeypatch.setattr(ForeignClassifier, "fit", spied)
    monkeypatch.setattr(ForeignClassifier, "probability", probability)
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    unique = [f"{text} {row}" for row, text in enumerate(TEXTS)]
    tiny(estimator=pipeline, n_folds=4).fit(unique, LISTS)
    assert len(seen) == 4
    assert all(not learned & asked for learned, asked in seen)
    assert set().union(*(asked for _, asked in seen)) == set(unique)


def test_scores_from_outside_stand_in_for_a_classifier(words) -> None:
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    scores = np.clip(Y * 0.8 + 0.1 + np.random.default_rng(0).normal(0, 0.05, Y.shape), 0, 1)
    model = tiny().fit(words, Y, scores=scores)
    assert model.score(words, Y, scores=scores) > 0.9
    bare = tiny().fit(None, LISTS, scores=sp.csr_array(scores))
    assert bare.score(None, LISTS, scores=scores) > 0.9
    with pytest.raises(ValueError, match="give those of the documents"):
        model.predict(words)
    with pytest.raises(ValueError, match=r"scores has shape \(160, 2\)"):
        tiny().fit(words, Y, scores=scores[:, :2])
    with pytest.raises(ValueError, match="fitted without scores"):
        tiny().fit(words, Y).predict(words, scores=scores)
    with pytest.raises(ValueError, match="give documents, or scores"):
        tiny().fit(None, Y)


def test_weights_reach_a_classifier_or_are_refused(words) -> None:
    Y = MultiLabelBinarizer().fit_transform(LISTS)
    weight = np.where(Y[:, 0] == 1, 5.0, 1.0)
    plain, weighted = (
        tiny(estimator=LogisticRegression()).fit(words, Y, sample_weight=given)
        for given in (None, weight)
    )
    first = plain.estimator_.probability(words)[:, 0]
    assert (weighted.estimator_.probability(words)[:, 0] > first).mean() > 0.8
    with pytest.raises(ValueError, match="takes no sample_weight"):
        tiny(estimator=KNeighborsClassifier()).fit(words, Y, sample_weight=weight)
    with pytest.raises(ValueError, match="negative or non-finite"):
        tiny().fit(words, Y, sample_weight=-weight)


def test_labels_of_annotators_who_err_are_seen_through() -> None:
    names = ["ann", None] * (len(TEXTS) // 2)
    model = tiny(noise={"ann": {"alpha": 0.3}}, calibrator="auto")
    with pytest.warns(TrainingWarning, match="too few"):
        model.fit(TEXTS, LISTS, annotators=names)
    assert model.predictor_.manifest["training"]["noise"]["mean_alpha"] == pytest.approx(0.15)
    with pytest.raises(ValueError, match="no noise rates of bob"):
        model.fit(TEXTS, LISTS, annotators=["bob"] * len(TEXTS))
    with pytest.raises(ValueError, match="names 1 people for 160 documents"):
        model.fit(TEXTS, LISTS, annotators=["ann"])
