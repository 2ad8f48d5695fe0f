"""Explains a fitted predictor and its chosen label sets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from setwise.models.data.rows import SparseRows
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.mixtures.mixture_candidates import MixtureCandidates, SomeMixture
from setwise.models.mixtures.mixture_em import responsibilities
from setwise.models.mixtures.mixture_explanation import label_correlation
from setwise.models.predictions import RankedSet, SetPredictions
from setwise.models.predictor import SetPredictor

# A correlation below this explains nothing.
_LEAST_CORRELATION = 0.05

# Maximum number of companions per label, and of components per set.
_MAX_COMPANIONS = 3
_MAX_COMPONENTS = 4


# ASCII letters of a word that says nothing by itself, such as "s" and "co".
_FEW_LETTERS = 2

# Inverse document frequency of words that .4 of the training documents have.
_COMMON = 1.0 - np.log(0.4)


class Term(NamedTuple):
    """A feature and its weight in log-odds."""

    name: str
    weight: float


class LabelRate(NamedTuple):
    """A label and its rate among a component's documents, in [0, 1]."""

    label: str
    rate: float


class LearntLabel(NamedTuple):
    """The features in favour of a label."""

    label: str
    # The largest positive coefficients of its classifier, per unit of the weighted feature.
    terms: tuple[Term, ...]


class LearntComponent(NamedTuple):
    """Typical labels and features of a mixture component."""

    component: int
    share: float  # of the training documents
    labels: tuple[LabelRate, ...]  # those that distinguish it from the others
    # Features that favour it, with the gate's coefficients; with a kernel or trees, the
    # deviations by which their means inside exceed those of all documents.
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class LearntModel:
    """Description of a fitted predictor."""

    method: str
    components: tuple[LearntComponent, ...]  # largest first; empty if the method has no mixture
    labels: tuple[LearntLabel, ...]  # in the order of the model


class Companion(NamedTuple):
    """A label of the set that makes another label more likely."""

    label: str
    probability: float  # its own marginal
    correlation: float  # of both labels given the document (thesis, eq. 3.3), positive


@dataclass(frozen=True)
class WhyLabel:
    """Explanation of a label of the set."""

    label: str
    sentence: str  # the reason in words
    probability: float  # of the label on its own, before label sets are compared
    given_others: float | None  # given all other labels, present and absent; only of a mixture
    confidence_without: float | None  # of the best candidate without the label, if there is one
    companions: tuple[Companion, ...]  # most correlated first; only of a mixture
    terms: tuple[Term, ...]  # the document's features with their log-odds, largest first


class PartOfComponent(NamedTuple):
    """A component's part in a set."""

    component: int
    weight: float  # given the document
    share: float  # of the set's probability
    labels: tuple[LabelRate, ...]  # those that distinguish it in training


@dataclass(frozen=True)
class WhySet:
    """Explanation of a document's label set; less without a mixture."""

    labels: tuple[str, ...]
    confidence: float
    reasons: tuple[WhyLabel, ...]  # one per label of the set
    joint: float | None  # probability of the set under the mixture
    product: float | None  # the same if the labels were independent
    components: tuple[PartOfComponent, ...]  # those behind the set


def describe_model(predictor: SetPredictor, *, n_labels: int = 5, n_terms: int = 8) -> LearntModel:
    """Return a description of a fitted predictor.

    At most ``n_labels`` labels are listed per component, and ``n_terms`` features per component and
    per label.
    """
    coef = _coefficients(predictor)
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

    ``X`` is as for `SetPredictor.predict`. At most ``n_labels`` labels are listed per component,
    and ``n_terms`` of the document's features per label.
    """
    predictions = predictor.predict(X)
    coef, rows = _coefficients(predictor), _weighted(predictor, X)
    X = predictor.scaled(X)
    column = {name: place for place, name in enumerate(predictor.label_names)}
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
            mixture = predictor.source.mixture_
            yield _by_mixture(mixture, X[i : i + 1], ranked, chosen, terms, component_labels=names)
        else:
            yield by_candidates(predictions, i, ranked, chosen, terms)


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
        largest in absolute value first; negative ones are against the label. Of texts only words
        that tell people something: no single letters, and none that most documents have.

    Raises
    ------
    ValueError
        If a label is unknown.
    """
    chosen = label_columns(predictor, labels)
    if not labels:
        return []
    rows = _weighted(predictor, row)
    features = rows.indices[rows.indptr[0] : rows.indptr[1]]
    added = _contributions(_coefficients(predictor), chosen, rows, 0)
    weighed = []
    for weights in added:
        order = np.argsort(-np.abs(weights), kind="stable")
        telling = (k for k in order if weights[k] != 0.0 and _tells(predictor, int(features[k])))
        weighed.append(
            tuple(
                Term(predictor.feature_names[int(features[k])], float(weights[k]))
                for k in islice(telling, n_terms)
            )
        )
    return weighed


