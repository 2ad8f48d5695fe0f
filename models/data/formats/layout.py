"""The format of a file, and which of its columns hold what."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Self, get_args

from setwise.models.data.lines import STDIN, DataError, is_packed, read_lines
from setwise.spelling import spelled

Format = Literal[
    "jsonl", "huggingface", "csv", "parquet", "label-studio", "text", "svm", "xc", "arff", "npz"
]

FORMATS: tuple[Format, ...] = get_args(Format)
VECTOR_FORMATS: tuple[Format, ...] = ("svm", "xc", "arff", "npz")
TABLE_FORMATS: tuple[Format, ...] = ("huggingface", "csv", "parquet")

SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonlines": "jsonl",
    ".json": "jsonl",
    ".svm": "svm",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".xc.txt": "xc",
    ".arff": "arff",
    ".npz": "npz",
}
"""How a file's name ends, before ``.gz`` and in small letters, in each format.

A ``.json`` file with a list holds tasks of Label Studio.
"""


@dataclass(frozen=True)
class FileLayout:
    """How to read a file that another tool wrote.

    Attributes
    ----------
    format : str, optional
        One of `FORMATS`; by default the file's suffix says it, and JSON Lines are in Setwise's own
        form unless a column is named.
    text_column : str
        The column of the documents.
    labels_column : str, optional
        The column that holds each document's labels, "labels" by default. Without it, each other
        column is a label and holds 0 or 1.
    label_columns : tuple of str
        Columns that are labels and hold 0 or 1; other columns are not read.
    label_separator : str, optional
        Separates labels in a cell that is a string. By default ``;``, and a file in which another
        sign seems to separate them is refused.
    least_documents : int
        Of the service's export of annotations: documents with a label that fewer of them have, and
        that no model has predicted, are left out.
    """

    format: Format | None = None
    text_column: str = "text"
    labels_column: str | None = None
    label_columns: tuple[str, ...] = ()
    label_separator: str | None = None
    least_documents: int = 1

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise ValueError(
                f"unknown format {self.format!r}; the formats are {', '.join(FORMATS)}"
            )
        if self.label_separator is not None and not self.label_separator:
            raise ValueError("the separator of labels is empty; give a character such as ';'")
        if self.labels_column is not None and self.label_columns:
            raise ValueError("labels are either in one column or in one column each; name one")
        if isinstance(self.label_columns, str):
            raise TypeError(f"label_columns is a text; give a tuple: ({self.label_columns!r},)")
        object.__setattr__(self, "text_column", spelled(self.text_column))
        object.__setattr__(self, "label_columns", tuple(map(spelled, self.label_columns)))
        if self.labels_column is not None:
            object.__setattr__(self, "labels_column", spelled(self.labels_column))

    def as_json(self) -> dict[str, object]:
        """Return what differs from the defaults, for `from_json`."""
        held = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in held.items()
            if value != getattr(FileLayout, name)
        }

    @classmethod
    def from_json(cls, stored: object) -> Self:
        """Return the layout that `as_json` returned; the default for anything else."""
        members = dict(stored) if isinstance(stored, Mapping) else {}
        try:
            return cls(**{**members, "label_columns": tuple(members.get("label_columns", ()))})
        except (TypeError, ValueError, AttributeError):
            return cls()

    @property
    def names_columns(self) -> bool:
        """Whether it says where text or labels are."""
        columns = (self.text_column, self.labels_column, self.label_columns)
        return columns != (FileLayout.text_column, None, ())

    def format_of(self, file: str | Path, default: Format | None = None) -> Format:
        """Return the format of a file.

        Parameters
        ----------
        file : str or Path
            The file, or ``-`` for standard input.
        default : str, optional
            The format if neither the layout nor the file's name says it.

        Raises
        ------
        DataError
            If nothing says it.
        """
        if self.format is not None:
            return self.format
        name = Path(file).name.lower().removesuffix(".gz")
        format_name = "jsonl" if str(file) == STDIN else default
        if name.endswith(".txt"):
            format_name = "text"
        for suffix, kind in SUFFIXES.items():
            if name.endswith(suffix):
                is_list = suffix == ".json" and _holds_list(file)
                format_name = "label-studio" if is_list else kind
        if is_packed(file):
            raise DataError(
                file, None, "this is an archive or a spreadsheet", "unpack it, or save it as CSV"
            )
        if format_name is None:
            raise DataError(
                file,
                None,
                "unknown kind of file",
                f"end its name in {', '.join(SUFFIXES)}, or name its --format",
            )
        return "huggingface" if format_name == "jsonl" and self.names_columns else format_name


def _holds_list(file: str | Path) -> bool:
    lines = (line.strip() for _, line in read_lines(file))
    return next(filter(None, lines), b"").startswith(b"[")
