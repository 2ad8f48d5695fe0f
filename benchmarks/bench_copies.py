"""Which near copies a key joins into one cluster, and what it joins that is no copy.

    python -m benchmarks.bench_copies [--documents 2000] [--seed 0]

Reads Reuters in ``SETWISE_TEST_DATA`` (training part) and the generated notes. Of each text five
copies are planted: with other numbers, in other case and spacing, with one word replaced by another
of the corpus, with three, and with a sentence more. *Recall* is the share of copies that have the
key of their text. *Joined* is the share of the texts, none planted, that share a key with another
one, and *unlike* the share of pairs with one key whose right sets differ.

- normal form: the product's key, which masks numbers, case and marks (`normal_form`).
- smallest k: the k smallest hashes of runs of four words of the normal form. Two texts that share a
  part J of their runs have one key with a probability of about J to the power of k.
"""

import argparse
import gzip
import json
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from setwise.models.demo_notes import read_notes
from setwise.service.domain.routing.audits import normal_form

RUN = 4
"""Words of a run."""

LONG = 8
"""Words from which a text is told by some of its runs."""

Key = Callable[[str], Hashable]
Edit = Callable[[list[str], np.random.Generator, Sequence[str]], list[str]]


def main() -> None:
    options = _options()
    for name, texts, sets in (_reuters(options.documents), _notes(options.documents)):
        print(f"\n{name}: {len(texts):,} texts")
        print(f"{'key':<14}" + "".join(f"{edit:>10}" for edit in EDITS) + "    joined  unlike  µs")
        for key_name, key in KEYS.items():
            draw = np.random.default_rng(options.seed)
            found = [_recall(key, edit, texts, draw) for edit in EDITS.values()]
            start = time.process_time()
            keys = [key(text) for text in texts]
            each = (time.process_time() - start) / len(texts) * 1e6
            joined, unlike = _joined(keys, sets)
            shares = "".join(f"{share:>10.3f}" for share in found)
            print(f"{key_name:<14}{shares}{joined:>10.3f}{unlike:>8.2f}{each:>5.0f}")


def smallest(text: str, k: int) -> Hashable:
    """Return the k smallest hashes of a text's runs of words; all of a short text."""
    words = normal_form(text).split()
    if len(words) < LONG:
        return " ".join(words)
    runs = {" ".join(words[place : place + RUN]) for place in range(len(words) - RUN + 1)}
    return tuple(sorted(zlib.crc32(run.encode("utf-8", "surrogatepass")) for run in runs)[:k])


KEYS: dict[str, Key] = {
    "normal form": normal_form,
    "smallest 1": lambda text: smallest(text, 1),
    "smallest 2": lambda text: smallest(text, 2),
    "smallest 3": lambda text: smallest(text, 3),
}


def _replaced(n: int) -> Edit:
    def replace(words: list[str], draw: np.random.Generator, corpus: Sequence[str]) -> list[str]:
        words = list(words)
        for place in draw.choice(len(words), min(n, len(words)), replace=False):
            words[place] = corpus[int(draw.integers(len(corpus)))]
        return words

    return replace


def _numbered(words: list[str], draw: np.random.Generator, _: Sequence[str]) -> list[str]:
    other = str(draw.integers(10, 99))
    return [other if any(map(str.isdigit, word)) else word for word in words] + [other]


def _longer(words: list[str], draw: np.random.Generator, corpus: Sequence[str]) -> list[str]:
    return [*words, *(corpus[place] for place in draw.integers(len(corpus), size=12))]


EDITS: dict[str, Edit] = {
    "numbers": _numbered,
    "case": lambda words, _draw, _corpus: [f"{word.upper()} " for word in words],
    "1 word": _replaced(1),
    "3 words": _replaced(3),
    "sentence": _longer,
}


def _recall(key: Key, edit: Edit, texts: Sequence[str], draw: np.random.Generator) -> float:
    corpus = [word for text in texts[:200] for word in text.split()]
    same = [key(" ".join(edit(text.split(), draw, corpus))) == key(text) for text in texts]
    return float(np.mean(same))


def _joined(keys: Sequence[Hashable], sets: Sequence[tuple[str, ...]]) -> tuple[float, float]:
    """Return the share of texts that share a key, and of their pairs those of unlike sets."""
    members = defaultdict(list)
    for place, key in enumerate(keys):
        members[key].append(place)
    several = [inside for inside in members.values() if len(inside) > 1]
    pairs = [pair for inside in several for pair in combinations(inside, 2)]
    unlike = [sets[one] != sets[other] for one, other in pairs]
    return sum(map(len, several)) / len(keys), float(np.mean(unlike)) if unlike else 0.0


def _reuters(n: int) -> tuple[str, list[str], list[tuple[str, ...]]]:
    source = Path(os.environ["SETWISE_TEST_DATA"]) / "reuters21578" / "train.jsonl.gz"
    with gzip.open(source, "rt") as file:
        lines = [line for line in map(json.loads, file) if line["text"].strip()][:n]
    return "Reuters", [line["text"] for line in lines], [tuple(line["labels"]) for line in lines]


def _notes(n: int) -> tuple[str, list[str], list[tuple[str, ...]]]:
    notes = read_notes()[:n]
    return "notes", [note.text for note in notes], [tuple(sorted(note.labels)) for note in notes]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000, help="texts of each corpus")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
