"""``model explain``: what a model has learnt, and why it predicted sets."""

# ruff: noqa: PLC0415 - numpy and xgboost import slowly: only where needed

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.console import AsJson, CommandError, print_json, print_table, say

if TYPE_CHECKING:
    from setwise.models.evaluation.explanation import LabelRate, LearntModel, Term, WhySet
    from setwise.models.predictor import SetPredictor

# Components with a smaller share of a set's probability appear only in the JSON.
_LEAST_SHARE = 0.05


def explain(
    artifact: Annotated[
        Path, typer.Argument(metavar="ARTIFACT", help="Folder that `setwise train` wrote.")
    ],
    *,
    document: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="JSON Lines as for predict, or - for stdin: explain each document's label set.",
        ),
    ] = None,
    labels: Annotated[int, typer.Option(help="Labels to print for each component.", min=1)] = 5,
    terms: Annotated[
        int, typer.Option(help="Features to print for each component and label.", min=0)
    ] = 8,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown page.")] = False,
    as_json: AsJson = False,
) -> None:
    """Explain what a model has learnt, or why it chose a set."""
    if markdown and as_json:
        raise CommandError("--markdown and --json exclude each other; choose one")
    from setwise.models.evaluation.explanation import describe_model
    from setwise.models.storage.artifacts import load

    predictor = load(artifact)
    if document is None:
        learnt = describe_model(predictor, n_labels=labels, n_terms=terms)
        if as_json:
            print_json({"model_version": predictor.version, **_named_fields(learnt)})
        elif markdown:
            say("\n".join(_page(learnt)))
        else:
            _print_tables(learnt)
        return
    explained = _explained(predictor, document, labels, terms)
    if as_json:
        items = [{"id": id_, **_named_fields(why)} for id_, why in explained]
        print_json({"model_version": predictor.version, "items": items})
        return
    for id_, why in explained:
        say("\n".join(_story(id_, why, markdown=markdown)))


def _named_fields(record: "LearntModel | WhySet") -> dict[str, object]:
    """Return a dataclass as a dict, including its named tuples."""
    return {name: _named(value) for name, value in asdict(record).items()}


def _named(value: object) -> object:
    if hasattr(value, "_asdict"):
        return {name: _named(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _named(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_named(part) for part in value]
    return value


def _explained(
    predictor: "SetPredictor", name: str, n_labels: int, n_terms: int
) -> Iterator[tuple[str | None, "WhySet"]]:
    """Yield the id and explanation of each document."""
    from setwise.models.data.lines import read_lines
    from setwise.models.evaluation.answer_explanation import explain_answer
    from setwise.models.evaluation.explanation import explain_rows
    from setwise.service.cli.prediction_lines import LinePredictor

    reader = LinePredictor(predictor, name, top=1)
    for line in read_lines(name):
        documents, read = reader.read([line])
        for document in documents:
            if read.answers is not None:
                yield document.id, explain_answer(predictor, read, n_terms=n_terms)
                continue
            X = read.rows.to_matrix()
            (why,) = explain_rows(predictor, X, n_labels=n_labels, n_terms=n_terms)
            yield document.id, why


def _print_tables(learnt: "LearntModel") -> None:
    from rich.table import Table

    if learnt.components:
        table = Table("component", "share", "labels", "terms", box=None)
        for c in learnt.components:
            table.add_row(str(c.component), f"{c.share:.1%}", _rates(c.labels), _names(c.terms))
    else:
        table = Table("label", "terms", box=None)
        for label in learnt.labels:
            table.add_row(label.label, _names(label.terms))
    print_table(table)


def _page(learnt: "LearntModel") -> Iterator[str]:
    """Yield the lines of a Markdown page that describes a model."""
    if learnt.components:
        yield "| component | share | labels (rate inside) | terms |"
        yield "|---|---|---|---|"
        for c in learnt.components:
            cells = (str(c.component), f"{c.share:.1%}", _rates(c.labels), _names(c.terms))
            yield _row(cells)
        yield ""
    yield "| label | terms that favour it |"
    yield "|---|---|"
    for label in learnt.labels:
        yield _row((label.label, _names(label.terms)))


def _row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _story(id_: str | None, why: "WhySet", *, markdown: bool) -> Iterator[str]:
    """Yield lines that explain the label set of a document."""
    chosen = ", ".join(f"`{label}`" for label in why.labels) or "no label"
    title = f"{id_ or 'document'}: {chosen}, confidence {why.confidence:.2f}"
    yield f"### {title}\n" if markdown else title
    point = "-" if markdown else "  -"
    for reason in why.reasons:
        seen = f"; in the document: {_names(reason.terms)}" if reason.terms else ""
        yield f"{point} {reason.sentence}{seen}"
    if why.joint is not None and why.product is not None:
        yield (
            f"{point} the mixture gives the set probability {why.joint:.2f}; independent labels "
            f"with the same marginals would give {why.product:.2f}"
        )
    for part in why.components:
        if part.share < _LEAST_SHARE:
            break
        yield (
            f"{point} component {part.component} ({_rates(part.labels)}) has weight "
            f"{part.weight:.2f} and contributes {part.share:.0%} of the set's probability"
        )
    yield ""


def _rates(labels: "Sequence[LabelRate]") -> str:
    return ", ".join(f"{label.label} {label.rate:.0%}" for label in labels if label.rate > 0.0)


def _names(terms: "Sequence[Term]") -> str:
    return ", ".join(f"{term.name} {term.weight:+.1f}" for term in terms)
