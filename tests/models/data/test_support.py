"""Which documents are like those that a model learnt from."""

import numpy as np
import pytest

from setwise.models.data.support import Support
from setwise.models.data.text import TextVectorizer


def test_few_training_documents_are_outside_and_none_near_the_median() -> None:
    rng = np.random.default_rng(0)
    known, share = rng.integers(5, 200, 5000), rng.beta(20, 2, 5000)
    support = Support.of(known, share)
    outside = ~support.covers(known, share)
    assert 0 < outside.mean() <= 0.02
    assert known[~support.covers(known)].max() < 0.5 * np.median(known)
    assert support.least_share <= 0.5 * np.median(share)


@pytest.mark.parametrize("known", [[1], [40, 40, 40], [0, 0, 5]])
def test_documents_of_one_length_leave_room_below_and_nothing_is_never_enough(known) -> None:
    support = Support.of(known)
    assert 1 <= support.least_known <= max(0.5 * np.median(known), 1)
    assert not support.covers([0])[0]


def test_the_share_of_known_words_counts_words_as_often_as_they_stand() -> None:
    vectorizer = TextVectorizer().fit(["fever and cough", "no fever"])
    shares = vectorizer.known_share(["fever FEVER rash, rash", "", "cough", "xx yy"])
    assert shares.tolist() == [0.5, 0.0, 1.0, 0.0]
