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

from setwise.models.estimator import not_fitted
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
        for entry in self.stored:
            if isinstance(entry, StoredParameters):
                inner_settings = _parameters(self)
                settings |= {entry.name: inner_settings} if entry.name else inner_settings
                continue
            value = _fitted(self, entry.attribute)
            match entry:
                case StoredArray():
                    if value is not None:
                        arrays[entry.name] = np.asarray(value, dtype=entry.dtype)
                case StoredSetting():
                    settings[entry.name] = list(value) if entry.kind is list else value
                case StoredNames():
                    settings[entry.name] = list(value)
                case StoredPiece() | StoredPieces() | StoredSeries():
                    inner, inner_settings = _state_within(entry, value, settings)
                    arrays |= inner
                    settings |= inner_settings
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
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # for parts that need lengths
        """Build the part from checked values by name, and pieces by attribute."""
        values = {
            entry.attribute: fields[_key(entry)]
            for entry in cls.stored
            if not isinstance(entry, StoredParameters)
        }
        if is_dataclass(cls):
            names = signature(cls).parameters
            return cls(**{name: value for name, value in values.items() if name in names})
        part = cls(**fields.get("parameters", {}))
        for attribute, value in values.items():
            setattr(part, attribute, value)
        return part


def _state_within(
    entry: StoredPiece | StoredPieces | StoredSeries,
    value: Any,  # noqa: ANN401  # a part, or several
    settings: Mapping[str, Any],
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return arrays and settings of inner parts."""
    if isinstance(entry, StoredPiece):
        arrays, inner_settings = ({}, None) if value is None else value.get_state()
        named = {f"{entry.prefix}{key}": array for key, array in arrays.items()}
        return named, {entry.name: inner_settings} if entry.name else inner_settings
    states = [piece.get_state() for piece in value]
    stored = [inner_settings for _, inner_settings in states]
    if isinstance(entry, StoredSeries):
        every = [
            {entry.array(key, number): array for key, array in inner.items()}
            for number, (inner, _) in enumerate(states)
        ]
        return dict(ChainMap(*every)), {entry.name: stored}
    named = {
        f"{name}.{key}": array
        for name, (inner, _) in zip(settings[entry.order], states, strict=True)
        for key, array in inner.items()
    }
    return named, {entry.name: dict(zip(settings[entry.order], stored, strict=True))}


def _fitted(part: StoredPart, attribute: str) -> Any:  # noqa: ANN401  # any attribute
    try:
        return attrgetter(attribute)(part)
    except AttributeError as error:
        raise not_fitted(part) from error


def _key(entry: Stored) -> str:
    if isinstance(entry, StoredPiece | StoredPieces | StoredSeries):
        return entry.attribute
    return entry.name


def _read(
    part: type[StoredPart],
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> dict[str, Any]:
    """Return the checked values of all fields; extend ``lengths``."""
    fields = _read_fields(part, arrays, settings, lengths)
    for entry in part.stored:
        if isinstance(entry, StoredPiece):
            fields[entry.attribute] = _read_piece(entry, arrays, settings, lengths)
        elif isinstance(entry, StoredPieces):
            order = fields[entry.order]
            fields[entry.attribute] = _read_pieces(entry, order, arrays, settings, lengths)
        elif isinstance(entry, StoredSeries):
            fields[entry.attribute] = _read_series(entry, arrays, settings, lengths)
    for entry in part.stored:
        if isinstance(entry, StoredArray) and fields[entry.name] is not None:
            _check_values(entry, fields, lengths)
    return fields


def _read_fields(
    part: type[StoredPart],
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> dict[str, Any]:
    """Return the part's own fields; values of arrays are not checked yet."""
    fields: dict[str, Any] = {}
    for entry in part.stored:
        match entry:
            case StoredParameters():
                stored = _setting(settings, entry.name) if entry.name else settings
                fields["parameters"] = _checked_parameters(part, stored, entry)
            case StoredSetting():
                fields[entry.name] = _checked_setting(settings, entry)
                if entry.length:
                    _agree(entry.length, fields[entry.name], lengths)
            case StoredNames():
                fields[entry.name] = _checked_names(settings, entry)
                if entry.length:
                    _agree(entry.length, len(fields[entry.name]), lengths)
            case StoredArray():
                fields[entry.name] = _shaped_array(arrays, entry, lengths)
    return fields


def _read_pieces(
    entry: StoredPieces,
    order: Sequence[str],
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> list[Any]:
    stored = checked_value(entry.name, _setting(settings, entry.name), dict)
    pieces = [
        StoredPiece(entry.attribute, entry.kinds[name], f"{name}.", name, entry.shares)
        for name in order
    ]
    return [_read_piece(piece, arrays, stored, lengths) for piece in pieces]


def _read_series(
    entry: StoredSeries,
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> list[Any]:
    stored = checked_value(entry.name, _setting(settings, entry.name), list)
    pieces = []
    for number, inner in enumerate(stored):
        prefix = f"{entry.prefix}{number}_"
        alike = {f"{prefix}{name}": arrays[name] for name in entry.alike if name in arrays}
        piece = StoredPiece(entry.attribute, entry.kind, prefix, entry.name, entry.shares)
        pieces.append(_read_piece(piece, {**arrays, **alike}, {entry.name: inner}, lengths))
    return pieces


def _read_piece(
    entry: StoredPiece,
    arrays: Mapping[str, NDArray[Any]],
    settings: Mapping[str, Any],
    lengths: Lengths,
) -> StoredPart | None:
    inner = part_of(arrays, entry.prefix)
    stored = _setting(settings, entry.name) if entry.name else settings
    if stored is None and entry.nullable:
        return None
    stored = checked_value(entry.name or "settings", stored, dict)
    kind: type[StoredPart] = (
        entry.kind if isinstance(entry.kind, type) else entry.kind(inner, stored)
    )
    inner_lengths = {name: lengths[ours] for name, ours in entry.shares.items() if ours in lengths}
    piece = kind.read(inner, stored, inner_lengths)
    for name, ours in entry.shares.items():
        if name in inner_lengths:
            _agree(ours, inner_lengths[name], lengths)
    return piece


def _agree(name: str, length: int, lengths: Lengths) -> None:
    if lengths.setdefault(name, length) != length:
        raise ValueError(f"it counts {length} {name}, not {lengths[name]}")


def _setting(settings: Mapping[str, Any], name: str) -> object:
    if name not in settings:
        raise ValueError(f"setting {name!r} is missing")
    return settings[name]


def _shaped_array(
    arrays: Mapping[str, NDArray[Any]], entry: StoredArray, lengths: Lengths
) -> NDArray[Any] | None:
    """Return an array of the declared type and shape.

    Lengths that it is first to name are learnt.
    """
    if entry.optional and entry.name not in arrays:
        return None
    sides = [_Side.of(side) for side in entry.shape]
    array = checked_array(
        arrays,
        entry.name,
        entry.dtype,
        tuple(side.length(lengths) for side in sides),
        finite=not entry.infinite,
    )
    for side, length in zip(sides, array.shape, strict=True):
        side.learn(entry.name, length, lengths)
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


def _check_values(entry: StoredArray, fields: Mapping[str, Any], lengths: Lengths) -> None:
    """Check an array's values alone and against other arrays."""
    array = fields[entry.name]
    if entry.cuts:
        check_ragged(entry.name, array, lengths[entry.cuts], least=entry.least)
    if entry.rises:
        check_rises(entry.name, fields[entry.rises], array)
    if array.size == 0 or entry.cuts or entry.infinite:
        return
    least, most = array.min(), array.max()
    if entry.picks:
        if not (entry.low or 0) <= least <= most < lengths[entry.picks]:
            raise ValueError(f"array {entry.name!r} names {entry.picks} that do not exist")
        return
    limit = _LARGEST.get(array.dtype, np.inf)
    low = -limit if entry.low is None else entry.low
    high = limit if entry.high is None else entry.high
    if not low <= least <= most <= high:
        raise ValueError(
            f"array {entry.name!r} has values from {least} to {most}, not {low} to {high}"
        )


def _checked_setting(settings: Mapping[str, Any], entry: StoredSetting) -> Any:  # noqa: ANN401  # any JSON value
    value = _setting(settings, entry.name)
    if value is None and entry.nullable:
        return None
    return checked_value(
        entry.name, value, entry.kind, low=entry.low, high=entry.high, choices=entry.choices
    )


def _checked_names(settings: Mapping[str, Any], entry: StoredNames) -> list[str]:
    names = checked_names(entry.name, _setting(settings, entry.name), least=entry.least)
    unknown = [name for name in names if name not in entry.choices] if entry.choices else []
    if unknown:
        raise ValueError(f"setting {entry.name!r} names {shown(unknown[0])}, which is unknown")
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


def _checked_parameters(owner: type, stored: object, entry: StoredParameters) -> dict[str, Any]:
    declared = signature(owner).parameters
    parameters: dict[str, Any] = checked_value("parameters", stored, dict)
    for name, value in parameters.items():
        if name not in declared:
            raise ValueError(f"parameter {shown(name)} is unknown")
        if not _suits(value, declared[name].annotation) or (name == "n_jobs" and value is not None):
            raise ValueError(f"parameter {name!r} is {shown(value)}, which it cannot be")
        low, high = entry.ranges.get(name, (-np.inf, np.inf))
        if name in entry.ranges and not low <= value <= high:
            raise ValueError(f"parameter {name!r} is {shown(value)}, not {low} to {high}")
    return parameters


def _suits(value: object, annotation: Any) -> bool:  # noqa: ANN401  # any annotation
    """Return whether a JSON value is of an annotated type."""
    if get_origin(annotation) in {Union, UnionType}:
        return any(_suits(value, choice) for choice in get_args(annotation))
    if get_origin(annotation) is Literal:
        return any(
            type(value) is type(choice) and value == choice for choice in get_args(annotation)
        )
    if get_origin(annotation) in {np.ndarray, NDArray}:  # the second from Python 3.12 on
        return isinstance(value, list) and all(_suits(choice, float) for choice in value)
    if annotation is None or annotation is type(None):
        return value is None
    return annotation in {bool, int, float, str} and is_a(value, annotation)
