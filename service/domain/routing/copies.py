"""Copies: which documents are one, so that only one of them is evidence.

Copies have the same id or the same content. So have near copies, such as a note that is sent again
with another date or for another person: they may be right or wrong together.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from setwise.characters import normalised, runs_of, words_in

BAND_BYTES = 4
"""Bytes of the hash of a band: one of 10,000 documents shares one by chance with 50,000 others."""


class Likeness(NamedTuple):
    """What a document's content has in common with its copies."""

    form: bytes
    """Equal for copies that differ in no word."""
    text: str = ""
    """The normal form of a text."""

    @property
    def words(self) -> list[str]:
        """Those of the text; copies with a few others have most pairs of neighbours in common."""
        return words_in(self.text)

    @classmethod
    def of_text(cls, text: str) -> Self:
        r"""Return what a text has in common with its copies.

        >>> Likeness.of_text("Fever since 3.5.,  cough!")
        Likeness(form=b'text\x00fever since cough', text='fever since cough')
        """
        form = normal_form(text)
        return cls(b"text\0" + form.encode("utf-8", "surrogatepass"), form)


_NUMBERS = re.compile(r"[\d_.]+")


def normal_form(text: str) -> str:
    """Return what a text has in common with its near copies.

    Near copies are right or wrong together, such as a note that is sent again with another date.
    So only the letters are left, in lower case; where most of a text is no letters, all but spaces.

    >>> normal_form("Fever since 3.5.,  cough!"), normal_form("fever since 4.5., cough")
    ('fever since cough', 'fever since cough')
    >>> normal_form("C++, not C#"), normal_form("बुखार 3"), normal_form("发烧3天")
    ('c++ not c#', 'बुखार', '发烧 天')
    >>> normal_form("Na 140  CRP 12.5")
    'na 140 crp 12.5'
    """
    letters = _NUMBERS.sub(" ", " ".join(runs_of(text))).split()
    everything = normalised(text).split()
    mostly_letters = 2 * sum(map(len, letters)) >= sum(map(len, everything))
    return " ".join(letters if mostly_letters else everything)


class Identity(NamedTuple):
    """The identity of a document: its name, and what its content has in common with others."""

    client_id: str
    name: str
    cluster: float | None
    bands: bytes | None = None

    @property
    def marks(self) -> Iterator[object]:
        """What a copy has one of in common, the surest ones first."""
        yield self.client_id, self.name
        if self.cluster is not None:
            yield self.cluster
        bands = self.bands or b""
        for place in range(0, len(bands), BAND_BYTES):
            yield place, bands[place : place + BAND_BYTES]


def without_copies(identities: Sequence[Identity]) -> list[list[int]]:
    """Return the places of each document's copies, oldest documents first.

    Copies have the same name, are of one cluster or have a band in common. They may be right or
    wrong together, so that only one of them is evidence.

    >>> without_copies([Identity("b", "1", 0.1), Identity("b", "2", 0.2), Identity("b", "3", 0.1)])
    [[0, 2], [1]]
    """
    documents: list[list[int]] = []
    known: dict[object, list[int]] = {}
    for place, identity in enumerate(identities):
        marks = [*identity.marks]
        copies = next((known[mark] for mark in marks if mark in known), None)
        if copies is None:
            copies = []
            documents.append(copies)
        copies.append(place)
        for mark in marks:
            known.setdefault(mark, copies)
    return documents