def _tells(predictor: SetPredictor, feature: int) -> bool:
    """Return whether a feature says something to people who read that it weighs."""
    if predictor.vectorizer is None:
        return True
    word = predictor.feature_names[feature]
    if word.isdecimal() or (len(word) <= _FEW_LETTERS and word.isascii() and word.isalpha()):
        return False
    return bool(predictor.vectorizer.idf_[feature] > _COMMON)


def label_columns(predictor: SetPredictor, labels: Sequence[str]) -> list[int]:
    """Return the columns of labels.

    Raises
    ------
    ValueError
        If a label is unknown.
    """
    column = {name: place for place, name in enumerate(predictor.label_names)}
    unknown = [label for label in labels if label not in column]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a label of the model")
    return [column[label] for label in labels]


def _coefficients(predictor: SetPredictor) -> csr_array:
    """Return the coefficients (n_labels, n_features) of features that people can read.

    Those of n-grams are 0, as are all if another model scores labels.
    """
    if isinstance(predictor.base, BinaryRelevance):
        coef = predictor.base.added_by_features()
        if predictor.vectorizer is not None and predictor.vectorizer.ngrams:
            coef = coef.copy()
            coef.data[coef.indices >= predictor.vectorizer.n_named] = 0.0
        return coef
    n_labels, none = len(predictor.label_names), np.zeros(0, dtype=np.int32)
    shape = (n_labels, len(predictor.feature_names))
    return csr_array((none, none, np.zeros(n_labels + 1, dtype=np.int32)), shape=shape)


def _weighted(predictor: SetPredictor, X: csr_array) -> csr_array:
    """Return the features of documents as the coefficients multiply them."""
    rows, labels = SparseRows.of(predictor.scaled(X)), predictor.base
    weighted = labels.weighting_.weigh(rows) if isinstance(labels, BinaryRelevance) else rows
    return weighted.to_matrix()


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
    mixture: SomeMixture,
    row: csr_array,
    ranked: Sequence[RankedSet],
    chosen: Sequence[int],
    terms: Sequence[tuple[Term, ...]],
    *,
    component_labels: Mapping[int, tuple[LabelRate, ...]],
) -> WhySet:
    log_weights, logits = (part[0] for part in mixture.parameters(row))
    weights, means = np.exp(log_weights), expit(logits)
    marginals = weights @ means
    joint = log_weights - np.logaddexp(0.0, logits).sum(axis=1) + logits[:, chosen].sum(axis=1)
    shares, log_p = responsibilities(joint[None, :])
    correlation = label_correlation(weights, means)
    best = ranked[0]
    reasons = []
    for place, (label, name) in enumerate(zip(chosen, best.labels, strict=True)):
        without = responsibilities((joint - logits[:, label])[None, :])[1][0]
        companions = [
            Companion(other, float(marginals[j]), float(correlation[label, j]))
            for j, other in zip(chosen, best.labels, strict=True)
            if j != label and correlation[label, j] > _LEAST_CORRELATION
        ]
        companions = sorted(companions, key=lambda other: -other.correlation)[:_MAX_COMPANIONS]
        marginal, given_others = float(marginals[label]), float(expit(log_p[0] - without))
        reasons.append(
            WhyLabel(
                name,
                _brought(name, marginal, given_others, companions),
                marginal,
                given_others,
                _confidence_without(ranked, name),
                tuple(companions),
                terms[place],
            )
        )
    present = np.zeros(len(marginals), dtype=bool)
    present[chosen] = True
    top = np.argsort(-shares[0], kind="stable")[:_MAX_COMPONENTS].tolist()
    return WhySet(
        best.labels,
        best.confidence,
        tuple(reasons),
        float(np.exp(log_p[0])),
        float(np.prod(np.where(present, marginals, 1.0 - marginals))),
        tuple(
            PartOfComponent(k, float(weights[k]), float(shares[0, k]), component_labels[k])
            for k in top
        ),
    )


def _brought(
    name: str, marginal: float, given_others: float, companions: Sequence[Companion]
) -> str:
    """Return why a mixture's set holds a label, as a sentence."""
    if not marginal <= 0.5 < given_others:
        return f"`{name}` has probability {marginal:.2f} on its own"
    likely = [f"`{companion.label}`" for companion in companions if companion.probability > 0.5]
    if not likely:
        return f"`{name}` was added because the whole set is likelier with it"
    verb = "is" if len(likely) == 1 else "are"
    listed = " and ".join([", ".join(likely[:-1]), likely[-1]] if likely[1:] else likely)
    return f"`{name}` was added because {listed} {verb} likely"


def by_candidates(
    predictions: SetPredictions,
    row: int,
    ranked: Sequence[RankedSet],
    chosen: Sequence[int],
    terms: Sequence[tuple[Term, ...]],
) -> WhySet:
    """Return why a set was chosen among candidates, without a mixture."""
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
