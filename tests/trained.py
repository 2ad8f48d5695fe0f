"""Small models, trained once a session on documents made up here. A pytest plugin."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.made_once import made_once

if TYPE_CHECKING:
    from setwise.models.data.datasets import Dataset

LABELS = {
    "court": ["judge", "verdict", "appeal", "witness"],
    "finance": ["bond", "yield", "equity", "coupon"],
    "harvest": ["wheat", "tractor", "barley", "silo"],
    "music": ["violin", "concert", "choir", "tenor"],
    "space": ["orbit", "rocket", "comet", "probe"],
    "storm": ["gale", "hail", "thunder", "wind"],
}
FILLER = ["the", "report", "said", "today", "again", "people", "after", "many", "near", "town"]
FEATURES = (*(f"about {label}" for label in LABELS), "length")


def documents(n: int, seed: int) -> list[dict[str, object]]:
    """Return ``n`` labelled texts; each label has words of its own, some of them left out."""
    draw = random.Random(seed)
    made = []
    for number in range(n):
        labels = draw.sample(sorted(LABELS), draw.choice([1, 1, 1, 2, 2, 3]))
        words = draw.choices(FILLER, k=6)
        for label in labels:
            words += draw.choices(LABELS[label], k=draw.choice([0, 1, 1, 2, 2, 3]))
        draw.shuffle(words)
        made.append({"id": f"doc-{number}", "text": " ".join(words), "labels": sorted(labels)})
    return made


def write_documents(path: Path, n: int, seed: int) -> Path:
    """Write labelled texts as JSON Lines."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents(n, seed)))
    return path


def _vectors(n: int, seed: int) -> "Dataset":
    import numpy as np  # noqa: PLC0415 -- takes long to import, and few tests need it
    from scipy.sparse import csr_array  # noqa: PLC0415 -- as above

    from setwise.models.data.datasets import Dataset  # noqa: PLC0415 -- as above

    draw = np.random.default_rng(seed)
    Y = (draw.random((n, len(LABELS))) < 0.25).astype(np.uint8)
    Y[np.arange(n), np.arange(n) % len(LABELS)] = 1
    X = np.column_stack([Y * draw.uniform(0.5, 2, Y.shape), draw.random(n)]).astype(np.float32)
    return Dataset(
        kind="vectors",
        ids=tuple(str(row + 1) for row in range(n)),
        label_names=tuple(LABELS),
        Y=csr_array(Y),
        texts=None,
        X=csr_array(X),
        feature_names=FEATURES,
        fingerprint=f"{seed:064x}",
    )


@dataclass(frozen=True)
class Artifacts:
    """Folders of trained models: two of text that differ, and one of vectors."""

    text: Path
    other_text: Path
    vectors: Path


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    """Return small models, trained once for all workers."""
    folder = made_once(tmp_path_factory, "artifacts", _train)
    return Artifacts(folder / "text", folder / "other_text", folder / "vectors")


@pytest.fixture(scope="session")
def reuters(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of the training part of Reuters, trained as `train` does by itself."""

    def make(folder: Path) -> None:
        from setwise.models.data.dataset_files import read_dataset  # noqa: PLC0415 -- as above
        from setwise.models.storage.artifacts import save  # noqa: PLC0415 -- as above
        from setwise.models.training import train  # noqa: PLC0415 -- as above

        save(train(read_dataset(data_dir / "reuters21578", "train")), folder / "artifact")

    return made_once(tmp_path_factory, "reuters", make) / "artifact"


def _train(folder: Path) -> None:
    from setwise.models.data.dataset_files import read_dataset  # noqa: PLC0415 -- as above
    from setwise.models.options import TrainingOptions  # noqa: PLC0415 -- as above
    from setwise.models.storage.artifacts import save  # noqa: PLC0415 -- as above
    from setwise.models.training import train  # noqa: PLC0415 -- as above

    options = TrainingOptions(
        preset="paper", calibrator="isotonic", n_folds=2, n_candidates=5, alpha=1e-3
    )
    for name, dataset in (
        ("text", read_dataset(write_documents(folder / "text.jsonl", 300, seed=1))),
        ("other_text", read_dataset(write_documents(folder / "other.jsonl", 300, seed=2))),
        ("vectors", _vectors(300, seed=3)),
    ):
        save(train(dataset, options), folder / name)
