"""Which candidates and set features belong to a method, for its folds and for its users."""

import math
import warnings
from typing import NamedTuple

from scipy.sparse import csr_array
from sklearn.base import clone

from models.base.averaged_mixture import AveragedMixture
from models.base.bernoulli_mixture import ComponentWarning
from models.base.conditional_bernoulli_mixture import ConditionalBernoulliMixture
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
    voters: tuple[str, ...] = (),
    stacked: bool = False,
) -> Proposal:
    """Take candidates from a conditional Bernoulli mixture, alone or united with others.

    With ``union`` there are those of independent labels and of voters too, and voters describe
    them all. Of several fits the mean is taken. The mixture on all rows chooses the penalties and
    the number of steps, and the mixtures of the folds take them over; the number of components too
    where ``n_components`` is None.
    """
    template = ConditionalBernoulliMixture(n_jobs=n_jobs, random_state=seed)
    template.set_params(n_components=n_components or choose_size(template, X, Y))
    whole: SomeMixture
    if n_fits == 1:
        whole = first = template.fit(X, Y)
    else:
        whole = AveragedMixture(template, n_fits, random_state=seed).fit(X, Y)
        first = whole.fits_[0]
    per_fold: SomeMixture
    per_fold = alike = ConditionalBernoulliMixture(
        first.n_components_,
        alpha=first.alpha_,
        gate_alpha=first.gate_alpha_,
        l1_ratio=first.l1_ratio_,
        features="linear" if first.kernel_ is None else "kernel",
        early_stopping=False,
        max_iter=min(max(first.n_iter_, _LEAST_STEPS), _MOST_STEPS),
        tol=0.0,
        n_jobs=n_jobs,
        random_state=seed,
    )
    if n_fits > 1:
        per_fold = AveragedMixture(alike, n_fits, random_state=seed)
    return Proposal(
        MixtureCandidates(per_fold, k, union=union),
        MixtureCandidates.of(whole, k, union=union),
        SetFeatures(("score", "independent", "prior", *(("margins", *voters) if voters else ()))),
        SetVoters(voters) if voters else None,
        LabelStack() if stacked else None,
    )


def choose_size(template: ConditionalBernoulliMixture, X: csr_array, Y: csr_array) -> int:
    """Return the number of components under which rows set aside are likelier.

    Only the smaller is tried where there are no more distinct label sets. The rows set aside are
    the same for both, and the penalties of the labels do not depend on the mixture.

    Parameters
    ----------
    template : ConditionalBernoulliMixture
        Its other parameters are used; clones are fitted.
    X : csr_array of shape (n_documents, n_features)
    Y : csr_array of shape (n_documents, n_labels)
    """
    small, large = _SIZES
    with warnings.catch_warnings():
        # The mixture that is kept says how many components remain of those asked for.
        warnings.simplefilter("ignore", ComponentWarning)
        first = clone(template).set_params(n_components=small).fit(X, Y)
        if first.support_.shape[0] <= small:
            return small
        other = clone(template).set_params(n_components=large, alpha=first.alpha_).fit(X, Y)
    return large if _held_out(other) > _held_out(first) else small


def _held_out(mixture: ConditionalBernoulliMixture) -> float:
    """Return the best likelihood of the rows that a fit set aside."""
    seen = [report.valid_log_likelihood for report in mixture.reports_]
    return max((value for value in seen if not math.isnan(value)), default=-math.inf)
