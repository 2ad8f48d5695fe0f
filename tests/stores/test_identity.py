"""Ids: unique, and in the order in which they were made."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from setwise.service.domain.text import is_id
from setwise.service.stores.database import new_id, utc_now


def test_ids_grow_within_one_millisecond() -> None:
    made = [new_id() for _ in range(50_000)]
    assert all(first < second for first, second in pairwise(made))
    milliseconds = {identity[:13] for identity in made}
    assert len(made) > 10 * len(milliseconds)  # many a time several in one


def test_an_id_is_a_uuid_of_version_7_in_its_one_form() -> None:
    before = utc_now().timestamp()
    made = new_id()
    parsed = uuid.UUID(made)
    assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, made)
    assert is_id(made)
    assert abs((parsed.int >> 80) / 1000 - before) < 60


def test_threads_never_make_the_same_id_and_each_sees_its_own_grow() -> None:
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: [new_id() for _ in range(5_000)], range(8)))
    assert all(part == sorted(part) for part in parts)
    assert len({identity for part in parts for identity in part}) == 40_000
