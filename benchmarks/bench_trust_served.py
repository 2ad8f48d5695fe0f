"""Certificates as the service makes them, where audits are resent, unread or not its own.

    python -m benchmarks.bench_trust_served [RUNS] [SEED] [SETTING…]

The defaults are 1,000 runs, seed 0 and all settings. Streams, target and risk are those of
`bench_trust.py`, which counts violations alike. Each run draws 1,000 audits of different documents
and gives them, with the auditor's and the lead's answers, to the service's own code: what counts,
chances of second readings (half of the agreements), test. Auditors overlook 2 % of the errors and
contradict 10 % of the right sets. The *rival* counts audits as if nothing had happened.

- plain: nothing else happens. The rival is the exact test of error-free audits.
- resent documents: clients send a document 5 times on average if its set is right, else twice. The
  rival counts each time.
- unread audits: 30 % of the audits of wrong sets and 2 % of the others stay unfinished. The rival
  leaves them out.
- changed rules: half of the audits are from before a rule was lifted that held back a label, with
  three in ten documents, a fifth of which are wrong whatever the confidence. The rival counts all.
- candidate model: another model answered, with the same set for six documents in ten, and held back
  4 %, of which the candidate gets three in ten right, at best. The rival counts what was audited.
- one risk: as plain, but the policy's risk is the rival's; the first attempt has half of it.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from benchmarks.bench_trust import (
    N_PREDICTIONS,
    RISK,
    TARGET,
    Floats,
    Stream,
    allowed,
    lower_chance,
    threshold_of,
    true_chance,
)
from benchmarks.papers.rival_thresholds import certify_clean
from setwise.service.domain.certification import Scorer
from setwise.service.domain.certification.proofs import gather
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Policy, first_policy
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.routing.audits import plausible_threshold, reread_rate
from setwise.service.domain.routing.rules import LabelRule, Rule
from setwise.service.domain.truth import Check
from setwise.service.services.analysis.proofs import ProofQuestion, answer

N, REREAD, MISSED, FALSE_ALARMS = 1000, 0.5, 0.02, 0.1
NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
WEEKS, READING = 10, timedelta(days=7)
# Half of the policy's risk is for the first attempt, so with twice the risk its test has the
# rival's. With the same risk for both, the service keeps the other half for later attempts.
POLICY = replace(first_policy(NOW), target_accuracy=TARGET, risk=2 * RISK)
OURS, TRUE, FALSE, THEIRS = ("set",), ("truth",), ("false alarm",), ("theirs",)
LABEL = "lifted"

Chance = Callable[[Floats], Floats]


class Case(NamedTuple):
    """A document drawn to certify."""

    confidence: float
    right: bool
    draw: float
    week: float
    times: int = 1
    unread: bool = False
    labelled: bool = False
    old_rules: bool = False
    theirs: tuple[str, ...] = OURS
    """The set that was answered."""
    held_back: bool = False


def _read(
    truth: tuple[str, ...], answered: tuple[str, ...], rng: np.random.Generator, *, reread: bool
) -> Check:
    """Return what follows from the blind answer, and from a lead's wherever one is due."""
    if truth == answered:
        labels = FALSE if rng.random() < FALSE_ALARMS else truth
    else:
        labels = answered if rng.random() < MISSED else truth
    led, agreed = labels != answered or reread, labels == answered
    return Check(
        "",
        contradicted=not agreed,
        answered_at=NOW,
        audit_agreed=agreed,
        audit_labels=labels,
        lead_agreed=truth == answered if led else None,
        lead_labels=truth if led else None,
        reread=led if agreed else None,
    )


def served(
    predicted: Floats,
    cases: Sequence[Case],
    rules: Sequence[Rule],
    rng: np.random.Generator,
    policy: Policy = POLICY,
) -> float | None:
    """Return the threshold that the service certifies, if any."""
    usual = predicted[:500].tolist()
    lowest = plausible_threshold(usual, TARGET)
    high, low = (reread_rate(REREAD, one, lowest, usual) for one in (1.0, 0.0))
    found: list[CheckedDocument] = []
    for place, case in enumerate(cases):
        ours = (*OURS, LABEL) if case.labelled else OURS
        truth = ours if case.right else TRUE
        answered = ours if case.theirs == OURS else case.theirs
        rate = high if lowest is not None and case.confidence >= lowest else low
        draw = float(rng.random())
        check = None
        if not case.unread and not case.held_back:
            check = _read(truth, answered, rng, reread=draw < rate)
        one = CheckedDocument(
            id=f"{place:08d}",
            client_id="",
            name=f"{place}",
            scorer=Scorer("", ""),
            confidence=case.confidence,
            decision=Decision.REVIEW,
            reason=Reason.AUDIT,
            draw=case.draw,
            policy_version="old" if case.old_rules else "new",
            created_at=NOW - timedelta(weeks=WEEKS - case.week),
            labels=ours,
            check=check,
            metadata={},
            reread_rate=rate,
            reread_draw=draw,
            own=case.theirs == OURS and not case.held_back,
            held_back=case.held_back,
        )
        found += [one._replace(name=f"{place}/{copy}") for copy in range(case.times)]
    gathered = gather(found, {"old": rules, "new": []}, rules=[], read_by=NOW - READING)
    question = ProofQuestion(policy.gates[0], Scorer("", ""), 1, 1, gathered, 0)
    return answer(question, predicted.tolist()).threshold


