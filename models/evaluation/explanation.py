"""Explains a fitted predictor and its chosen label sets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.mixtures.mixture_explanation import LabelReason, SetExplanation
from setwise.models.predictor import RankedSet, SetPredictions, SetPredictor, UnknownFeatures
from setwise.models.sets.candidates import RaggedSets
from setwise.models.sets.features import PriorFeatures


class Term(NamedTuple):
    """A feature and its weight in log-odds."""

    name: str
    weight: float


class LabelRate(NamedTuple):
    """A label and its rate among a component's documents, in [0, 1]."""

    label: str
    rate: float


class LearntLabel(NamedTuple):
    """The features in favour of a label.

    Attributes
    ----------
    label : str
    terms : tuple of Term
        Features with the largest positive coefficients of the label's classifier, per unit of the
        feature as the classifier weights it; largest first.
    """

    label: str
    terms: tuple[Term, ...]


class LearntComponent(NamedTuple):
    """Typical labels and features of a mixture component.

    Attributes
    ----------
    component : int
    share : float
        Share of the training documents that belong to it.
    labels : tuple of LabelRate
        The labels that distinguish it from the others.
    terms : tuple of Term
        Features that favour it, with the gate's coefficients; with a kernel or label scores, the
        deviations by which their means inside exceed those of all documents.
    """

    component: int
    share: float
    labels: tuple[LabelRate, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class LearntModel:
    """Description of a fitted predictor.

    Attributes
    ----------
    method : str
    components : tuple of LearntComponent
        Largest first; empty if the method has no mixture.
    labels : tuple of LearntLabel
        In the order of the model.
    """

    method: str
    components: tuple[LearntComponent, ...]
    labels: tuple[LearntLabel, ...]


class Companion(NamedTuple):
    """A label of the set that makes another label more likely.

    Attributes
    ----------
    label : str
    probability : float
        Marginal probability of this label.
    correlation : float
        Pearson correlation of the two labels given the document (thesis, eq. 3.3), positive.
    """

    label: str
    probability: float
    correlation: float


@dataclass(frozen=True)
class WhyLabel:
    """Explanation of a label of the set.

    Attributes
    ----------
    label : str
    sentence : str
        The reason in words.
    probability : float
        Probability of the label on its own, before label sets are compared.
    given_others : float or None
        Probability given all other labels, present and absent; None without a mixture.
    confidence_without : float or None
        Confidence of the best candidate without the label; None if all have it.
    companions : tuple of Companion
        Most correlated first; none without a mixture.
    terms : tuple of Term
        Contributions of the document's features to the label's log-odds, largest first.
    """

    label: str
    sentence: str
    probability: float
    given_others: float | None
    confidence_without: float | None
    companions: tuple[Companion, ...]
    terms: tuple[Term, ...]


class PartOfComponent(NamedTuple):
    """A component's part in a set.

    Attributes
    ----------
    component : int
    weight : float
        Its weight given the document.
    share : float
        Share of the set's probability that comes from it.
    labels : tuple of LabelRate
        The labels that distinguish it from the others, in training.
    """

    component: int
    weight: float
    share: float
    labels: tuple[LabelRate, ...]


@dataclass(frozen=True)
class WhySet:
    """Explanation of a document's label set.

    Attributes
    ----------
    labels : tuple of str
    confidence : float
        Calibrated probability that the whole set is right.
    reasons : tuple of WhyLabel
        One per label of the set.
    joint : float or None
        Probability of the set under the mixture; None without one.
    product : float or None
        Probability of the set if the labels were independent.
    components : tuple of PartOfComponent
        Those behind the set; none without a mixture.
    """

    labels: tuple[str, ...]
    confidence: float
    reasons: tuple[WhyLabel, ...]
    joint: float | None
    product: float | None
    components: tuple[PartOfComponent, ...]


def describe_model(predictor: SetPredictor, *, n_labels: int = 5, n_terms: int = 8) -> LearntModel:
    """Return a description of a fitted predictor.

    Parameters
    ----------
    predictor : SetPredictor
    n_labels : int
        Maximum number of labels listed per component.
    n_terms : int
        Maximum number of features listed per component and per label.
    """
    coef = csr_array(predictor.base.coef_)
    labels = tuple(
        LearntLabel(
            name,
            _largest(
                predictor.feature_names,
                coef.indices[coef.indptr[row] : coef.indptr[row + 1]],
                coef.data[coef.indptr[row] : coef.indptr[row + 1]],
                n_terms,
            ),
        )
        for row, name in enumerate(predictor.label_names)
    )
    components: tuple[LearntComponent, ...] = ()
    if isinstance(predictor.source, MixtureCandidates):
        components = tuple(
            LearntComponent(
                summary.component,
                summary.share,
                tuple(LabelRate(predictor.label_names[j], rate) for j, rate in summary.labels),
                tuple(Term(predictor.feature_names[j], weight) for j, weight in summary.features),
            )
            for summary in predictor.source.mixture_.describe_components(n_labels, n_terms)
        )
    return LearntModel(str(predictor.manifest.get("method", "")), components, labels)


def explain_rows(
    predictor: SetPredictor, X: csr_array, *, n_labels: int = 3, n_terms: int = 5
) -> Iterator[WhySet]:
    """Yield an explanation of each document's label set.

    Parameters
    ----------
    predictor : SetPredictor
    X : csr_array of shape (n_documents, n_features)
        As for `SetPredictor.predict`.
    n_labels : int
        Maximum number of labels listed per component.
    n_terms : int
        Maximum number of the document's features listed per label.
    """
    predictions = predictor.predict(X)
    X = predictor.scaled(X)
    rows = predictor.base.weighting_.transform(X)
    column = {name: place for place, name in enumerate(predictor.label_names)}
    coef = csr_array(predictor.base.coef_)
    names: dict[int, tuple[LabelRate, ...]] = {}
    if isinstance(predictor.source, MixtureCandidates):
        names = {
            c.component: c.labels
            for c in describe_model(predictor, n_labels=n_labels, n_terms=0).components
        }
    for i in range(rows.shape[0]):
        ranked = predictions.ranked(i)
        chosen = [column[name] for name in ranked[0].labels]
        features = rows.indices[rows.indptr[i] : rows.indptr[i + 1]]
        added = _contributions(coef, chosen, rows, i)
        terms = [_largest(predictor.feature_names, features, part, n_terms) for part in added]
        if isinstance(predictor.source, MixtureCandidates):
            why = predictor.source.mixture_.explain(X[i : i + 1], chosen)
            yield _by_mixture(predictor.label_names, ranked, why, terms, names)
        else:
            yield _by_candidates(predictions, i, ranked, chosen, terms)


def weigh_terms(
    predictor: SetPredictor, row: csr_array, labels: Sequence[str], *, n_terms: int = 24
) -> list[tuple[Term, ...]]:
    """Return a document's features for and against labels.

    Parameters
    ----------
    predictor : SetPredictor
    row : csr_array of shape (1, n_features)
        As returned by `document_row`.
    labels : sequence of str
        Of the predictor's `label_names`.
    n_terms : int
        Maximum number of features listed per label.

    Returns
    -------
    list of tuple of Term
        For each label the document's features with their contributions to the label's log-odds,
        largest in absolute value first; negative ones are against the label.

    Raises
    ------
    ValueError
        If a label is unknown.
    """
    column = {name: place for place, name in enumerate(predictor.label_names)}
    unknown = [label for label in labels if label not in column]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a label of the model")
    if not labels:
        return []
    rows = predictor.base.weighting_.transform(predictor.scaled(row))
    features = rows.indices[rows.indptr[0] : rows.indptr[1]]
    added = _contributions(
        csr_array(predictor.base.coef_), [column[one] for one in labels], rows, 0
    )
    weighed = []
    for weights in added:
        order = np.argsort(-np.abs(weights), kind="stable")[:n_terms]
        weighed.append(
            tuple(
                Term(predictor.feature_names[int(features[k])], float(weights[k]))
                for k in order
                if weights[k] != 0.0
            )
        )
    return weighed


def seen_sets(predictor: SetPredictor, sets: Sequence[Sequence[str]]) -> list[bool]:
    """Return whether each label set occurs in training.

    A set with a label unknown to the predictor is unseen. True for every set if the predictor has
    no counts of training sets.
    """
    groups = (group for group in predictor.features.groups_ if isinstance(group, PriorFeatures))
    counted = next(groups, None)
    if counted is None:
        return [True] * len(sets)
    column = {name: place for place, name in enumerate(predictor.label_names)}
    known = [sorted(column.get(label, -1) for label in labels) for labels in sets]
    # Column -1 stands for a label that no training document can have.
    rows = [row if row[:1] != [-1] else [] for row in known]
    wanted = RaggedSets(
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array([label for row in rows for label in row], dtype=np.int32),
    )
    counts = counted.counts_.lookup_sets(wanted)
    return [bool(count > 0) and row[:1] != [-1] for count, row in zip(counts, known, strict=True)]


def document_row(predictor: SetPredictor, document: str | Mapping[str, float]) -> csr_array:
    """Return a text or named numbers as a row for `SetPredictor.predict`.

    Raises
    ------
    UnknownFeatures
        If a name is not one of the model's features.
    ValueError
        If the model takes the other kind of document.
    """
    if isinstance(document, str):
        if predictor.vectorizer is None:
            raise ValueError("this model was trained on vectors: give features, not text")
        return predictor.vectorizer.transform([document])
    if predictor.vectorizer is not None:
        raise ValueError("this model was trained on texts: give text, not features")
    column = {name: place for place, name in enumerate(predictor.feature_names)}
    unknown = [name for name in document if name not in column]
    if unknown:
        raise UnknownFeatures(unknown)
    given = sorted((column[name], value) for name, value in document.items())
    values = np.array([value for _, value in given], dtype=np.float64)
    places = np.array([place for place, _ in given], dtype=np.int32)
    indptr = np.array([0, len(given)], dtype=np.int32)
    return csr_array((values, places, indptr), shape=(1, len(column)))


def _largest(
    names: Sequence[str],
    features: NDArray[np.int32],
    weights: NDArray[np.float32] | NDArray[np.float64],
    limit: int,
) -> tuple[Term, ...]:
    """Return the features of the largest positive weights."""
    order = np.argsort(-weights, kind="stable")[:limit]
    return tuple(
        Term(names[int(features[k])], float(weights[k])) for k in order if weights[k] > 0.0
    )


def _contributions(
    coef: csr_array, labels: Sequence[int], rows: csr_array, row: int
) -> NDArray[np.float64]:
    """Return the features' contributions (labels, features) to log-odds."""
    here = slice(rows.indptr[row], rows.indptr[row + 1])
    used = coef[np.asarray(labels, dtype=np.int64)][:, rows.indices[here]].toarray()
    return np.asarray(used * rows.data[here], dtype=np.float64)


def _confidence_without(ranked: Sequence[RankedSet], label: str) -> float | None:
    others = [candidate.confidence for candidate in ranked if label not in candidate.labels]
    return max(others, default=None)


def _by_mixture(
    label_names: Sequence[str],
    ranked: Sequence[RankedSet],
    why: SetExplanation,
    terms: Sequence[tuple[Term, ...]],
    component_labels: dict[int, tuple[LabelRate, ...]],
) -> WhySet:
    of_label = {
        label_names[reason.label]: (reason, own)
        # `explain` sorts the labels, which is also the order of candidates.
        for reason, own in zip(why.reasons, terms, strict=True)
    }
    return WhySet(
        ranked[0].labels,
        ranked[0].confidence,
        tuple(
            _why_label(label_names, *of_label[label], _confidence_without(ranked, label))
            for label in ranked[0].labels
        ),
        why.probability,
        why.product,
        tuple(
            PartOfComponent(c.component, c.weight, c.responsibility, component_labels[c.component])
            for c in why.components
        ),
    )


def _why_label(
    label_names: Sequence[str],
    reason: LabelReason,
    terms: tuple[Term, ...],
    without: float | None,
) -> WhyLabel:
    return WhyLabel(
        label_names[reason.label],
        reason.describe(label_names),
        reason.marginal,
        reason.given_others,
        without,
        tuple(
            Companion(label_names[s.label], s.marginal, s.correlation) for s in reason.supporters
        ),
        terms,
    )


def _by_candidates(
    predictions: SetPredictions,
    row: int,
    ranked: Sequence[RankedSet],
    chosen: Sequence[int],
    terms: Sequence[tuple[Term, ...]],
) -> WhySet:
    reasons = []
    for place, label in enumerate(ranked[0].labels):
        probability = float(predictions.label_probability[row, chosen[place]])
        without = _confidence_without(ranked, label)
        sentence = _alone(label, probability, ranked[0].confidence, without)
        reasons.append(WhyLabel(label, sentence, probability, None, without, (), terms[place]))
    return WhySet(ranked[0].labels, ranked[0].confidence, tuple(reasons), None, None, ())


def _alone(label: str, probability: float, confidence: float, without: float | None) -> str:
    if probability > 0.5 or without is None:
        return f"`{label}` has probability {probability:.2f} on its own"
    if without < confidence:
        return (
            f"`{label}` was added because the set with it has confidence {confidence:.2f}, "
            f"the best without it {without:.2f}"
        )
    return (
        f"`{label}` has probability {probability:.2f} on its own, and no set without it is more "
        "probable"
    )
