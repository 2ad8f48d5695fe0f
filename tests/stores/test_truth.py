"""The checks in the database are what follows from the facts, whatever happened in any order."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select

from setwise.service.domain.outcomes import ECHOES, Sampling
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.truth import Judge
from setwise.service.stores import tables
from setwise.service.stores.transaction import Transaction, Transactions
from setwise.service.stores.upkeep import checks
from tests.histories import Histories

Row = dict[str, Any]

SIZES = pytest.mark.parametrize(
    "seed", [7, *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(100, 300))]
)


def stored(transaction: Transaction) -> dict[str, Row]:
    """Return the rows of checks, by prediction, each with the labels that were sent last."""
    run = transaction._connection.execute
    final = run(select(tables.final_labels.c.prediction_id, tables.final_labels.c.label)).all()
    return {
        row["prediction_id"]: {
            **row,
            "final_labels": {label for name, label in final if name == row["prediction_id"]},
        }
        for row in run(select(tables.checks)).mappings()
    }


def rebuilt(begin: Transactions, at_once: int) -> dict[str, Row]:
    """Return the rows after the table was derived again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "AT_ONCE", at_once)
        checks.rebuild(begin, lambda _share, _message: None)
    with begin(read_only=True) as transaction:
        return stored(transaction)


def people_said(answers: Sequence[Annotation]) -> bool | None:
    """Return whether people say that a prediction is right, spelt out case by case."""
    leads = [each for each in answers if each.kind is ReviewKind.ADJUDICATION]
    if leads:
        return leads[0].agreed
    for each in answers:
        if each.kind is ReviewKind.AUDIT:
            return each.agreed
        if each.kind is ReviewKind.REVIEW and each.settles:
            return each.agreed and all(
                other.agreed for other in answers if other.kind is ReviewKind.OVERLAP
            )
    return None


def expect(transaction: Transaction, made: Prediction, row: Row | None) -> None:
    """See that a row says what the facts do, read by other means than the store's."""
    answers = transaction.reviews.annotations_of(made.id)
    outcomes = transaction.outcomes.of(made.id)
    if row is None:
        assert not answers
        assert not outcomes
        return
    assert row["reviewer_agreed"] == people_said(answers)
    counting = [
        each
        for each in outcomes
        if each.sampling in {Sampling.ALL, Sampling.RANDOM_SHARE} and each.echoes < ECHOES
    ][-1:]
    assert row["outcome_agreed"] == (counting[-1].agreed if counting else None)
    assert (row["decided_by"] == Judge.OUTCOME) == bool(counting)
    if row["labels"] is not None:
        right = row["reviewer_agreed"] if row["outcome_agreed"] is None else row["outcome_agreed"]
        assert (set(row["labels"]) == set(made.scored.labels)) == right
    assert row["contradicted"] == any(not each.agreed for each in (*answers, *outcomes))
    first = [*answers, *counting] or outcomes[-1:]
    assert row["answered_at"] == min(each.created_at for each in first)
    audits = [each for each in answers if each.kind is ReviewKind.AUDIT]
    assert row["audit_agreed"] == (audits[0].agreed if audits else None)
    assert row["segment"] == made.segment
    assert row["model_version"] == made.scored.model_version


@SIZES
def test_random_histories_are_checked_by_what_follows_from_them(
    begin: Transactions, seed: int
) -> None:
    with begin() as transaction:
        predictions = Histories(seed).live(transaction, 60)
    with begin(read_only=True) as transaction:
        rows = stored(transaction)
        for each in predictions:
            expect(transaction, each, rows.get(each.id))
            facts = transaction.truth.facts(each.id)
            assert facts.annotations == transaction.reviews.annotations_of(each.id)
            assert facts.outcomes == transaction.outcomes.of(each.id)
            assert (facts.check is None) == (each.id not in rows)
    judges = {row["decided_by"] for row in rows.values()}
    assert len(judges & {None, *Judge}) >= 4, "most kinds of decisions are among them"
    assert {row["waits"] for row in rows.values()} == {True, False}
    assert {row["reread"] for row in rows.values()} == {None, True, False}
    assert rebuilt(begin, random.Random(seed).choice([1, 7, 1_000])) == rows


def test_a_rebuild_replaces_what_is_wrong_missing_or_too_much(begin: Transactions) -> None:
    with begin() as transaction:
        predictions = Histories(7).live(transaction, 30)
        rows = stored(transaction)
        row = next(iter(transaction._connection.execute(select(tables.checks)).mappings()))
        silent = next(each for each in predictions if each.id not in rows)
        table, (first, second, *_) = tables.checks, sorted(rows)
        run = transaction._connection.execute
        run(table.update().where(table.c.prediction_id == first).values(waits=True))
        run(table.update().where(table.c.prediction_id == first).values(segment="site=nowhere"))
        run(table.delete().where(table.c.prediction_id == second))
        run(table.insert(), {**row, "prediction_id": silent.id})
        sent = next(name for name, kept in rows.items() if kept["final_labels"])
        run(tables.final_labels.delete().where(tables.final_labels.c.prediction_id == sent))
    with begin(read_only=True) as transaction:
        assert stored(transaction) != rows
    assert rebuilt(begin, 7) == rows
