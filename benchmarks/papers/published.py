"""Published results; `published.toml` has the tables.

Shares are fractions of one, as in `setwise.models`; the papers print percentages.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Experiment:
    """Setting of published results."""

    source: str  # paper and table
    dataset: str  # name of the data folder with the same or the most similar documents
    same_documents: bool  # as that folder's
    same_features: bool
    same_split: bool | None = None  # None where the paper does not say
    note: str = ""  # what differs


@dataclass(frozen=True)
class PublishedResult:
    """One row of a published table; missing numbers are None."""

    experiment: Experiment
    method: str
    set_accuracy: float | None = None
    instance_f1: float | None = None
    instance_jaccard: float | None = None
    hamming_loss: float | None = None
    macro_f1: float | None = None
    brier: float | None = None
    sharpness: float | None = None


def published_results(dataset: str) -> list[PublishedResult]:
    """Return the published results for a data folder, possibly none."""
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    results = []
    for table in tomllib.loads(text)["tables"]:
        experiments = [Experiment(**experiment) for experiment in table["experiments"]]
        for method, cells in table["rows"].items():
            for experiment, numbers in zip(experiments, cells, strict=True):
                # Six digits are more than any table prints, and make .166 of 16.6 per cent.
                shares = [round(number * table["unit"], 6) for number in numbers]
                named = dict(zip(table["metrics"], shares, strict=True))
                if experiment.dataset == dataset:
                    results.append(PublishedResult(experiment, method, **named))
    return results
