"""Options of training: methods, presets and what data afford."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from setwise.models.calibration.noisy_history import Noise, checked_noise
from setwise.models.parameters import check_parameters
from setwise.models.sets.decisions import OBJECTIVES, Objective

MethodName = Literal["br", "br-rerank", "cbm", "cbm-rerank"]
METHODS: tuple[MethodName, ...] = ("br", "br-rerank", "cbm", "cbm-rerank")
MIXTURE_METHODS: tuple[MethodName, ...] = ("cbm", "cbm-rerank")
RERANKING_METHODS: tuple[MethodName, ...] = ("br-rerank", "cbm-rerank")

LabelsBy = Literal["each", "clusters"]
LABELS_BY: tuple[LabelsBy, ...] = ("each", "clusters")

TextsBy = Literal["words", "characters"]
TEXTS_BY: tuple[TextsBy, ...] = ("words", "characters")

Experts = Literal["linear", "boosted"]
EXPERTS: tuple[Experts, ...] = ("linear", "boosted")

MixtureExperts = Literal["shared", "separate", "boosted"]

Preset = Literal["paper", "fast", "best"]


CalibratorName = Literal[
    "auto",
    "uncalibrated",
    "isotonic",
    "cardinality-isotonic",
    "conditional-logit",
    "tree",
    "boosted-squared",
    "boosted-logistic",
    "group-softmax",
    "robust-logistic",
    "robust-boosted",
    "robust-trees",
]

# In the order of `setwise.models.calibration.choice`, simplest first.
CALIBRATORS: tuple[CalibratorName, ...] = (
    "uncalibrated",
    "isotonic",
    "cardinality-isotonic",
    "conditional-logit",
    "tree",
    "boosted-squared",
    "boosted-logistic",
    "group-softmax",
)
# For labels whose annotators err.
ROBUST_CALIBRATORS: tuple[CalibratorName, ...] = (
    "uncalibrated",
    "isotonic",
    "cardinality-isotonic",
    "robust-logistic",
    "boosted-squared",
    "robust-boosted",
    "robust-trees",
)
# Those of the thesis, section 4.6; "GB" there is ``boosted-squared``.
PUBLISHED_CALIBRATORS: tuple[CalibratorName, ...] = (
    "uncalibrated",
    "isotonic",
    "cardinality-isotonic",
    "tree",
    "boosted-squared",
)


class Extras(NamedTuple):
    """What a preset adds to the paper's features, and its calibrators."""

    voters: tuple[str, ...] = ()  # keys of `setwise.models.voters.voters.VOTERS`
    margins: bool = False  # whether margins of labels describe sets
    n_fits: int = 1  # mixtures to average, where the method has one
    experts: MixtureExperts = "shared"  # of that mixture
    beginnings: int = 0  # length of the word prefixes that are features too; 0: none
    calibrators: tuple[CalibratorName, ...] = CALIBRATORS  # unless labels are noisy


PRESETS: dict[Preset, Extras] = {
    "paper": Extras(experts="separate", calibrators=PUBLISHED_CALIBRATORS),
    "fast": Extras(
        ("neighbours", "forest"),
        calibrators=(
            "uncalibrated",
            "isotonic",
            "cardinality-isotonic",
            "conditional-logit",
            "group-softmax",
        ),
    ),
    "best": Extras(
        ("neighbours", "nearest", "smooth", "forest"), margins=True, n_fits=2, beginnings=4
    ),
}

MIN_DOCUMENTS_BEST = 500
"""Documents from which the votes and calibrators that ``best`` adds to ``fast`` gain."""

DENSE_VOTERS = ("forest",)
"""Voters of tables of measurements alone, see `FeatureScaler.dense`."""


_CHOICES: dict[str, tuple[str, ...]] = {
    "preset": tuple(PRESETS),
    "method": METHODS,
    "optimize": OBJECTIVES,
    "labels_by": LABELS_BY,
    "texts_by": TEXTS_BY,
    "experts": EXPERTS,
}


class TrainingWarning(UserWarning):
    """The model was fitted, but with less than the options asked for."""


