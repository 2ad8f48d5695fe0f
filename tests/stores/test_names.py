"""Predictions are found by the names of their documents, in whichever blocks those lie."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from setwise.service.domain.predictions import Document, PredictionFilter
from setwise.service.stores import names, predictions
from setwise.service.stores.names import ROWS_OF_A_BLOCK, Blocks
from setwise.service.stores.tables import predictions as table
from setwise.service.stores.transaction import Transaction, Transactions
from tests.samples import add_predictions, prediction


def test_rows_that_come_one_after_another_share_a_block() -> None:
    blocks = Blocks()
    first = [blocks.next(256) for _ in range(ROWS_OF_A_BLOCK // 256)]
    second = [blocks.next(1) for _ in range(ROWS_OF_A_BLOCK)]
    assert len(set(first)) == len(set(second)) == 1
    assert second[0] > first[0]
    assert blocks.next(ROWS_OF_A_BLOCK + 1) > second[0]
    assert blocks.next(1) > second[0] + 1


def test_threads_fill_a_block_together() -> None:
    blocks = Blocks()
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(blocks.next, [16] * 1_024))
    assert [taken.count(one) for one in set(taken)] == [ROWS_OF_A_BLOCK // 16] * 4


def test_no_block_is_reused_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks()
    monkeypatch.setattr(names.time, "time_ns", lambda: 5_000_000_000)
    taken = [blocks.next(ROWS_OF_A_BLOCK)]
    monkeypatch.setattr(names.time, "time_ns", lambda: 1_000_000_000)
    taken += [blocks.next(ROWS_OF_A_BLOCK) for _ in range(3)]
    assert taken == [5_000, 5_001, 5_002, 5_003]


def test_a_name_is_found_in_all_blocks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, luck = Transactions(engine), random.Random(3)
    # Rows from before, two processes that took the same number, and a gap.
    blocks = [0, 0, 7, 8, 7, 9, 1_800_000_000_000, 12, 0]
    rest = iter(blocks)
    monkeypatch.setattr(predictions, "next_block", lambda *_: next(rest))
    made = []
    with begin() as transaction:
        for _ in blocks:
            some = [
                prediction(document=Document(id=luck.choice(["a", "b", "c", None]), text="fever"))
                for _ in range(12)
            ]
            add_predictions(transaction, *some)
            made += some
        transaction.commit()
    with begin() as transaction:
        for name in "a", "b", "c", "d", "":
            expected = sorted(one.id for one in made if one.document.id == name)
            assert page_by_page(transaction, name, 7) == expected[::-1]
            assert transaction.texts.of_document(name) == expected
        transaction.texts.forget_name("b")
        left = transaction.texts.of_document
        assert left("b") == []
        assert len(left("a")) == sum(one.document.id == "a" for one in made)
        transaction.commit()


def page_by_page(transaction: Transaction, name: str, limit: int) -> list[str]:
    found, after = [], None
    while True:
        page = transaction.predictions.page(
            PredictionFilter(document_id=name), after=after, limit=limit
        )
        found += [one.id for one in page.items]
        after = page.next_after
        if after is None:
            return found


def test_what_a_process_stores_is_of_its_block(engine: Engine) -> None:
    begin = Transactions(engine)
    with begin() as transaction:
        for _ in range(3):
            add_predictions(transaction, prediction(), prediction())
        transaction.commit()
    with engine.connect() as connection:
        blocks = set(connection.scalars(select(table.c.block)))
    if engine.dialect.name == "postgresql":
        assert blocks == {0}
    else:
        assert 1 <= len(blocks) <= 2  # the second where the first became full
        assert min(blocks) > 1_700_000_000_000
