"""What a report shows of one model: computed once, drawn by `figures` and `page`."""

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.classifier import SetClassifier
from setwise.models.data.datasets import Dataset
from setwise.models.data.documents import PredictionInput
from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.confusions import ConfusedLabels, confused_labels
from setwise.models.evaluation.evaluation import measure, reading, train_seconds
from setwise.models.evaluation.explanation import weigh_terms
from setwise.models.evaluation.metrics import Metrics
from setwise.models.evaluation.reliability import draw_reliability
from setwise.models.evaluation.report.remarks import remarks_on
from setwise.models.evaluation.report.slices import Slice, slices_by_length, slices_of
from setwise.models.guarantees.certificates import Certificate, Certification
from setwise.models.guarantees.certify import certify
from setwise.models.predictor import SetPredictor
from setwise.models.results import AutomationAt, ReliabilityCurve

Progress = Callable[[float], None]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MOST_ERRORS = 20
MOST_PAIRS = 15
_TERMS = 6  # words for or against a label
_EXCERPT = 280  # characters of a document
_FEW = 30  # documents below which no curve is drawn


@dataclass(frozen=True)
class WrongLabel:
    """A label that was predicted wrongly, or is missing, and the words that speak for and against.

    ``terms`` are empty if another model scores the labels.
    """

    label: str
    extra: bool
    terms: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ConfidentError:
    """A wrong label set of a high confidence."""

    document: str
    excerpt: str
    confidence: float
    predicted: tuple[str, ...]
    true: tuple[str, ...]
    labels: tuple[WrongLabel, ...]


@dataclass(frozen=True)
class SizeAccuracy:
    """How often sets of one size are right."""

    size: int
    n: int
    n_right: int


@dataclass(frozen=True, eq=False)
class ModelFindings:
    """One model on one set of documents.

    Attributes
    ----------
    name : str
    kind : str
        What the model reads: "text", "vectors" or "external".
    metrics : Metrics
        With the table of labels.
    confidence : float64 ndarray of shape (n,)
    right : bool ndarray of shape (n,)
    curve : ReliabilityCurve or None
        None for fewer than thirty documents.
    proof : Certificate or CertificateRefusal
        Of the target, with these documents as a random sample.
    measured : AutomationAt
        The lowest threshold that reaches the target on these documents, which proves nothing.
    errors : tuple of ConfidentError
        The most confident first.
    pairs : tuple of ConfusedLabels
        The most frequent first.
    sizes : tuple of SizeAccuracy
        By the number of predicted labels.
    slices : tuple of Slice
        By the length of texts, and by what else divides the documents.
    remarks : tuple of str
        What makes the figures worth less than they look.
    facts : mapping of str to str
        How the model was made and run.
    """

    name: str
    kind: str
    metrics: Metrics
    confidence: Floats
    right: Bools
    curve: ReliabilityCurve | None
    proof: Certification
    measured: AutomationAt
    errors: tuple[ConfidentError, ...]
    pairs: tuple[ConfusedLabels, ...]
    sizes: tuple[SizeAccuracy, ...]
    slices: tuple[Slice, ...]
    remarks: tuple[str, ...]
    facts: Mapping[str, str]


def gather_findings(
    model: SetPredictor | SetClassifier,
    dataset: Dataset,
    *,
    name: str,
    target: float,
    risk: float,
    by: Mapping[str, Sequence[object]] | None = None,
    trained_on: Dataset | None = None,
    progress: Progress | None = None,
) -> ModelFindings:
    """Predict the documents, and return everything that the report shows.

    Raises
    ------
    ValueError
        If the documents do not fit the model, or target or risk are out of range.
    """
    predictor, dataset = reading(model, dataset)
    running, dataset, seconds = measure(predictor, dataset, progress)
    metrics = running.finished(dataset.label_names, train_seconds(predictor), seconds)
    confidence, right = running.confidence, running.right
    true, predicted = running.label_sets()
    proof = certify(confidence, right, target=target, risk=risk)
    sent = confidence >= (proof.threshold if isinstance(proof, Certificate) else np.inf)
    return ModelFindings(
        name,
        predictor.kind,
        metrics,
        confidence,
        right,
        draw_reliability(confidence, right) if len(right) >= _FEW else None,
        proof,
        automation_at(target, confidence, right),
        tuple(_errors(predictor, dataset, confidence, right, (true, predicted))),
        confused_labels(
            (
                (set(_names(dataset, predicted, row)), set(_names(dataset, true, row)))
                for row in np.flatnonzero(~right).tolist()
            ),
            MOST_PAIRS,
        ),
        _sizes(predicted, right),
        slices_by_length(dataset, right, sent)
        + tuple(
            part
            for name, values in (by or {}).items()
            for part in slices_of(name, values, right, sent)
        ),
        remarks_on(
            dataset,
            predictor,
            metrics,
            None if trained_on is None else _as_read(predictor, trained_on),
            predicted,
        ),
        _facts(predictor, metrics),
    )


