"""Answers of several people and gold labels become one set per document, with its noise."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.calibration.several_answers import (
    AnsweredDocument,
    estimate_noise_rates,
    settle,
)
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataError
from tests.models.bounds import share_error

ALPHA = {"ann": 0.1, "bob": 0.3, "eve": 0.5}


def answered(
    n: int, people: tuple[str, ...], *, gold: bool, seed: int = 0
) -> list[AnsweredDocument]:
    """Return cases of people who err at their alpha, each with a set of their own."""
    draw = np.random.default_rng(seed)
    true = frozenset({"true"})
    return [
        AnsweredDocument(
            {
                name: frozenset({f"wrong {draw.integers(60)}"})
                if draw.random() < ALPHA[name]
                else true
                for name in people
            },
            true if gold else None,
        )
        for _ in range(n)
    ]


@pytest.mark.parametrize("gold", [True, False])
def test_error_rates_are_found_from_gold_labels_or_from_each_other(*, gold: bool) -> None:
    found = estimate_noise_rates(answered(1_000, ("ann", "bob", "eve"), gold=gold))
    for name, alpha in ALPHA.items():
        assert found[name]["alpha"] == pytest.approx(alpha, abs=3 * share_error(0.5, 1_000))
    assert found["*"]["alpha"] == pytest.approx(0.3, abs=3 * share_error(0.3, 3_000))


def test_rates_from_few_labels_err_to_the_side_of_lower_confidence() -> None:
    found = estimate_noise_rates(answered(50, ("bob",), gold=True, seed=3))
    wrong = np.mean(
        [
            not {"true"} >= set(case.answers["bob"])
            for case in answered(50, ("bob",), gold=True, seed=3)
        ]
    )
    assert wrong - 0.1 < found["bob"]["alpha"] < wrong


def test_too_little_to_estimate_from_is_refused_with_a_count() -> None:
    with pytest.raises(ValueError, match=r"49 documents .* 50 are needed"):
        estimate_noise_rates(answered(49, ("ann", "bob"), gold=False))


def documents(*rows: tuple[str, str, str | None]) -> Dataset:
    """Return a data set of one label a row, with repeated ids."""
    labels = sorted({label for _, label, _ in rows})
    Y = np.array([[label == name for name in labels] for _, label, _ in rows], dtype=np.uint8)
    return Dataset(
        kind="text",
        ids=tuple(id_ for id_, _, _ in rows),
        label_names=tuple(labels),
        Y=csr_array(Y),
        texts=tuple(f"text {id_}" for id_, _, _ in rows),
        X=None,
        feature_names=None,
        fingerprint="0" * 64,
        annotators=tuple(who for _, _, who in rows),
    )


def labels_of(dataset: Dataset) -> list[list[str]]:
    return [[dataset.label_names[at] for at in row.nonzero()[0]] for row in dataset.Y.toarray()]


QUARREL = (
    ("one", "x", "eve"),
    ("gold", "x", "ann"),
    ("agreed", "x", "bob"),
    ("agreed", "x", "eve"),
    ("quarrel", "x", "eve"),
    ("quarrel", "y", "ann"),
)
RATES = {name: {"alpha": alpha} for name, alpha in ALPHA.items()}


def test_gold_decides_agreement_convinces_and_of_a_quarrel_the_better_annotator_counts() -> None:
    dataset, noise = settle(documents(*QUARREL), {"gold": ["z"]}, RATES)
    assert dataset.ids == ("one", "gold", "agreed", "quarrel")
    assert dataset.texts == ("text one", "text gold", "text agreed", "text quarrel")
    assert labels_of(dataset) == [["x"], ["z"], ["x"], ["y"]]
    assert dataset.annotators == ("eve", "gold", "bob and eve", "ann against eve")
    assert noise["bob and eve"]["alpha"] < 0.02
    # P(ann errs | they differ), where both may be wrong.
    assert noise["ann against eve"]["alpha"] == pytest.approx(0.1 / (0.1 + 0.9 * 0.5))


def test_people_without_rates_and_gold_of_other_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="no noise rates of eve"):
        settle(documents(*QUARREL), noise={"ann": {"alpha": 0.1}, "bob": {"alpha": 0.1}})
    with pytest.raises(ValueError, match="decide no training document"):
        settle(documents(*QUARREL), {"another": ["x"]}, RATES)


def test_documents_without_annotators_have_one_rate_from_gold_labels() -> None:
    rows = [(str(i), "a" if i % 4 else "b", None) for i in range(60)]
    dataset, noise = settle(documents(*rows), {str(i): ["a"] for i in range(52)})
    assert dataset.annotators == ("gold",) * 52 + (None,) * 8
    assert noise["*"]["alpha"] == pytest.approx(0.23, abs=0.03)


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        ({"text": "t", "annotator": "ann"}, "'ann' labelled 'a' before"),
        ({"text": "another", "annotator": "bob"}, "has another text on line 1"),
    ],
)
def test_an_id_is_repeated_only_by_another_annotator_of_the_same_text(
    tmp_path: Path, second: dict[str, object], fault: str
) -> None:
    first = {"id": "a", "text": "t", "labels": [], "annotator": "ann"}
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (first, {**first, **second})))
    with pytest.raises(DataError, match=fault):
        read_dataset(file, several=True)
