"""Stored state of model parts, declared by field and checked.

A part lists its arrays, settings, names and inner parts in ``stored``. `StoredPart` writes them and
reads them back: every value has a type and a range, and lengths that share a name are equal. So a
part built from a file is one that its own ``fit`` could have left.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from inspect import signature
from operator import attrgetter
from types import UnionType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from setwise.models.storage.checks import (
    check_ragged,
    check_rises,
    checked_array,
    checked_names,
    checked_value,
    is_a,
    part_of,
    shown,
)
from setwise.models.storage.fields import (
    Stored,
    StoredArray,
    StoredNames,
    StoredParameters,
    StoredPiece,
    StoredPieces,
    StoredSeries,
    StoredSetting,
)

# Products of two stored numbers and a feature stay finite below these.
_LARGEST = {np.dtype(np.float32): 1e30, np.dtype(np.float64): 1e100}

Lengths = dict[str, int]


class Storable(Protocol):
    """A part with a stored state; `StoredPart` is the usual one."""

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and JSON settings for `from_state`."""

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], /, **lengths: int
    ) -> Self:
        """Rebuild the fitted part."""


class StoredPart:
    """Base of model parts that declare what they store.

    Examples
    --------
    >>> class Curve(StoredPart):
    ...     stored = (
    ...         StoredArray("x", "x_", np.float64, ("knots",)),
    ...         StoredArray("y", "y_", np.float64, ("knots",)),
    ...         StoredSetting("slope", "slope", float, low=0.0),
    ...     )
    >>> curve = Curve.from_state({"x": np.zeros(2), "y": np.ones(2)}, {"slope": 1})
    >>> curve.y_.tolist(), curve.get_state()[1]
    ([1.0, 1.0], {'slope': 1.0})
    >>> Curve.from_state({"x": np.zeros(2), "y": np.ones(3)}, {"slope": 1})
    Traceback (most recent call last):
    ...
    ValueError: array 'y' is float64 of shape (3,), not float64 of shape (2)
    >>> Curve.from_state({"x": np.zeros(2), "y": np.ones(2)}, {"slope": True})
    Traceback (most recent call last):
    ...
    ValueError: setting 'slope' is True; it must be a number
    """

    stored: ClassVar[tuple[Stored, ...]] = ()

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and JSON settings for `from_state`."""
        arrays: dict[str, NDArray[Any]] = {}
        settings: dict[str, Any] = {}
        for one in self.stored:
            if isinstance(one, StoredParameters):
                own = _parameters(self)
                settings |= {one.name: own} if one.name else own
                continue
            value = _fitted(self, one.attribute)
            match one:
                case StoredArray():
                    if value is not None:
                        arrays[one.name] = np.asarray(value, dtype=one.dtype)
                case StoredSetting():
                    settings[one.name] = list(value) if one.kind is list else value
                case StoredNames():
                    settings[one.name] = list(value)
                case StoredPiece() | StoredPieces() | StoredSeries():
                    inner, own = _state_within(one, value, settings)
                    arrays |= inner
                    settings |= own
        return arrays, settings

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], /, **lengths: int
    ) -> Self:
        """Rebuild the fitted part.

        Parameters
        ----------
        arrays, settings : mapping
        **lengths : int
            Lengths that the whole model prescribes, such as ``labels``.

        Raises
        ------
        ValueError
            If an array or a setting is missing, does not have the declared type, shape and range,
            or points outside another.
        """
        return cls.read(arrays, settings, dict(lengths))

    @classmethod
    def read(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], lengths: Lengths
    ) -> Self:
        """Do what `from_state` does, and add the lengths found."""
        return cls.restored(_read(cls, arrays, settings, lengths), lengths)

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # for parts that need lengths
        """Build the part from checked values by name, and pieces by attribute."""
        values = {
            one.attribute: found[_key(one)]
            for one in cls.stored
            if not isinstance(one, StoredParameters)
        }
        if is_dataclass(cls):
            fields = signature(cls).parameters
            return cls(**{name: value for name, value in values.items() if name in fields})
        part = cls(**found.get("parameters", {}))
        for attribute, value in values.items():
            setattr(part, attribute, value)
        return part


def _state_within(
    one: StoredPiece | StoredPieces | StoredSeries,
    value: Any,  # noqa: ANN401  # a part, or several
    settings: Mapping[str, Any],
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return arrays and settings of inner parts."""
    if isinstance(one, StoredPiece):
        arrays, own = ({}, None) if value is None else value.get_state()
        named = {f"{one.prefix}{key}": array for key, array in arrays.items()}
        return named, {one.name: own} if one.name else own
    states = [piece.get_state() for piece in value]
    stored = [own for _, own in states]
    if isinstance(one, StoredSeries):
        every = [
            {one.array(key, number): array for key, array in inner.items()}
            for number, (inner, _) in enumerate(states)
        ]
        return dict(ChainMap(*every)), {one.name: stored}
    named = {
        f"{name}.{key}": array
        for name, (inner, _) in zip(settings[one.order], states, strict=True)
        for key, array in inner.items()
    }
    return named, {one.name: dict(zip(settings[one.order], stored, strict=True))}


