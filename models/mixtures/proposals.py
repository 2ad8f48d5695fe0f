"""Candidate sources and set features of each method."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from setwise.models.data.answers import ModelAnswers
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_candidates import MixtureCandidates, SomeMixture
from setwise.models.options import MixtureExperts
from setwise.models.sets.evidence import CandidateSource
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.sources import GivenCandidates, MarginalCandidates, VotedCandidates
from setwise.models.voters.voters import SetVoters

# Limits for the steps of the folds' mixtures, which otherwise equal those of the mixture on all
# rows.
_LEAST_STEPS = 4
_MOST_STEPS = 10

# Steps of mixtures of boosted trees.
_MOST_BOOSTED_STEPS = 100

# Numbers of components that are compared.
_SIZES = (25, 100)

# Share of the documents set aside to compare mixtures.
_SHARE_ASIDE = 0.2


# Feature groups of the papers.
_PAPER = ("score", "prior")


class Proposal(NamedTuple):
    """Candidates and features of a method."""

    for_folds: CandidateSource  # cloned and fitted without each fold's rows
    final: CandidateSource  # fitted on all documents
    features: SetFeatures  # unfitted
    voters: SetVoters | None = None  # unfitted; fitted by cross-fitting


def _margins(used: bool) -> tuple[str, ...]:
    return ("margins",) if used else ()


def propose_marginal(k: int, X: csr_array, Y: csr_array) -> Proposal:
    """Return candidates of independent labels with the paper's features."""
    return Proposal(MarginalCandidates(k), MarginalCandidates(k).fit(X, Y), SetFeatures())


def propose_voted(
    k: int, X: csr_array, Y: csr_array, voters: tuple[str, ...], *, margins: bool
) -> Proposal:
    """Return candidates of labels and voters, with vote features and perhaps margins."""
    return Proposal(
        VotedCandidates(k),
        VotedCandidates(k).fit(X, Y),
        SetFeatures((*_PAPER, *_margins(margins), *voters)),
        SetVoters(voters),
    )


def propose_given(
    k: int,
    answers: ModelAnswers,
    X: csr_array,
    Y: csr_array,
    voters: tuple[str, ...],
    *,
    margins: bool,
) -> Proposal:
    """Return candidates of another model's answers, of labels and of voters.

    Agreement with the answers' sets is a feature if there are any.
    """
    groups = (*_PAPER, *_margins(margins), *(("answers",) if len(answers.counts) else ()))
    return Proposal(
        GivenCandidates(k),
        GivenCandidates(k).fit(X, Y),
        SetFeatures((*groups, *voters), answers.number_names),
        SetVoters(voters) if voters else None,
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
    experts: MixtureExperts = "shared",
    voters: tuple[str, ...] = (),
    margins: bool = False,
) -> Proposal:
    """Return candidates of a conditional Bernoulli mixture, alone or with others.

    With ``union``, candidates of independent labels and of voters are added, and votes are features
    of all. Several fits are averaged, of boosted experts none. With ``experts="separate"``,
    components share no classifiers; these are linear in the features, as in the papers.
    """
    if experts == "boosted":
        mixture, per_fold = _fit_boosted(X, Y, n_components, n_jobs=n_jobs, seed=seed)
    else:
        template = ConditionalBernoulliMixture(
            experts=experts,
            features="auto" if experts == "shared" else "linear",
            n_jobs=n_jobs,
            random_state=seed,
        )
        mixture, per_fold = _fit_linear(X, Y, n_components, template, n_fits, seed=seed)
    return Proposal(
        MixtureCandidates(per_fold, k, union=union),
        MixtureCandidates.of(mixture, k, union=union),
        SetFeatures(("score", "independent", "prior", *_margins(margins), *voters)),
        SetVoters(voters) if voters else None,
    )


