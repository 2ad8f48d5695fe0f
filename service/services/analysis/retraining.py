"""Fit a model on earlier training documents and on what people decided."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.noisy_history import EVERYONE
from setwise.models.data.dataset_files import check_trainable, labelled_dataset, read_dataset
from setwise.models.data.datasets import Dataset, concatenate_datasets
from setwise.models.data.documents import read_documents
from setwise.models.data.formats.reviews import GOLD, reviewed_lines
from setwise.models.data.lines import DataError
from setwise.models.evaluation.metrics import training_remark
from setwise.models.options import (
    EXPERTS,
    LABELS_BY,
    METHODS,
    TEXTS_BY,
    Preset,
    TrainingOptions,
)
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service.domain.annotators import Rates
from setwise.service.domain.errors import InvalidRequest, NotEnoughReviews
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.recalibration import EXACT, Progress
from setwise.service.domain.retraining import FIRST_TEXTS, LEAST_DOCUMENTS
from setwise.service.services.analysis.marked import measure_marked
from setwise.shown import members

_READ: Mapping[str, Literal["text", "features"]] = {"text": "text", "vectors": "features"}
_CONTENT = {
    "text": ("text",),
    "vectors": ("features",),
    "external": ("answer_scores", "answer_candidates", "answer"),
}

SOURCE = "the reviews"


def fit_again(
    rows: Iterable[tuple[Mapping[str, object], Rates | str | None]],
    history: Path | None,
    serving: ModelVersion | None,
    *,
    labels: Sequence[str] = (),
    preset: str | None,
    target: Path,
    report: Progress,
) -> Mapping[str, object]:
    """Write a fitted model to a folder; return what it was learnt from.

    Raises `InvalidRequest` if the history cannot be used; `NotEnoughReviews` if there is too little
    to learn from.

    ``rows``: Of the export of annotations, with content; certification audits teach nothing. Beside
    each, the error rates of the answer, why it is left out, or None to trust it.
    ``labels``: Of the model that serves.

    A model of texts that learns from answers alone is judged on those that were marked.
    """
    pairs = list(rows)
    reviewed = [_anonymous(row, rates) for row, rates in pairs]
    noise: dict[str, dict[str, float]] = {
        str(row["reviewer"]): rates._asdict()
        for row, (_, rates) in zip(reviewed, pairs, strict=True)
        if isinstance(rates, Rates)
    }
    summary = {} if serving is None else serving.summary
    kind = str(summary.get("kind", "text"))
    left_out: Counter[str] = Counter()
    datasets = []
    try:
        if history is not None:
            datasets.append(_earlier(history, kind, summary, reviewed, report))
            if noise:
                noise[EVERYONE] = _noise_before(summary)
        if any(row.get(key) is not None for row in reviewed for key in _CONTENT[kind]):
            decided = _reviewed(reviewed, kind, summary, left_out, known={*noise, GOLD})
            datasets += [] if decided is None else [decided]
        counts = [dataset.n for dataset in datasets]
        least = FIRST_TEXTS if kind == "text" else LEAST_DOCUMENTS
        if sum(counts) < least:
            why = "".join(f"; {n} left out: {reason}" for reason, n in left_out.items())
            raise NotEnoughReviews(
                f"{sum(counts)} documents with content and labels are too few to train on; "
                f"{least} are needed{why}. Name a file of earlier ones in training_data."
            )
        dataset = datasets[0] if len(datasets) == 1 else concatenate_datasets(*datasets)
        if kind == "external":
            known = {*labels}
            more = (name for name in dataset.label_names if name not in known)
            dataset = dataset.in_columns_of((*labels, *more), dataset.feature_names)
        check_trainable(dataset, SOURCE)
        options = replace(_options(serving, preset), noise=noise or None)
        measured = None
        if history is None and kind == "text":
            marked = _marked(dataset, reviewed)
            judging: Progress = lambda share, what: report(0.1 + 0.5 * share, what)  # noqa: E731
            measured = measure_marked(dataset, marked, options, judging)
        predictor = train(dataset, options, lambda share, what: report(0.6 + 0.2 * share, what))
    except DataError as error:
        raise InvalidRequest(f"The training data cannot be used: {error}") from error
    save(predictor, target)
    earlier = counts[0] if history is not None else 0
    remark = training_remark(predictor.manifest["metrics"])
    return {
        "documents": dataset.n,
        "earlier": earlier,
        "reviewed": dataset.n - earlier,
        "left_out": dict(left_out),
        **({} if measured is None else {"measured": members(measured)}),
        **({} if remark is None else {"remark": remark}),
    }


def _marked(dataset: Dataset, rows: Sequence[Mapping[str, object]]) -> NDArray[np.bool_]:
    """Return which documents were marked on arrival."""
    named = {
        f"{row['client_id']}/{row['document_id'] or row['prediction_id']}"
        for row in rows
        if row.get("marked")
    }
    return np.array([name in named for name in dataset.ids], dtype=bool)


def _anonymous(row: Mapping[str, object], rates: Rates | str | None) -> Mapping[str, object]:
    """Return a row whose reviewer's name stands for their error rates."""
    if rates is None:
        return row
    name = rates if isinstance(rates, str) else f"{rates.alpha!r} {rates.beta!r}"
    return {**row, "reviewer": name, "suggestion_shown": False}


