"""Which candidates and set features belong to a method, for its folds and for its users."""

from typing import NamedTuple

from scipy.sparse import csr_array

from models.base.averaged_mixture import AveragedMixture
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
    n_components: int,
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
    the number of steps, and the mixtures of the folds take them over.
    """
    template = ConditionalBernoulliMixture(n_components, n_jobs=n_jobs, random_state=seed)
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
