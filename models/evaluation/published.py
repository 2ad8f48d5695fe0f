"""Published results, for comparison in `setwise benchmark`.

Shares are fractions of one, as everywhere in `models`; the papers print percentages.
"""

from dataclasses import dataclass

_THESIS = "Li, thesis 2019"
_RERANK = "Li et al., ECML 2019"
_CBM = "Li et al., ICML 2016"
_REGULARIZING = "Wang et al., KDD 2017"
_RANDOMIZED = "Karampatziakis and Mineiro, 2015"


@dataclass(frozen=True)
class Experiment:
    """Setting of published results.

    Attributes
    ----------
    source : str
        Paper and table.
    dataset : str
        Name of the data folder with the same or the most similar documents.
    same_documents, same_features, same_split : bool or None
        Whether it is that folder's; None where the paper does not say.
    note : str
        What differs.
    """

    source: str
    dataset: str
    same_documents: bool
    same_features: bool
    same_split: bool | None
    note: str = ""


@dataclass(frozen=True)
class PublishedResult:
    """One row of a published table; missing numbers are None."""

    experiment: Experiment
    method: str
    set_accuracy: float | None = None
    instance_f1: float | None = None
    hamming_loss: float | None = None
    macro_f1: float | None = None
    brier: float | None = None
    sharpness: float | None = None


@dataclass(frozen=True)
class _Table:
    """A published table as printed, in units of ``unit``.

    One tuple per method and experiment.
    """

    experiments: tuple[Experiment, ...]
    metrics: tuple[str, ...]
    unit: float
    rows: dict[str, tuple[tuple[float, ...], ...]]

    def results(self) -> list[PublishedResult]:
        found = []
        for method, cells in self.rows.items():
            for experiment, numbers in zip(self.experiments, cells, strict=True):
                # Six digits are more than any table prints, and make .166 of 16.6 per cent.
                shares = [round(number * self.unit, 6) for number in numbers]
                named = dict(zip(self.metrics, shares, strict=True))
                found.append(PublishedResult(experiment, method, **named))
        return found


_PERCENT = 0.01
_RANDOM = "random split; part of the training documents went to the calibrator"
_WORDS = "49,060 features"
_UNKNOWN_SPLIT = "12,639 features; the paper does not say whether the split is the given one"
_INTERVAL = "midpoint of the interval reported; tuned separately for each metric"