def _tested(
    predicted: Floats, cases: Sequence[Case], right: Sequence[bool] | None = None
) -> float | None:
    """Return the threshold that error-free audits of these documents prove, copies as they are."""
    confidence = np.array([one.confidence for one in cases for _ in range(one.times)])
    good = np.array(
        [one.right for one in cases for _ in range(one.times)] if right is None else right
    )
    return threshold_of(certify_clean(predicted, confidence, good, target=TARGET, risk=RISK))


class Setting(NamedTuple):
    """What happens to a document, how often sets are right then, and what the rival counts."""

    name: str
    draw: Callable[[Chance, np.random.Generator], list[Case]]
    counted: Callable[[Case], bool] = lambda _: True
    of: Callable[[Chance], Chance] = lambda chance: chance
    rules: tuple[Rule, ...] = ()
    policy: Policy = POLICY


def _cases(chance: Chance, rng: np.random.Generator, n: int = N) -> list[Case]:
    confidence = rng.beta(2.2, 0.75, n)
    right = rng.random(n) < chance(confidence)
    weeks = np.sort(rng.uniform(0, WEEKS, n))
    return [
        Case(float(c), bool(r), float(d), float(w))
        for c, r, d, w in zip(confidence, right, rng.uniform(0, 0.3, n), weeks, strict=True)
    ]


def _resent(chance: Chance, rng: np.random.Generator) -> list[Case]:
    cases = _cases(chance, rng)
    return [one._replace(times=1 + int(rng.poisson(4 if one.right else 1))) for one in cases]


def _unread(chance: Chance, rng: np.random.Generator) -> list[Case]:
    cases = _cases(chance, rng)
    return [one._replace(unread=rng.random() < (0.02 if one.right else 0.3)) for one in cases]


def _lifted(chance: Chance, rng: np.random.Generator) -> list[Case]:
    cases = []
    for one in _cases(chance, rng, round(N / 0.85)):
        labelled, old = bool(rng.random() < 0.3), one.week < WEEKS / 2
        if labelled and old:
            continue  # the rule held it back, so it was not audited
        right = one.right and not (labelled and rng.random() < 0.2)
        cases.append(one._replace(labelled=labelled, old_rules=old, right=right))
    return cases


def _candidate(chance: Chance, rng: np.random.Generator) -> list[Case]:
    cases = []
    for one in _cases(chance, rng):
        if rng.random() < 0.04:
            right = one.right and bool(rng.random() < 0.3)
            cases.append(one._replace(held_back=True, theirs=THEIRS, right=right))
        elif rng.random() < 0.6:
            cases.append(one)
        else:
            # Two models that differ: theirs is right where ours is not, half of the time.
            truth = not one.right and rng.random() < 0.5
            cases.append(one._replace(theirs=TRUE if truth else THEIRS))
    return cases


SETTINGS = (
    Setting("plain", _cases),
    Setting("resent documents", _resent),
    Setting("unread audits", _unread, lambda one: not one.unread),
    Setting(
        "changed rules",
        _lifted,
        of=lambda chance: lambda c: chance(c) * (0.7 + 0.3 * 0.8),
        rules=(LabelRule("rule", LABEL),),
    ),
    Setting(
        "candidate model",
        _candidate,
        lambda one: not one.held_back,
        of=lambda chance: lambda c: chance(c) * (0.96 + 0.04 * 0.3),
    ),
    Setting("one risk", _cases, policy=replace(POLICY, risk=RISK)),
)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    faults = []
    print(f"n = {N}; violations / sent (true confidences; too high)")
    print(f"{'':20}{'rival':>16}{'served':>16}{'rival':>16}{'served':>16}", flush=True)
    for place, setting in enumerate(SETTINGS):
        if sys.argv[3:] and setting.name not in sys.argv[3:]:
            continue
        cells = ""
        for chance in (true_chance, lower_chance):
            stream = Stream.make(setting.of(chance))
            found = []
            for run in range(runs):
                rng = np.random.default_rng([seed, place, run])
                predicted, cases = rng.beta(2.2, 0.75, N_PREDICTIONS), setting.draw(chance, rng)
                rival = _tested(predicted, [one for one in cases if setting.counted(one)])
                ours = served(predicted, cases, setting.rules, rng, setting.policy)
                found.append((*stream.judge(rival), *stream.judge(ours)))
            rates = np.mean(found, axis=0).tolist()
            cells += "".join(f"{f'{rates[i]:.3f} / {rates[i + 1]:.3f}':>16}" for i in (0, 2))
            if rates[2] > allowed(runs):
                faults.append(f"{setting.name}: the service violates in {rates[2]:.3f} of the runs")
        print(f"{setting.name:20}{cells}", flush=True)
    if faults:
        sys.exit("\n".join(faults))
    print(f"\n{runs} runs, seed {seed}: every guarantee held up to three standard errors")


if __name__ == "__main__":
    main()
