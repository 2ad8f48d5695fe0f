"""An artifact as an MLflow model, served as a pyfunc.

`log_model` and `save_model` store the artifact's folder as it is. Loading it runs no pickled code:
MLflow imports this module, which reads arrays and JSON.
"""

# ruff: noqa: PLC0415 - MLflow and pandas import slowly: only where needed

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise.models.data.answer_parsing import parse_answer
from setwise.models.data.documents import PredictionInput
from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import load

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo


ANSWERS = ("scores", "candidates", "labels")
"""Columns of another model's answers."""

_COLUMNS = (list, tuple, np.ndarray)


class _LabelSets:
    """What MLflow calls: documents in, label sets with confidences out."""

    def __init__(self, predictor: SetPredictor) -> None:
        self._predictor = predictor

    def predict(
        self,
        documents: "pd.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]]",
        params: dict[str, Any] | None = None,
    ) -> "pd.DataFrame":
        """Return each document's label set, and the confidence that it is right.

        Parameters
        ----------
        documents : DataFrame
            A column ``text``, or one for each feature; a missing feature counts as 0. For a model
            of another model's answers also ``scores``, ``candidates`` or ``labels`` as in requests
            to the service, and a column for each number that it reads. Also a mapping of columns,
            or a mapping for each document.
        params : dict, optional
            ``candidates``: how many of the likeliest label sets to list, each with its confidence,
            in a column of this name; 0 for none, the default. ``marginals``: whether a column of
            this name lists each label's probability; not by default.

        Raises
        ------
        DocumentError
            If the columns are not those that the model takes, or a text is missing.
        TypeError
            If a text is no string.
        """
        import pandas as pd

        model = self._predictor
        documents = _as_frame(documents)
        rows = [
            {name: value for name, value in row.items() if not _is_missing(value)}
            for row in documents.to_dict("records")
        ]
        predictions = model.score([self._input(place, row) for place, row in enumerate(rows)])
        ranked = [predictions.ranked(row) for row in range(len(predictions))]
        columns: dict[str, list[Any]] = {
            "labels": [list(sets[0].labels) for sets in ranked],
            "confidence": [sets[0].confidence for sets in ranked],
        }
        params = params or {}
        if n_listed := int(params.get("candidates", 0)):
            columns["candidates"] = [
                [{"labels": list(each.labels), "confidence": each.confidence} for each in sets]
                for sets in (sets[:n_listed] for sets in ranked)
            ]
        if params.get("marginals", False):
            columns["marginals"] = [
                dict(zip(model.label_names, row, strict=True))
                for row in predictions.marginals.tolist()
            ]
        return pd.DataFrame(columns, index=documents.index)

    def _input(self, place: int, row: dict[str, Any]) -> PredictionInput:
        """Return the document of a row without its empty cells."""
        model, answer = self._predictor, None
        beside: set[str] = set()
        if model.kind == "external":
            given = {name: _plain(row[name]) for name in ANSWERS if name in row}
            numbers = {name: row[name] for name in model.numbers if name in row}
            answer = parse_answer(given | {"metadata": numbers}, place)
            beside = {*ANSWERS, *model.numbers} - {*model.feature_names}
        if model.vectorizer is not None:
            return PredictionInput(text=row.get("text"), answer=answer)
        features = {name: value for name, value in row.items() if name not in beside}
        return PredictionInput(features=features, answer=answer)


def save_model(artifact: str | Path, path: str | Path, **options: Any) -> None:  # noqa: ANN401
    """Save an artifact as an MLflow model in a folder.

    Parameters
    ----------
    artifact : str or Path
        Folder that `setwise.save` or `setwise train` wrote.
    path : str or Path
        Folder to make.
    **options
        Passed on to `mlflow.pyfunc.save_model`.

    Raises
    ------
    ValueError
        If the folder holds no artifact.
    """
    import mlflow.pyfunc

    mlflow.pyfunc.save_model(str(path), **(_described(artifact) | options))


def log_model(artifact: str | Path, name: str, **options: Any) -> "ModelInfo":  # noqa: ANN401
    """Log an artifact as an MLflow model of the active run.

    Parameters
    ----------
    artifact : str or Path
        Folder that `setwise.save` or `setwise train` wrote.
    name : str
        The model's name in the run.
    **options
        Passed on to `mlflow.pyfunc.log_model`, such as ``registered_model_name``.

    Raises
    ------
    ValueError
        If the folder holds no artifact.
    """
    import mlflow.pyfunc

    info: ModelInfo = mlflow.pyfunc.log_model(name=name, **(_described(artifact) | options))
    return info


def _described(artifact: str | Path) -> dict[str, Any]:
    predictor = load(artifact)  # refuses what is no artifact before anything is stored
    return {
        "loader_module": __name__,
        "data_path": str(artifact),
        "signature": _signature(predictor),
        "input_example": _example(predictor),
        "pip_requirements": [f"setwise[mlflow]=={version('setwise')}"],
        "metadata": {
            "model_version": predictor.version,
            "calibrator_version": predictor.calibrator_version,
        },
    }


def _example(predictor: SetPredictor) -> "pd.DataFrame":
    """Return a document of the kind that the model takes."""
    import pandas as pd

    if predictor.vectorizer is not None:
        columns: dict[str, Any] = {"text": "A text of the kind that the model was trained on."}
    else:
        columns = dict.fromkeys(predictor.feature_names[:1], 1.0)
    if predictor.kind == "external":
        labels = list(predictor.label_names[:1])
        columns |= {"candidates": [{"labels": labels, "score": 0.9}]}
        columns |= dict.fromkeys(predictor.numbers, 1.0)
    return pd.DataFrame([columns])


def _signature(predictor: SetPredictor) -> "ModelSignature":
    from mlflow.models import ModelSignature
    from mlflow.types.schema import (
        AnyType,
        Array,
        ColSpec,
        DataType,
        ParamSchema,
        ParamSpec,
        Schema,
    )

    names = predictor.feature_names if predictor.vectorizer is None else ()
    inputs = [ColSpec("double", name, required=False) for name in (*predictor.numbers, *names)]
    if predictor.vectorizer is not None:
        inputs.append(ColSpec("string", "text"))
    if predictor.kind == "external":
        # A type of JSON would refuse the empty cells of documents that have another column.
        inputs += [ColSpec(AnyType(), name, required=False) for name in ANSWERS]
    outputs = [ColSpec(Array(DataType.string), "labels"), ColSpec("double", "confidence")]
    params = [ParamSpec("candidates", "long", 0), ParamSpec("marginals", "boolean", default=False)]
    return ModelSignature(Schema(inputs), Schema(outputs), ParamSchema(params))


def _as_frame(documents: Any) -> "pd.DataFrame":  # noqa: ANN401  # whatever MLflow passes on
    """Return documents as a frame; a mapping without lists is one document."""
    import pandas as pd

    if isinstance(documents, Mapping):
        has_columns = any(isinstance(cell, _COLUMNS) for cell in documents.values())
        documents = dict(documents) if has_columns else [documents]
    frame = pd.DataFrame(documents)
    if len(frame) == 1 and "text" in frame and isinstance(frame["text"].iloc[0], _COLUMNS):
        return pd.DataFrame(dict(frame.iloc[0]))  # MLflow made one row of a mapping of lists
    return frame


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:  # noqa: ANN401 -- as in JSON
    """Return an answer with lists in place of arrays."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if not _is_missing(item)}
    return [_plain(item) for item in value] if isinstance(value, list | np.ndarray) else value


def _load_pyfunc(path: str) -> _LabelSets:
    """Return the model in a folder; MLflow calls this."""
    return _LabelSets(load(path))
