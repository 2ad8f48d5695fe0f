"""A model of the first answers claims no more of itself than it keeps."""

from pathlib import Path

import numpy as np
import pytest

from setwise.models.data.dataset_files import read_dataset
from setwise.models.demo_notes import read_notes
from setwise.models.storage.artifacts import load
from setwise.service.services.analysis.retraining import fit_again

Texts = list[tuple[str, tuple[str, ...]]]
"""Texts with their labels."""

ANSWERS = 490
"""Few enough for many labels to be rare: on Reuters 83 of them have a label of fewer than ten."""


def answered(place: int, text: str, labels: tuple[str, ...]) -> dict[str, object]:
    """Return the row of a person's answer to a document that came before there was a model."""
    return {
        "prediction_id": f"p-{place:05}",
        "document_id": f"d-{place:05}",
        "client_id": "billing",
        "predicted_labels": None,
        "reviewer": "ann",
        "labels": list(labels),
        "label_missing": False,
        "kind": "review",
        "settles": True,
        "suggestion_shown": False,
        "audit_role": "none",
        "text": text,
    }


def excess(learnt: Texts, others: Texts, folder: Path, preset: str) -> tuple[float, float]:
    """Return by how much a model's confidence exceeds its accuracy, and the standard error.

    A claim rests on as many answers as were learnt from: by their luck alone it is above or below
    what the model keeps, however many others it is compared with.
    """
    rows = [(answered(place, *pair), None) for place, pair in enumerate(learnt)]
    found = fit_again(
        rows, None, None, preset=preset, target=folder / "model", report=lambda *_: None
    )
    assert found["documents"] == len(learnt), found["left_out"]
    model = load(folder / "model")
    predictions = model.predict_texts([text for text, _ in others])
    best = [predictions.ranked(place)[0] for place in range(len(others))]
    right = np.array(
        [set(each.labels) == set(labels) for each, (_, labels) in zip(best, others, strict=True)]
    )
    over = np.array([each.confidence for each in best]) - right
    error = over.std(ddof=1) * np.sqrt(1.0 / len(others) + 1.0 / len(learnt))
    return float(over.mean()), float(error)


def test_a_model_of_few_generated_notes_does_not_promise_too_much(tmp_path: Path) -> None:
    notes: Texts = [(note.text, tuple(note.labels)) for note in read_notes()]
    over, error = excess(notes[:ANSWERS], notes[-2_000:], tmp_path, "fast")
    assert over <= 2.0 * error


@pytest.mark.verify
@pytest.mark.parametrize("preset", ["fast", "best"])
@pytest.mark.parametrize("name", ["reuters21578", "ohsumed"])
def test_models_of_490_answers_do_not_promise_too_much(
    data_dir: Path, tmp_path: Path, name: str, preset: str
) -> None:
    dataset = read_dataset(data_dir / name, "train")
    names = np.array(dataset.label_names, dtype=object)
    matches = []
    for seed in range(3):
        draws = np.random.default_rng(seed).permutation(dataset.n)[: ANSWERS + 3_000]
        pairs: Texts = [
            (dataset.texts[row], tuple(names[dataset.Y[[row]].indices])) for row in draws
        ]
        folder = tmp_path / str(seed)
        folder.mkdir()
        matches.append(excess(pairs[:ANSWERS], pairs[ANSWERS:], folder, preset))
    over, error = np.array(matches).T
    assert (over <= 3.0 * error).all()
    assert over.mean() <= 2.0 * np.sqrt((error**2).sum()) / len(matches)
