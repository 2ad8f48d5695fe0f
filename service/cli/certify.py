"""``certify``: prove a threshold from a file of checked answers."""

# ruff: noqa: PLC0415 - numpy and scipy import slowly: only where needed

from pathlib import Path
from typing import Annotated

import typer

from setwise.service.cli.console import AsJson, print_json, say, written_whole

commands = typer.Typer()


@commands.command()
def certify(
    audits: Annotated[
        Path,
        typer.Argument(
            metavar="AUDITS",
            help="A .csv, .parquet or .jsonl file with a row for each checked answer, drawn at "
            "random: columns confidence and right; if you have them, audit_probability (of being "
            "drawn), agreed (whoever checked accepted it) and reread (an accepted answer was read "
            "again, and right says what that found).",
        ),
    ],
    *,
    target: Annotated[float, typer.Option(help="Share of right answers among those sent.")],
    risk: Annotated[float, typer.Option(help="Probability that the target may be missed.")] = 0.1,
    reread_rate: Annotated[
        float | None,
        typer.Option(help="With reread: share of the accepted answers drawn to be read again."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Also draw the thresholds that were tested."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove a threshold from a file of checked answers."""
    from setwise.models.data.formats.checked_answers import read_checked_answers
    from setwise.models.guarantees.certify import certify

    checked = read_checked_answers(audits)
    drawn = checked.audit_probability
    try:
        proof = certify(
            checked.confidence,
            checked.right,
            target=target,
            risk=risk,
            weights=None if drawn is None else 1.0 / drawn,
            agreed=checked.agreed,
            reread=checked.reread,
            reread_rate=reread_rate,
        )
    except ValueError as error:
        raise ValueError(f"{audits}: {error}") from error
    if plot is not None:
        with written_whole(plot) as file:
            file.write(proof.picture().svg)
    if as_json:
        print_json(proof.to_dict())
    else:
        say(str(proof))
