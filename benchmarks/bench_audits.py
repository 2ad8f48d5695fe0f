"""How many audits prove a share of the documents, drawn everywhere or where sets may be sent.

    python -m benchmarks.bench_audits [--runs 100] [--seed 0] [--record] [NAME…]

Confidences and answers are cross-fitted on the ``train`` part of a data set in
``SETWISE_TEST_DATA``: each document is predicted by a model of preset ``fast`` that learnt from the
other four fifths. Documents come in random order, with replacement. With *one rate* .3 of all are
audited; with *two rates* .3 of those that could be sent, as the service tells them
(`audited_from`), and .03 of the others. An attempt is the service's own, a first one at a risk of
.10, of which it has half; leads read every agreement again.

The share sent that 1,000 audits at one rate prove, in the mean over the runs, is the aim. *Audits*
are the fewest, in steps of a tenth, with which two rates reach it; *documents* is how many came in
that time. A certificate is *false* if less than the target is right of all that its threshold
sends.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from benchmarks.bench_peers import exact, read
from benchmarks.rows import Figure, record
from setwise.models.options import TrainingOptions
from setwise.models.training import train
from setwise.service.domain.certification import Scorer, StreamDocument
from setwise.service.domain.certification.proofs import Gathered
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Policy, first_policy
from setwise.service.domain.routing.audits import AuditPlan, audited_from
from setwise.service.domain.routing.segments import ALL, GateState
from setwise.service.services.analysis.proofs import ProofQuestion, answer
from setwise.service.services.analysis.strata import Divided
from tests.fakes import START
from tests.samples import checked

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {"bibtex": 0.90, "scene": 0.95, "reuters21578": 0.95}
OFTEN, SELDOM = 0.3, 0.03
UNIFORM = 1_000
STEP = 1.1
FEWEST = 100
N_FOLDS = 5
SCORER = Scorer("m", "c")
SHARED = ("id", "draw", "audit_chance", "in_rest", "policy_version", "scorer", "confidence")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Stream(NamedTuple):
    """All documents: how sure the model is of each set, and whether it is right."""

    confidence: Floats
    right: Bools

    @classmethod
    def of(cls, folder: Path, seed: int) -> "Stream":
        """Cross-fit the training part of a data set."""
        documents = read(folder, 10_000, seed).train
        confidence, right = np.zeros(documents.n), np.zeros(documents.n, dtype=bool)
        folds = KFold(N_FOLDS, shuffle=True, random_state=seed)
        for inside, outside in folds.split(np.arange(documents.n)):
            model = train(documents.take(inside), TrainingOptions(preset="fast", seed=seed))
            rest = documents.take(outside)
            if rest.X is None:
                assert rest.texts is not None  # a data set has vectors or texts
                found = model.predict_texts(list(rest.texts))
            else:
                found = model.predict(rest.X)
            confidence[outside] = found.top_confidence()
            right[outside] = exact(found.chosen(), rest.Y)
        return cls(confidence, right)

    def sent(self, threshold: float | None, target: float) -> tuple[float, bool]:
        """Return the share of the documents that a threshold sends, and whether it is false."""
        if threshold is None:
            return 0.0, False
        above = self.confidence >= threshold
        return float(above.mean()), bool(above.any() and self.right[above].mean() < target)


class Attempt(NamedTuple):
    """What one attempt says."""

    sent: float
    false: bool
    documents: int


def attempt(stream: Stream, policy: Policy, n_audits: int, random: np.random.Generator) -> Attempt:
    """Let documents come until so many are audited, and try to prove a threshold."""
    gate = policy.gates[0]
    start = gate.audited_from(SCORER)
    audits, documents = list[CheckedDocument](), list[StreamDocument]()
    while len(audits) < n_audits:
        place = len(documents)
        which = int(random.integers(len(stream.right)))
        confidence = float(stream.confidence[which])
        in_rest = start is not None and confidence < start
        chance, draw = SELDOM if in_rest else OFTEN, float(random.random())
        name, proves = f"{place:08}", draw < chance
        documents.append(
            StreamDocument(
                id=name,
                client_id="c",
                name=name,
                draw=draw,
                cluster=None,
                audit_chance=chance,
                in_rest=in_rest,
                proves=proves,
                policy_version=policy.version,
                segment=None,
                scorer=SCORER,
                confidence=confidence,
            )
        )
        if proves:
            found = ("a",) if stream.right[which] else ("?",)
            shared = {field: getattr(documents[-1], field) for field in SHARED}
            audits.append(
                checked(
                    name, found, found, created_at=START, reread_rate=1.0, reread_draw=0.0, **shared
                )
            )
    question = ProofQuestion(gate, SCORER, 1, 1, Gathered(tuple(audits), {}), 0)
    pool = [each.confidence for each in documents if not each.proves]
    divided = None
    if start is not None:
        divided = Divided(SCORER, documents[::-1], {policy.version: policy}, gate)
    threshold = answer(question, pool, divided).threshold
    return Attempt(*stream.sent(threshold, policy.target_accuracy), len(documents))


class Result(NamedTuple):
    """Means over runs."""

    audits: int
    sent: float
    false: float
    documents: float


def repeated(stream: Stream, policy: Policy, n: int, runs: int, seed: int) -> Result:
    """Return what attempts on ``n`` audits say in the mean."""
    tried = [
        attempt(stream, policy, n, np.random.default_rng([seed, n, run])) for run in range(runs)
    ]
    sent, false, documents = np.mean(tried, axis=0)
    return Result(n, float(sent), float(false), float(documents))


def sizes() -> Iterator[int]:
    """Yield numbers of audits, each a tenth more than the one before."""
    n = float(FEWEST)
    while n < 2 * UNIFORM:
        yield round(n)
        n *= STEP


def compared(stream: Stream, target: float, runs: int, seed: int) -> tuple[Result, Result | None]:
    """Return what 1,000 audits at one rate prove, and the fewest at two that prove as much."""
    plan = AuditPlan(certification_rate=OFTEN, gold_reread_rate=1.0)
    usual = replace(first_policy(START), target_accuracy=target, risk=0.1, audits=plan)
    uniform = repeated(stream, usual, UNIFORM, runs, seed)
    start = audited_from(stream.confidence.tolist(), target)
    aimed = replace(
        usual,
        audits=replace(plan, rest_rate=SELDOM),
        states=(GateState(ALL, audited_from=start, audited_for=SCORER),),
    )
    for n in sizes():
        result = repeated(stream, aimed, n, runs, seed)
        if result.sent >= uniform.sent:
            return uniform, result
    return uniform, None


def oracle(stream: Stream, target: float) -> float:
    """Return the largest share that may be sent."""
    order = np.argsort(-stream.confidence, kind="stable")
    accuracy = np.cumsum(stream.right[order]) / np.arange(1, len(order) + 1)
    reached = np.flatnonzero(accuracy >= target)
    return float(reached[-1] + 1) / len(order) if len(reached) else 0.0


def main() -> None:
    """Print a line for each data set."""
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description="Audits at one rate and at two.")
    parser.add_argument("sets", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write rows to results/audits.jsonl")
    given = parser.parse_args()
    for name in given.sets or TARGETS:
        stream, target = Stream.of(data / name, given.seed), TARGETS[name]
        one, two = compared(stream, target, given.runs, given.seed)
        figures: dict[str, Figure] = {
            "target": target,
            "oracle": round(oracle(stream, target), 3),
            "sent": round(one.sent, 3),
            "false": one.false,
            "documents": round(one.documents),
        }
        if two is not None:
            figures |= {
                "two rates, audits": two.audits,
                "two rates, sent": round(two.sent, 3),
                "two rates, false": two.false,
                "two rates, documents": round(two.documents),
            }
        print(name, figures, flush=True)
        if given.record:
            record("audits", name, figures, seed=given.seed)


if __name__ == "__main__":
    main()
