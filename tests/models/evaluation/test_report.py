"""The report of a model: what it counts, that it stands alone, and that it quotes safely."""

import warnings
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import setwise
from setwise.models.evaluation.report.comparison import compare_models
from setwise.models.evaluation.report.page import report
from tests.models import corpora
from tests.models.conftest import quietly

OPTIONS = setwise.TrainingOptions(method="br", preset="fast", n_folds=2, alpha=1e-3, n_jobs=1)
LOST = 0.3  # of the words: some sets are wrong
TEST = corpora.texts(80, seed=5, lost=LOST)


@pytest.fixture(scope="module")
def models():
    return tuple(quietly(corpora.texts(150, seed=seed, lost=LOST), OPTIONS) for seed in (1, 2))


@pytest.fixture(scope="module")
def made(models):
    return report(models[0], TEST, target=0.8, names=("mine",), command="setwise evaluate mine")


def label_sets(model):
    true = [{TEST.label_names[k] for k in row.indices} for row in TEST.Y]
    predictions = model.predict_texts(TEST.texts)
    chosen = [predictions.ranked(row)[0] for row in range(TEST.n)]
    return true, [set(best.labels) for best in chosen], [best.confidence for best in chosen]


def test_errors_pairs_and_sizes_are_counted_as_by_hand(models, made):
    true, predicted, confidence = label_sets(models[0])
    (findings,) = made.findings
    wrong = [row for row in range(TEST.n) if true[row] != predicted[row]]
    worst = sorted(wrong, key=lambda row: -confidence[row])[:20]
    assert len(worst) > 5
    assert [error.confidence for error in findings.errors] == pytest.approx(
        [confidence[row] for row in worst]
    )
    for error in findings.errors:
        odd = set(error.predicted) ^ set(error.true)
        assert {label.label for label in error.labels} == odd
        assert any(label.terms for label in error.labels)
    pairs = Counter(
        (extra, missing)
        for row in wrong
        for extra in predicted[row] - true[row]
        for missing in true[row] - predicted[row]
    )
    assert {
        (pair.predicted, pair.right): pair.documents for pair in findings.pairs
    }.items() <= pairs.items()
    assert sum(pair.documents for pair in findings.pairs) == sum(sorted(pairs.values())[-15:])
    sizes = {each.size: (each.n, each.n_right) for each in findings.sizes}
    for size in set(map(len, predicted)):
        rows = [row for row in range(TEST.n) if len(predicted[row]) == size]
        assert sizes[size] == (len(rows), sum(true[row] == predicted[row] for row in rows))
    assert findings.proof.target == 0.8
    assert findings.metrics == setwise.evaluate(models[0], TEST, labels=True).timed(
        predict_seconds=findings.metrics.predict_seconds,
        train_seconds=findings.metrics.train_seconds,
    )


class Page(HTMLParser):
    """Collects the elements of a page, and checks that they close in order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.addresses, self.text = [], Counter(), [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.addresses += [value for name, value in attributes if name in {"href", "src"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags[tag] += 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.text.append(text)


def test_one_file_holds_everything_and_runs_nothing(made, tmp_path):
    page = Page(made.save(tmp_path / "report.html").read_text("utf-8"))
    assert page.tags["script"] == page.tags["img"] == 0
    assert [address.partition(",")[0] for address in page.addresses] == ["data:text/csv;base64"]
    assert page.tags["svg"] >= 4
    assert "the document's words that weigh most" in " ".join(page.text)
    words = " ".join(page.text)
    for shown in ("setwise evaluate mine", "Is the confidence calibrated?", *TEST.label_names):
        assert shown in words
    assert "http" not in made.html.replace("http-equiv", "")


def test_what_it_quotes_is_escaped(models):
    odd = TEST.take(np.arange(40))
    object.__setattr__(odd, "ids", tuple(f"<script>{name}" for name in odd.ids))
    shown = report(models[0], odd, names=("<b>mine</b>",), command="a && b").html
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "a &amp;&amp; b" in shown


def test_two_models_are_compared_on_the_same_documents(models):
    (_, mine, _), (true, other, _) = map(label_sets, models)
    both = report(models[0], TEST, compare=models[1], names=("mine", "yours"))
    rows, sentence = compare_models(*both.findings)
    better = sum(a == t != b for t, a, b in zip(true, mine, other, strict=True))
    worse = sum(b == t != a for t, a, b in zip(true, mine, other, strict=True))
    assert sentence.startswith(f"In {better} document")
    assert f"in {worse} only yours" in sentence
    assert rows[0][0] == "sets that are right"
    assert sentence.split(" (")[0] in both.html
    same = report(models[0], TEST, compare=models[0], names=("mine", "yours"))
    assert "The Brier score of mine is 0 lower (p = 1)." in compare_models(*same.findings).sentence


def test_a_handful_of_documents_has_a_report_without_a_curve(models):
    few = report(models[0], TEST.take(np.arange(3)))
    assert "Is the confidence calibrated?" not in few.html
    assert "3 documents" in few.html


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vectors", "text"])
def test_a_classifier_on_top_of_another_is_reported_from_plain_documents(kind):
    train, test = (corpora.vectors(n, seed=n) for n in (150, 80))
    mine, documents = RandomForestClassifier(10, random_state=0), "X"
    if kind == "text":
        train, test = (corpora.texts(n, seed=n, lost=LOST) for n in (150, 80))
        mine, documents = make_pipeline(TfidfVectorizer(), LogisticRegression()), "texts"
    over = setwise.SetClassifier(mine, preset="fast", n_folds=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", setwise.TrainingWarning)
        over.fit(getattr(train, documents), train.Y)
    made = report(over, test)
    (findings,) = made.findings
    assert "Another model scores the labels" in made.html
    right = (over.predict(getattr(test, documents)) == test.Y.toarray()).all(axis=1)
    assert findings.metrics.set_accuracy == pytest.approx(right.mean())
    assert findings.right.tolist() == right.tolist()
    assert {row.label for row in findings.metrics.labels.rows} == set(test.label_names)
    assert findings.errors
    assert not any(label.terms for error in findings.errors for label in error.labels)


def test_a_classifier_of_numbers_names_the_number_that_it_needs():
    data = corpora.vectors(60)
    over = setwise.SetClassifier(preset="paper", calibrator="isotonic", n_folds=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", setwise.TrainingWarning)
        over.fit(data.X, data.Y)
    with pytest.raises(ValueError, match="the data has 3 features, the model 12"):
        setwise.evaluate(over, corpora.vectors(20, n_features=3, n_labels=2))
