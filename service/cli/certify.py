"""``audit-sample`` and ``certify``: draw answers to check, and prove a threshold from them."""

# ruff: noqa: PLC0415 - numpy and scipy import slowly: only where needed

import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from setwise.service.cli.console import AsJson, CommandError, check_share, note, print_json, say
from setwise.service.cli.learning import TextColumn
from setwise.service.cli.prediction_files import texts_by_id
from setwise.service.cli.targets import is_same, refuse_ending, refuse_inputs, written_whole
from setwise.service.domain.files import Format, header, lines

commands = typer.Typer()


@commands.command()
def certify(
    audits: Annotated[
        Path,
        typer.Argument(
            metavar="AUDITS",
            help="A .csv, .parquet or .jsonl file with a row for each checked answer, drawn at "
            "random, or the .json export of Label Studio, as audit-sample began them: columns "
            "confidence and right; if you have them, audit_probability (of being drawn), agreed "
            "(whoever checked accepted it), reread (an accepted answer was read again, and right "
            "says what that found) and cluster (the same for copies).",
        ),
    ],
    *,
    target: Annotated[float, typer.Option(help="Share of right answers among those sent.")],
    risk: Annotated[float, typer.Option(help="Probability that the target may be missed.")] = 0.1,
    reread_rate: Annotated[
        float | None,
        typer.Option(help="With reread: share of the accepted answers drawn to be read again."),
    ] = None,
    look: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help="Rows that an earlier attempt had; give it for each. All share the risk.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Also draw the thresholds that were tested."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove a threshold from a file of checked answers.

    The exit status is 0 with and without a certificate: read the first line, or `certified` with
    --json.
    """
    check_share("--target", target)
    check_share("--risk", risk, below_all=True)
    check_share("--reread-rate", reread_rate)
    looks = look or []
    if any(size <= before for before, size in pairwise([0, *looks])):
        raise CommandError(f"--look is {', '.join(map(str, looks))}; give rising numbers of rows")
    if plot is not None:
        refuse_inputs(plot, [audits])
        refuse_ending(plot, ".svg")
    from setwise.models.data.formats.checked_answers import read_checked_answers
    from setwise.models.guarantees.certify import certify

    checked = read_checked_answers(audits)
    n = len(checked.confidence)
    if looks and looks[0] > n:
        raise CommandError(f"--look is {looks[0]:,}, but {audits} has only {n:,} rows")
    if reread_rate is not None and checked.reread is None:
        raise CommandError(f"--reread-rate needs a column reread, which {audits} lacks")
    drawn = checked.audit_probability
    try:
        proof = certify(
            checked.confidence,
            checked.right,
            target=target,
            weights=None if drawn is None else 1.0 / drawn,
            clusters=checked.cluster,
            looks=looks or None,
            risk=risk,
            agreed=checked.agreed,
            reread=checked.reread,
            reread_rate=reread_rate,
        )
    except ValueError as error:
        raise ValueError(f"{audits}: {error}") from error
    if plot is not None:
        with written_whole(plot, [audits]) as file:
            file.write(proof.picture().svg)
    if as_json:
        print_json(proof.to_dict())
    else:
        say(str(proof))


class SampleFormat(StrEnum):
    """In what people check."""

    CSV = "csv"
    LABEL_STUDIO = "label-studio"


_IDS = ("document_id", "id")
_COLUMNS = ("id", "text", "labels", "right", "confidence", "audit_probability")


@commands.command("audit-sample")
def audit_sample(
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="A .csv, .parquet or .jsonl file with a row for each answer of any system: a "
            "column confidence, and id, text and labels if you have them; or predictions of "
            "Setwise.",
        ),
    ],
    *,
    n: Annotated[int, typer.Option("--n", help="Answers to draw.", min=1)],
    out: Annotated[Path, typer.Option(help="File to write, for people to fill in.")],
    format_: Annotated[
        SampleFormat,
        typer.Option("--format", help="A table with an empty column right, or tasks."),
    ] = SampleFormat.CSV,
    target: Annotated[
        float, typer.Option(help="Share of right answers that certify is to prove.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="Random seed of the draw.", min=0)] = 0,
    texts: Annotated[
        Path | None, typer.Option(help="The documents, if ANSWERS lacks their texts.")
    ] = None,
    text_column: TextColumn = None,
    texts_format: Annotated[
        str | None, typer.Option(help="Format of the documents; by default, as its name ends.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="File to write the labeling interface of Label Studio to."),
    ] = None,
) -> None:
    """Draw answers of any system to check.

    The probability of each draw is stated. Most are where sets may be sent: from the confidence at
    which the target is plausible, ten times as often as below. `certify` reads the file back once
    people have filled it in.
    """
    from setwise.models.data.formats.audit_tasks import CONFIG
    from setwise.models.guarantees.audit_sample import draw_audits

    check_share("--target", target)
    inputs = [answers, texts]
    refuse_inputs(out, inputs)
    refuse_ending(out, ".csv" if format_ is SampleFormat.CSV else ".json")
    if config is not None and is_same(config, out):
        raise CommandError(f"{config}: --out writes this file; name another --config")
    if config is not None:
        refuse_inputs(config, inputs)
    rows = list(_answers(answers))
    if not rows:
        raise CommandError(f"{answers}: no answer has a confidence; give one a row")
    sample = draw_audits([row["confidence"] for row in rows], n, target=target, random_state=seed)
    known = {} if texts is None else texts_by_id(texts, texts_format, text_column)
    drawn = [
        rows[row] | {"right": None, "audit_probability": chance}
        for row, chance in zip(sample.rows.tolist(), sample.probability.tolist(), strict=True)
    ]
    for row in drawn:
        row["text"] = row["text"] or known.get(row["id"])
    with written_whole(out, inputs) as file:
        if format_ is SampleFormat.CSV:
            file.buffer.write(header(Format.CSV, _COLUMNS))
            table = [{name: row[name] for name in _COLUMNS} for row in drawn]
            file.buffer.write(lines(Format.CSV, table, guarded=True))
        else:
            file.write(
                json.dumps(list(_tasks(answers, drawn)), ensure_ascii=False, indent=1) + "\n"
            )
    if config is not None:
        with written_whole(config, inputs) as file:
            file.write(CONFIG)
    above = sum(row["confidence"] >= sample.start for row in drawn)
    note(
        f"{len(drawn):,} of {len(rows):,} answers in {out}: {above:,} with a confidence of "
        f"{sample.start:.3g} or more, {len(drawn) - above:,} with less"
    )


def _answers(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each answer that has a confidence; say how many have none."""
    from setwise.models.data.formats.checked_answers import confidence_of
    from setwise.models.data.formats.tables import table_rows
    from setwise.models.data.lines import DataError

    without = position = 0
    for position, (number, row) in enumerate(table_rows(path), 1):
        if position == 1 and "confidence" not in row:
            fault = f"no column 'confidence' among {', '.join(map(repr, row))}"
            raise DataError(path, None, fault, "give how sure the system was, from 0 to 1")
        if _is_empty(row.get("confidence")):
            without += 1
            continue
        name = next((name for name in _IDS if not _is_empty(row.get(name))), None)
        id_ = position if name is None else row[name]
        if isinstance(id_, list | dict):
            raise DataError(path, number, f"{name!r} is {id_}", "give a text or a number")
        yield {
            "id": str(id_),
            "text": row.get("text"),
            "labels": row.get("labels", row.get("answer")),
            "confidence": confidence_of(path, number, row["confidence"]),
        }
    if without:
        note(f"setwise: warning: {without:,} answers have no confidence and are left out")


def _is_empty(cell: object) -> bool:
    return cell is None or cell == ""


def _tasks(path: Path, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from setwise.models.data.formats.audit_tasks import audit_task

    for row in rows:
        if not isinstance(row["text"], str):
            raise CommandError(f"{path}: no text of {row['id']!r}; name the documents (--texts)")
        yield audit_task(row, row["text"])
