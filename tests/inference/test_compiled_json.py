"""The compiled writer of JSON and the standard library say the same."""

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from service.inference.compiled_json import Words, write_sets, write_shares
from service.use_cases.written import compact_json

names = st.lists(st.text(max_size=6), min_size=1, max_size=5)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)  # the first call compiles
@given(st.data(), names)
def test_sets_and_shares_are_written_to_the_last_bit(data: st.DataObject, words: list[str]) -> None:
    column = st.integers(0, len(words) - 1)
    documents = data.draw(
        st.lists(st.lists(st.tuples(st.lists(column, max_size=3), numbers, numbers), max_size=3))
    )
    sets = [one for document in documents for one in document]
    written = write_sets(
        Words([compact_json(word) for word in words]),
        _indptr(documents),
        _indptr([labels for labels, _, _ in sets]),
        np.array([label for labels, _, _ in sets for label in labels], dtype=np.int64),
        to_json([confidence for _, confidence, _ in sets]),
        to_json([score for _, _, score in sets]),
    )
    assert [json.loads(one) for one in written] == [
        [
            {"labels": [words[label] for label in labels], "confidence": first, "score": second}
            for labels, first, second in document
        ]
        for document in documents
    ]
    shares = data.draw(st.lists(st.lists(st.tuples(column, numbers), max_size=4)))
    flat = [share for document in shares for share in document]
    written = write_shares(
        Words([compact_json(word) for word in words]),
        _indptr(shares),
        np.array([label for label, _ in flat], dtype=np.int64),
        to_json([probability for _, probability in flat]),
    )
    assert written == [
        to_json([{"label": words[label], "probability": share} for label, share in document])
        for document in shares
    ]


def _indptr(groups: list) -> np.ndarray:  # of anything
    indptr = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    assert [last - first for first, last in pairwise(indptr)] == [len(group) for group in groups]
    return indptr
