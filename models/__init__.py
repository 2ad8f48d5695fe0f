"""Setwise's learning code: label sets with a calibrated confidence. No HTTP, no SQL.

The names below load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.models.compilation import keep_compiled_code

if TYPE_CHECKING:
    from setwise.models.data.datasets import DataError, Dataset, DataWarning, read_dataset
    from setwise.models.evaluation.metrics import Metrics, evaluate_predictions
    from setwise.models.predictor import RankedSet, SetPredictions, SetPredictor, UnknownFeatures
    from setwise.models.storage.artifacts import verify_artifact
    from setwise.models.storage.sealed_folder import ArtifactError
    from setwise.models.training import TrainingOptions, TrainingWarning, train

_HOME = {
    "ArtifactError": "setwise.models.storage.sealed_folder",
    "DataError": "setwise.models.data.datasets",
    "DataWarning": "setwise.models.data.datasets",
    "Dataset": "setwise.models.data.datasets",
    "Metrics": "setwise.models.evaluation.metrics",
    "RankedSet": "setwise.models.predictor",
    "SetPredictions": "setwise.models.predictor",
    "SetPredictor": "setwise.models.predictor",
    "TrainingOptions": "setwise.models.training",
    "TrainingWarning": "setwise.models.training",
    "UnknownFeatures": "setwise.models.predictor",
    "evaluate_predictions": "setwise.models.evaluation.metrics",
    "read_dataset": "setwise.models.data.datasets",
    "train": "setwise.models.training",
    "verify_artifact": "setwise.models.storage.artifacts",
}

__all__ = [
    "ArtifactError",
    "DataError",
    "DataWarning",
    "Dataset",
    "Metrics",
    "RankedSet",
    "SetPredictions",
    "SetPredictor",
    "TrainingOptions",
    "TrainingWarning",
    "UnknownFeatures",
    "evaluate_predictions",
    "read_dataset",
    "train",
    "verify_artifact",
]


keep_compiled_code(Path(__file__).parent)


def __getattr__(name: str) -> Any:  # noqa: ANN401  # whatever the name stands for
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