def _reviewed(
    rows: Sequence[Mapping[str, object]],
    kind: str,
    summary: Mapping[str, object],
    left_out: Counter[str],
    *,
    known: Collection[str],
) -> Dataset | None:
    """Return the documents that people decided, if any, without answers of unknown rates."""
    lines = [json.dumps(row).encode() for row in rows]
    content: Literal["text", "features"] | None = _READ.get(kind)
    external = kind == "external"
    numbered = list(
        reviewed_lines(
            SOURCE,
            enumerate(lines, 1),
            content=content,
            answered=external,
            left_out=left_out,
        )
    )
    if not numbered:
        return None
    digest = hashlib.sha256(b"\n".join(lines)).hexdigest()
    documents = read_documents(SOURCE, numbered, external=external)
    dataset = labelled_dataset(documents, digest, SOURCE, numbers=_numbers(summary))
    if known == {GOLD}:
        return dataset
    by = dataset.annotators or ()
    left_out.update(str(name) for name in by if name not in known)
    return dataset.take(np.flatnonzero([name in known for name in by]))


def _earlier(
    file: Path,
    kind: str,
    summary: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    report: Progress,
) -> Dataset:
    """Return the history without documents that people decided since: later answers count."""
    history = read_dataset(
        file,
        external=kind == "external",
        numbers=_numbers(summary),
        progress=lambda share: report(0.1 * share, "reading the training data"),
    )
    if history.kind != kind:
        raise InvalidRequest(
            f"The training data holds {history.kind}, but the model that serves reads {kind}."
        )
    contents: Sequence[object] = history.ids
    if history.texts is not None:
        contents = history.texts
    elif history.X is not None:
        names, X = np.array(history.feature_names, dtype=object), history.X
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        contents = [_vector(names[X.indices[at:to]], X.data[at:to]) for at, to in bounds]
    known: set[object]
    if history.X is not None:
        features = (row.get("features") for row in rows)
        known = {
            _vector(vector.keys(), vector.values())
            for vector in features
            if isinstance(vector, dict)
        }
    else:
        known = {row.get("text" if history.texts is not None else "document_id") for row in rows}
    unlike = history.take(np.flatnonzero([content not in known for content in contents]))
    # Whose labels were noisy before is not known any more, only how noisy they were.
    by = (GOLD if name == GOLD else None for name in unlike.annotators or ())
    return replace(unlike, annotators=tuple(by) or None)


def _vector(names: Iterable[str], values: Iterable[float]) -> frozenset[tuple[str, np.float32]]:
    """Return what equal feature vectors share."""
    pairs = zip(names, map(np.float32, values), strict=True)
    return frozenset(pair for pair in pairs if pair[1])


def _numbers(summary: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the metadata that the model that serves reads."""
    names = summary.get("numbers")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _noise_before(summary: Mapping[str, object]) -> dict[str, float]:
    """Return how noisy the labels were that the model that serves was trained on."""
    training = summary.get("training")
    noise = training.get("noise") if isinstance(training, Mapping) else None
    return dict((noise or {}).get("unnamed") or EXACT._asdict())


def _options(serving: ModelVersion | None, preset: str | None) -> TrainingOptions:
    """Return the options of the model that serves, as far as they are known."""
    summary = {} if serving is None else serving.summary
    training = summary.get("training")
    before = training if isinstance(training, Mapping) else {}
    named = preset or before.get("preset")
    return TrainingOptions(
        method=next((method for method in METHODS if method == summary.get("method")), METHODS[1]),
        preset=next((name for name in get_args(Preset) if name == named), "fast"),
        labels_by=next((way for way in LABELS_BY if way == before.get("labels_by")), "each"),
        texts_by=next((way for way in TEXTS_BY if way == before.get("texts_by")), "words"),
        experts=next((kind for kind in EXPERTS if kind == before.get("experts")), "linear"),
    )
