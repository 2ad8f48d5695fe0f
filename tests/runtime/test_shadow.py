"""A shadow never stands in the way: it compares when there is time, and forgets the rest."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from setwise.service.domain.errors import InvalidRequest, StorageUnavailable
from setwise.service.domain.predictions import Document, Prediction, Refused, ScoredSet
from setwise.service.runtime import shadow as shadows
from setwise.service.runtime.shadow import ShadowScorer
from tests.fakes import FakePredictor
from tests.kit.waiting import eventually
from tests.samples import prediction

CANDIDATE = FakePredictor(version="sha256:candidate")


class Records:
    """Keeps what a shadow records."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Prediction, ScoredSet]] = []
        self.fail = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(
        self, model_id: str, predictions: Sequence[Prediction], scores: Sequence[ScoredSet]
    ) -> None:
        assert self.gate.wait(120)
        if self.fail:
            self.fail -= 1
            raise StorageUnavailable("asleep") if self.fail else ValueError("bug")
        self.seen += [(model_id, *pair) for pair in zip(predictions, scores, strict=True)]


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def scorer(records: Records) -> Iterator[ShadowScorer]:
    scorer = ShadowScorer(lambda: ("m", CANDIDATE))
    scorer.start(records)
    yield scorer
    records.gate.set()
    scorer.stop()


def made(text: str = "0.7") -> Prediction:
    return prediction(document=Document(text=text))


def test_what_is_offered_is_scored_by_the_candidate(scorer: ShadowScorer, records: Records) -> None:
    one, two = made("0.7"), made("0.2")
    scorer.offer([one, two])
    eventually(lambda: len(records.seen) == 2)
    assert [(name, of, score.confidence) for name, of, score in records.seen] == [
        ("m", one, 0.7),
        ("m", two, 0.2),
    ]


def test_a_document_that_the_candidate_cannot_read_costs_the_others_nothing(
    records: Records,
) -> None:
    class Picky(FakePredictor):
        def score(self, documents: Sequence[Document]) -> Sequence[ScoredSet | Refused]:
            return [
                Refused(InvalidRequest("unreadable")) if document.text is None else scored
                for document, scored in zip(documents, super().score(documents), strict=True)
            ]

    scorer = ShadowScorer(lambda: ("m", Picky(version="sha256:candidate")))
    scorer.start(records)
    without_text = prediction(document=Document(answer={"labels": ["a"]}))
    one, two = made("0.7"), made("0.2")
    scorer.offer([one, without_text, two])
    eventually(lambda: len(records.seen) == 2)
    scorer.stop()
    assert [of for _, of, _ in records.seen] == [one, two]


def test_too_much_is_forgotten_and_nobody_waits(
    scorer: ShadowScorer, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.gate.clear()
    for _ in range(3):
        scorer.offer([made()] * 1_000)
    assert not records.gate.is_set()  # so nobody has waited for what is recorded
    assert scorer.dropped >= 3_000 - shadows.MOST_WAITING - 2 * shadows.TOGETHER
    records.gate.set()
    eventually(lambda: len(records.seen) + scorer.dropped == 3_000)


def test_faults_of_the_shadow_are_its_own(scorer: ShadowScorer, records: Records) -> None:
    records.fail = 2
    for _ in range(2):
        before = records.fail
        scorer.offer([made()])
        eventually(lambda before=before: records.fail < before)
    scorer.offer([made()])
    eventually(lambda: len(records.seen) == 1)


def test_without_a_candidate_nothing_is_kept(records: Records) -> None:
    scorer = ShadowScorer(lambda: None)
    scorer.start(records)
    scorer.offer([made()])
    scorer.stop()
    assert (records.seen, scorer.dropped) == ([], 0)


def test_a_candidate_that_serves_meanwhile_is_not_compared_with_itself(
    scorer: ShadowScorer, records: Records
) -> None:
    own, other = made(), made()
    own = own._replace(scored=own.scored._replace(model_version=CANDIDATE.version))
    scorer.offer([own, other])  # compared in this order
    eventually(lambda: bool(records.seen))
    assert [of for _, of, _ in records.seen] == [other]
