"""One label set per document, from several people's answers and gold labels.

A person's answer is right with probability 1 - alpha. A person who errs gives any particular wrong
set with probability `COINCIDENCE`, so answers that agree are soon beyond doubt. EM estimates each
person's alpha from documents that several people labelled or that gold decides (Dawid and Skene,
1979, with whole label sets as classes).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from setwise.models.calibration.noisy_history import EVERYONE, Noise, checked_noise
from setwise.models.data.datasets import Dataset, label_matrix
from setwise.models.data.formats.reviews import GOLD
from setwise.models.guarantees.noise import MIN_GOLD_RIGHT, NoiseRates

COINCIDENCE = 0.02
"""Chance that a wrong answer is one particular wrong set."""

_PRIOR = 10.0  # answers by which a person's alpha is drawn to that of all
# Too large an alpha makes confidences too high, so the lower quartile of its posterior is taken.
_CAUTIOUS_QUANTILE = 0.25
_STEPS = 200
_TOLERANCE = 1e-6
_START = 0.2

Labels = frozenset[str]


class AnsweredDocument(NamedTuple):
    """One document's answers by person, and its true set if decided."""

    answers: Mapping[str, Labels]
    truth: Labels | None = None

    @property
    def telling(self) -> bool:
        """Whether the answers say how often people err."""
        return self.truth is not None or len(self.answers) > 1


def settle(
    dataset: Dataset,
    truth: Mapping[str, Collection[str]] = MappingProxyType({}),
    noise: Noise | None = None,
) -> tuple[Dataset, Noise]:
    """Return each document once with its likeliest set, and the noise.

    Parameters
    ----------
    dataset : Dataset
        An id may be repeated by another annotator.
    truth : mapping from str to labels
        True sets by id.
    noise : mapping, optional
        As for `checked_noise`; estimated if not given.

    Returns
    -------
    dataset : Dataset
        Its annotators are named in ``noise``.
    noise : mapping

    Raises
    ------
    ValueError
        If there is too little to estimate from, a rate is missing, or ``truth`` names no document.
    """
    rows, cases = _cases(dataset, truth)
    if truth and not truth.keys() & set(dataset.ids):
        raise ValueError("the gold labels decide no training document; name documents by their id")
    rates: dict[str, Any] = dict(estimate_noise_rates(cases) if noise is None else noise)
    by_name = checked_noise(rates)
    others = by_name.get(EVERYONE, NoiseRates(0.0, 0.0))
    people = {name for case in cases for name in case.answers} - {GOLD}
    absent = sorted(people - by_name.keys() - {EVERYONE})
    if absent and EVERYONE not in by_name:
        raise ValueError(f"there are no noise rates of {absent[0]}; add them, or {EVERYONE!r}")
    alpha = {name: by_name.get(name, others).alpha for name in people} | {GOLD: 0.0}
    annotators: list[str | None] = []
    label_sets: list[Labels] = []
    for case in cases:
        labels, who, doubt = _verdict(case, alpha)
        if who not in alpha:
            rates[who] = {"alpha": doubt}
        label_sets.append(labels)
        annotators.append(None if who == EVERYONE else who)
    names = (*dataset.label_names, *sorted(set().union(*label_sets) - {*dataset.label_names}))
    column = {name: place for place, name in enumerate(names)}
    Y = label_matrix([[column[label] for label in row] for row in label_sets], len(names))
    return (
        replace(dataset.take(rows), label_names=names, Y=Y, annotators=tuple(annotators)),
        rates,
    )


