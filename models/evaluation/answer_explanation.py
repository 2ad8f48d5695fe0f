"""Explains the label probabilities of an external predictor."""

from collections.abc import Sequence
from itertools import pairwise

from scipy.special import logit

from setwise.models.data.answers import ModelAnswers
from setwise.models.evaluation.explanation import Term, WhySet, by_candidates, label_columns
from setwise.models.predictor import ReadDocuments, SetPredictor

# A smaller change of log-odds explains nothing.
_LEAST_WEIGHT = 0.05


def weigh_answer(
    predictor: SetPredictor, document: ReadDocuments, labels: Sequence[str]
) -> list[tuple[Term, ...]]:
    """Return the evidence for and against labels of one document.

    Parameters
    ----------
    predictor : SetPredictor
        External.
    document : ReadDocuments
        A document alone.
    labels : sequence of str

    Returns
    -------
    list of tuple of Term
        For each label what the other model answered, what its answers were worth in training and
        what similar documents say, in log-odds that add up to those of the label's probability.

    Raises
    ------
    ValueError
        If a label is unknown, or the predictor is not external.
    """
    chosen = label_columns(predictor, labels)
    rows, answers, _ = document
    if answers is None:
        raise ValueError("this model reads documents, not another model's answers")
    evidence = predictor.evidence(rows.to_matrix(), answers)
    raw, final = evidence.logits[0], logit(evidence.marginals[0])
    calibrated = logit(predictor.label_calibrator.transform(evidence.logits))[0]
    weighed = []
    for j in chosen:
        terms = (
            Term(_answered(answers, j), float(raw[j])),
            Term("such answers in training", float(calibrated[j] - raw[j])),
            Term("similar documents", float(final[j] - calibrated[j])),
        )
        telling = [term for term in terms if abs(term.weight) >= _LEAST_WEIGHT]
        weighed.append(tuple(sorted(telling, key=lambda term: -abs(term.weight))))
    return weighed


def explain_answer(predictor: SetPredictor, document: ReadDocuments, *, n_terms: int = 5) -> WhySet:
    """Return an explanation of one document's label set.

    ``document`` is alone; the other parameters are those of
    `setwise.models.evaluation.explanation.explain_rows`.
    """
    predictions = predictor.rank(document)
    ranked = predictions.ranked(0)
    labels = ranked[0].labels
    chosen = label_columns(predictor, labels)
    terms = [terms[:n_terms] for terms in weigh_answer(predictor, document, labels)]
    return by_candidates(predictions, 0, ranked, chosen, terms)


def _answered(answers: ModelAnswers, label: int) -> str:
    """Return what another model answered of one document's label, in words."""
    parts = []
    if answers.scores is not None and answers.scores.nnz:
        columns = answers.scores.indices.tolist()
        if label in columns:
            parts.append(f"probability {answers.scores.data[columns.index(label)]:.3g}")
        else:
            parts.append("no probability")
    total = int(answers.n_answers[0])
    if total:
        bounds = answers.sets.indptr.tolist()
        holds = [
            label in answers.sets.labels[first:last].tolist() for first, last in pairwise(bounds)
        ]
        count = int(answers.counts[holds].sum())
        parts.append(f"in {count} of {total} answers" if total > 1 else _of_one(count))
    return f"the other model: {', '.join(parts)}"


def _of_one(count: int) -> str:
    return "in its answer" if count else "not in its answer"