def _as_read(predictor: SetPredictor, dataset: Dataset) -> Dataset:
    features = None if predictor.vectorizer is not None else predictor.feature_names
    return dataset.in_columns_of(predictor.label_names, features)


def _errors(
    predictor: SetPredictor,
    dataset: Dataset,
    confidence: Floats,
    right: Bools,
    sets: tuple[csr_array, csr_array],
) -> list[ConfidentError]:
    wrong = np.flatnonzero(~right)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:MOST_ERRORS]
    errors = []
    for row in worst.tolist():
        true, predicted = (_names(dataset, matrix, row) for matrix in sets)
        odd = [label for label in (*predicted, *true) if (label in predicted) != (label in true)]
        terms = _terms(predictor, dataset, row, odd)
        errors.append(
            ConfidentError(
                str(dataset.ids[row]),
                "" if dataset.texts is None else _excerpt(dataset.texts[row]),
                float(confidence[row]),
                predicted,
                true,
                tuple(WrongLabel(label, label in predicted, terms.get(label, ())) for label in odd),
            )
        )
    return errors


def _terms(
    predictor: SetPredictor, dataset: Dataset, row: int, labels: list[str]
) -> dict[str, tuple[tuple[str, float], ...]]:
    known = [label for label in labels if label in predictor.label_names]
    if predictor.kind == "external" or not known:
        return {}
    if dataset.texts is not None:
        document = predictor.read([PredictionInput(text=dataset.texts[row])]).rows.to_matrix()
    elif dataset.X is not None:
        document = dataset.X[row : row + 1]
    else:
        return {}
    weighed = weigh_terms(predictor, document, known, n_terms=_TERMS)
    return {
        label: tuple((term.name, term.weight) for term in terms)
        for label, terms in zip(known, weighed, strict=True)
    }


def _names(dataset: Dataset, matrix: csr_array, row: int) -> tuple[str, ...]:
    columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
    return tuple(sorted(dataset.label_names[column] for column in columns))


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT].rstrip()}…"


def _sizes(predicted: csr_array, right: Bools) -> tuple[SizeAccuracy, ...]:
    size = np.diff(predicted.indptr)
    return tuple(
        SizeAccuracy(number, int((size == number).sum()), int(right[size == number].sum()))
        for number in np.unique(size).tolist()
    )


def _facts(predictor: SetPredictor, metrics: Metrics) -> dict[str, str]:
    training = predictor.manifest.get("training", {})
    data = predictor.manifest.get("data", {})
    facts = {
        "model": f"version {predictor.version}, calibrator {predictor.calibrator_version}",
        "method": str(predictor.manifest.get("method", "")),
        "preset": str(training.get("preset", "")),
        "seed": str(training.get("seed", "")),
        "trained on": f"{data['n_documents']:,} documents" if "n_documents" in data else "",
        "training time": _seconds(metrics.train_seconds),
        "prediction": ""
        if metrics.documents_per_second is None
        else f"{metrics.documents_per_second:,.0f} documents a second",
        "memory": _memory(),
        "software": f"Setwise {version('setwise')}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}",
    }
    return {name: fact for name, fact in facts.items() if fact}


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.1f} seconds"


def _memory() -> str:
    """Return the most memory that this process has held; nothing where Python cannot tell."""
    if sys.platform == "win32":
        return ""
    import resource  # noqa: PLC0415 -- not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megabytes = most / (1e6 if sys.platform == "darwin" else 1e3)
    return f"{megabytes:,.0f} MB at most"
