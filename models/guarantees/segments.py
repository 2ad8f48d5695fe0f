r"""Shares of a risk for segments of documents and their pool.

A segmentation gives every document one segment, before anything is known of its label set. Each of
at most :math:`m` segments, and the pool if there is one, is a *unit* with audits, thresholds and
attempts, at :math:`\delta_u = \delta / (m + 1)`, or :math:`\delta / m` without a pool.
Attempt :math:`i` of a unit tests at :math:`\delta_u / (i (i + 1))`.

**Theorem.** Let documents of each segment keep coming as they did, and let the numbers of
documents and audits in each segment alone, never what audits find, decide (1) which segments are
units, (2) when attempts are made, and (3) which segments the pool has at its :math:`i`-th attempt.
Then with probability at least :math:`1 - \delta` every threshold that any attempt of any unit
certifies keeps its promise: of all sets of *that segment*, or of *the pool's segments together*,
with at least this confidence, a share of at least the target is right. For the pool the mix of its
segments must also stay as it was.

*Proof.* Condition on the segments of all documents and on which are audited. Audits within a
segment stay independent with the law of the segment. With this condition, units, moments and the
pool's members are constants. The pool's audits, whose segments follow the mix, are a simple random
sample of its documents. So each attempt is the fixed-sequence test of
`setwise.models.guarantees.thresholds` at its share of the risk: it certifies a wrong threshold with
at most this probability. The shares add up to at most
:math:`\sum_u \delta_u \sum_i 1 / (i (i + 1)) \le \delta`; nothing is assumed about how attempts
depend on each other, so they may share audits. ∎

**What the pool must not be.** If it were the segments whose own attempts *failed*, what they found
would choose its members, and bad segments would remain: a pool of a good and a bad segment reaches
the target, the good one proves a threshold of its own and leaves, and the bad one is sent under a
proof that the good one made. `tests/models/guarantees/test_segments.py` computes how often.
Hence (3): a segment leaves the pool at the first attempt of its own, *whatever it finds*, and a
certificate of the pool ends when one of its segments leaves.

**What the pool's certificate does not say.** Nothing about each segment. A segment with a share
:math:`w` of what the pool sends may be wrong in a share :math:`\min(1, (1 - t) / w)`: see
`most_wrong_in_pool`.

Equal shares cost little, because the fewest audits grow with the logarithm of :math:`1 / \delta_u`,
and they do not depend on which segment came first. Others, such as :math:`6 \delta / (\pi^2 k^2)`
for the :math:`k`-th segment to appear, are compared in `benchmarks/bench_segments.py`.
"""


def most_wrong_in_pool(target: float, share: float) -> float:
    """Return the largest wrong share that a pool's proof allows a segment.

    Parameters
    ----------
    target : float
        That the pool reaches, in (0, 1).
    share : float
        Of what the pool sends, in [0, 1], that comes from the segment.

    Examples
    --------
    >>> round(most_wrong_in_pool(0.9, 0.5), 3), most_wrong_in_pool(0.9, 0.1)
    (0.2, 1.0)
    """
    # Rounding must not make 1.0 - 0.9 a number below 0.1.
    return 1.0 if share <= 0.0 else min(1.0, round(1.0 - target, 12) / share)
