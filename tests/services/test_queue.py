"""Any order of claims, heartbeats, skips and silences leaves the queue right: in memory."""

from collections.abc import Callable

from hypothesis import HealthCheck, settings

from setwise.service.stores.transaction import Transactions
from tests.services.queue_machine import QueueMachine
from tests.sqlite import Database


class InMemory(QueueMachine):
    def open(self) -> tuple[Transactions, Callable[[], None]]:
        return Database(), lambda: None


TestQueue = InMemory.TestCase
TestQueue.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # says more of the machine than of the queue
)
