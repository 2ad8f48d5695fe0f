"""Named tuples that are kept by column, since few of a batch's hundreds are ever asked for."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, overload

_Row = TypeVar("_Row", bound=NamedTuple)
_Value = TypeVar("_Value")


class Rows(Sequence[_Row], Generic[_Row]):
    """Named tuples of one kind, each of which is made when it is asked for.

    What is stored and sent of a batch are columns. To make objects of each document at each step,
    and take them apart again, took a tenth of a batch's CPU time.

    Parameters
    ----------
    kind : type
        Of the rows.
    columns : sequences
        For each field what the rows have in it, in order; and for any property of the kind, too,
        if it is known already.

    Raises
    ------
    ValueError
        If a field has no column, or the columns differ in length.

    Examples
    --------
    >>> class Place(NamedTuple):
    ...     x: int
    ...     y: int
    >>> places = Rows(Place, x=[1, 2], y=[3, 4])
    >>> places[1], places.column("y")
    (Place(x=2, y=4), [3, 4])
    """

    __slots__ = ("_columns", "_count", "kind")

    def __init__(self, kind: type[_Row], /, **columns: Sequence[Any]) -> None:  # Any: as the fields
        if not all(map(columns.__contains__, kind._fields)):
            missing = ", ".join(name for name in kind._fields if name not in columns)
            raise ValueError(f"rows of {kind.__name__} lack columns: {missing}")
        counts = set(map(len, columns.values()))
        if len(counts) > 1:
            raise ValueError(f"the columns of {kind.__name__} differ in length")
        self.kind = kind
        self._columns = columns
        (self._count,) = counts

    @classmethod
    def of(cls, kind: type[_Row], rows: Sequence[_Row]) -> "Rows[_Row]":
        """Return ``rows``, all of one kind, kept by column."""
        if isinstance(rows, Rows):
            return rows
        columns = map(list, zip(*rows, strict=True)) if rows else [[] for _ in kind._fields]
        return cls(kind, **dict(zip(kind._fields, columns, strict=True)))

    def column(self, name: str) -> Sequence[Any]:  # Any: as above
        """Return what each row has as its attribute ``name``."""
        found = self._columns.get(name)
        return [getattr(row, name) for row in self] if found is None else found

    def pick(self, places: Sequence[int]) -> "Rows[_Row]":
        """Return the rows at some places."""
        picked = {
            name: each.pick(places) if isinstance(each, Rows) else _Picked(each, places)
            for name, each in self._columns.items()
        }
        return Rows(self.kind, **picked)

    def _fields(self) -> list[Sequence[Any]]:  # Any: as above
        return [self._columns[name] for name in self.kind._fields]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> _Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[_Row]: ...
    def __getitem__(self, place: int | slice) -> _Row | list[_Row]:
        if isinstance(place, slice):
            return list(self.pick(range(len(self))[place]))
        return self.kind._make([each[place] for each in self._fields()])

    def __iter__(self) -> Iterator[_Row]:
        # As the kind itself does it, without a call of Python's for each.
        return map(partial(tuple.__new__, self.kind), zip(*self._fields(), strict=True))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Sequence) and [*self] == [*other]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr([*self])


class _Picked(Sequence[_Value], Generic[_Value]):
    """What a column has at some places; it is made when it is asked for, as the column does it."""

    __slots__ = ("_column", "_places")

    def __init__(self, column: Sequence[_Value], places: Sequence[int]) -> None:
        self._column = column
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> _Value: ...
    @overload
    def __getitem__(self, place: slice) -> "_Picked[_Value]": ...
    def __getitem__(self, place: int | slice) -> "_Value | _Picked[_Value]":
        if isinstance(place, slice):
            return _Picked(self._column, self._places[place])
        return self._column[self._places[place]]

    def __iter__(self) -> Iterator[_Value]:
        return map(self._column.__getitem__, self._places)
