"""Certificates where the model lacks labels, before and after people may give them.

    python -m benchmarks.bench_open_world [RUNS] [SEED]

The defaults are 1,000 runs and seed 0. Confidences are those of `benchmarks.bench_trust`, true of
the labels that the model knows. A share of the documents carries another label besides, so that no
set of the model is right. With *closed* answers an auditor can only give the known part; with
*open* answers the set is wrong. Auditors overlook 2 % of the errors, and half of the agreements are
read again. *Bare* is the exact test of error-free audits with open answers. The target is .90 at
the risk .10; a violation is a threshold above which the endless stream misses the target.

The script exits with an error if open answers violate the risk by more than three standard errors.
"""

import sys
from collections.abc import Mapping

import numpy as np

from benchmarks.bench_trust import (
    LARGE,
    RISK,
    Stream,
    adjudicated,
    always,
    clean,
    draw_audits,
    true_chance,
)

SHARES = (0.01, 0.03, 0.05)
SIZES = (1_000, 5_000)
OVERLOOKED, REREAD = 0.02, 0.5
WAYS = ("closed", "open", "bare")


def violations(share: float, n: int, runs: int, seed: int) -> Mapping[str, tuple[float, float]]:
    """Return the share of false certificates, and the mean share that is sent, of each way."""
    stream = Stream.make(lambda c: true_chance(c) * (1.0 - share))
    known = stream._replace(chance=true_chance)
    results = {way: np.zeros((runs, 2)) for way in WAYS}
    for run in range(runs):
        closed = draw_audits(known, n, [seed, n, run], always(OVERLOOKED))
        beyond = np.random.default_rng([seed, n, run, 1]).random(n) < share
        opened = closed._replace(right=closed.right & ~beyond)
        thresholds = {
            "closed": adjudicated(closed, REREAD),
            "open": adjudicated(opened, REREAD),
            "bare": clean(opened),
        }
        for way, threshold in thresholds.items():
            results[way][run] = stream.judge(threshold)
    return {way: tuple(figures.mean(axis=0)) for way, figures in results.items()}


def main(runs: int = 1_000, seed: int = 0) -> int:
    """Print the table; return whether open answers keep the risk."""
    kept = True
    print(f"{'outside':>8} {'audits':>7} " + " ".join(f"{way:>12}" for way in WAYS))
    for share in SHARES:
        for n in SIZES:
            repeats = max(1, runs // LARGE) if n == max(SIZES) else runs
            found = violations(share, n, repeats, seed)
            cells = " ".join(f"{false:.3f} / {sent:.3f}" for false, sent in found.values())
            print(f"{share:8.2f} {n:7} {cells}  ({repeats} runs)", flush=True)
            bound = RISK + 3.0 * (RISK * (1.0 - RISK) / repeats) ** 0.5
            kept &= found["open"][0] <= bound and found["bare"][0] <= bound
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
