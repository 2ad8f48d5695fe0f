"""Names of labels in odd spellings, drawn from a seed."""

import random
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from setwise.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = (
    "fever", "J18.9", "fi\u00e8vre", "caf\u00e9 cr\u00e8me", "\ud55c\uad6d\uc5b4",
    "\u0623\u0644\u0645",
    "0", "7", "-17", "=1+1", "@x", "+49", "nan", "None", "null", "true", "text ", "it's",
    '"quoted"', "'x'", "a,b", "a;b", "a|b", "a/b", "a & b", "[Other]", "(other)", "{x}", "['a']",
    '["a"]', "{}", "a\\b", "100 %", "# 1", "a:b", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\ufb01n", "x" * 300, "a\tb", "a\u2028b", "a\x0bb", "a\rb", "a\nb", " ", "\u200b",
    "Unnamed: 0", "'=x", "<b>", "&amp;", "?",
)  # fmt: skip
"""Names of labels as people and tools choose them; two are blank."""

PLAIN = ("fever", "cough", "fi\u00e8vre Q", "J18.9", "asthma")


def respelled(name: str, rng: random.Random) -> str:
    """Return a name in a spelling that looks the same."""
    spellings: list[Callable[[str], str]] = [
        str,
        str,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: f" {text}",
        lambda text: f"{text}\u00a0",
        lambda text: f"\u200b{text}",
        lambda text: text.replace(" ", "  "),
    ]
    return rng.choice(spellings)(name)


class Case(NamedTuple):
    """Label sets of documents, as they are written and as they are meant."""

    rows: list[list[str]]
    rng: random.Random

    @classmethod
    def drawn(cls, seed: int) -> "Case":
        rng = random.Random(seed)
        pool = [
            rng.choice(WORDS if rng.random() < 0.5 else PLAIN) for _ in range(rng.randint(1, 5))
        ]
        rows = [rng.sample(pool, rng.randint(0, len(pool))) for _ in range(rng.randint(1, 4))]
        return cls([[respelled(name, rng) for name in row] for row in rows], rng)

    @property
    def meant(self) -> list[set[str]]:
        return [set(map(spelled, row)) for row in self.rows]

    @property
    def names(self) -> list[str]:
        """All names, each in the first of its spellings."""
        return list({spelled(name): name for row in reversed(self.rows) for name in row}.values())

    def flags(self, row: list[str]) -> list[int]:
        present = set(map(spelled, row))
        return [int(spelled(name) in present) for name in self.names]
