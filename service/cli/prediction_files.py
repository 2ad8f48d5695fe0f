"""Files of predictions: JSON Lines, tables, and tasks of Label Studio."""

# ruff: noqa: PLC0415 - pyarrow is an extra, and numpy imports slowly

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer

from setwise.service.cli.console import CommandError, note
from setwise.service.cli.learning import FormatName, TextColumn, layout_of
from setwise.service.cli.targets import is_same, refuse_inputs, seekable, written_whole
from setwise.service.domain.files import Format, header, lines

commands = typer.Typer()

COLUMNS = ("id", "labels", "confidence", "known_features", "model_version", "calibrator_version")
ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")
_BLOCKS_A_GROUP = 32  # readers are slow on files of many small groups of rows


def write_predictions(
    name: Path, file: BinaryIO, blocks: Iterable[bytes], *, guarded: bool = False
) -> None:
    """Write blocks of JSON Lines in the format that a file's name ends in.

    ``name``: A ``.csv`` or ``.parquet`` file holds a table, any other JSON Lines.
    ``guarded``: Whether a CSV file is for spreadsheets, which would run some ids as formulas.
    """
    if name.suffix.lower() == ".parquet":
        _write_parquet(file, blocks)
    elif name.suffix.lower() == ".csv":
        file.write(header(Format.CSV, COLUMNS))
        tables = _tables(blocks)
        file.writelines(lines(Format.CSV, rows, guarded=guarded) for rows in tables)
    else:
        file.writelines(blocks)


def _tables(blocks: Iterable[bytes]) -> Iterator[list[dict[str, object]]]:
    for block in blocks:
        rows = map(orjson.loads, block.splitlines())
        yield [{name: prediction[name] for name in COLUMNS} for prediction in rows]


def _write_parquet(file: BinaryIO, blocks: Iterable[bytes]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise CommandError("Parquet needs pyarrow; install setwise[parquet]") from error
    kinds = (
        pa.string(), pa.list_(pa.string()), pa.float64(), pa.int64(), pa.string(), pa.string()
    )  # fmt: skip
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    with seekable(file) as whole, parquet.ParquetWriter(whole, schema) as writer:
        tables = _tables(blocks)
        while group := list(islice(tables, _BLOCKS_A_GROUP)):
            rows = list(chain.from_iterable(group))
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def texts_by_id(path: Path, format_: str | None, text_column: str | None) -> dict[str, str]:
    """Return the texts of a file of documents by id."""
    from setwise.models.data.formats.reading import document_lines

    documents = (
        json.loads(line) for _, line in document_lines(path, layout_of(format_, text_column))
    )
    return {str(document.get("id")): document.get("text") for document in documents}


@commands.command("label-studio")
def label_studio(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="JSON Lines of `setwise predict`, or exported predictions with content=true.",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="JSON file of tasks to write, for Label Studio.")],
    texts: Annotated[
        Path | None,
        typer.Option(help="The documents that were predicted, if PREDICTIONS lacks their texts."),
    ] = None,
    text_column: TextColumn = None,
    format_: FormatName = None,
    review: Annotated[
        bool, typer.Option("--review", help="Only predictions that a person is to review.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="File to write the project's labeling interface to, with these labels."),
    ] = None,
) -> None:
    """Turn predictions into Label Studio tasks that show them."""
    from setwise.models.data.formats.label_studio import labeling_config, predicted_tasks

    known = {} if texts is None else texts_by_id(texts, format_, text_column)
    labels: set[str] = set()
    n = 0
    inputs = [predictions, texts]
    if config is not None and is_same(config, out):
        raise CommandError(f"{config}: --out writes this file; name another --config")
    if config is not None:
        refuse_inputs(config, inputs)
    with written_whole(out, inputs) as file:
        for task, named in predicted_tasks(predictions, known, review=review):
            file.write(("[" if n == 0 else ",\n") + json.dumps(task, ensure_ascii=False))
            labels |= named
            n += 1
        file.write("]\n" if n else "[]\n")
    if config is not None:
        with written_whole(config, inputs) as file:
            file.write(labeling_config(sorted(labels)))
    note(f"{n} tasks in {out}")
