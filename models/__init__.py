"""Setwise's learning code: label sets with a calibrated confidence. No HTTP, no SQL.

The names below load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.compilation import keep_compiled_code

if TYPE_CHECKING:
    from models.artifacts import verify_artifact
    from models.corpus.datasets import DataError, Dataset, DataWarning, read_dataset
    from models.metrics import Metrics, evaluate_predictions
    from models.predictor import RankedSet, SetPredictions, SetPredictor, UnknownFeatures
    from models.sealed_folder import ArtifactError
    from models.training import TrainingOptions, TrainingWarning, train

_HOME = {
    "ArtifactError": "models.sealed_folder",
    "DataError": "models.corpus.datasets",
    "DataWarning": "models.corpus.datasets",
    "Dataset": "models.corpus.datasets",
    "Metrics": "models.metrics",
    "RankedSet": "models.predictor",
    "SetPredictions": "models.predictor",
    "SetPredictor": "models.predictor",
    "TrainingOptions": "models.training",
    "TrainingWarning": "models.training",
    "UnknownFeatures": "models.predictor",
    "evaluate_predictions": "models.metrics",
    "read_dataset": "models.corpus.datasets",
    "train": "models.training",
    "verify_artifact": "models.artifacts",
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
