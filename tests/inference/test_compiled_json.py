"""The compiled writer of JSON and the standard library say the same."""

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from service.domain.predictions import Candidate, Marginal
from service.inference.compiled_json import Words, write_sets, write_shares, write_stored
from service.use_cases.written import compact_json, read_scores, write_scores

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


@settings(deadline=None)  # as above
@given(st.data(), st.lists(st.text(max_size=6), min_size=1, max_size=12, unique=True))
def test_what_is_stored_says_the_same_whoever_wrote_it(
    data: st.DataObject, words: list[str]
) -> None:
    columns = st.lists(st.integers(0, len(words) - 1), max_size=12, unique=True)
    answers = data.draw(
        st.lists(
            st.tuples(
                st.lists(st.tuples(columns, numbers, numbers), min_size=1, max_size=4),
                columns.flatmap(
                    lambda chosen: st.tuples(*[st.tuples(st.just(one), numbers) for one in chosen])
                ),
            ),
            max_size=4,
        )
    )
    sets = [one for chosen, _ in answers for one in chosen]
    shares = [share for _, told in answers for share in told]
    stored = write_stored(
        Words([compact_json(word) for word in words]),
        _indptr([chosen for chosen, _ in answers]),
        _indptr([labels for labels, _, _ in sets]),
        np.array([label for labels, _, _ in sets for label in labels], dtype=np.int64),
        to_json([confidence for _, confidence, _ in sets]),
        to_json([score for _, _, score in sets]),
        _indptr([told for _, told in answers]),
        np.array([label for label, _ in shares], dtype=np.int64),
        to_json([probability for _, probability in shares]),
    )
    for (chosen, told), candidates, marginals in zip(answers, *stored, strict=True):
        said = (
            tuple(
                Candidate(tuple(words[label] for label in labels), *two) for labels, *two in chosen
            ),
            tuple(Marginal(words[label], share) for label, share in told),
        )
        plain = write_scores(*said)
        assert (candidates.decode(), marginals.decode()) == plain[2:]
        for kept in (plain[2:], plain[:2]):  # now, and in earlier versions
            read = read_scores(*map(json.loads, kept))
            assert read == said
            assert repr(read) == repr(said)  # -0.0 too


def _indptr(groups: list) -> np.ndarray:  # of anything
    indptr = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    assert [last - first for first, last in pairwise(indptr)] == [len(group) for group in groups]
    return indptr
