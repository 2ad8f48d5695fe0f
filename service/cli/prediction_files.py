"""Files of predictions: JSON Lines, or a table of ids, labels and confidences."""

# ruff: noqa: PLC0415 - pyarrow is an extra

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from setwise.service.cli.console import CommandError
from setwise.service.domain.files import Format, header, lines

COLUMNS = ("id", "labels", "confidence", "known_features", "model_version", "calibrator_version")


def write_predictions(name: Path, file: BinaryIO, blocks: Iterable[str]) -> None:
    """Write blocks of JSON Lines in the format that a file's name ends in.

    ``name``: A ``.csv`` or ``.parquet`` file holds a table, any other JSON Lines.
    """
    if name.suffix == ".parquet":
        _write_parquet(file, blocks)
    elif name.suffix == ".csv":
        file.write(header(Format.CSV, COLUMNS))
        file.writelines(lines(Format.CSV, rows) for rows in _tables(blocks))
    else:
        file.writelines(block.encode() for block in blocks)


def _tables(blocks: Iterable[str]) -> Iterator[list[dict[str, object]]]:
    for block in blocks:
        found = map(json.loads, block.splitlines())
        yield [{name: prediction[name] for name in COLUMNS} for prediction in found]


def _write_parquet(file: BinaryIO, blocks: Iterable[str]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise CommandError("Parquet needs pyarrow; install setwise[parquet]") from error
    kinds = (
        pa.string(), pa.list_(pa.string()), pa.float64(), pa.int64(), pa.string(), pa.string()
    )  # fmt: skip
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    with parquet.ParquetWriter(file, schema) as writer:
        for rows in _tables(blocks):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
