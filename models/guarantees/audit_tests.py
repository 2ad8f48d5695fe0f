"""Test of the accuracy of sent predictions by audits."""

from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from setwise.models.guarantees.joint import Sample, Samples, fewest_further, p_value, planned_power
from setwise.models.guarantees.paths import Look, path_p_value
from setwise.models.guarantees.paths.spending import risk_spent
from setwise.models.guarantees.strata import ThinSample, two_strata_p_value
from setwise.models.guarantees.trend import recent_accuracy

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

AUDITS_OF_A_CONFIDENCE = 20.0
"""Number of audits that a confidence is worth when planning estimates accuracies."""

_RATE_STEP = 0.05
"""Rates of second readings are rounded down to its multiples, so that looks share one."""

_PLANNED_LOOKS = 6
_PLANNED_GROWTH = 1.5  # audits of a look, as a multiple of those of the one before

_PLANNED_RISK = 1.5
"""Part of the risk at which a look of a path tests, as a multiple of what it spends, about."""


def count_above(thresholds: Floats, confidence: Floats) -> Counts:
    """Return the number of confidences at or above each threshold."""
    below = np.searchsorted(np.sort(confidence), thresholds, side="left")
    return np.asarray(len(confidence) - below, dtype=np.int64)


class Epochs(NamedTuple):
    """Times within which one rule told the strata apart.

    Audits drawn under different rules or rates must not be pooled. A test uses either the audits of
    all epochs without a thin stratum above its threshold, or those of one other epoch, whichever
    are more. The choice does not depend on what the audits found.

    Attributes
    ----------
    audits, documents : int64 ndarray of shape (n,) and (n_documents,)
        The epoch of each.
    whole_from : float64 ndarray of shape (n_epochs,)
        Least threshold above which an epoch has no thin stratum; infinite if it has one anywhere.
    """

    audits: Counts
    documents: Counts
    whole_from: Floats


class ThinStratum(NamedTuple):
    """Which audits, and which documents of the stream, were drawn at a lower rate.

    Attributes
    ----------
    audits : bool ndarray of shape (n,)
    confidence, documents : float64 and bool ndarray of shape (n_documents,)
        Confidences of all documents of the stream, and which of them are in the stratum.
    worth : float
        Independent documents that each one is worth: below 1 where many are copies.
    epochs : Epochs or None
        None if the same rule told both strata apart at all times.
    """

    audits: Bools
    confidence: Floats
    documents: Bools
    worth: float = 1.0
    epochs: Epochs | None = None

    def only(self, rows: NDArray[np.int64]) -> Self:
        """Return the strata of these audits."""
        epochs = self.epochs
        return self._replace(
            audits=self.audits[rows],
            epochs=None if epochs is None else epochs._replace(audits=epochs.audits[rows]),
        )


class AdjudicatedAudits(NamedTuple):
    """Audits whose contradictions, and some agreements, a lead reads; one row each.

    Attributes
    ----------
    confidence : float64 ndarray of shape (n,)
    found_wrong, missed : bool ndarray of shape (n,)
    reread_rate, reread_draw : float64 ndarray of shape (n,)
    otherwise : float
        Rate above a threshold that no audit reaches.
    weeks : float64 ndarray of shape (n,), or None
        When each document came, if it is known.
    chance, chance_draw : float64 ndarray of shape (n,), or None
        Probability of the audit, if it varies, and numbers in [0, 1) that thin the likelier ones.
    thin : ThinStratum or None
    """

    confidence: Floats
    found_wrong: Bools
    missed: Bools
    reread_rate: Floats
    reread_draw: Floats
    otherwise: float
    weeks: Floats | None = None
    chance: Floats | None = None
    chance_draw: Floats | None = None
    thin: ThinStratum | None = None

    def only(self, rows: NDArray[np.int64]) -> Self:
        """Return these audits."""
        thin = self.thin
        return self._replace(
            confidence=self.confidence[rows],
            found_wrong=self.found_wrong[rows],
            missed=self.missed[rows],
            reread_rate=self.reread_rate[rows],
            reread_draw=self.reread_draw[rows],
            weeks=None if self.weeks is None else self.weeks[rows],
            chance=None if self.chance is None else self.chance[rows],
            chance_draw=None if self.chance_draw is None else self.chance_draw[rows],
            thin=None if thin is None else thin.only(rows),
        )

    def first(self, n: int) -> Self:
        """Return the first audits."""
        return self.only(np.arange(n))


