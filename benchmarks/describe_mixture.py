"""Writes the page that shows what a mixture learns from generated notes.

    python -m benchmarks.describe_mixture > mixture.md

Trains ``cbm`` on generated notes and runs ``setwise model explain`` on it: first for the components
and labels, then for new notes in which other labels made one label more probable.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from benchmarks.demo_notes import generate_notes
from setwise.models.data.dataset_files import read_dataset
from setwise.models.demo_notes import Note, write_jsonl
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import save
from setwise.models.training import train

N_TRAINING, TRAINING_SEED = 3000, 1
N_NEW, NEW_SEED = 200, 9
N_COMPONENTS = 30
N_SHOWN = 3

HEAD = f"""# A mixture in words

This page shows what a conditional Bernoulli mixture of {N_COMPONENTS} components learnt from
{N_TRAINING:,} generated clinical notes, and why it chose its label sets for new ones. Notes and
codes are made up. `python -m benchmarks.describe_mixture` writes the page: it trains `cbm` and runs

```sh
setwise model explain my-model --markdown
setwise model explain my-model --document new.jsonl --markdown
```

Each component stands for a kind of document. *Share* is the share of training documents that belong
to it. *Labels* are those that distinguish it from the other components, with their rates inside it.
*Terms* are the words that point to the component, with the gate's coefficients.
"""

REASONS = """
## Why a label is there

In a mixture, labels depend on each other even given the document. A label that is unlikely on its
own can belong to the most probable set because labels that often occur with it are likely. These
notes mention nearly all of their labels, so labels add little to each other: the probability of
the set is close to the product of the marginals.
"""


def explain(*arguments: str) -> str:
    """Return what ``setwise model explain`` prints."""
    command = [sys.executable, "-c", "from setwise.service.cli import main; main()"]
    done = subprocess.run(
        [*command, "model", "explain", *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def choose_examples(model: Path, folder: Path) -> list[Note]:
    """Return short new notes, rightly labelled, in which other labels helped one most."""
    notes = [note for note in generate_notes(N_NEW, seed=NEW_SEED) if len(note.text) < 400]
    write_jsonl(notes, folder / "new.jsonl")
    answer = json.loads(explain(str(model), "--document", str(folder / "new.jsonl"), "--json"))
    telling = [
        (max(reason["given_others"] - reason["probability"] for reason in item["reasons"]), note)
        for note, item in zip(notes, answer["items"], strict=True)
        if set(item["labels"]) == set(note.labels) and len(item["labels"]) > 1
    ]
    telling.sort(key=lambda each: -each[0])
    return list({note.id: note for _, note in telling}.values())[:N_SHOWN]


def main() -> None:
    """Print the page."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_jsonl(generate_notes(N_TRAINING, seed=TRAINING_SEED), folder / "train.jsonl")
        options = TrainingOptions(
            method="cbm",
            preset="paper",  # one fit over terms: the mean of several would show topics again
            n_components=N_COMPONENTS,
            n_folds=2,
            calibrator="isotonic",
        )
        save(train(read_dataset(folder / "train.jsonl"), options), folder / "model")
        print(HEAD)
        print(explain(str(folder / "model"), "--terms", "6", "--markdown").rstrip())
        print(REASONS)
        examples = choose_examples(folder / "model", folder)
        for note in examples:
            write_jsonl([note], folder / "one.jsonl")
            story = explain(
                str(folder / "model"),
                "--document",
                str(folder / "one.jsonl"),
                "--labels",
                "3",
                "--terms",
                "4",
                "--markdown",
            )
            title, rest = story.split("\n", 1)
            quoted = "\n".join(f"> {line}".rstrip() for line in note.text.splitlines())
            print(f"{title}\n\n{quoted}\n{rest.rstrip()}\n")


if __name__ == "__main__":
    main()
