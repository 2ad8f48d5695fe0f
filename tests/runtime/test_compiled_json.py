"""The compiled writer of JSON and the standard library say the same."""

import json
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.service.domain.predictions import Candidate, Marginal
from setwise.service.runtime.compiled_json import Sets, Shares, Words, write_answers
from setwise.service.runtime.json_numbers import JsonNumbers
from setwise.service.stores.written import compact_json, read_scores, write_scores
from tests.runtime.test_json_numbers import numbers, probabilities


@settings(deadline=None)  # the first call compiles
@given(st.data(), st.lists(st.text(max_size=6), min_size=1, max_size=12, unique=True))
def test_what_is_told_and_stored_is_what_the_objects_say_to_the_last_bit(
    data: st.DataObject, words: list[str]
) -> None:
    columns = st.lists(st.integers(0, len(words) - 1), max_size=12, unique=True)
    shares_of = columns.flatmap(
        lambda chosen: st.tuples(*[st.tuples(st.just(one), probabilities) for one in chosen])
    )
    candidates_of = st.lists(st.tuples(columns, numbers, probabilities), min_size=1, max_size=4)
    answers = data.draw(st.lists(st.tuples(candidates_of, shares_of), max_size=4))
    sets = [one for chosen, _ in answers for one in chosen]
    shares = [share for _, told in answers for share in told]
    scores = JsonNumbers.rounded(np.array([score for _, _, score in sets]))
    likely = JsonNumbers.rounded(np.array([share for _, share in shares]))
    texts = write_answers(
        Words([compact_json(word) for word in words]),
        Sets(
            _indptr([chosen for chosen, _ in answers]),
            _indptr([labels for labels, _, _ in sets]),
            np.array([label for labels, _, _ in sets for label in labels], dtype=np.int32),
            JsonNumbers.exact(np.array([confidence for _, confidence, _ in sets])),
            scores,
        ),
        Shares(
            _indptr([told for _, told in answers]),
            np.array([label for label, _ in shares], dtype=np.int32),
            likely,
        ),
    )
    of_scores, of_shares = iter(scores.values.tolist()), iter(likely.values.tolist())
    for (chosen, told), written in zip(answers, texts, strict=True):
        said = (
            tuple(
                Candidate(tuple(words[label] for label in labels), confidence, next(of_scores))
                for labels, confidence, _ in chosen
            ),
            tuple(Marginal(words[label], next(of_shares)) for label, _ in told),
        )
        assert written == write_scores(*said)
        now = map(json.loads, (written.stored_candidates, written.stored_marginals))
        earlier = json.loads(b"{%b}" % written.told)
        for read in (read_scores(*now), read_scores(**earlier)):
            assert read == said
            assert repr(read) == repr(said)  # -0.0 too


def _indptr(groups: Sequence[Sequence[object]]) -> np.ndarray:
    indptr = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    assert [last - first for first, last in pairwise(indptr)] == [len(group) for group in groups]
    assert indptr[-1] == len(list(chain.from_iterable(groups)))
    return indptr