@dataclass(frozen=True)
class TrainingOptions:
    """Options of `train`.

    Attributes
    ----------
    preset : {"paper", "fast", "best"}
        ``"paper"`` is the published method: labels calibrated by isotonic regression, mixtures with
        separate experts linear in the features, and the papers' features and set calibrators.
        ``"fast"`` and ``"best"`` add the votes of `PRESETS` when reranking; the forest votes on
        tables of measurements alone, see `FeatureScaler`. ``"best"`` averages several mixtures if
        the method has one; otherwise it also uses word prefixes as features of texts. With fewer
        than `MIN_DOCUMENTS_BEST` documents it reranks by the votes and calibrators of ``"fast"``.
    method : {"br-rerank", "br", "cbm", "cbm-rerank"}
        ``"br"`` chooses the most probable set under independent labels, ``"cbm"`` under a
        conditional Bernoulli mixture. ``"-rerank"`` chooses the most confident candidate; the
        candidates of ``"cbm-rerank"`` come from the mixture, independent labels and voters.
    optimize : {"set-accuracy", "f1", "hamming", "micro-f1", "macro-f1"}
        Objective that the announced sets maximise; see `sets.decisions`. The confidence is
        always the probability that the whole announced set is right.
    n_candidates : int
        Candidate sets per document, 1 to 64.
    n_folds : int
        Folds of the cross-fitting, at least 2.
    calibrator : str
        ``"auto"`` takes the one of the preset's set calibrators with the lowest cross-validated
        Brier score; when reranking, of those that are as good within a standard error, the one
        whose first sets are right most often.
    alpha : "auto" or float
        Penalty of binary relevance; ``"auto"`` chooses by log-loss on rows set aside.
    l1_ratio : float
        Share of the L1 norm in the penalty.
    labels_by : {"each", "clusters"}
        ``"clusters"`` scores labels by `ClusteredRelevance` instead of binary relevance, for
        many labels. Not with a mixture or another model's answers.
    texts_by : {"words", "characters"}
        ``"characters"`` also reads runs of characters inside words, for short or misspelt texts,
        in place of word prefixes: `TextVectorizer`. Not with a mixture.
    n_components : int or None
        Components of the mixture, at least 1; None takes 25 or 100, whichever gives rows set aside
        the higher likelihood; of boosted experts 25.
    experts : {"linear", "boosted"}
        Gate and experts of the mixture: linear, or `BoostedBernoulliMixture`, one fit in all
        presets.
    bigrams : bool
        Whether pairs of neighbouring words are features of texts too.
    seed : int
        Equal seeds give equal models.
    n_jobs : int or None
        Threads; None means every usable core. The model does not depend on it.
    noise : mapping or None
        Error rates of the annotators, as `checked_noise` takes them; None takes
        all labels as true. With rates, set calibrators learn to see through the noise.
    """

    preset: Preset = "best"
    method: MethodName = "br-rerank"
    optimize: Objective = "set-accuracy"
    n_candidates: int = 10
    n_folds: int = 5
    calibrator: CalibratorName = "auto"
    alpha: Literal["auto"] | float = "auto"
    l1_ratio: float = 0.5
    labels_by: LabelsBy = "each"
    texts_by: TextsBy = "words"
    n_components: int | None = None
    experts: Experts = "linear"
    bigrams: bool = False
    seed: int = 0
    n_jobs: int | None = None
    noise: Noise | None = None

    @property
    def reranks(self) -> bool:
        """Whether a calibrator ranks the candidates, and not the method's own score."""
        return self.method in RERANKING_METHODS

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # such as a seed that NumPy drew
                object.__setattr__(self, name, value.item())
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if self.labels_by == "clusters" and self.method in MIXTURE_METHODS:
            raise ValueError(
                f"the method {self.method!r} has a mixture, which needs a score by each label; "
                "label clusters are for 'br-rerank' and 'br'"
            )
        if self.texts_by == "characters" and self.method in MIXTURE_METHODS:
            raise ValueError(
                f"the method {self.method!r} has a mixture, which reads whole words; characters "
                "are for 'br-rerank' and 'br'"
            )
        if self.experts == "boosted" and self.method not in MIXTURE_METHODS:
            raise ValueError(
                f"the method {self.method!r} has no mixture; boosted experts are for 'cbm' and "
                "'cbm-rerank'"
            )
        if self.noise is not None:
            checked_noise(self.noise)
        known_calibrators = ("auto", *(CALIBRATORS if self.noise is None else ROBUST_CALIBRATORS))
        if self.calibrator not in known_calibrators:
            names = ", ".join(known_calibrators)
            raise ValueError(f"calibrator must be one of {names}, not {self.calibrator!r}")
        check_parameters(self)


def preset_of(options: TrainingOptions, n_documents: int) -> Extras:
    """Return the extras of the preset; of few documents, ``"best"`` reranks as ``"fast"`` does."""
    extras = PRESETS[options.preset]
    few = options.preset == "best" and n_documents < MIN_DOCUMENTS_BEST
    if few and options.reranks:
        return PRESETS["fast"]._replace(n_fits=extras.n_fits, beginnings=extras.beginnings)
    return extras


def extras_of(
    options: TrainingOptions, *, dense: bool = True, n_documents: int = MIN_DOCUMENTS_BEST
) -> Extras:
    """Return what a preset adds to a method, for tables of measurements or other data."""
    extras = preset_of(options, n_documents)
    if options.experts == "boosted":
        extras = extras._replace(n_fits=1, experts="boosted")
    if options.reranks:
        voters = tuple(name for name in extras.voters if dense or name not in DENSE_VOTERS)
        return extras._replace(voters=voters)
    if options.method in MIXTURE_METHODS:
        return Extras(n_fits=extras.n_fits, experts=extras.experts)
    return Extras()
