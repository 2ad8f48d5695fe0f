"""Candidate sources and set features of each method."""

import math
import warnings
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from setwise.models.data.answers import Answers
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.label_scores import LabelScores
from setwise.models.mixtures.mixture_candidates import MixtureCandidates, SomeMixture
from setwise.models.mixtures.stacked_mixture import StackedMixture
from setwise.models.sets.evidence import CandidateSource
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.sources import GivenCandidates, MarginalCandidates, VotedCandidates
from setwise.models.voters.label_stack import LabelStack
from setwise.models.voters.voters import SetVoters

# Limits for the steps of the folds' mixtures, which otherwise equal those of the mixture on all
# rows.
_LEAST_STEPS = 4
_MOST_STEPS = 10

# Steps of mixtures of boosted trees.
_MOST_BOOSTED_STEPS = 100

# Numbers of components that are compared.
_SIZES = (25, 100)

# Number of components over label scores; more bring no gain.
_SIZE_OVER_SCORES = 50

# Label scores are already standardised.
_OVER_SCORES = {"features": "linear", "weighting": "none"}

# With fewer documents label scores overfit. Scores are dense, so the number of documents times
# labels is bounded too.
_LEAST_DOCUMENTS_SCORED = 1000
_MOST_SCORED = 1_500_000

# Share of the likelihood that label scores must gain, because they take more time than features.
_LEAST_GAIN = 0.02

# Share of the documents set aside to compare mixtures.
_SHARE_ASIDE = 0.2


Experts = Literal["shared", "separate"]


class Proposal(NamedTuple):
    """Candidates and features of a method."""

    for_folds: CandidateSource  # cloned and fitted without each fold's rows
    final: CandidateSource  # fitted on all documents
    features: SetFeatures  # unfitted
    voters: SetVoters | None = None  # unfitted; fitted by cross-fitting
    stack: LabelStack | None = None  # unfitted; fitted by cross-fitting


def propose_marginal(k: int, X: csr_array, Y: csr_array) -> Proposal:
    """Return candidates of independent labels with the paper's features."""
    return Proposal(MarginalCandidates(k), MarginalCandidates(k).fit(X, Y), SetFeatures())


def propose_voted(
    k: int, X: csr_array, Y: csr_array, voters: tuple[str, ...], *, stacked: bool
) -> Proposal:
    """Return candidates of labels and voters, with margin and vote features.

    When ``stacked``, label probabilities are refined by the votes before they propose sets.
    """
    return Proposal(
        VotedCandidates(k),
        VotedCandidates(k).fit(X, Y),
        SetFeatures(("score", "prior", "margins", *voters)),
        SetVoters(voters),
        LabelStack() if stacked else None,
    )


def propose_given(
    k: int,
    answers: Answers,
    X: csr_array,
    Y: csr_array,
    voters: tuple[str, ...],
    *,
    margins: bool,
    stacked: bool,
) -> Proposal:
    """Return candidates of another model's answers, of labels and of voters.

    Agreement with given sets is a feature if there are any, ``margins`` if wanted.
    """
    groups = ["score", "prior"]
    groups += ["margins"] if margins else []
    groups += ["answers"] if len(answers.counts) else []
    return Proposal(
        GivenCandidates(k),
        GivenCandidates(k).fit(X, Y),
        SetFeatures((*groups, *voters), answers.number_names),
        SetVoters(voters) if voters else None,
        LabelStack() if stacked else None,
    )


