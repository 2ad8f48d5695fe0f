"""Which candidates and set features belong to a method, for its folds and for its users."""

import math
import warnings
from typing import NamedTuple

from scipy.sparse import csr_array
from sklearn.base import clone

from models.base.averaged_mixture import AveragedMixture
from models.base.bernoulli_mixture import ComponentWarning
from models.base.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from models.base.label_scores import LabelScores
from models.base.stacked_mixture import StackedMixture
from models.confidence.label_stack import LabelStack
from models.sets.evidence import CandidateSource
from models.sets.features import SetFeatures
from models.sets.mixture_candidates import MixtureCandidates, SomeMixture
from models.sets.sources import MarginalCandidates, VotedCandidates
from models.sets.voters import SetVoters

# A mixture fitted without its folds' rows takes as many steps as the one on all rows, but at least
# and at most these: the latter began at classifiers that knew the labels already.
_LEAST_STEPS = 4
_MOST_STEPS = 10

# Numbers of components that are compared. BIBTEX, whose label sets are many and follow few topics,
# gains two points of set accuracy from the larger; OHSUMED loses one to it.
_SIZES = (25, 100)

# Over label scores, which are few and hardly overfitted, more components gained nothing on OHSUMED.
_SIZE_OVER_SCORES = 50

# Label scores are standardised already.
_OVER_SCORES = {"features": "linear", "weighting": "none"}

# Below this number of documents scores repeat noise: on a fold of the 333 of MEDICAL they cost
# three points. Every document has all of them, so that gate and experts read twice this many
# numbers, documents times labels, in each pass at most.
_LEAST_DOCUMENTS_SCORED = 1000
_MOST_SCORED = 1_500_000

# Scores take more time than features: their gain in likelihood should be more than this share.
_LEAST_GAIN = 0.02


class Proposal(NamedTuple):
    """Candidates and features of a method."""

    for_folds: CandidateSource  # cloned and fitted without each fold's rows
    final: CandidateSource  # fitted on all documents
    features: SetFeatures  # unfitted
    voters: SetVoters | None = None  # unfitted; cross-fitting fits them
    stack: LabelStack | None = None  # likewise


def propose_marginal(k: int, X: csr_array, Y: csr_array) -> Proposal:
    """Take candidates from independent labels, described as in the paper."""
    return Proposal(MarginalCandidates(k), MarginalCandidates(k).fit(X, Y), SetFeatures())


def propose_voted(
    k: int, X: csr_array, Y: csr_array, voters: tuple[str, ...], *, stacked: bool
) -> Proposal:
    """Add the candidates that voters favour, and describe all by margins and votes as well.

    When ``stacked``, label probabilities are refined by the votes before they propose sets.
    """
    return Proposal(
        VotedCandidates(k),
        VotedCandidates(k).fit(X, Y),
        SetFeatures(("score", "prior", "margins", *voters)),
        SetVoters(voters),
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
    scores: LabelScores | None = None,
    voters: tuple[str, ...] = (),
    stacked: bool = False,
) -> Proposal:
    """Take candidates from a conditional Bernoulli mixture, alone or united with others.

    With ``union`` there are those of independent labels and of voters too, and voters describe
    them all. Of several fits the mean is taken. The mixture on all rows chooses the penalties and
    the number of steps, and the mixtures of the folds take them over; the number of components too
    where ``n_components`` is None. With ``scores`` the mixture sees those instead of the features,
    where that makes rows set aside likelier and the documents are neither too few nor too many.
    """
    template = ConditionalBernoulliMixture(n_jobs=n_jobs, random_state=seed)
    size, likelihood = n_components or 0, -math.inf
    if scores is not None or not n_components:
        size, likelihood = choose_size(template, X, Y, (n_components,) if n_components else _SIZES)
    template.set_params(n_components=size)
    over_scores = scores is not None and _are_likelier(
        clone(template).set_params(n_components=n_components or _SIZE_OVER_SCORES),
        scores,
        likelihood,
        X,
        Y,
    )
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


def choose_size(
    template: ConditionalBernoulliMixture,
    X: csr_array,
    Y: csr_array,
    sizes: tuple[int, ...] = _SIZES,
) -> tuple[int, float]:
    """Return the number of components under which rows set aside are likeliest.

    No larger number is tried once there are no more distinct label sets than components. The rows
    set aside are the same for all, and the penalties of the labels do not depend on the mixture.

    Parameters
    ----------
    template : ConditionalBernoulliMixture
        Its other parameters are used; clones are fitted.
    X : csr_array of shape (n_documents, n_features)
    Y : csr_array of shape (n_documents, n_labels)
    sizes : tuple of int
        Rising.

    Returns
    -------
    size : int
    log_likelihood : float
        Mean over the rows set aside, in nats.
    """
    best, likelihood = sizes[0], -math.inf
    asked = template
    with warnings.catch_warnings():
        # The mixture that is kept says how many components remain of those asked for.
        warnings.simplefilter("ignore", ComponentWarning)
        for size in sizes:
            fitted = clone(asked).set_params(n_components=size).fit(X, Y)
            if _held_out(fitted) > likelihood:
                best, likelihood = size, _held_out(fitted)
            if fitted.support_.shape[0] <= size:
                break
            asked = clone(template).set_params(alpha=fitted.alpha_)
    return best, likelihood


def _are_likelier(
    template: ConditionalBernoulliMixture,
    scores: LabelScores,
    likelihood: float,
    X: csr_array,
    Y: csr_array,
) -> bool:
    """Tell whether rows set aside are likelier where the mixture sees label scores."""
    n, n_labels = Y.shape
    if n < _LEAST_DOCUMENTS_SCORED or n * n_labels > _MOST_SCORED:
        return False
    described = clone(scores).fit_transform(X, Y)
    size = (template.n_components,)
    _, over_scores = choose_size(clone(template).set_params(**_OVER_SCORES), described, Y, size)
    return over_scores > likelihood + _LEAST_GAIN * abs(likelihood)


def _held_out(mixture: ConditionalBernoulliMixture) -> float:
    """Return the best likelihood of the rows that a fit set aside."""
    seen = [report.valid_log_likelihood for report in mixture.reports_]
    return max((value for value in seen if not math.isnan(value)), default=-math.inf)
