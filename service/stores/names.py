"""Which predictions are of the document that its sender gave a name.

Names come in no order. In an index of them all, each row that is added writes a page of its own: of
a batch of 256 documents every second page of SQLite's log was one of these, 4 kB for a name each.
So the index is kept in blocks: rows that a process adds one after another are of one block, whose
names are on few pages, and who looks for a name looks in each block. PostgreSQL gained nothing by
several blocks, and finds a name soonest in one.
"""

import time
from threading import Lock

from sqlalchemy import Dialect, Select, func, select

from setwise.service.stores.tables import predictions

ROWS_OF_A_BLOCK = 4_096
"""Few enough that a batch finds their names on few pages, and enough that few blocks are to be
looked in; each takes some microseconds."""


class Blocks:
    """Hands out the blocks for the rows that one process adds; safe to use from several threads.

    A block's number is the time of its first row, in milliseconds, or the next that is free. Should
    another process take the same, the block has more rows: that does no harm.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._block = 0
        self._room = 0

    def next(self, count: int) -> int:
        """Return the block that ``count`` rows, added together, are of."""
        with self._lock:
            if self._room <= 0:
                self._block = max(self._block + 1, time.time_ns() // 1_000_000)
                self._room = ROWS_OF_A_BLOCK
            self._room -= count
            return self._block


_BLOCKS = Blocks()


def next_block(dialect: Dialect, count: int) -> int:
    """Return the block that ``count`` rows of this process, added together, are of."""
    return _BLOCKS.next(count) if dialect.name == "sqlite" else 0


def ids_of_document(name: str) -> Select[tuple[str]]:
    """Return the query for the ids of all predictions of the documents of one name.

    One step in the index finds the next block, another one the name in it.
    """
    column = predictions.c
    blocks = select(func.min(column.block).label("block")).cte("blocks", recursive=True)
    later = select(func.min(column.block)).where(column.block > blocks.c.block).scalar_subquery()
    blocks = blocks.union_all(select(later).where(blocks.c.block.is_not(None)))
    # Not joined: SQLite might then make an index of its own, of the whole table.
    found = column.block.in_(select(blocks.c.block))
    return select(column.id).where(found, column.document_id == name)