def propose_mixture(
    k: int,
    X: csr_array,
    Y: csr_array,
    *,
    n_components: int | None,
    union: bool,
    n_jobs: int | None,
    seed: int,
    n_fits: int = 1,
    experts: Experts = "shared",
    scores: LabelScores | None = None,
    voters: tuple[str, ...] = (),
    stacked: bool = False,
) -> Proposal:
    """Return candidates of a conditional Bernoulli mixture, alone or with others.

    With ``union``, candidates of independent labels and of voters are added, and votes are features
    of all. Several fits are averaged. With ``experts="separate"`` each component has classifiers of
    its own, linear in the features, as in the papers. The mixture on all rows chooses the penalties
    and the number of steps, and the number of components if ``n_components`` is None; the folds'
    mixtures reuse them. With ``scores``, the mixture uses these instead of the features if rows set
    aside favour them (`scores_pay`) and there are neither too few nor too many documents.
    """
    template = ConditionalBernoulliMixture(
        experts=experts,
        features="auto" if experts == "shared" else "linear",
        n_jobs=n_jobs,
        random_state=seed,
    )
    may_score = scores is not None and _can_be_scored(*Y.shape)
    size, over_scores = n_components or _SIZES[0], False
    if may_score or not n_components:
        kept, aside = set_aside(X, Y, seed)
        sizes = (n_components,) if n_components else _SIZES
        size, over_features = choose_size(template, kept, aside, sizes)
        if may_score and scores is not None:
            larger = clone(template).set_params(n_components=n_components or _SIZE_OVER_SCORES)
            over_scores = scores_pay(_judge_over(scores, larger, kept, aside), over_features)
    template.set_params(n_components=size)
    if over_scores:
        template.set_params(n_components=n_components or _SIZE_OVER_SCORES, **_OVER_SCORES)
    mixture: ConditionalBernoulliMixture | AveragedMixture = template
    if n_fits > 1:
        mixture = AveragedMixture(template, n_fits, random_state=seed)
    whole: SomeMixture
    if over_scores:
        whole = StackedMixture(mixture, scores).fit(X, Y)
        mixture = whole.model_
    else:
        whole = mixture = mixture.fit(X, Y)
    first = mixture.fits_[0] if isinstance(mixture, AveragedMixture) else mixture
    per_fold: SomeMixture
    per_fold = alike = ConditionalBernoulliMixture(
        first.n_components_,
        experts=experts,
        alpha=first.alpha_,
        gate_alpha=first.gate_alpha_,
        l1_ratio=first.l1_ratio_,
        features="linear" if first.kernel_ is None else "kernel",
        weighting=first.weighting,
        early_stopping=False,
        max_iter=min(max(first.n_iter_, _LEAST_STEPS), _MOST_STEPS),
        tol=0.0,
        n_jobs=n_jobs,
        random_state=seed,
    )
    if n_fits > 1:
        per_fold = AveragedMixture(alike, n_fits, random_state=seed)
    if over_scores:
        per_fold = StackedMixture(per_fold, scores)
    return Proposal(
        MixtureCandidates(per_fold, k, union=union),
        MixtureCandidates.of(whole, k, union=union),
        SetFeatures(("score", "independent", "prior", *(("margins", *voters) if voters else ()))),
        SetVoters(voters) if voters else None,
        LabelStack() if stacked else None,
    )