def _fit_linear(
    X: csr_array,
    Y: csr_array,
    n_components: int | None,
    template: ConditionalBernoulliMixture,
    n_fits: int,
    *,
    seed: int,
) -> tuple[SomeMixture, SomeMixture]:
    """Return a mixture with linear experts, fitted, and an unfitted one for the folds.

    The mixture on all rows chooses the penalties and the number of steps, and the number of
    components if ``n_components`` is None; the folds' mixtures reuse them.
    """
    size = n_components or choose_size(template, *set_aside(X, Y, seed))
    template.set_params(n_components=size)
    mixture: ConditionalBernoulliMixture | AveragedMixture = template
    if n_fits > 1:
        mixture = AveragedMixture(template, n_fits, random_state=seed)
    mixture.fit(X, Y)
    first = mixture.fits_[0] if isinstance(mixture, AveragedMixture) else mixture
    per_fold = ConditionalBernoulliMixture(
        first.n_components_,
        experts=template.experts,
        alpha=first.alpha_,
        gate_alpha=first.gate_alpha_,
        l1_ratio=first.l1_ratio_,
        features="linear" if first.kernel_ is None else "kernel",
        weighting=first.weighting,
        early_stopping=False,
        max_iter=min(max(first.n_iter_, _LEAST_STEPS), _MOST_STEPS),
        tol=0.0,
        n_jobs=template.n_jobs,
        random_state=seed,
    )
    if n_fits > 1:
        return mixture, AveragedMixture(per_fold, n_fits, random_state=seed)
    return mixture, per_fold


def _fit_boosted(
    X: csr_array, Y: csr_array, n_components: int | None, *, n_jobs: int | None, seed: int
) -> tuple[SomeMixture, SomeMixture]:
    """Return a mixture with boosted experts, fitted, and an unfitted one for the folds.

    It has 25 components if ``n_components`` is None. The folds' mixtures take as many steps as the
    mixture on all rows.
    """
    size = n_components or _SIZES[0]
    mixture = BoostedBernoulliMixture(
        size, max_iter=_MOST_BOOSTED_STEPS, n_jobs=n_jobs, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound is one of time
        mixture.fit(X, Y)
    return mixture, clone(mixture).set_params(
        n_components=mixture.n_components_, max_iter=mixture.n_iter_, validation_fraction=0.0
    )


class LabelledRows(NamedTuple):
    """Documents and their label sets."""

    X: csr_array
    Y: csr_array


def set_aside(X: csr_array, Y: csr_array, seed: int) -> tuple[LabelledRows, LabelledRows]:
    """Return training documents and documents set aside for comparison."""
    n = X.shape[0]
    order = np.random.default_rng(seed).permutation(n)
    n_aside = min(max(1, round(_SHARE_ASIDE * n)), n - 1)
    aside, training = np.sort(order[:n_aside]), np.sort(order[n_aside:])
    return LabelledRows(X[training], Y[training]), LabelledRows(X[aside], Y[aside])


def choose_size(
    template: ConditionalBernoulliMixture,
    training: LabelledRows,
    aside: LabelledRows,
    sizes: tuple[int, ...] = _SIZES,
) -> int:
    """Return the number of components with the best held-out likelihood.

    Sizes beyond the number of distinct label sets are not tried. The
    penalties of the labels do not depend on the mixture.

    Parameters
    ----------
    template : ConditionalBernoulliMixture
        Its other parameters are used; clones are fitted.
    training, aside : LabelledRows
        Rows to fit and rows to compare on; see `set_aside`.
    sizes : tuple of int
        Rising.
    """
    likelihoods: dict[int, float] = {}
    candidate = template
    for size in sizes:
        mixture = clone(candidate).set_params(n_components=size)
        with warnings.catch_warnings():
            # The final mixture warns about the number of components.
            warnings.simplefilter("ignore", ComponentWarning)
            mixture.fit(*training, validation=aside)
        likelihoods[size] = float(mixture.log_probability(*aside).mean())
        if mixture.support_.shape[0] <= size:
            break
        candidate = clone(template).set_params(alpha=mixture.alpha_)
    return max(likelihoods, key=lambda size: likelihoods[size])