def _fitted(part: StoredPart, attribute: str) -> Any:  # noqa: ANN401  # any attribute
    try:
        return attrgetter(attribute)(part)
    except AttributeError as error:
        raise NotFittedError(f"{type(part).__name__} must be fitted before it is stored") from error


def _key(one: Stored) -> str:
    if isinstance(one, StoredPiece | StoredPieces | StoredSeries):
        return one.attribute
    return one.name


def _read(
    part: type[StoredPart],
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> dict[str, Any]:
    """Return the checked values of all fields; extend ``lengths``."""
    found = _read_fields(part, arrays, settings, lengths)
    for one in part.stored:
        if isinstance(one, StoredPiece):
            found[one.attribute] = _read_piece(one, arrays, settings, lengths)
        elif isinstance(one, StoredPieces):
            order = found[one.order]
            found[one.attribute] = _read_pieces(one, order, arrays, settings, lengths)
        elif isinstance(one, StoredSeries):
            found[one.attribute] = _read_series(one, arrays, settings, lengths)
    for one in part.stored:
        if isinstance(one, StoredArray) and found[one.name] is not None:
            _check_values(one, found, lengths)
    return found


def _read_fields(
    part: type[StoredPart],
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> dict[str, Any]:
    """Return the part's own fields; values of arrays are not checked yet."""
    found: dict[str, Any] = {}
    for one in part.stored:
        match one:
            case StoredParameters():
                own = _setting(settings, one.name) if one.name else settings
                found["parameters"] = _checked_parameters(part, own, one)
            case StoredSetting():
                found[one.name] = _checked_setting(settings, one)
                if one.length:
                    _agree(one.length, found[one.name], lengths)
            case StoredNames():
                found[one.name] = _checked_names(settings, one)
                if one.length:
                    _agree(one.length, len(found[one.name]), lengths)
            case StoredArray():
                found[one.name] = _shaped_array(arrays, one, lengths)
    return found


def _read_pieces(
    one: StoredPieces,
    order: Sequence[str],
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> list[Any]:
    own = checked_value(one.name, _setting(settings, one.name), dict)
    pieces = [
        StoredPiece(one.attribute, one.kinds[name], f"{name}.", name, one.shares) for name in order
    ]
    return [_read_piece(piece, arrays, own, lengths) for piece in pieces]


def _read_series(
    one: StoredSeries,
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> list[Any]:
    stored = checked_value(one.name, _setting(settings, one.name), list)
    pieces = []
    for number, own in enumerate(stored):
        prefix = f"{one.prefix}{number}_"
        alike = {f"{prefix}{name}": arrays[name] for name in one.alike if name in arrays}
        piece = StoredPiece(one.attribute, one.kind, prefix, one.name, one.shares)
        pieces.append(_read_piece(piece, {**arrays, **alike}, {one.name: own}, lengths))
    return pieces


def _read_piece(
    one: StoredPiece,
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> StoredPart | None:
    inner = part_of(arrays, one.prefix)
    own = _setting(settings, one.name) if one.name else settings
    if own is None and one.nullable:
        return None
    own = checked_value(one.name or "settings", own, dict)
    kind: type[StoredPart] = one.kind if isinstance(one.kind, type) else one.kind(inner, own)
    known = {name: lengths[ours] for name, ours in one.shares.items() if ours in lengths}
    piece = kind.read(inner, own, known)
    for name, ours in one.shares.items():
        if name in known:
            _agree(ours, known[name], lengths)
    return piece


def _agree(name: str, length: int, lengths: Lengths) -> None:
    if lengths.setdefault(name, length) != length:
        raise ValueError(f"it counts {length} {name}, not {lengths[name]}")


def _setting(settings: Mapping[str, Any], name: str) -> object:
    if name not in settings:
        raise ValueError(f"setting {name!r} is missing")
    return settings[name]


def _shaped_array(
    arrays: Mapping[str, NDArray[Any]], one: StoredArray, lengths: Lengths
) -> NDArray[Any] | None:
    """Return an array of the declared type and shape.

    Lengths that it is first to name are learnt.
    """
    if one.optional and one.name not in arrays:
        return None
    sides = [_Side.of(side) for side in one.shape]
    array = checked_array(
        arrays,
        one.name,
        one.dtype,
        tuple(side.length(lengths) for side in sides),
        finite=not one.infinite,
    )
    for side, length in zip(sides, array.shape, strict=True):
        side.learn(one.name, length, lengths)
    return array


class _Side(NamedTuple):
    """A side of a declared shape: a multiple plus a number."""

    name: str
    times: int
    more: int

    @classmethod
    def of(cls, text: str | int) -> Self:
        if isinstance(text, int):
            return cls("", 0, text)
        product, _, more = text.partition("+")
        name, _, times = product.partition("*")
        return cls(name, int(times or 1), int(more or 0))

    def length(self, lengths: Lengths) -> int | None:
        if not self.name:
            return self.more
        return self.times * lengths[self.name] + self.more if self.name in lengths else None

    def learn(self, array: str, length: int, lengths: Lengths) -> None:
        if self.name and self.name not in lengths:
            whole, rest = divmod(length - self.more, self.times)
            if whole < 0 or rest:
                raise ValueError(f"array {array!r} has {length} entries")
            lengths[self.name] = whole


def _check_values(one: StoredArray, found: Mapping[str, Any], lengths: Lengths) -> None:
    """Check an array's values alone and against other arrays."""
    array = found[one.name]
    if one.cuts:
        check_ragged(one.name, array, lengths[one.cuts], least=one.least)
    if one.rises:
        check_rises(one.name, found[one.rises], array)
    if array.size == 0 or one.cuts or one.infinite:
        return
    least, most = array.min(), array.max()
    if one.picks:
        if not (one.low or 0) <= least <= most < lengths[one.picks]:
            raise ValueError(f"array {one.name!r} names {one.picks} that do not exist")
        return
    limit = _LARGEST.get(array.dtype, np.inf)
    low = -limit if one.low is None else one.low
    high = limit if one.high is None else one.high
    if not low <= least <= most <= high:
        raise ValueError(
            f"array {one.name!r} has values from {least} to {most}, not {low} to {high}"
        )


def _checked_setting(settings: Mapping[str, Any], one: StoredSetting) -> Any:  # noqa: ANN401  # any JSON value
    value = _setting(settings, one.name)
    if value is None and one.nullable:
        return None
    return checked_value(one.name, value, one.kind, low=one.low, high=one.high, choices=one.choices)


def _checked_names(settings: Mapping[str, Any], one: StoredNames) -> list[str]:
    names = checked_names(one.name, _setting(settings, one.name), least=one.least)
    unknown = [name for name in names if name not in one.choices] if one.choices else []
    if unknown:
        raise ValueError(f"setting {one.name!r} names {shown(unknown[0])}, which is unknown")
    return names


def _parameters(part: Any) -> dict[str, Any]:  # noqa: ANN401  # an estimator
    """Return a part's constructor parameters for JSON."""
    stored: dict[str, Any] = part.get_params(deep=False)
    for name, value in stored.items():
        if name == "n_jobs" or isinstance(value, np.random.RandomState):
            stored[name] = None
        elif isinstance(value, np.ndarray | list | tuple):
            stored[name] = np.asarray(value, dtype=np.float64).tolist()
    return stored


def _checked_parameters(owner: type, stored: object, one: StoredParameters) -> dict[str, Any]:
    declared = signature(owner).parameters
    own: dict[str, Any] = checked_value("parameters", stored, dict)
    for name, value in own.items():
        if name not in declared:
            raise ValueError(f"parameter {shown(name)} is unknown")
        if not _suits(value, declared[name].annotation) or (name == "n_jobs" and value is not None):
            raise ValueError(f"parameter {name!r} is {shown(value)}, which it cannot be")
        low, high = one.ranges.get(name, (-np.inf, np.inf))
        if name in one.ranges and not low <= value <= high:
            raise ValueError(f"parameter {name!r} is {shown(value)}, not {low} to {high}")
    return own


def _suits(value: object, annotation: Any) -> bool:  # noqa: ANN401  # any annotation
    """Return whether a JSON value is of an annotated type."""
    if get_origin(annotation) in {Union, UnionType}:
        return any(_suits(value, one) for one in get_args(annotation))
    if get_origin(annotation) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(annotation))
    if get_origin(annotation) is np.ndarray:
        return isinstance(value, list) and all(_suits(one, float) for one in value)
    if annotation is None or annotation is type(None):
        return value is None
    return annotation in {bool, int, float, str} and is_a(value, annotation)
