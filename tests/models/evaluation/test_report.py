"""The report of a model: what it counts, that it stands alone, and that it quotes safely."""

import json
import warnings
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import setwise
from setwise.models.data.documents import PredictionInput
from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.explanation import weigh_terms
from setwise.models.evaluation.label_table import label_table
from setwise.models.evaluation.report.comparison import compare_models
from setwise.models.evaluation.report.label_tables import _as_csv
from setwise.models.evaluation.report.opening import two_thresholds, verdict
from setwise.models.evaluation.report.page import report
from setwise.models.evaluation.report.remarks import remarks_on
from setwise.models.evaluation.report.slices import slices_by_length, slices_of
from setwise.models.guarantees.certify import certify
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


def label_names(data):
    return [{data.label_names[k] for k in row.indices} for row in data.Y]


def label_sets(model):
    true = label_names(TEST)
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
        if any(word in error.excerpt for word in " ".join(corpora.WORDS).split()):
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


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, attributes))


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
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags[tag] += 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.text.append(text)


def test_one_file_holds_everything_and_loads_nothing(made, tmp_path):
    page = Page(made.save(tmp_path / "report.html").read_text("utf-8"))
    assert page.tags["script"] == 1
    assert page.tags["img"] == 0
    outside = {address.partition(",")[0] for address in page.addresses if address[0] != "#"}
    assert outside == {"data:text/csv;base64"}
    assert page.tags["svg"] >= 4
    assert "the document's words that weigh most" in " ".join(page.text)
    words = " ".join(page.text)
    for shown in ("setwise evaluate mine", "Is the confidence calibrated?", *TEST.label_names):
        assert shown in words
    assert "http" not in made.html.replace("http-equiv", "")


def test_what_it_quotes_is_escaped(models):
    odd = TEST.take(np.arange(40))
    object.__setattr__(odd, "ids", tuple(f"<script>{name}" for name in odd.ids))
    html = report(models[0], odd, names=("<b>mine</b>",), command="a && b").html
    assert html.count("<script>") == 1, "its own"
    assert "<b>" not in html
    assert "a &amp;&amp; b" in html


def test_two_models_are_compared_on_the_same_documents(models):
    (_, mine, _), (true, other, _) = map(label_sets, models)
    both = report(models[0], TEST, compare=models[1], names=("mine", "yours"))
    rows, sentence = compare_models(*both.findings)
    better = sum(a == t != b for t, a, b in zip(true, mine, other, strict=True))
    worse = sum(b == t != a for t, a, b in zip(true, mine, other, strict=True))
    assert sentence.startswith("No proved difference: in ")
    assert f"in {better} document" in sentence
    assert f"in {worse} only yours" in sentence
    assert rows[0][0] == "sets that are right"
    assert sentence.split(" (")[0] in both.html
    same = report(models[0], TEST, compare=models[0], names=("mine", "yours"))
    assert "The Brier score of mine is 0 lower (p = 1)." in compare_models(*same.findings).sentence


def stated(made, right, target):
    """Return findings of 80 documents, of which the first 60 have the higher confidence."""
    confidence = np.repeat([0.9, 0.4], [60, 20])
    proof = certify(confidence, right, target=target)
    measured = automation_at(target, confidence, right)
    (findings,) = made.findings
    return replace(findings, confidence=confidence, right=right, proof=proof, measured=measured)


def test_the_first_page_counts_what_could_go_out(made):
    right = np.repeat([True, False, True, False], [58, 2, 10, 10])
    findings = stated(made, right, 0.9)
    first, second = verdict(findings)
    assert first == (
        "Of 80 documents 60 could go out unread; about 2 would be wrong. People would read 20."
    )
    assert second.startswith("96.7 of 100 sent ones are right, at least 90: proved, with a risk of")
    assert two_thresholds(findings.measured, findings.proof) == (
        "Measured: from 0.9000 up, 90.0 % is reached on these documents, by which the threshold "
        "was chosen. Proved for documents to come: from 0.9000 up."
    )
    for shown in (*verdict(made.findings[0]), "mine", TEST.fingerprint[:12]):
        assert shown in made.html


def test_where_nothing_is_proved_all_would_be_read(made):
    findings = stated(made, np.repeat([True, False], [58, 22]), 0.94)
    first, more = verdict(findings)
    assert first == (
        "None of the 80 documents should go out unread yet: the checks look good enough, but there "
        "are too few. People would read all of them."
    )
    assert more.endswith("more documents would do, as it looks now.")
    told = two_thresholds(findings.measured, findings.proof)
    assert told.endswith("Proved for documents to come: none.")