_TABLES = (
    _Table(
        (
            Experiment(f"{_RERANK}, Table 4", "bibtex", True, True, False, _RANDOM),
            Experiment(f"{_RERANK}, Table 4", "ohsumed", True, False, False, _RANDOM),
            Experiment(
                f"{_RERANK}, Table 4", "tmc2007_500", True, False, False, f"{_WORDS}; {_RANDOM}"
            ),
        ),
        ("set_accuracy", "instance_f1"),
        _PERCENT,
        {
            "BR": ((16.6, 35.9), (36.6, 62.9), (30.4, 65.8)),
            "BR-rerank": ((21.5, 42.2), (42.0, 67.5), (33.3, 66.8)),
            "2BR": ((16.1, 36.7), (37.5, 62.9), (32.1, 67.9)),
            "DBR": ((20.2, 40.1), (37.6, 61.5), (31.7, 66.1)),
            "CBM": ((22.9, 45.3), (40.5, 67.2), (30.8, 65.2)),
            "CRF": ((23.3, 46.2), (40.4, 65.6), (28.2, 64.4)),
            "SPEN": ((14.8, 38.6), (29.1, 58.8), (26.7, 66.2)),
            "PD-Sparse": ((16.1, 40.4), (34.8, 66.4), (23.4, 64.0)),
            "DVN": ((16.2, 47.3), (18.6, 60.0), (20.3, 65.5)),
            "PC": ((20.3, 47.5), (29.5, 60.5), (23.0, 61.7)),
            "PCC": ((21.4, 40.9), (38.0, 61.7), (31.3, 64.9)),
            "RAKEL": ((18.3, 38.3), (39.3, 62.3), (27.6, 63.6)),
            "ML-kNN": ((8.4, 23.0), (25.4, 48.6), (18.9, 52.2)),
        },
    ),
    _Table(
        (
            Experiment(f"{_CBM}, Table 2", "scene", True, True, True),
            Experiment(f"{_CBM}, Table 2", "tmc2007_500", True, False, None, _WORDS),
        ),
        ("set_accuracy",),
        _PERCENT,
        {
            "BR, logistic": ((51.5,), (25.3,)),
            "PowerSet, logistic": ((68.1,), (28.2,)),
            "CC, logistic": ((62.9,), (26.2,)),
            "PCC, logistic": ((64.8,), (26.8,)),
            "ECC by label, logistic": ((60.6,), (26.0,)),
            "ECC by set, logistic": ((63.1,), (25.9,)),
            "CDN, logistic": ((59.9,), (16.8,)),
            "CRF, linear": ((68.8,), (28.1,)),
            "CBM, logistic": ((69.7,), (28.7,)),
            "BR, boosted trees": ((59.3,), (25.4,)),
            "PowerSet, boosted trees": ((70.5,), (23.1,)),
            "CBM, boosted trees": ((70.5,), (27.5,)),
        },
    ),
    _Table(
        (
            Experiment(f"{_THESIS}, Table 3.2", "bibtex", True, True, True),
            Experiment(f"{_THESIS}, Table 3.2", "ohsumed", True, False, None, _UNKNOWN_SPLIT),
        ),
        ("instance_f1",),
        _PERCENT,
        {
            "BR + GFM": ((48.1,), (71.0,)),
            "CRF + GFM": ((49.5,), (70.5,)),
            "CBM + GFM": ((50.4,), (72.6,)),
            "LSF": ((43.9,), (65.0,)),
            "LIFT": ((31.5,), (54.4,)),
            "CLEMS": ((42.5,), (52.6,)),
        },
    ),
    # "All" is elastic-net, early stopping, support inference and the F-measure maximiser together.
    _Table(
        (
            Experiment(f"{_REGULARIZING}, Table 4", "medical", True, True, True),
            Experiment(f"{_REGULARIZING}, Table 4", "bibtex", True, True, True),
            Experiment(f"{_REGULARIZING}, Table 4", "ohsumed", True, False, None, _UNKNOWN_SPLIT),
            Experiment(f"{_REGULARIZING}, Table 4", "tmc2007_500", True, False, None, _WORDS),
        ),
        ("instance_f1",),
        _PERCENT,
        {
            "BR, elastic-net": ((75.4,), (39.8,), (63.6,), (61.6,)),
            "CRF": ((77.8,), (46.5,), (66.4,), (62.0,)),
            "PCC, elastic-net": ((79.0,), (39.5,), (64.7,), (62.0,)),
            "CBM, elastic-net": ((82.2,), (45.3,), (69.5,), (60.4,)),
            "BR, all": ((81.1,), (45.4,), (69.1,), (63.1,)),
            "CRF, all": ((79.4,), (49.4,), (69.6,), (64.7,)),
            "PCC, all": ((80.8,), (47.3,), (70.4,), (63.2,)),
            "CBM, all": ((82.6,), (49.5,), (71.7,), (63.8,)),
        },
    ),
    _Table(
        (
            Experiment(f"{_THESIS}, Table 3.3", "scene", True, True, True),
            Experiment(f"{_THESIS}, Table 3.3", "tmc2007_500", True, False, None, _WORDS),
        ),
        ("hamming_loss",),
        1.0,
        {
            "CBM, marginals": ((0.0877,), (0.0657,)),
            "BR": ((0.1015,), (0.0649,)),
        },
    ),
    _Table(
        (
            Experiment(f"{_RANDOMIZED}, Table 2", "bibtex", True, True, True, _INTERVAL),
            Experiment(f"{_RANDOMIZED}, Table 2", "yeast", True, True, True, _INTERVAL),
        ),
        ("hamming_loss", "macro_f1"),
        1.0,
        {"smooth link": ((0.01415, 0.317), (0.219, 0.439))},
    ),
    # Mean squared error and sharpness on BR's own predictions; the uncertainty is .139, .232, .212.
    _Table(
        (
            Experiment(f"{_RERANK}, Table 2", "bibtex", True, True, False, _RANDOM),
            Experiment(f"{_RERANK}, Table 2", "ohsumed", True, False, False, _RANDOM),
            Experiment(
                f"{_RERANK}, Table 2", "tmc2007_500", True, False, False, f"{_WORDS}; {_RANDOM}"
            ),
        ),
        ("brier", "sharpness"),
        1.0,
        {
            "BR, uncalibrated": ((0.193, 0.007), (0.226, 0.015), (0.192, 0.019)),
            "BR, isotonic": ((0.140, 0.002), (0.221, 0.013), (0.192, 0.020)),
            "BR, isotonic by cardinality": ((0.109, 0.038), (0.182, 0.051), (0.192, 0.022)),
            "BR, tree": ((0.086, 0.065), (0.211, 0.039), (0.194, 0.029)),
            "BR, boosted": ((0.068, 0.072), (0.189, 0.047), (0.180, 0.032)),
        },
    ),
)


def published_results(dataset: str) -> list[PublishedResult]:
    """Return the published results for a data folder, possibly none."""
    results = [result for table in _TABLES for result in table.results()]
    return [result for result in results if result.experiment.dataset == dataset]
