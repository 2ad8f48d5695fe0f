"""What reports count by day is what the stored rows amount to, whatever happened in any order."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from itertools import count
from typing import Any

import pytest
from sqlalchemy import func, select

from setwise.service.domain.effort import reading_of
from setwise.service.domain.reports import LONGEST_READING_S, step_of
from setwise.service.domain.reviews import ReviewTask
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, OTHER, Segment
from setwise.service.stores import tables
from setwise.service.stores.reports.counts import COUNTS, day_of
from setwise.service.stores.transaction import Transaction, Transactions
from setwise.service.stores.truth import kind_of
from setwise.service.stores.upkeep import checks
from tests.histories import SCORERS, Histories
from tests.samples import add_predictions, annotation, prediction, task

FIRST = date(2000, 1, 1)

SEEDS = pytest.mark.parametrize(
    "seed", [7, *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(100, 200))]
)

Tally = dict[str, Any]  # of counts by kind

SEGMENTS: dict[Segment, Callable[[str | None], bool]] = {
    ALL_DOCUMENTS: lambda _: True,
    Segment("site", "north"): lambda key: key == "site=north",
    Segment("site", OTHER, listed=frozenset({"north"})): lambda key: key == "site=south",
}


def rows(transaction: Transaction, segment: Segment) -> Tally:
    """Return what the rows of predictions, checks and reviews amount to, counted one by one."""
    run, has = transaction._connection.execute, SEGMENTS[segment]
    made, known = tables.predictions, tables.checks
    joined = made.outerjoin(known, known.c.prediction_id == made.c.id)
    cells, confidence, steps = Counter[Any](), Counter[Any](), Counter[Any]()
    counts, completed_counts, seconds = Counter[date](), Counter[date](), Counter[date]()
    decisions, readings, reading_s = Counter[Any](), Counter[Any](), Counter[Any]()
    of: dict[str, str | None] = {}
    for row in run(select(made, known).select_from(joined)).mappings():
        of[row[made.c.id]] = row[made.c.segment]
        if not has(row[made.c.segment]):
            continue
        day, decided = day_of(row[made.c.created_at]), (row[made.c.decision], row[made.c.reason])
        evident = (
            row[known.c[name]]
            for name in (
                "reviewer_agreed",
                "outcome_agreed",
                "reread",
                "reread_rate",
                "first_shown",
            )
        )
        drawn = row[made.c.inclusion_probability], row[made.c.in_rest]
        kind = (day, *decided, *drawn, *evident)
        cells[kind] += 1
        decisions[decided] += 1
        confidence[kind] += row[made.c.confidence] or 0.0
        if row[made.c.confidence] is not None:
            steps[(step_of(row[made.c.confidence]), *decided)] += 1
    for row in run(select(tables.review_tasks)):
        counts[day_of(row.created_at)] += has(of[row.prediction_id])
    for row in run(select(tables.annotations)):
        if has(of[row.prediction_id]):
            day, worked = day_of(row.created_at), min(row.seconds, LONGEST_READING_S)
            completed_counts[day] += 1
            seconds[day] += worked
            kind = day, reading_of(kind_of(row.kind, round_=row.round), shown=row.suggestion_shown)
            readings[kind] += 1
            reading_s[kind] += worked
    return {
        "cells": dict(cells),
        "confidence": pytest.approx(dict(confidence)),
        "steps": dict(steps),
        "decisions": dict(decisions),
        "arrived": dict(+counts),
        "completed": dict(completed_counts),
        "seconds": pytest.approx(dict(seconds)),
        "readings": dict(readings),
        "reading_s": pytest.approx(dict(reading_s)),
        "reviews": counts.total(),
    }


def counts(transaction: Transaction, segment: Segment) -> Tally:
    """Return the same as reports read it."""
    reports = transaction.reports(segment)
    cells, reviews = reports.tally(FIRST), reports.review_days(FIRST)
    return {
        "cells": {cell[:-2]: cell.documents for cell in cells},
        "confidence": {cell[:-2]: cell.confidence for cell in cells},
        "steps": {each[:-1]: each.documents for each in reports.steps(FIRST)},
        "decisions": dict(reports.decisions()),
        "arrived": {each.day: each.arrived for each in reviews if each.arrived},
        "completed": {each.day: each.completed for each in reviews if each.completed},
        "seconds": {each.day: each.seconds for each in reviews if each.completed},
        "readings": {each[:2]: each.readings for each in reports.readings(FIRST)},
        "reading_s": {each[:2]: each.seconds for each in reports.readings(FIRST)},
        "reviews": reports.reviews(),
    }


def expect_equal(begin: Transactions) -> None:
    with begin(read_only=True) as transaction:
        for segment in SEGMENTS:
            assert counts(transaction, segment) == rows(transaction, segment)


def varied(begin: Transactions) -> bool:
    """Return whether everything that is told apart is known, true and false of some document."""
    with begin(read_only=True) as transaction:
        cells = transaction.reports().tally(FIRST)
    return all(
        {getattr(cell, name) for cell in cells} == {None, True, False}
        for name in ("reviewer_agreed", "outcome_agreed", "reread", "first_shown")
    )


@SEEDS
def test_counts_are_what_random_histories_amount_to(begin: Transactions, seed: int) -> None:
    predictions = []
    parts = count(3 * seed)
    while len(predictions) < 60 or not varied(begin):
        with begin() as transaction:
            predictions += Histories(next(parts)).live(transaction, 20)
        expect_equal(begin)
    ids = [each.id for each in random.Random(seed).sample(predictions, 30)]
    with begin() as transaction:  # a correction of labels turns answers round
        transaction.labels.replace(ids, "new", "a")
        transaction.labels.replace(ids, "c", "b")
        transaction.truth.write_all(transaction.truth.facts_of(ids))
        transaction.texts.purge(ids[:10], predictions[0].created_at)
        transaction.texts.forget(ids[:10])
    expect_equal(begin)


def test_what_is_not_stored_is_not_counted(begin: Transactions) -> None:
    kept_task, undone, failed_task = (task(prediction()) for _ in range(3))
    with begin() as transaction:
        add_predictions(transaction, kept_task.prediction)
        transaction.reviews.add(kept_task)
    with begin() as transaction:
        add_predictions(transaction, undone.prediction)
        transaction.reviews.add(undone)
        transaction.roll_back()

    def fail() -> None:
        with begin() as transaction:
            add_predictions(transaction, failed_task.prediction)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    expect_equal(begin)


@SEEDS
def test_audits_are_counted_as_they_would_be_with_their_content(
    begin: Transactions, seed: int
) -> None:
    with begin() as transaction:
        Histories(seed).live(transaction, 60)
    ended = "found_right", "found_wrong", "drawn_again"
    counted = "id", "name", "scorer", "segment", "draw", "created_at", *ended
    with begin(read_only=True) as transaction:
        for scorer in SCORERS:
            whole, few = (
                [
                    [getattr(audit, name) for name in counted]
                    for audit in audits
                    if audit.scorer == scorer
                ]
                for audits in (
                    transaction.evidence.audited(scorer),
                    transaction.evidence.counted(scorer),
                )
            )
            assert few == whole
            assert few


@SEEDS
def test_a_rebuild_counts_again_what_is_wrong_missing_or_too_much(
    begin: Transactions, seed: int
) -> None:
    with begin() as transaction:
        Histories(seed).live(transaction, 40)
        run = transaction._connection.execute
        transaction.counts.store()
        for table in COUNTS:
            some = dict(run(select(table).limit(1)).mappings().one())
            last = run(select(func.max(table.c.day))).scalar_one()
            run(table.delete().where(table.c.day == last))
            run(table.insert(), [some | {"kind": "[]"}, some | {"day": "2031-01-01"}])
    checks.recount(begin, lambda _share, _message: None)
    expect_equal(begin)
    with begin(read_only=True) as transaction:
        later = transaction.reports().tally(date(2030, 1, 1))
    assert later == []


def test_writers_of_the_same_counts_never_refuse_each_other(begin: Transactions) -> None:
    """Each answers two documents of different kinds, in an order of its own."""
    segments = "site=north", "site=south"
    tasks = [task(prediction()._replace(segment=segments[n % 2])) for n in range(24)]
    with begin() as transaction:
        add_predictions(transaction, *(each.prediction for each in tasks))
        transaction.reviews.add_all(tasks)

    def answer(pair: list[ReviewTask]) -> None:
        with begin() as transaction:
            for of in pair:
                said = annotation(of, *of.prediction.scored.labels or ())
                transaction.reviews.annotate(replace(said, created_at=of.created_at))

    pairs = [[tasks[n], tasks[n + 1]] for n in range(0, len(tasks), 2)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(answer, [pair[:: (-1) ** n] for n, pair in enumerate(pairs)]))
    expect_equal(begin)
    with begin(read_only=True) as transaction:
        (day,) = transaction.reports().review_days(FIRST)
    assert (day.arrived, day.completed) == (len(tasks), len(tasks))