def _cases(
    dataset: Dataset, truth: Mapping[str, Collection[str]]
) -> tuple[list[int], list[AnsweredDocument]]:
    """Return each document's first row, and the answers about it."""
    first: dict[str, int] = {}
    answers: dict[str, dict[str, Labels]] = {}
    names, Y = dataset.label_names, dataset.Y
    for row, id_ in enumerate(dataset.ids):
        who = None if dataset.annotators is None else dataset.annotators[row]
        labels = frozenset(names[at] for at in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
        first.setdefault(id_, row)
        answers.setdefault(id_, {})[EVERYONE if who is None else who] = labels
    decided = {id_: frozenset(labels) for id_, labels in truth.items()}
    return list(first.values()), [
        AnsweredDocument(answered, decided.get(id_)) for id_, answered in answers.items()
    ]


def _verdict(case: AnsweredDocument, alpha: Mapping[str, float]) -> tuple[Labels, str, float]:
    """Return a document's set, its source, and the chance of an error."""
    if case.truth is not None:
        return case.truth, GOLD, 0.0
    if GOLD in case.answers:
        return case.answers[GOLD], GOLD, 0.0
    belief = _beliefs(case, alpha)
    best = max(belief, key=lambda labels: belief[labels])
    if len(case.answers) == 1:
        (who,) = case.answers
        return best, who, alpha[who]
    agreeing = sorted(name for name, labels in case.answers.items() if labels == best)
    against = sorted(case.answers.keys() - agreeing)
    who = " and ".join(agreeing) + (f" against {' and '.join(against)}" if against else "")
    return best, who, 1.0 - belief[best]


def _beliefs(case: AnsweredDocument, alpha: Mapping[str, float]) -> dict[Labels, float]:
    """Return each given set's probability; the rest means none is right."""
    supporters: dict[Labels, list[str]] = {}
    for name, labels in case.answers.items():
        supporters.setdefault(labels, []).append(name)
    wrong = {name: max(alpha[name], _TOLERANCE) for name in case.answers}
    everyone_wrong = float(np.prod(list(wrong.values())))
    weight = {
        labels: everyone_wrong
        * float(np.prod([(1.0 - wrong[name]) / (wrong[name] * COINCIDENCE) for name in names]))
        * COINCIDENCE
        for labels, names in supporters.items()
    }
    total = sum(weight.values()) + everyone_wrong
    return {labels: share / total for labels, share in weight.items()}


def estimate_noise_rates(cases: Sequence[AnsweredDocument]) -> Noise:
    """Return each annotator's alpha, and that of all as ``"*"``, by EM.

    Raises
    ------
    ValueError
        If fewer than `MIN_GOLD_RIGHT` documents tell anything.

    Examples
    --------
    >>> true, wrong = frozenset({"a"}), frozenset({"b"})
    >>> cases = [AnsweredDocument({"ann": true}, true)] * 80
    >>> cases += [AnsweredDocument({"ann": wrong}, true)] * 20
    >>> rates = estimate_noise_rates(cases)
    >>> round(rates["ann"]["alpha"], 2)
    0.18
    """
    telling = [case for case in cases if case.telling]
    if len(telling) < MIN_GOLD_RIGHT:
        raise ValueError(
            f"{len(telling)} documents are decided by gold or labelled by several people; "
            f"{MIN_GOLD_RIGHT} are needed to estimate how often people err"
        )
    names = sorted({name for case in cases for name in case.answers} - {GOLD})
    alpha = dict.fromkeys([*names, GOLD], _START)
    alpha[GOLD] = 0.0
    n_answers, wrong = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    pooled = _START
    for _ in range(_STEPS):
        n_answers, wrong = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for case in telling:
            belief = _beliefs(case, alpha) if case.truth is None else {case.truth: 1.0}
            for name, labels in case.answers.items():
                if name != GOLD:
                    n_answers[name] += 1.0
                    wrong[name] += 1.0 - belief.get(labels, 0.0)
        pooled = sum(wrong.values()) / sum(n_answers.values())
        updated = {
            name: (wrong[name] + _PRIOR * pooled) / (n_answers[name] + _PRIOR) for name in names
        }
        moved = max(abs(updated[name] - alpha[name]) for name in names)
        alpha.update(updated)
        if moved < _TOLERANCE:
            break

    def cautious(errors: float, of: float) -> float:
        return float(betaincinv(errors + 0.5, of - errors + 0.5, _CAUTIOUS_QUANTILE))

    estimates = {
        name: {"alpha": cautious(wrong[name] + _PRIOR * pooled, n_answers[name] + _PRIOR)}
        for name in names
    }
    estimates[EVERYONE] = {"alpha": cautious(sum(wrong.values()), sum(n_answers.values()))}
    return estimates