class Budget(NamedTuple):
    """The risk of an attempt, and the looks before it that share it.

    Attributes
    ----------
    risk : float
        Of all looks.
    earlier : tuple of int, or None
        Number of audits at each earlier look; None if this attempt has the risk for itself.
    """

    risk: float
    earlier: tuple[int, ...] | None = None

    def spent(self, look: int) -> float:
        """Return what is spent by the end of a look, from 1."""
        return self.risk if self.earlier is None else risk_spent(self.risk, look)

    @property
    def now(self) -> float:
        """What this attempt spends."""
        look = len(self.earlier or ()) + 1
        return self.risk if self.earlier is None else self.spent(look) - self.spent(look - 1)

    @property
    def planned(self) -> float:
        """The risk at which this attempt tests, about."""
        look = len(self.earlier or ()) + 1
        return min(self.spent(look), _PLANNED_RISK * self.now) if look > 1 else self.now


class OnceCounts(NamedTuple):
    """Audits above a threshold, each document counted once."""

    n: int
    good: int
    missed: int


class Tested(Protocol):
    """What is tested above each threshold of a sequence; see `AdjudicatedTest`."""

    n_above: Counts
    n_good: Counts
    reread_rate: Floats

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return each step's p-value."""

    def recent(self, thresholds: Floats, target: float) -> Floats | None:
        """Return the accuracy when the newest audit came."""

    def start_power(self, accuracy: Floats, target: float) -> Floats:
        """Return each threshold's approximate power."""

    def needed(
        self, steps: NDArray[np.integer], confidence: Floats, target: float, power: float
    ) -> tuple[Counts, Counts]:
        """Return further audits for a proof."""

    def sample(self, step: int) -> Sample:
        """Return the counts above a threshold."""

    def thin(self, step: int) -> ThinSample | None:
        """Return the thin stratum above a threshold."""

    def once(self, step: int) -> OnceCounts | None:
        """Return the counts of different documents; None if no audit is of a copy."""


class _Above(NamedTuple):
    """What decides on the test above a threshold, of the first audits."""

    n: int
    found: int
    missed: int
    rate: float
    least: float
    """Least probability of an audit; 1 if it does not vary."""


class _Chosen(NamedTuple):
    """The audits that the test above a threshold takes."""

    audits: Bools
    documents: Bools | None
    """Documents of the stream that tell the strata's shares; None if there is one stratum."""
    every: bool
    """Whether no other audit lies above the threshold."""


