"""What tests of models share: a model is trained once a session, for all workers and files."""

import hashlib
import pickle
import warnings
from collections.abc import Callable

import pytest

from setwise.models.data.datasets import Dataset
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.options import TrainingOptions, TrainingWarning
from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from tests.made_once import made_once

ModelOf = Callable[[Dataset, TrainingOptions], SetPredictor]


@pytest.fixture(scope="session")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> ModelOf:
    """Return a function that trains a model, or finds the one trained on equal data before."""
    models: dict[str, SetPredictor] = {}

    def find(data: Dataset, options: TrainingOptions) -> SetPredictor:
        name = hashlib.sha256(pickle.dumps((data, options))).hexdigest()[:16]
        if name not in models:
            folder = made_once(
                tmp_path_factory, name, lambda to: save(quietly(data, options), to / "model")
            )
            models[name] = load(folder / "model")
        return models[name]

    return find


def quietly(data: Dataset, options: TrainingOptions) -> SetPredictor:
    """Return a trained model; that little data are little is proved elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        warnings.simplefilter("ignore", ComponentWarning)
        return train(data, options)
