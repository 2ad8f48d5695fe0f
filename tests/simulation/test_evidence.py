"""What counts as evidence: how often a certificate is false where the truth is just too bad.

Each fact has a small simulation, and one at full size. The certificates are those of the service's
own code, at a target of .90 and a risk of .10, of which the first attempt spends half.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from setwise.models.guarantees.copies import bands_of
from setwise.models.guarantees.drift import drift_statistic
from setwise.service.domain.evidence import one_of_each
from setwise.service.domain.policy import Policy
from setwise.service.domain.routing.audits import Lottery
from setwise.service.domain.routing.copies import Likeness
from setwise.service.domain.routing.rules import LabelRule
from setwise.service.domain.routing.segments import SegmentBy
from setwise.service.services.analysis.proofs import spent
from tests.samples import checked
from tests.simulation.evidence import GATE, POLICY, Audits, attempt, certified

Record = Callable[[str, object], None]

SHARE = 0.05
RUNS = pytest.mark.parametrize(
    "runs", [pytest.param(4, id="small"), pytest.param(200, id="full", marks=pytest.mark.verify)]
)


def at_most(share: float, runs: int) -> float:
    """Return a count that a binomial with this share hardly ever exceeds."""
    return runs * share + 4.0 * (runs * share) ** 0.5


@RUNS
@pytest.mark.parametrize("n", [400, 1_200])
def test_second_readings_that_wait_do_not_hide_what_auditors_overlook(
    n: int, runs: int, record_property: Record
) -> None:
    random, false = np.random.default_rng(58), 0
    for _ in range(runs):
        right = random.random(n) < 0.895
        false += certified(
            Audits(
                right,
                weeks=0.5,
                overlooked=~right & (random.random(n) < 0.9),
                reread_rate=0.3,
                reread_draws=random.random(n),
                led=False,
            )
        )
    record_property("share", false / runs)
    assert false <= at_most(SHARE, runs)


@RUNS
@pytest.mark.parametrize("copies", [3, 5])
@pytest.mark.parametrize("n", [400, 1_200])
def test_second_readings_that_wait_do_not_vanish_behind_copies(
    n: int, copies: int, runs: int, record_property: Record
) -> None:
    """Copies are right or wrong together, but each draws its own second reading."""
    random, false = np.random.default_rng(63), 0
    for _ in range(runs):
        right = random.random(n) < 0.895
        overlooked = ~right & (random.random(n) < 0.9)
        false += certified(
            Audits(
                np.tile(right, copies),
                weeks=3.0,
                clusters=np.tile(np.arange(n), copies),
                overlooked=np.tile(overlooked, copies),
                reread_rate=0.3,
                reread_draws=random.random(n * copies),
                led=False,
            )
        )
    record_property("share", false / runs)
    assert false <= at_most(SHARE, runs)


@RUNS
@pytest.mark.parametrize("n_rules", [5, 20])
def test_rules_for_the_worst_labels_prove_nothing_by_luck(
    n_rules: int, runs: int, record_property: Record
) -> None:
    random, false = np.random.default_rng(60), 0
    for _ in range(runs):
        labels, right = random.integers(50, size=(2, 600)), random.random((2, 600)) < 0.9
        errors = np.bincount(labels[0][~right[0]], minlength=50)
        worst = [f"{label}" for label in np.argsort(-errors)[:n_rules]]
        rules = [LabelRule(label, label) for label in worst]
        named = labels.astype("U2")
        later = ~np.isin(named[1], worst)
        false += certified(
            Audits(right[0], weeks=30.0, labels=named[0], policy_version="before"),
            Audits(right[1][later], weeks=3.0, labels=named[1][later]),
            rules={"before": (), "now": rules},
        )
    record_property("share", false / runs)
    assert false <= at_most(SHARE, runs)


def by_field(place: int) -> Policy:
    return replace(POLICY, segment_by=SegmentBy(f"field {place}", most=2))


@RUNS
def test_fields_that_are_tried_on_the_same_audits_share_one_risk(
    runs: int, record_property: Record
) -> None:
    random, false = np.random.default_rng(61), 0
    for _ in range(runs):
        right, tried, luck = random.random(500) < 0.9, [], False
        for place in range(4 if runs < 100 else 12):
            policy = by_field(place)
            inside = random.random(500) < 0.5
            for part in (inside, ~inside):
                elsewhere, left = spent(policy, tried)
                found = attempt(
                    Audits(right[part], weeks=3.0),
                    gate=policy.gates[0],
                    elsewhere=elsewhere,
                    left=left,
                )
                luck |= found.certified
                tried.append((policy, found.risk))
        assert sum(risk for _, risk in tried) < GATE.risk
        false += luck
    record_property("share", false / runs)
    assert false <= at_most(GATE.risk, runs)


def weekly(accuracy: Callable[[float], float], weeks: int, random: np.random.Generator) -> Audits:
    """Return audits of 500 documents a week: .3 of the first six weeks', .04 of the others'."""
    week = np.repeat(np.arange(weeks), random.poisson(np.where(np.arange(weeks) < 6, 150, 20)))
    right = random.random(len(week)) < np.array([accuracy(each) for each in range(weeks)])[week]
    return Audits(right, weeks=2.0 + weeks - week)


def falling(week: float) -> float:
    return 0.95 - 0.1 * week / 32


def dropping(week: float) -> float:
    return 0.95 if week < 12 else 0.87


@RUNS
@pytest.mark.parametrize(
    ("accuracy", "weeks", "least", "most"),
    [
        pytest.param(falling, 32, 0.0, 0.04, id="fallen to .85"),
        pytest.param(falling, 20, 0.0, 0.4, id="fallen to .89"),
        pytest.param(dropping, 20, 0.0, 0.25, id="dropped to .87"),
        pytest.param(lambda _: 0.95, 20, 0.98, 1.0, id="stays at .95"),
        pytest.param(lambda _: 0.93, 20, 0.9, 1.0, id="stays at .93"),
        pytest.param(lambda _: 0.93, 6, 0.9, 1.0, id="six weeks at .93"),
    ],
)
def test_early_audits_do_not_outweigh_what_the_newer_ones_say(
    accuracy: Callable[[float], float],
    weeks: int,
    least: float,
    most: float,
    runs: int,
    record_property: Record,
) -> None:
    """More audits are drawn while nothing is sent, so the test alone would speak of that time."""
    random = np.random.default_rng(62)
    proved = sum(certified(weekly(accuracy, weeks, random)) for _ in range(runs))
    record_property("share", proved / runs)
    assert runs - at_most(1.0 - least, runs) <= proved <= at_most(most, runs)


class Sent(NamedTuple):
    """Audited messages: what tells copies, and whether their sets are right."""

    clusters: list[float]
    bands: list[bytes | None]
    right: list[bool]


def near_copies(size: int, n: int, random: np.random.Generator, *, reworded: bool) -> Sent:
    """Return n audited messages: notes that come again with other dates or, reworded, names."""
    lottery, sent = Lottery(random.bytes(8)), Sent([], [], [])
    while len(sent.right) < n:
        words = ["".join(each) for each in random.choice([*"abcdefgh"], (40, 6))]
        good = bool(random.random() < 0.9)
        for day in range(size):
            said = words.copy()
            if reworded:
                said[day % 40] = "".join(random.choice([*"klmnop"], 6))
            note = f"{' '.join(said).title() if day % 2 else ' '.join(said)}, on {day}.3."
            likeness = Likeness.of_text(note)
            drawn = lottery("c", f"{words[0]} {day}", note.encode(), likeness.form)
            if drawn.audit < 0.4:
                sent.clusters.append(drawn.cluster or 0.0)
                sent.bands.append(lottery.hashed(bands_of(likeness.words)))
                sent.right.append(good)
    return sent


@RUNS
@pytest.mark.parametrize("reworded", [False, True], ids=["dates", "names"])
@pytest.mark.parametrize("size", [3, 10, 30])
def test_near_copies_are_one_document(
    size: int, reworded: bool, runs: int, record_property: Record
) -> None:
    """At the target, so that certificates are false, and an alarm of the breaker is a false one."""
    random, false, alarms = np.random.default_rng(59), 0, 0
    for _ in range(runs):
        clusters, bands, right = near_copies(size, 400, random, reworded=reworded)
        false += certified(Audits(right, weeks=3.0, clusters=clusters, bands=bands))
        watched = [
            checked(f"{place}", (truth,), (truth,), cluster=cluster, bands=band)
            for place, (cluster, band, truth) in enumerate(
                zip(clusters, bands, np.where(right, "a", "b").tolist(), strict=True)
            )
        ]
        bets = [audit.found_right is True for audit in one_of_each(watched)]
        alarms += bool(drift_statistic(bets, 0.9).max() >= 2_000)
    record_property("share", (false / runs, alarms / runs))
    assert false <= at_most(SHARE, runs)
    assert alarms <= at_most(400 / 2_000, runs)


@RUNS
@pytest.mark.parametrize(
    ("share", "templates", "accuracy"), [(0.2, 1, 0.5), (0.2, 20, 0.5), (0.3, 3, 0.7)]
)
@pytest.mark.parametrize("rate", [0.04, 0.3])
def test_forms_whose_numbers_decide_are_not_hidden_by_counting_copies_once(
    share: float, templates: int, accuracy: float, rate: float, runs: int, record_property: Record
) -> None:
    """Many messages follow a few forms, and are right or wrong each for itself.

    All of them together miss the target, though most of the different documents are right.
    """
    random, false = np.random.default_rng(64), 0
    for run in range(runs):
        lottery, clusters, right = Lottery(random.bytes(8)), list[float](), list[bool]()
        for place in range(round(400 / rate)):
            form = int(random.integers(templates)) if random.random() < share else None
            kind = f"note {run} {place}" if form is None else f"form {form}"
            drawn = lottery("c", f"{place}", f"{place}".encode(), kind.encode())
            if drawn.audit < rate:
                clusters.append(drawn.cluster or 0.0)
                right.append(bool(random.random() < (0.93 if form is None else accuracy)))
        false += certified(Audits(right, weeks=3.0, clusters=clusters))
    record_property("share", false / runs)
    assert false <= at_most(SHARE, runs)
