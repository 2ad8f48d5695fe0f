"""Kinds of fields that a model part can store, see `setwise.models.storage.state`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike


class StoredArray(NamedTuple):
    """One stored array of a part."""

    name: str  # name in the file
    attribute: str  # attribute of the part that holds it; dots lead into other objects
    dtype: DTypeLike
    # A name for each length, such as ``"knots"``, ``"labels+1"`` or ``"labels*2"``, or a number.
    # The same name means the same length in all arrays of the part.
    shape: tuple[str | int, ...]
    cuts: str = ""  # name of the length that the array divides into consecutive rows, if any
    least: int = 0  # smallest length of such a row
    picks: str = ""  # name of the length that the values of the array index, if any
    rises: str = ""  # name of the array in whose rows the values rise strictly, if any
    # low and high: range of the values. By default indices start at 0, and numbers are finite and
    # not huge.
    low: float | None = None
    high: float | None = None
    # Whether values may be infinite: facts about a fit that no prediction uses.
    infinite: bool = False
    optional: bool = False  # whether the array may be missing; it is None then


def stored_ragged(  # noqa: PLR0917  # names of arrays, then of attributes and lengths
    bounds: str,
    entries: str,
    attribute: str,
    picked: str,
    rows: str,
    picks: str = "labels",
    count: str = "entries",
) -> tuple[StoredArray, StoredArray]:
    """Return the fields of rows of rising indices, such as label sets.

    Parameters
    ----------
    bounds, entries : str
        Names of the arrays of bounds and of indices.
    attribute, picked : str
        Attribute with ``indptr``, and its attribute with the indices.
    rows, picks, count : str
        Names of the number of rows, of what they pick, and of all entries.
    """
    return (
        StoredArray(bounds, f"{attribute}.indptr", np.int64, (f"{rows}+1",), cuts=count),
        StoredArray(
            entries, f"{attribute}.{picked}", np.int32, (count,), picks=picks, rises=bounds
        ),
    )


class StoredSetting(NamedTuple):
    """One stored number, flag, text or JSON value of a part."""

    # name and attribute: as for `StoredArray`.
    name: str
    attribute: str
    kind: type  # ``bool``, ``int``, ``float``, ``str``, ``list`` or ``dict``. A flag is no number.
    low: float | None = None
    high: float | None = None
    choices: Sequence[object] = ()  # the values allowed, if listed
    length: str = ""  # name of the length that the setting states, if any
    nullable: bool = False  # whether it may be null


class StoredNames(NamedTuple):
    """A stored list of distinct names."""

    # name and attribute: as for `StoredArray`.
    name: str
    attribute: str
    length: str = ""  # name of their number, if any
    least: int = 1  # smallest number of names
    choices: Mapping[str, object] | Sequence[str] = ()  # the names allowed, if listed


class StoredParameters(NamedTuple):
    """The parameters of the constructor, which its annotations declare.

    The number of threads depends on the machine: it is stored as null.
    """

    name: str  # name of the setting; if empty, the settings are the parameters
    ranges: Mapping[str, tuple[float, float]] = {}  # ranges of parameters that predictions use


class StoredPiece(NamedTuple):
    """A part inside the part."""

    attribute: str
    # Class of the inner part, or a function that returns it for arrays and settings.
    kind: Any
    prefix: str = ""  # prefix of its arrays
    name: str = ""  # name of its settings; if empty, they stand among those of the part
    # The names of its lengths that the part knows too, with the part's names for them.
    shares: Mapping[str, str] = {}
    nullable: bool = False  # whether it may be null


class StoredPieces(NamedTuple):
    """Several named parts inside the part.

    Arrays are prefixed by the names, followed by a dot.
    """

    attribute: str  # a list of them
    kinds: Mapping[str, Any]  # their classes by name
    name: str  # name of their settings
    order: str  # name of the `StoredNames` that lists them
    shares: Mapping[str, str] = {}  # as for `StoredPiece`


class StoredSeries(NamedTuple):
    """Numbered parts of one class inside the part.

    Arrays are prefixed by ``prefix``, the number from 0 and an underscore.
    """

    attribute: str  # a sequence of them
    kind: Any  # their class
    prefix: str
    name: str  # name of the list of their settings
    # Names of arrays that all have in common: stored once, without a prefix.
    alike: tuple[str, ...] = ()
    shares: Mapping[str, str] = {}  # as for `StoredPiece`

    def array(self, name: str, number: int) -> str:
        """Return the name under which an array of one part is stored."""
        return name if name in self.alike else f"{self.prefix}{number}_{name}"


Stored = (
    StoredArray
    | StoredSetting
    | StoredNames
    | StoredParameters
    | StoredPiece
    | StoredPieces
    | StoredSeries
)
