"""An artifact as an MLflow model, served as a pyfunc.

`log_model` and `save_model` store the artifact's folder as it is. Loading it runs no pickled code:
MLflow imports this module, which reads arrays and JSON.
"""

# ruff: noqa: PLC0415 - MLflow and pandas import slowly: only where needed

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import load

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo


class _LabelSets:
    """What MLflow calls: a data frame of documents in, label sets with confidences out."""

    def __init__(self, predictor: SetPredictor) -> None:
        self._predictor = predictor

    def predict(
        self,
        documents: "pd.DataFrame",
        params: dict[str, Any] | None = None,  # noqa: ARG002 - MLflow's interface
    ) -> "pd.DataFrame":
        """Return each document's label set, and the confidence that it is right.

        Parameters
        ----------
        documents : DataFrame
            A column ``text``, or one for each feature; a missing feature counts as 0.
        params : dict, optional
            None are known.

        Raises
        ------
        ValueError
            If the columns are not those that the model takes.
        """
        import pandas as pd

        if self._predictor.kind == "text":
            if "text" not in documents:
                raise ValueError("there is no column 'text'; give the documents there")
            predictions = self._predictor.predict_texts(documents["text"].tolist())
        else:
            rows = [row.dropna().to_dict() for _, row in documents.iterrows()]
            predictions = self._predictor.predict_features(rows)
        best = [predictions.ranked(row)[0] for row in range(len(predictions))]
        return pd.DataFrame(
            {
                "labels": [list(one.labels) for one in best],
                "confidence": [one.confidence for one in best],
            },
            index=documents.index,
        )


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
        If the folder holds no artifact, or one of another model's answers.
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
        If the folder holds no artifact, or one of another model's answers.
    """
    import mlflow.pyfunc

    info: ModelInfo = mlflow.pyfunc.log_model(name=name, **(_described(artifact) | options))
    return info


def _described(artifact: str | Path) -> dict[str, Any]:
    predictor = load(artifact)  # refuses what is no artifact before anything is stored
    if predictor.kind == "external":
        raise ValueError(
            f"{artifact}: ranks another model's answers, which no data frame holds; serve it with "
            "setwise serve"
        )
    return {
        "loader_module": __name__,
        "data_path": str(artifact),
        "signature": _signature(predictor),
        "pip_requirements": [f"setwise[mlflow]=={version('setwise')}"],
        "metadata": {
            "model_version": predictor.version,
            "calibrator_version": predictor.calibrator_version,
        },
    }


def _signature(predictor: SetPredictor) -> "ModelSignature":
    from mlflow.models import ModelSignature
    from mlflow.types.schema import Array, ColSpec, DataType, Schema

    if predictor.kind == "text":
        inputs = [ColSpec("string", "text")]
    else:
        inputs = [ColSpec("double", name, required=False) for name in predictor.feature_names]
    outputs = [ColSpec(Array(DataType.string), "labels"), ColSpec("double", "confidence")]
    return ModelSignature(inputs=Schema(inputs), outputs=Schema(outputs))


def _load_pyfunc(path: str) -> _LabelSets:
    """Return the model in a folder; MLflow calls this."""
    return _LabelSets(load(path))
