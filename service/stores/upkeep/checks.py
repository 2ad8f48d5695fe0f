"""Derives the table `checks` again."""

from collections.abc import Callable

from setwise.service.stores.transaction import Transactions

AT_ONCE = 1_000
"""Predictions in one transaction, which bounds memory and how long writers wait."""


def rebuild(begin: Transactions, report: Callable[[float, str], None]) -> int:
    """Derive every check from stored answers, beside the service; return how many predictions."""
    with begin(read_only=True) as transaction:
        total = sum(transaction.predictions.counts().values())
    done, last = 0, None
    while True:
        with begin() as transaction:
            number, last = transaction.truth.rebuild(last, AT_ONCE)
        done += number
        report(min(1.0, done / max(total, 1)), f"{done:,} of {total:,} predictions")
        if last is None:
            return done