def propose_boosted(
    k: int,
    X: csr_array,
    Y: csr_array,
    *,
    n_components: int | None,
    n_jobs: int | None,
    seed: int,
) -> Proposal:
    """Return candidates of a mixture of boosted trees.

    It has 25 components if ``n_components`` is None. The folds' mixtures take as many steps as the
    mixture on all rows.
    """
    size = n_components or _SIZES[0]
    whole = BoostedBernoulliMixture(
        size, max_iter=_MOST_BOOSTED_STEPS, n_jobs=n_jobs, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound is one of time
        whole.fit(X, Y)
    per_fold = clone(whole).set_params(
        n_components=whole.n_components_, max_iter=whole.n_iter_, validation_fraction=0.0
    )
    features = SetFeatures(("score", "independent", "prior"))
    return Proposal(MixtureCandidates(per_fold, k), MixtureCandidates.of(whole, k), features)


class Rows(NamedTuple):
    """Documents and their label sets."""

    X: csr_array
    Y: csr_array


class Judged(NamedTuple):
    """Results of a mixture on rows set aside."""

    log_likelihood: NDArray[np.float64]  # (n_aside,), in nats
    right: NDArray[np.bool_]  # (n_aside,), whether the most probable set is the true one


def set_aside(X: csr_array, Y: csr_array, seed: int) -> tuple[Rows, Rows]:
    """Return training documents and documents set aside for comparison."""
    n = X.shape[0]
    order = np.random.default_rng(seed).permutation(n)
    n_aside = min(max(1, round(_SHARE_ASIDE * n)), n - 1)
    aside, kept = np.sort(order[:n_aside]), np.sort(order[n_aside:])
    return Rows(X[kept], Y[kept]), Rows(X[aside], Y[aside])


def choose_size(
    template: ConditionalBernoulliMixture, kept: Rows, aside: Rows, sizes: tuple[int, ...] = _SIZES
) -> tuple[int, Judged]:
    """Return the number of components with the best held-out likelihood.

    Sizes beyond the number of distinct label sets are not tried. The
    penalties of the labels do not depend on the mixture.

    Parameters
    ----------
    template : ConditionalBernoulliMixture
        Its other parameters are used; clones are fitted.
    kept, aside : Rows
        Rows to fit and rows to compare on; see `set_aside`.
    sizes : tuple of int
        Rising.

    Returns
    -------
    size : int
    judged : Judged
        Results of that mixture on the rows set aside.
    """
    chosen: tuple[int, Judged] | None = None
    asked = template
    for size in sizes:
        fitted = _fitted(clone(asked).set_params(n_components=size), kept, aside)
        judged = _judge(fitted, aside)
        if chosen is None or judged.log_likelihood.mean() > chosen[1].log_likelihood.mean():
            chosen = size, judged
        if fitted.support_.shape[0] <= size:
            break
        asked = clone(template).set_params(alpha=fitted.alpha_)
    if chosen is None:
        raise ValueError("no number of components is given")
    return chosen


def scores_pay(over_scores: Judged, over_features: Judged) -> bool:
    """Return whether rows set aside favour label scores.

    Both the likelihood of these rows and the share of them whose most probable set is the true one
    must gain more than the standard error of the gain, the former also `_LEAST_GAIN`.

    Examples
    --------
    >>> plain = Judged(np.full(4, -1.0), np.array([True, False, False, False]))
    >>> right = np.array([True, True, True, False])
    >>> scores_pay(Judged(np.array([-0.9, -0.7, -0.8, -0.8]), right), plain)
    True
    >>> scores_pay(Judged(np.array([1.0, -2.6, 0.5, -2.1]), right), plain)
    False
    """
    gain = over_scores.log_likelihood - over_features.log_likelihood
    least = _LEAST_GAIN * abs(float(over_features.log_likelihood.mean()))
    righter = over_scores.right.astype(np.float64) - over_features.right
    likelier = float(gain.mean()) > max(least, _error(gain))
    return likelier and float(righter.mean()) > _error(righter)


def _error(gain: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of a gain."""
    return float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf


def _can_be_scored(n: int, n_labels: int) -> bool:
    return n >= _LEAST_DOCUMENTS_SCORED and n * n_labels <= _MOST_SCORED


def _judge_over(
    scores: LabelScores, template: ConditionalBernoulliMixture, kept: Rows, aside: Rows
) -> Judged:
    """Evaluate a mixture over label scores.

    The scores are fitted without the rows set aside, as for new documents.
    """
    own = clone(scores)
    kept = kept._replace(X=own.fit_transform(*kept))
    aside = aside._replace(X=own.transform(aside.X))
    mixture = clone(template).set_params(**_OVER_SCORES)
    return _judge(_fitted(mixture, kept, aside), aside)


def _fitted(
    mixture: ConditionalBernoulliMixture, kept: Rows, aside: Rows
) -> ConditionalBernoulliMixture:
    with warnings.catch_warnings():
        # The final mixture warns about the number of components.
        warnings.simplefilter("ignore", ComponentWarning)
        return mixture.fit(*kept, validation=aside)


def _judge(mixture: ConditionalBernoulliMixture, aside: Rows) -> Judged:
    modes = mixture.most_probable_sets(aside.X).candidates.first()
    wrong = np.asarray(abs(modes.astype(np.int8) - aside.Y.astype(np.int8)).sum(axis=1)).ravel()
    return Judged(mixture.log_probability(*aside), wrong == 0)
