"""Kinds of fields that a model part can store, see `setwise.models.storage.state`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from numpy.typing import DTypeLike

REQUIRED: Final[Any] = object()
"""Default of a setting without a default."""


class StoredArray(NamedTuple):
    """One stored array of a part.

    Attributes
    ----------
    name : str
        Name in the file.
    attribute : str
        Attribute of the part that holds it; dots lead into other objects.
    dtype : DTypeLike
    shape : tuple of str or int
        A name for each length, such as ``"knots"``, ``"labels+1"`` or ``"labels*2"``, or a number.
        The same name means the same length in all arrays of the part.
    cuts : str
        Name of the length that the array divides into consecutive rows, if any.
    least : int
        Smallest length of such a row.
    picks : str
        Name of the length that the values of the array index, if any.
    rises : str
        Name of the array in whose rows the values rise strictly, if any.
    low, high : float, optional
        Range of the values. By default indices start at 0, and numbers are finite and not huge.
    infinite : bool
        Whether values may be infinite: facts about a fit that no prediction uses.
    optional : bool
        Whether the array may be missing; it is None then.
    """

    name: str
    attribute: str
    dtype: DTypeLike
    shape: tuple[str | int, ...]
    cuts: str = ""
    least: int = 0
    picks: str = ""
    rises: str = ""
    low: float | None = None
    high: float | None = None
    infinite: bool = False
    optional: bool = False


class StoredSetting(NamedTuple):
    """One stored number, flag, text or JSON value of a part.

    Attributes
    ----------
    name, attribute : str
        As for `StoredArray`.
    kind : type
        ``bool``, ``int``, ``float``, ``str``, ``list`` or ``dict``. A flag is no number.
    low, high : float, optional
    choices : sequence
        The values allowed, if listed.
    length : str
        Name of the length that the setting states, if any.
    nullable : bool
        Whether it may be null.
    default : optional
        Used if the setting is missing.
    """

    name: str
    attribute: str
    kind: type
    low: float | None = None
    high: float | None = None
    choices: Sequence[object] = ()
    length: str = ""
    nullable: bool = False
    default: Any = REQUIRED


class StoredNames(NamedTuple):
    """A stored list of distinct names.

    Attributes
    ----------
    name, attribute : str
        As for `StoredArray`.
    length : str
        Name of their number, if any.
    least : int
        Smallest number of names.
    choices : collection of str
        The names allowed, if listed.
    default : optional
        Used if the setting is missing.
    """

    name: str
    attribute: str
    length: str = ""
    least: int = 1
    choices: Mapping[str, object] | Sequence[str] = ()
    default: Any = REQUIRED


class StoredParameters(NamedTuple):
    """The parameters of the constructor, which its annotations declare.

    The number of threads depends on the machine: it is stored as null.

    Attributes
    ----------
    name : str
        Name of the setting; if empty, the settings are the parameters.
    ranges : mapping from str to (low, high)
        Ranges of parameters that predictions use.
    retired : tuple of str
        Parameters of earlier releases, which did not change how a fitted part predicts; ignored.
    """

    name: str
    ranges: Mapping[str, tuple[float, float]] = {}
    retired: tuple[str, ...] = ()


class StoredPiece(NamedTuple):
    """A part inside the part.

    Attributes
    ----------
    attribute : str
    kind : type or callable
        Class of the inner part, or a function that returns it for arrays and settings.
    prefix : str
        Prefix of its arrays.
    name : str
        Name of its settings; if empty, they stand among those of the part.
    shares : mapping from str to str
        The names of its lengths that the part knows too, with the part's names for them.
    nullable : bool
        Whether it may be null.
    """

    attribute: str
    kind: Any  # a class or a function
    prefix: str = ""
    name: str = ""
    shares: Mapping[str, str] = {}
    nullable: bool = False


class StoredPieces(NamedTuple):
    """Several named parts inside the part.

    Arrays are prefixed by the names, followed by a dot.

    Attributes
    ----------
    attribute : str
        A list of them.
    kinds : mapping from str to type
        Their classes by name.
    name : str
        Name of their settings.
    order : str
        Name of the `StoredNames` that lists them.
    shares : mapping from str to str
        As for `StoredPiece`.
    """

    attribute: str
    kinds: Mapping[str, Any]
    name: str
    order: str
    shares: Mapping[str, str] = {}


class StoredSeries(NamedTuple):
    """Numbered parts of one class inside the part.

    Arrays are prefixed by ``prefix``, the number from 0 and an underscore.

    Attributes
    ----------
    attribute : str
        A sequence of them.
    kind : type
        Their class.
    prefix : str
    name : str
        Name of the list of their settings.
    alike : tuple of str
        Names of arrays that all have in common: stored once, without a prefix.
    shares : mapping from str to str
        As for `StoredPiece`.
    """

    attribute: str
    kind: Any
    prefix: str
    name: str
    alike: tuple[str, ...] = ()
    shares: Mapping[str, str] = {}

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
