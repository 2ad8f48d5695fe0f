"""Derives the table `checks`, and the counts of reports, again."""

from collections.abc import Callable

from setwise.service.stores.transaction import Transactions

AT_ONCE = 1_000
"""Predictions in one transaction, which bounds memory and how long writers wait."""

Report = Callable[[float, str], None]


def rebuild(begin: Transactions, report: Report) -> int:
    """Derive every check from stored answers, beside the service; return how many predictions.

    What is counted by checks is counted again afterwards.
    """
    with begin(read_only=True) as transaction:
        total = sum(transaction.reports().decisions().values())
    done, last = 0, None
    while True:
        with begin() as transaction:
            number, last = transaction.truth.rebuild(last, AT_ONCE)
        done += number
        report(min(1.0, done / max(total, 1)), f"{done:,} of {total:,} predictions")
        if last is None:
            recount(begin, report)
            return done


def recount(begin: Transactions, report: Report) -> int:
    """Count what reports count again, a day at a time; return how many days there are."""
    days, last = 0, None
    while True:
        with begin() as transaction:
            last = transaction.counts.rebuild(last)
        if last is None:
            return days
        days += 1
        report(1.0, f"counted {last}")