class AdjudicatedTest:
    """The joint test of errors found and missed above each threshold.

    Above each threshold the least probability of a second reading holds for all audits: misses
    whose draw lies at or above it do not count. If probabilities of audits vary, the least one
    above the threshold holds too. See `setwise.models.guarantees.joint`, and `paths` and `strata`
    beside it for several looks and for two strata.

    Attributes
    ----------
    n_above, n_good : int64 ndarray of shape (m,)
        Audits that count at or above each threshold, and those of them not found wrong.
    reread_rate : float64 ndarray of shape (m,)
        The least probability of a second reading.
    """

    def __init__(self, thresholds: Floats, audits: AdjudicatedAudits, budget: Budget) -> None:
        self._thresholds, self._audits, self._budget = thresholds, audits, budget
        self._rich = np.ones(len(audits.confidence), bool)
        if audits.thin is not None:
            self._rich = ~audits.thin.audits
        self._chosen = {each: self._choose(each) for each in thresholds.tolist()}
        rows = [self._above(threshold, len(self._rich)) for threshold in thresholds.tolist()]
        columns = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
        self._n, self._found, self._missed = columns
        self.reread_rate = np.array([row.rate for row in rows])
        self._least = np.array([row.least for row in rows])
        self._thin = [self._thin_above(threshold) for threshold in thresholds.tolist()]
        self._n_thin = np.array([0 if thin is None else thin.n for thin in self._thin])
        thin_wrong = np.array([0 if thin is None else thin.wrong for thin in self._thin])
        self.n_above = self._n + self._n_thin
        self.n_good = self.n_above - self._found - self._missed - thin_wrong

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return each step's p-value of "the accuracy above is at most this".

        It is the part of the risk that its rejection takes, and only as sharp as a comparison with
        what the attempt spends requires.
        """
        return np.array([self._p_value(int(step), 1.0 - accuracy) for step in steps])

    def _p_value(self, step: int, wrong: float) -> float:
        sample, thin, budget = self.sample(step), self._thin[step], self._budget
        if sample.reread_rate <= 0.0:
            return 1.0
        if thin is not None:
            if sample.n == 0 and thin.n == 0:
                return 1.0
            return two_strata_p_value(sample, thin, wrong, budget.now)
        # Other audits may have been the evidence of an earlier look: this one adds its own risk.
        alone = self._chosen[float(self._thresholds[step])].every
        if sample.n == 0 or not budget.earlier or not alone:
            return 1.0 if sample.n == 0 else p_value(sample, wrong, budget.now)
        looks, base = self._path(step)
        look = len(budget.earlier) + 1
        return path_p_value(sample, looks, wrong, budget.spent(look) - base)

    def _path(self, step: int) -> tuple[list[Look], float]:
        """Return the looks before, as far as rates were the same, and what came before those."""
        here = self.reread_rate[step], self._least[step]
        earlier = self._budget.earlier or ()
        looks: list[Look] = []
        for place in range(len(earlier), 0, -1):
            above = self._above(float(self._thresholds[step]), earlier[place - 1])
            if above.n and (above.rate, above.least) != here:
                # Other rates thin the counts otherwise: their looks add up with these.
                base = self._budget.spent(place)
                return [Look(n, spent - base) for n, spent in looks], base
            looks.insert(0, Look(above.n, self._budget.spent(place)))
        return looks, 0.0

    def _above(self, threshold: float, first: int) -> _Above:
        """Return the counts above a threshold among the first audits."""
        audits, chosen = self._audits, self._chosen[threshold].audits & self._rich
        rows = np.flatnonzero((audits.confidence[:first] >= threshold) & chosen[:first])
        least = 1.0
        if audits.chance is not None and audits.chance_draw is not None and len(rows):
            chance = audits.chance[rows]
            least = float(chance.min())
            rows = rows[audits.chance_draw[rows] * chance < least]
        rate = float(audits.reread_rate[rows].min(initial=1.0)) if len(rows) else audits.otherwise
        if self._budget.earlier is not None and _RATE_STEP <= rate < 1.0:
            rate = float(np.floor(rate / _RATE_STEP + 1e-9) * _RATE_STEP)
        missed = audits.missed[rows] & (audits.reread_draw[rows] < rate)
        return _Above(
            len(rows), int(audits.found_wrong[rows].sum()), int(missed.sum()), rate, least
        )

    def _choose(self, threshold: float) -> _Chosen:
        """Return the audits that the test above a threshold takes."""
        audits, thin = self._audits, self._audits.thin
        above = audits.confidence >= threshold
        every = np.ones(len(above), bool)
        if thin is None:
            return _Chosen(every, None, every=True)
        if thin.epochs is None:
            documents = thin.confidence >= threshold
            mixed = (documents & thin.documents).any() or (above & thin.audits).any()
            return _Chosen(every, documents if mixed else None, every=True)
        epochs = thin.epochs
        whole = epochs.whole_from <= threshold
        counts = np.bincount(epochs.audits[above], minlength=len(whole))
        of_mixed = np.where(whole, 0, counts)
        if not of_mixed.any() or counts[whole].sum() >= of_mixed.max():
            return _Chosen(whole[epochs.audits], None, every=not of_mixed.any())
        most = int(of_mixed.argmax())
        documents = (epochs.documents == most) & (thin.confidence >= threshold)
        return _Chosen(epochs.audits == most, documents, every=False)

    def _thin_above(self, threshold: float) -> ThinSample | None:
        """Return the thin stratum above a threshold; None if the test has none."""
        thin, audits, chosen = self._audits.thin, self._audits, self._chosen[threshold]
        if thin is None or chosen.documents is None:
            return None
        rows = (audits.confidence >= threshold) & thin.audits & chosen.audits
        wrong = audits.found_wrong[rows] | audits.missed[rows]
        # What was not drawn for a second reading may be wrong.
        unread = ~audits.found_wrong[rows] & (audits.reread_draw[rows] >= audits.reread_rate[rows])
        return ThinSample(
            int(rows.sum()),
            int((wrong | unread).sum()),
            round(int((chosen.documents & thin.documents).sum()) * thin.worth),
            round(int(chosen.documents.sum()) * thin.worth),
        )

    def recent(self, thresholds: Floats, target: float) -> Floats | None:
        """Return the accuracy above thresholds when the newest audit came, if times are known."""
        audits = self._audits
        if audits.weeks is None:
            return None
        wrong = audits.found_wrong | audits.missed
        errors = wrong / np.where(audits.missed, audits.reread_rate, 1.0)
        return recent_accuracy(thresholds, audits.confidence, errors, audits.weeks, target)

    def start_power(self, accuracy: Floats, target: float) -> Floats:
        """Return each threshold's approximate power, on average over the looks to come.

        The first look sets the start of all. With its audits alone, thresholds too low for the
        target would seem best wherever the good ones have few audits yet.
        """
        blank, budget = Samples(0, 0, 0, self.reread_rate), self._budget
        if budget.earlier is None:
            return planned_power(self.n_above, 1.0 - accuracy, blank, 1.0 - target, budget.planned)
        powers = [
            planned_power(
                np.floor(self.n_above * _PLANNED_GROWTH**more).astype(np.int64),
                1.0 - accuracy,
                blank,
                1.0 - target,
                Budget(budget.risk, (0,) * (len(budget.earlier) + more)).planned,
            )
            for more in range(_PLANNED_LOOKS)
        ]
        return np.asarray(np.mean(powers, axis=0))

    def needed(
        self, steps: NDArray[np.integer], confidence: Floats, target: float, power: float
    ) -> tuple[Counts, Counts]:
        """Return further audits above each threshold for a proof, approximately.

        -1 if no number would do. The second array holds the numbers if no further audit finds an
        error.
        """
        n = self.n_above[steps]
        found = n - self.n_good[steps] - self._missed[steps]
        before = Samples(n, found, self._missed[steps], self.reread_rate[steps])
        worth = AUDITS_OF_A_CONFIDENCE
        rate = np.maximum(self.reread_rate[steps], 1e-12)
        estimate = 1.0 - (found + self._missed[steps] / rate) / np.maximum(n, 1)
        wrong = 1.0 - (n * np.maximum(estimate, 0.0) + worth * confidence) / (n + worth)
        risk = self._budget.planned
        return (
            fewest_further(before, wrong, 1.0 - target, risk, power),
            fewest_further(before, np.zeros(len(n)), 1.0 - target, risk, power),
        )

    def sample(self, step: int) -> Sample:
        """Return the counts above a threshold; those of the rich stratum if there are two."""
        return Sample(
            int(self._n[step]),
            int(self._found[step]),
            int(self._missed[step]),
            float(self.reread_rate[step]),
        )

    def thin(self, step: int) -> ThinSample | None:
        """Return the thin stratum above a threshold; None if the test has none."""
        return self._thin[step]

    def once(self, step: int) -> OnceCounts | None:  # noqa: ARG002 -- as in `TestedTwice`
        """Return None: each audit is of another document."""
        return None


class TestedTwice:
    """Two tests of the same audits: each message counts, and each document counts once.

    Messages are drawn each for itself, so counting them is exact for the messages that came,
    whatever they have in common. Copies are right or wrong together, so that what holds for the
    documents to come shows where each counts once. A threshold is proved if both tests prove it:
    the risk of each is that of the pair.

    Parameters
    ----------
    each, different : AdjudicatedTest
        Of all audits, and of one for each document, at the same thresholds.
    """

    def __init__(self, each: AdjudicatedTest, different: AdjudicatedTest) -> None:
        self._each, self._different = each, different
        self.n_above, self.n_good = each.n_above, each.n_good
        self.reread_rate = np.minimum(each.reread_rate, different.reread_rate)

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return the higher p-value of both."""
        tests = (self._each, self._different)
        return np.asarray(np.maximum(*(test.p_values(steps, accuracy) for test in tests)))

    def recent(self, thresholds: Floats, target: float) -> Floats | None:
        """Return the accuracy of the messages when the newest audit came."""
        return self._each.recent(thresholds, target)

    def start_power(self, accuracy: Floats, target: float) -> Floats:
        """Return each threshold's approximate power, which is that of the weaker test."""
        tests = (self._each, self._different)
        return np.asarray(np.minimum(*(test.start_power(accuracy, target) for test in tests)))

    def needed(
        self, steps: NDArray[np.integer], confidence: Floats, target: float, power: float
    ) -> tuple[Counts, Counts]:
        """Return further audits above each threshold with which both would prove it."""
        copies = self.n_above[steps] / np.maximum(self._different.n_above[steps], 1)
        of_each = self._each.needed(steps, confidence, target, power)
        of_different = self._different.needed(steps, confidence, target, power)
        most, all_good = (
            np.where(
                (one < 0) | (other < 0), -1, np.maximum(one, np.ceil(other * copies).astype(int))
            )
            for one, other in zip(of_each, of_different, strict=True)
        )
        return most, all_good

    def sample(self, step: int) -> Sample:
        """Return the messages above a threshold."""
        return self._each.sample(step)

    def thin(self, step: int) -> ThinSample | None:
        """Return the messages of the thin stratum above a threshold."""
        return self._each.thin(step)

    def once(self, step: int) -> OnceCounts:
        """Return the different documents above a threshold."""
        test = self._different
        return OnceCounts(int(test.n_above[step]), int(test.n_good[step]), test.sample(step).missed)
