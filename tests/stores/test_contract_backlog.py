"""The work that waits: the fake and both databases count it alike."""

from datetime import timedelta

from setwise.service.domain.reports import Backlog, Line
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakeIds
from tests.samples import add_predictions, job, prediction, sent_message, task

NOTHING = Line(0, None)
MINUTE = timedelta(minutes=1)


def read(begin: Transactions) -> Backlog:
    with begin(read_only=True) as transaction:
        return transaction.backlog.read()


def test_an_empty_database_has_no_backlog(begin: Transactions) -> None:
    backlog = read(begin)
    lines = [*backlog.reviews.values(), *backlog.deliveries.values(), *backlog.jobs.values()]
    assert set(lines) == {NOTHING}
    assert [NOTHING.age_s(START), Line(1, START).age_s(START - MINUTE)] == [0.0, 0.0]


def test_what_waits_is_counted_with_the_age_of_its_oldest(begin: Transactions) -> None:
    waiting = [task(prediction(created_at=START + n * MINUTE)) for n in range(3)]
    leased = waiting[1].claimed("reviewer", START + 5 * MINUTE, MINUTE)
    ids = FakeIds(1_000_000)
    with begin() as transaction:
        add_predictions(transaction, *(one.prediction for one in waiting))
        transaction.reviews.add_all(waiting)
        transaction.reviews.save(leased)
        transaction.outbox.add(sent_message(waiting[2].prediction, ids()))
        for minute in (2, 1):
            transaction.jobs.enqueue(job("fit", due_at=START + minute * MINUTE))
        running = transaction.jobs.claim(["fit"], START + MINUTE, MINUTE)
    assert running is not None
    backlog = read(begin)
    assert backlog.reviews == {
        "waiting": Line(2, waiting[0].created_at),
        "leased": Line(1, START + 5 * MINUTE),
        "skipped": NOTHING,
    }
    assert backlog.deliveries == {
        "unrouted": Line(1, waiting[2].prediction.created_at),
        "pending": NOTHING,
        "failing": NOTHING,
        "dead": NOTHING,
    }
    assert backlog.jobs == {
        "queued": Line(1, START + 2 * MINUTE),
        "running": Line(1, START + MINUTE),
    }
