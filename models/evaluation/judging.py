r"""Whether a confidence can decide what to send.

Two things make a confidence useful: it ranks right answers above wrong ones, and its numbers are
probabilities. The first is the AUROC of right against wrong answers and the area under the
risk-coverage curve (AURC [1]_): the mean, over all shares sent, of the share of errors among what
is sent. The second is the expected calibration error (ECE [2]_) over 15 bins of equal mass, beside
the alignment error of the papers, and a test of the whole curve
(`setwise.models.evaluation.reliability`).

References
----------
.. [1] Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural
   Classifiers", ICLR 2019.
.. [2] M. P. Naeini, G. Cooper and M. Hauskrecht, "Obtaining Well Calibrated Probabilities Using
   Bayesian Binning", AAAI 2015; with equal mass as in A. Kumar, P. Liang and T. Ma, "Verified
   Uncertainty Calibration", NeurIPS 2019.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, stdtrit

from setwise.models.evaluation.reliability import draw_reliability, noisy_rows
from setwise.models.evaluation.scoring import N_BUCKETS
from setwise.models.figures.numerals import percent
from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.guarantees.checked import checked_confidences, checked_flags
from setwise.models.results import Estimate, ScoreJudgement, ScoreVerdict

Floats = NDArray[np.float64]

N_BINS = 15
"""Bins of equal mass of the expected calibration error."""

LEAST = 30
"""Answers, and right or wrong ones among them: a tenth of it, below which nothing is judged."""

LEVEL = 0.95
"""Level of the intervals, and one minus that of the tests."""

TOLERATED_ECE = 0.02
"""Error of the numbers that nobody recalibrates for, however certain it is."""

LEAST_AUROC = 0.6
"""AUROC below which a confidence decides nothing, however certain it is."""

GOOD_AUROC = 0.75
"""AUROC from which a confidence ranks well."""

_NULL_DRAWS = 300  # of the ECE's error by chance

_BOOTSTRAPS = 300
_GRID = 2_000  # steps of the AUROC


_CHECK = "Evaluate more documents with “setwise evaluate”, or have more reviewed on the desk."
_LEARN = "Learn another with “setwise train”, from more or newer documents."
ADVICE = {
    ScoreVerdict.ROUTES: "Prove a threshold with “setwise certify” or on the page Certificates.",
    ScoreVerdict.TOO_FEW: _CHECK,
    ScoreVerdict.NOT_ENOUGH: _CHECK,
    ScoreVerdict.CONSTANT: (
        "Ask a model of another maker several times and give the share that agree, or learn one "
        "with “setwise train”."
    ),
    ScoreVerdict.DOES_NOT_RANK: _LEARN,
    ScoreVerdict.RANKS_LITTLE: _LEARN,
    ScoreVerdict.RANKS_WRONG_WAY: _LEARN,
    ScoreVerdict.MISCALIBRATED: (
        "Recalibrate on the page Calibrators, or learn another with “setwise train” from newer "
        "documents."
    ),
}
"""What to do next, by verdict: a command or a page for each."""


def _sentence(judged: ScoreJudgement) -> str:
    """Return the verdict and what to do about it."""
    if judged.verdict is ScoreVerdict.CONSTANT and judged.n_right == judged.n:
        return f"{_finding(judged)} None was wrong, so that nothing has to be told apart."
    return f"{_finding(judged)} {ADVICE[judged.verdict]}"


def _finding(judged: ScoreJudgement) -> str:  # noqa: PLR0911 -- a sentence for each verdict
    span = f"nine of ten values between {judged.low:.3g} and {judged.high:.3g}"
    match judged.verdict:
        case ScoreVerdict.TOO_FEW:
            wrong = judged.n - judged.n_right
            return f"Too few to judge: {judged.n_right:,} right and {wrong:,} wrong answers."
        case ScoreVerdict.CONSTANT:
            low, high = (
                bound(judged.n_right, judged.n, (1.0 - LEVEL) / 2.0)
                for bound in (lower_bound, upper_bound)
            )
            return (
                f"Constant ({judged.low:.3g}, where {percent(float(low))} to "
                f"{percent(float(high))} are right)."
            )
        case ScoreVerdict.NOT_ENOUGH:
            told = f"Not enough to tell yet whether it ranks ({_ranking(judged)}){_off(judged)}"
            return f"{told}."
        case ScoreVerdict.RANKS_WRONG_WAY:
            ranking = f"{_ranking(judged)}; {span}"
            return f"Ranks the wrong way: wrong answers are surer ({ranking}){_off(judged)}."
        case ScoreVerdict.DOES_NOT_RANK:
            fit = "Calibrated, but" if _fits(judged) else "Its numbers are off, and it"
            return f"{fit} cannot tell right from wrong ({_ranking(judged)}; {span})."
        case ScoreVerdict.RANKS_LITTLE:
            ranking = f"{_ranking(judged)}; {span}"
            return f"Ranks too little to decide what to send ({ranking}){_off(judged)}."
        case ScoreVerdict.MISCALIBRATED:
            return (
                f"Ranks{_how_well(judged)} ({_ranking(judged)}), but its numbers are off (ECE "
                f"{_interval(judged.ece)})."
            )
        case ScoreVerdict.ROUTES:
            return f"Routes: it ranks ({_ranking(judged)}), and its numbers fit."


def _fits(judged: ScoreJudgement) -> bool:
    """Whether nothing speaks against the numbers, or little enough."""
    return judged.calibrated_p >= 1.0 - LEVEL or judged.ece.value <= TOLERATED_ECE


def _off(judged: ScoreJudgement) -> str:
    return "" if _fits(judged) else f", and its numbers are off (ECE {_interval(judged.ece)})"


def _how_well(judged: ScoreJudgement) -> str:
    return " well" if judged.auroc is not None and judged.auroc.value >= GOOD_AUROC else ""


def _ranking(judged: ScoreJudgement) -> str:
    if judged.auroc is None:
        return "no AUROC"
    return f"AUROC {_interval(judged.auroc)}"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f}, {estimate.low:.3f} to {estimate.high:.3f}"


def judge_scores(
    confidence: ArrayLike,
    right: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
    random_state: int = 0,
) -> ScoreJudgement:
    """Say whether a confidence can decide what to send, and why.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        In [0, 1].
    right : array-like of shape (n,)
        0 or 1.
    alpha, beta : float or array-like of shape (n,), default 0
        Noise rates of people who say what is right, which are corrected for.
    sample_weight : array-like of shape (n,), optional
        Positive: how many answers each one stands for.
    random_state : int, default=0
        Of the bootstrap intervals (300 resamples) and the test.

    Returns
    -------
    ScoreJudgement
        ``routes`` if the interval of the AUROC lies above 1/2, the AUROC is at least .6, and the
        numbers fit: the test does not reject them, or the ECE is at most .02. If the interval holds
        both 1/2 and useful values, there is not enough to tell.

    Notes
    -----
    The interval of the AUROC is Newcombe's [1]_, with a quantile of Student's t for few answers of
    the rarer kind: resampling them shows too little of what others would be like. Noise and weights
    widen it to the bootstrap's. The interval of the ECE reaches as far as the ECE moves by chance,
    so that it holds 0 for true confidences.

    References
    ----------
    .. [1] R. Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney
       statistic, part 2", Statistics in Medicine 25, 2006: method 5.

    Raises
    ------
    ValueError
        If there is no answer, lengths differ, or a value is out of range.

    Examples
    --------
    >>> draw = np.random.default_rng(0)
    >>> confidence = draw.beta(4, 1, 500)
    >>> right = draw.random(500) < confidence
    >>> print(judge_scores(confidence, right))  # doctest: +ELLIPSIS
    Routes: it ranks (AUROC 0.744, 0.683 to 0.795), and its numbers fit. Prove...
    >>> print(judge_scores(confidence**3, right).verdict)
    miscalibrated
    >>> print(judge_scores(draw.uniform(0.78, 0.8, 500), right).verdict)
    not-enough
    """
    values = checked_confidences("confidence", confidence)
    if len(values) == 0:
        raise ValueError("there is no answer to judge: confidence is empty")
    flags = checked_flags("right", right, len(values))
    rows = noisy_rows(values, flags, alpha, beta, sample_weight)
    order = np.argsort(-values, kind="stable")
    c, weight = values[order], rows.weight[order] / rows.weight.mean()
    starts = np.flatnonzero(np.append(True, np.diff(c) != 0))
    ranked = _Ranked(c, rows.target[order], starts)
    draw = np.random.default_rng(random_state)
    n_draws = _BOOTSTRAPS if len(c) >= LEAST else 0
    drawn = [
        ranked.measures(weight * np.bincount(draw.integers(len(c), size=len(c)), minlength=len(c)))
        for _ in range(n_draws)
    ]
    columns = np.array(drawn).reshape(n_draws, 3).T
    auroc, aurc, ece = map(_estimate, ranked.measures(weight), columns)
    n_right = int(rows.agreed.sum())
    if n_draws and 0 < n_right < len(c):
        exact = sample_weight is None and not np.any(alpha) and not np.any(beta)
        auroc = _with_ranking_interval(auroc, n_right, len(c) - n_right, alone=exact)
    if n_draws:
        moves = ranked.ece_by_chance(weight, draw)
        ece = Estimate(ece.value, max(ece.value - moves, 0.0), min(ece.value + moves, 1.0))
    low, high = np.quantile(c, [0.05, 0.95]).tolist()
    judged = ScoreJudgement(
        ScoreVerdict.ROUTES,
        len(c),
        n_right,
        len(starts),
        low,
        high,
        auroc if 0 < n_right < len(c) else None,
        aurc,
        ece,
        _alignment_error(c, ranked.right, weight),
        draw_reliability(
            values,
            flags,
            alpha=alpha,
            beta=beta,
            sample_weight=sample_weight,
            random_state=random_state,
        ).p_value
        if n_draws
        else 1.0,
        sentence="",
    )
    judged = replace(judged, verdict=_verdict(judged))
    return replace(judged, sentence=_sentence(judged))


def _verdict(judged: ScoreJudgement) -> ScoreVerdict:
    if judged.n_distinct == 1:
        return ScoreVerdict.CONSTANT
    rarer = min(judged.n_right, judged.n - judged.n_right)
    if judged.auroc is None or judged.n < LEAST or rarer < LEAST / 10:
        return ScoreVerdict.TOO_FEW
    if judged.auroc.high < 0.5:
        return ScoreVerdict.RANKS_WRONG_WAY
    if judged.auroc.low <= 0.5:
        useful = judged.auroc.high >= LEAST_AUROC
        return ScoreVerdict.NOT_ENOUGH if useful else ScoreVerdict.DOES_NOT_RANK
    if judged.auroc.value < LEAST_AUROC:
        return ScoreVerdict.RANKS_LITTLE
    return ScoreVerdict.ROUTES if _fits(judged) else ScoreVerdict.MISCALIBRATED


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Answers by falling confidence; equal confidences are one block, in no order."""

    confidence: Floats
    right: Floats  # in expectation, if answers are noisy
    starts: NDArray[np.int64]

    def measures(self, weight: NDArray[Any]) -> tuple[float, float, float]:
        """Return AUROC (NaN without both kinds), AURC and ECE of weighted answers."""
        counts = np.add.reduceat(weight, self.starts).astype(np.float64)
        right = np.add.reduceat(weight * self.right, self.starts)
        blocks = counts > 0
        counts, right = counts[blocks], right[blocks]
        level = self.confidence[self.starts][blocks]
        wrong = counts - right
        n_right, n_wrong = right.sum(), wrong.sum()
        below = n_wrong - np.cumsum(wrong)
        pairs = n_right * n_wrong
        auroc = float(right @ (below + wrong / 2) / pairs) if pairs else float("nan")
        return auroc, _aurc(counts, wrong), _ece(level, counts, right)

    def ece_by_chance(self, weight: NDArray[Any], draw: np.random.Generator) -> float:
        """Return how far the ECE moves by chance, at `LEVEL`.

        An answer is right as often as those of about the same confidence; what noise adds counts.
        """
        n, spread = len(self.right), max(len(self.right) // N_BINS, 1)
        kernel = np.ones(spread)
        share = np.convolve(self.right, kernel, "same") / np.convolve(np.ones(n), kernel, "same")
        scale = np.sqrt(np.maximum(np.convolve((self.right - share) ** 2, kernel, "same"), 0.0))
        scale /= np.sqrt(np.convolve(np.ones(n), kernel, "same"))
        true = np.sqrt(np.maximum(self.confidence * (1.0 - self.confidence), 0.0))
        errors = draw.standard_normal((_NULL_DRAWS, n)) * np.maximum(scale, true) * weight
        errors = np.add.reduceat(errors, self.starts, axis=1)
        counts = np.add.reduceat(weight, self.starts).astype(np.float64)
        zero = np.zeros(len(counts))
        moves = [_ece(zero, counts, row) for row in errors]
        return float(np.quantile(moves, LEVEL))


def _aurc(counts: Floats, wrong: Floats) -> float:
    """Return the mean share of errors; within a block, errors come in expectation.

    The mean over a block's places p of (errors before + rate (p - counts before)) / p.
    """
    before, errors, rate = np.cumsum(counts) - counts, np.cumsum(wrong) - wrong, wrong / counts
    harmonic = digamma(before + counts + 1.0) - digamma(before + 1.0)
    return float(np.sum(rate * counts + (errors - rate * before) * harmonic) / counts.sum())


def _alignment_error(confidence: Floats, right: Floats, weight: Floats) -> float:
    """Return that of `score_calibration`, weighted."""
    bucket = np.minimum((confidence * N_BUCKETS).astype(np.int64), N_BUCKETS - 1)
    gap = np.bincount(bucket, weight * (right - confidence), N_BUCKETS)
    mass = np.bincount(bucket, weight, N_BUCKETS)
    return float(np.sum(gap[mass > 0] ** 2 / mass[mass > 0]) / weight.sum())


def _ece(level: Floats, counts: Floats, right: Floats) -> float:
    """Return the ECE over bins of equal mass; bins share a block in proportion."""
    ends = np.cumsum(counts)
    edges = np.linspace(0.0, ends[-1], N_BINS + 1)
    ends = np.append(0.0, ends)

    def within(values: Floats) -> Floats:
        return np.diff(np.interp(edges, ends, np.append(0.0, np.cumsum(values))))

    gaps = within(right) - within(level * counts)
    return float(np.abs(gaps).sum() / ends[-1])


def _with_ranking_interval(auroc: Estimate, n_right: int, n_wrong: int, *, alone: bool) -> Estimate:
    """Return an AUROC with Newcombe's interval, alone or together with the one that it has."""
    rarer = min(n_right, n_wrong)
    z = float(stdtrit(2.0 * rarer, 1.0 - (1.0 - LEVEL) / 2.0))
    at = np.linspace(0.0, 1.0, _GRID + 1)
    pairs = (n_right + n_wrong) / 2.0 - 1.0
    variance = at * (1.0 - at) * (1.0 + pairs * ((1.0 - at) / (2.0 - at) + at / (1.0 + at)))
    inside = (at - auroc.value) ** 2 <= z * z * variance / (n_right * n_wrong)
    low = min(float(at[inside].min(initial=1.0)), auroc.value)
    high = max(float(at[inside].max(initial=0.0)), auroc.value)
    if not alone:
        low, high = min(low, auroc.low), max(high, auroc.high)
    return Estimate(auroc.value, low, high)


def _estimate(value: float, drawn: Floats) -> Estimate:
    side = (1.0 - LEVEL) / 2.0
    sound = drawn[~np.isnan(drawn)]
    low, high = np.quantile(sound, [side, 1.0 - side]) if len(sound) else (0.0, 1.0)
    return Estimate(value, float(low), float(high))
