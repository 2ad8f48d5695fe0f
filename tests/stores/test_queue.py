"""Any order of claims, heartbeats, skips and silences leaves the queue right: on SQLite."""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, settings

from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate
from tests.services.queue_machine import QueueMachine


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        engine = create(f"sqlite:///{folder}/template.db")
        migrate.upgrade(engine)
        engine.dispose()
        return Path(folder, "template.db").read_bytes()


class OnSqlite(QueueMachine):
    def open(self) -> tuple[Transactions, Callable[[], None]]:
        folder = Path(tempfile.mkdtemp(prefix="setwise-queue-"))
        (folder / "queue.db").write_bytes(_migrated())
        engine = create(f"sqlite:///{folder / 'queue.db'}")

        def close() -> None:
            engine.dispose()
            shutil.rmtree(folder)

        return Transactions(engine), close


TestQueue = OnSqlite.TestCase
TestQueue.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # says more of the machine than of the queue
)