def test_each_place_of_the_slider_is_a_threshold(made):
    (findings,) = made.findings
    (places,) = [
        json.loads(value)
        for tag, attributes in Elements(made.html).found
        for name, value in attributes
        if (tag, name) == ("input", "data-places")
    ]
    for threshold, sent, wrong, low in places:
        out = findings.confidence >= threshold - 1e-6
        assert sent == out.sum()
        assert wrong == (out & ~findings.right).sum()
        assert 0 <= low <= 1 - wrong / sent


def test_what_is_odd_about_documents_is_said(models):
    other = corpora.texts(60, seed=8, lost=LOST)
    texts = ("", *(f"{text} {row}" for row, text in enumerate(other.texts[1:59])), "learnt from")
    texts = (*texts[:-2], texts[1], texts[-1])  # one copy
    unknown = csr_array(([1], ([3], [0])), shape=(other.n, 1), dtype=np.uint8)
    odd = replace(
        other,
        texts=texts,
        label_names=(*other.label_names, "never seen etc."),
        Y=csr_array(hstack([other.Y, unknown])),
        fingerprint="2" * 64,
    )
    before = replace(TEST, texts=("learnt from", *TEST.texts[1:]))
    remarks = report(models[0], odd, trained_on=before).findings[0].remarks
    assert [remark.split(":")[0] for remark in remarks] == [
        "1 document stands in the training data too",
        "1 document is a copy of another one here",
        "1 document is empty.",
        "The model does not know 1 label of 1 document, which count as wrong",
        "1 label occurs in fewer than 5 documents",
    ]
    assert remarks[3].endswith("which count as wrong: 'never seen etc.'.")
    learnt = corpora.texts(150, seed=1, lost=LOST)
    assert "these very documents" in report(models[0], learnt).findings[0].remarks[0]


def test_a_model_that_answers_alike_whatever_it_reads_is_named(models):
    metrics = report(models[0], TEST).findings[0].metrics
    alike = np.zeros((TEST.n, len(TEST.label_names)), dtype=np.uint8)
    alike[:, 1] = 1
    said = f"gives the same set to every document ({TEST.label_names[1]!r})"
    for told, one_differs in ((True, False), (False, True)):
        alike[3, 1] = not one_differs
        remarks = remarks_on(TEST, models[0], metrics, None, csr_array(alike))
        assert any(said in remark for remark in remarks) == told
    same = replace(TEST, texts=("fever",) * TEST.n)
    remarks = remarks_on(same, models[0], metrics, None, csr_array(np.ones_like(alike)))
    assert not any("same set" in remark for remark in remarks)


def test_parts_of_the_documents_add_up_to_all(models):
    sites = [None if row % 7 == 0 else f"site {row % 13}" for row in range(TEST.n)]
    right, sent = np.arange(TEST.n) % 5 != 0, np.arange(TEST.n) % 3 == 0
    for parts in (slices_of("site", sites, right, sent), slices_by_length(TEST, right, sent)):
        assert sum(part.n for part in parts) == TEST.n
        assert sum(part.n_right for part in parts) == right.sum()
        assert sum(part.n_sent for part in parts) == sent.sum()
        assert sum(part.n_sent_right for part in parts) == (right & sent).sum()
    names = [part.name for part in slices_of("site", sites, right, sent)]
    assert "(none)" in names
    assert names[-1] == "4 others"
    made = report(models[0], TEST, by={"site": sites})
    assert {"characters", "site"} == {part.by for part in made.findings[0].slices}
    assert "site: site 1" in made.html
    with pytest.raises(ValueError, match="'site' has 3 values for 80 documents"):
        report(models[0], TEST, by={"site": sites[:3]})


def test_words_that_explain_a_document_are_no_numbers_and_no_single_letters():
    data = corpora.texts(150, seed=1)
    marked = data.Y.toarray()[:, 0].astype(bool) & (np.arange(data.n) % 2 == 0)
    texts = [
        text + " 75 co spirometry" * int(k) for text, k in zip(data.texts, marked, strict=True)
    ]
    model = quietly(replace(data, texts=tuple(texts)), OPTIONS)
    row = model.read([PredictionInput(text="75 co spirometry")]).rows.to_matrix()
    (terms,) = weigh_terms(model, row, ["label 0"])
    assert "75" in model.feature_names
    assert [term.name for term in terms] == ["spirometry"]


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


def test_a_label_in_the_table_is_no_formula():
    rows = label_table([["=HYPERLINK(1)", "plain"]], [["plain"]]).rows
    lines = _as_csv(rows).splitlines()
    assert [line.partition(",")[0] for line in lines] == ["label", "'=HYPERLINK(1)", "plain"]
