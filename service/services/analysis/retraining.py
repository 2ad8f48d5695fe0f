"""Fit a model on earlier training documents and on what people decided."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

import numpy as np

from setwise.models.data.datasets import (
    DataError,
    Dataset,
    check_trainable,
    concatenate_datasets,
    read_dataset,
    text_dataset,
)
from setwise.models.data.documents import read_documents
from setwise.models.data.formats.reviews import reviewed_lines
from setwise.models.options import METHODS, Preset, TrainingOptions
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service.domain.errors import InvalidRequest, NotEnoughReviews
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.recalibration import Progress
from setwise.service.domain.retraining import LEAST_DOCUMENTS

SOURCE = "the reviews"


def fit_again(
    rows: Iterable[Mapping[str, object]],
    history: Path | None,
    serving: ModelVersion | None,
    *,
    preset: str | None,
    target: Path,
    report: Progress,
) -> Mapping[str, object]:
    """Write a fitted model to a folder; return what it was learnt from.

    Raises `InvalidRequest` if the history cannot be used; `NotEnoughReviews` if there is too little
    to learn from.

    ``rows``: Of the export of annotations, with content. Certification audits teach nothing.
    """
    found = list(rows)
    left_out: Counter[str] = Counter()
    datasets = []
    try:
        if history is not None:
            datasets.append(_unlike(read_dataset(history), found))
        if any(row.get("text") for row in found):
            datasets.append(_reviewed(found, left_out))
        counts = [one.n for one in datasets]
        if sum(counts) < LEAST_DOCUMENTS:
            raise NotEnoughReviews(
                f"{sum(counts)} documents with a text and labels are too few to train on; "
                f"{LEAST_DOCUMENTS} are needed. Name a file of earlier ones in training_data."
            )
        dataset = datasets[0] if len(datasets) == 1 else concatenate_datasets(*datasets)
        check_trainable(dataset, SOURCE)
        options = _options(serving, preset)
        predictor = train(dataset, options, lambda share, what: report(0.1 + 0.7 * share, what))
    except DataError as error:
        raise InvalidRequest(f"The training data cannot be used: {error}") from error
    save(predictor, target)
    earlier = counts[0] if history is not None else 0
    return {
        "documents": dataset.n,
        "earlier": earlier,
        "reviewed": dataset.n - earlier,
        "left_out": dict(left_out),
    }


def _reviewed(rows: list[Mapping[str, object]], left_out: Counter[str]) -> Dataset:
    """Return the documents that people decided."""
    lines = [json.dumps(row).encode() for row in rows]
    numbered = reviewed_lines(SOURCE, enumerate(lines, 1), left_out=left_out)
    digest = hashlib.sha256(b"\n".join(lines)).hexdigest()
    return text_dataset(read_documents(SOURCE, numbered), digest, SOURCE)


def _unlike(history: Dataset, rows: list[Mapping[str, object]]) -> Dataset:
    """Return the history without documents that people decided since: later answers count."""
    if history.texts is None:
        raise InvalidRequest("The training data holds no texts; only texts are reviewed here.")
    known = {row.get("text") for row in rows}
    return history.take(np.flatnonzero([text not in known for text in history.texts]))


def _options(serving: ModelVersion | None, preset: str | None) -> TrainingOptions:
    """Return the options of the model that serves, as far as it tells them."""
    summary = {} if serving is None else serving.summary
    training = summary.get("training")
    before = training.get("preset") if isinstance(training, Mapping) else None
    wanted = preset or before
    return TrainingOptions(
        method=next((one for one in METHODS if one == summary.get("method")), METHODS[1]),
        preset=next((one for one in get_args(Preset) if one == wanted), "fast"),
    )
