"""What reads `checks` finds what was read from annotations and outcomes before."""

from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import select

from setwise.service.domain.documents import Audited, DocumentFilter, DocumentState, Order
from setwise.service.domain.recalibration import Noise, answer_of
from setwise.service.domain.reports import CONFIDENT, Known, Span
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.segments import Segment
from setwise.service.stores.tables import annotations, outcomes
from setwise.service.stores.transaction import Transaction, Transactions
from tests.fakes import START
from tests.histories import SCORERS, Histories
from tests.old_readings import answers, audits, reports
from tests.stores.test_truth import SIZES

EARLY = START - timedelta(days=9)


@pytest.fixture
def lived(begin: Transactions, seed: int) -> Transactions:
    with begin() as transaction:
        Histories(seed).live(transaction, 80)
    return begin


@SIZES
def test_old_and_new_readings_are_equal(lived: Transactions) -> None:
    with lived(read_only=True) as transaction:
        _audits(transaction)
        _reports(transaction)
        _learning(transaction)
        _noise(transaction)
        _documents(transaction)


def _audits(transaction: Transaction) -> None:
    seen = 0
    for scorer in SCORERS:
        store = transaction.certifications
        drawn = [*store.audited(scorer), *store.held_back(scorer)]
        drawn = [
            audit._replace(reread=audit.reading.reread)
            if audit.reading is not None and audit.reading.reread is not None
            else audit
            for audit in drawn
        ]
        old = audits.certification_audits(transaction._connection, drawn)
        assert [audits.facts(audit) for audit in drawn] == old
        watched = audits.watched(transaction._connection, scorer)
        for audit in transaction.breakers.audits(scorer, after=None, limit=1_000):
            seen += 1
            found = (audit.right, audit.finished_at, audit.agreed, audit.chance)
            assert found == watched[audit.prediction_id]
    assert seen


def _said(known: Known) -> tuple[object, ...]:
    """Return what a report says of a prediction, as it was read before."""
    rate, done = known.agreement or (None, None)
    return known.reviewer_agreed, known.outcome_agreed, done, rate


def _reports(transaction: Transaction) -> None:
    old = reports.verdicts(transaction._connection)
    predictions = transaction.history.predictions(Span(), after=None, limit=1_000)
    evidence = transaction.history.evidence(1_000, with_labels=False)
    for made, found in zip(predictions[::-1], evidence, strict=True):
        was = old[made.id]
        assert _said(found) == was[:4]
    checked = transaction.reports.checked(EARLY, 1_000)
    assert {each.prediction_id: each.truth for each in checked} == {
        name: was.truth for name, was in old.items() if was.truth is not None
    }
    for each in checked:
        assert _said(each) == old[each.prediction_id][:4]
    segment = Segment("site", "north")
    for store, meant in (
        (transaction.reports, predictions),
        (
            transaction.reports.within(segment),
            [made for made in predictions if made.segment == segment.key],
        ),
    ):
        counted = Counter[tuple[object, ...]]()
        for cell in store.tally(EARLY):
            kind = cell.day, cell.decision, cell.reason, cell.inclusion_probability
            counted[*kind, *_said(cell)] += cell.documents
        expected = Counter[tuple[object, ...]]()
        for made in meant:
            probability = made.selection.inclusion_probability
            kind = made.created_at.date(), made.decision, made.reason, probability
            expected[*kind, *old[made.id][:4]] += 1
        assert counted == expected
        assert store.undecided(EARLY) == sum(
            old[made.id].undecided and made.reason in CONFIDENT for made in meant
        )


def _learning(transaction: Transaction) -> None:
    learnt = [
        each
        for version in sorted({scorer.model_version for scorer in SCORERS})
        for each in transaction.calibrations.reviewed(version, limit=1_000)
    ]
    answered = [
        made.id
        for made in transaction.history.predictions(Span(), after=None, limit=1_000)
        if transaction.reviews.annotations_of(made.id) or transaction.outcomes.of(made.id)
    ]
    assert sorted(each.prediction.id for each in learnt) == answered
    for each in learnt:
        said = transaction.reviews.annotations_of(each.prediction.id)
        outcome = next(reversed(transaction.outcomes.of(each.prediction.id)), None)
        for noise in Noise:
            found = answer_of(each.check, noise)
            was = answers.answer_of(said, outcome, noise)
            assert (found if isinstance(found, str) else tuple(found)) == was


def _noise(transaction: Transaction) -> None:
    readings = {
        name: getattr(transaction.annotators, name)()
        for name in ("gold", "contradictions", "shown_gold", "pairs")
    }
    assert any(readings.values())
    for name, found in readings.items():
        assert found == getattr(answers, name)(transaction._connection), name


def _documents(transaction: Transaction) -> None:
    connection = transaction._connection
    contradicted = {
        name
        for table in (annotations, outcomes)
        for name in connection.execute(
            select(table.c.prediction_id).where(~table.c.agreed)
        ).scalars()
    }
    audited = {
        agreed: set(
            connection.execute(
                select(annotations.c.prediction_id).where(
                    annotations.c.kind == ReviewKind.AUDIT.value, annotations.c.agreed.is_(agreed)
                )
            ).scalars()
        )
        for agreed in (True, False)
    }
    for filters, expected in (
        (DocumentFilter(state=DocumentState.CONTRADICTED), contradicted),
        (DocumentFilter(audited=Audited.AGREED), audited[True]),
        (DocumentFilter(audited=Audited.CONTRADICTED), audited[False]),
    ):
        page = transaction.documents.page(filters, Order.OLDEST, after=None, limit=1_000)
        assert expected
        assert {listed.prediction.id for listed in page.items} == expected
        if filters.state:
            assert all(listed.contradicted for listed in page.items)
