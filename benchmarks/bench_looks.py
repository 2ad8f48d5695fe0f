"""How many audits several looks at growing data need until they prove a threshold.

    python -m benchmarks.bench_looks [--runs 200] [--seed 0] [--record]

All sets have one confidence and are right with the same probability; the target is .90 and the risk
.10. Attempts come at 191 audits and then at half as many again, up to 2,169. They share the risk by
the exact law of their path, as `setwise.certify` has with ``looks``, or by the union bound, where
attempt k has risk / (k (k + 1)) for itself. Some of the agreements are read again, and auditors
overlook a share of the errors. Counted are the audits of the look that proves the target, or all of
the last one; *false* is the share of runs that prove it though .895 are right.
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import setwise
from benchmarks.rows import Figure, record

CODE = [
    "models/guarantees/audit_tests.py",
    "models/guarantees/certify.py",
    "models/guarantees/joint.py",
    "models/guarantees/paths",
    "models/guarantees/sequence.py",
    "models/guarantees/thresholds.py",
]

TARGET, RISK = 0.90, 0.10
ACCURACIES = (0.94, 0.93, 0.92)
TOO_LOW = 0.895
LOOKS = [*accumulate(repeat(None, 6), lambda n, _: n + n // 2, initial=191)]

Bools = NDArray[np.bool_]


class Readings(NamedTuple):
    """How audits are read."""

    rate: float
    """Share of the agreements that is read again."""
    overlooked: float
    """Share of the errors that auditors overlook."""

    def __str__(self) -> str:
        return f"{self.rate:g} read again, {self.overlooked:g} overlooked"


class Checked(NamedTuple):
    """Audits in the order of their documents."""

    right: Bools
    agreed: Bools
    reread: Bools
    rate: float

    @classmethod
    def drawn(cls, accuracy: float, how: Readings, draw: np.random.Generator) -> "Checked":
        """Return as many as the last look has."""
        right, agreed, reread = draw.random((3, LOOKS[-1])) < np.array(
            [[accuracy], [how.overlooked], [how.rate]]
        )
        return cls(right, right | agreed, reread, how.rate)

    def proves(self, n: int, risk: float, looks: Sequence[int] | None) -> bool:
        """Return whether the first n prove the target."""
        return setwise.certify(
            np.full(n, 0.95),
            self.right[:n],
            TARGET,
            risk=risk,
            looks=looks,
            agreed=self.agreed[:n],
            reread=self.reread[:n],
            reread_rate=self.rate,
            predicted=[0.95] * 100,
        ).certified


def along_the_path(audits: Checked, place: int) -> bool:
    """Return whether a look proves the target that shares the risk with the ones before."""
    return audits.proves(LOOKS[place], RISK, LOOKS[: place + 1])


def alone(audits: Checked, place: int) -> bool:
    """Return whether an attempt proves it with its part of the risk by the union bound."""
    return audits.proves(LOOKS[place], RISK / ((place + 1) * (place + 2)), None)


RULES: dict[str, Callable[[Checked, int], bool]] = {"union": alone, "path": along_the_path}


def first_proof(audits: Checked, rule: Callable[[Checked, int], bool]) -> int | None:
    """Return the audits of the first look that proves the target, if any does."""
    return next((LOOKS[place] for place in range(len(LOOKS)) if rule(audits, place)), None)


def main() -> None:
    """Print a line for each way of reading."""
    parser = argparse.ArgumentParser(description="Audits until a proof, by several looks.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write rows to results/looks.jsonl")
    given = parser.parse_args()
    for how in (Readings(1.0, 0.0), *(Readings(r, m) for r in (0.5, 0.3, 0.1) for m in (0.0, 0.2))):
        figures: dict[str, Figure] = {"runs": given.runs}
        for accuracy in (*ACCURACIES, TOO_LOW):
            draw = np.random.default_rng([given.seed, round(1_000 * accuracy)])
            runs = [Checked.drawn(accuracy, how, draw) for _ in range(given.runs)]
            for name, rule in RULES.items():
                found = [first_proof(audits, rule) for audits in runs]
                if accuracy == TOO_LOW:
                    figures[f"{name}, false"] = float(np.mean([n is not None for n in found]))
                else:
                    figures[f"{name}, {accuracy:g}"] = round(
                        np.mean([n or LOOKS[-1] for n in found])
                    )
        print(f"{how!s:<32}", figures, flush=True)
        if given.record:
            record("looks", str(how), figures, seed=given.seed, code=CODE)


if __name__ == "__main__":
    main()
