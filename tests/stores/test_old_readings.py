"""What reads `checks` finds what was read from annotations and outcomes before."""

import pytest

from setwise.service.stores.transaction import Transaction, Transactions
from tests.histories import SCORERS, Histories
from tests.old_readings import audits
from tests.stores.test_truth import SIZES


@pytest.fixture
def lived(begin: Transactions, seed: int) -> Transactions:
    with begin() as transaction:
        Histories(seed).live(transaction, 80)
    return begin


@SIZES
def test_old_and_new_readings_are_equal(lived: Transactions) -> None:
    with lived(read_only=True) as transaction:
        _audits(transaction)


def _audits(transaction: Transaction) -> None:
    seen = 0
    for scorer in SCORERS:
        store = transaction.certifications
        drawn = [*store.audited(scorer), *store.held_back(scorer)]
        drawn = [
            audit._replace(
                reread_rate=audit.reading.reread_rate, reread_draw=audit.reading.reread_draw
            )
            if audit.reading is not None
            else audit
            for audit in drawn
        ]
        old = audits.certification_audits(transaction._connection, drawn)
        assert [audits.facts(audit) for audit in drawn] == old
        watched = audits.watched(transaction._connection, scorer)
        for audit in transaction.breakers.audits(scorer, after=None, limit=1_000):
            seen += 1
            found = (audit.right, audit.finished_at, audit.agreed, audit.reread_rate)
            assert found == watched[audit.prediction_id]
    assert seen
