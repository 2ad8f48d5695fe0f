"""Commands for models, ``model add|list|activate|verify|explain``, and ``label add|list``."""

# ruff: noqa: PLC0415 - numpy and xgboost import slowly: only where needed

from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, cast

import typer

from setwise.service.cli.assembly import backend
from setwise.service.cli.console import AsJson, Columns, described, print_items, print_json, say
from setwise.service.cli.explanation import explain
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES
from setwise.spelling import spelled

_MEMBERS = ("id", "version", "active", "summary", "created_at")
_LABEL_COLUMNS = frozenset({"label", "labels"})
_LABEL_MEMBERS = ("label", "name", "state", "in_model")

commands = typer.Typer(help="Add, list, activate, verify and explain models.")
commands.command()(explain)
labels = typer.Typer(help="Add and list the labels of a project, with or without a model.")

Artifact = Annotated[Path, typer.Argument(help="Folder that `setwise train` wrote.")]


@commands.command()
def add(
    artifact: Annotated[
        Path | None, typer.Argument(help="Folder that `setwise train` wrote.")
    ] = None,
    external: Annotated[
        bool,
        typer.Option(
            "--external",
            help="Start a model that reads another model's answers, without any history. It sends "
            "nothing until reviews have taught it.",
        ),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="With --external: file with every label of the other model, as for `label add`."
        ),
    ] = None,
    activate: Annotated[bool, typer.Option("--activate", help="Activate it at once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register a copy of a model, or start an external one."""
    if (artifact is None) is not external or (labels is not None) is not external:
        raise typer.BadParameter("name an artifact, or give --external --labels FILE, not both")
    with backend() as opened, ExitStack() as stack:
        if external:
            artifact = _started(
                cast("Path", labels), Path(stack.enter_context(TemporaryDirectory()))
            )
        model = opened.services.models.add(SYSTEM, str(artifact))
        if activate:
            model = opened.services.models.activate(SYSTEM, model.id)
    if as_json:
        print_json(described(model, _MEMBERS))
    else:
        say(f"{model.id}  version {model.version}" + (", active" if model.active else ""))


def _started(labels: Path, folder: Path) -> Path:
    """Write an external model of these labels; return its folder."""
    from setwise.models.storage.artifacts import save
    from setwise.models.training_external import start_external

    save(start_external(_names(labels)), folder / "model")
    return folder / "model"


def _names(file: Path) -> list[str]:
    from setwise.models.data.lines import DataError, read_names
    from setwise.service.domain.labels.lists import unlike_a_label

    if _is_table(file):
        return [label for label in map(spelled, _listed(file).splitlines()) if label]
    names = read_names(file, "label")
    for number, name in enumerate(names, 1):
        if looks := unlike_a_label(name):
            what, _, cure = looks.partition("; ")
            raise DataError(file, number, f"{name[:60]!r} looks like {what}", cure)
    return names


@commands.command(name="list")
def list_models(as_json: AsJson = False) -> None:
    """List the registered models, newest first."""
    with backend() as opened:
        models = opened.services.models.page(SYSTEM)
    columns: Columns = {
        "id": "id",
        "version": "version",
        "active": lambda model: "yes" if model.active else "",
        "kind": lambda model: str(model.summary.get("kind", "")),
        "labels": lambda model: str(model.summary.get("n_labels", "")),
        "registered": "created_at",
    }
    print_items(models, _MEMBERS, columns, as_json=as_json)


@commands.command()
def activate(
    model_id: Annotated[str, typer.Argument(help="Id that `setwise model list` shows.")],
) -> None:
    """Activate a model; running servers follow within seconds."""
    with backend() as opened:
        model = opened.services.models.activate(SYSTEM, model_id)
    say(f"{model.id}  version {model.version}, active")


@commands.command()
def verify(artifact: Artifact) -> None:
    """Verify the files of a model, without a database."""
    from setwise.models.storage.artifacts import load

    predictor = load(artifact)
    say(
        f"sound: version {predictor.version}, calibrator {predictor.calibrator_version}, "
        f"{len(predictor.label_names)} labels, reads {predictor.kind}"
    )


@labels.command(name="add")
def add_labels(
    file: Annotated[
        Path,
        typer.Argument(
            help="File with one label a line and nothing else, - for standard input; or a .csv, "
            ".tsv, .parquet or .jsonl file with a column label."
        ),
    ],
    insist: Annotated[
        bool,
        typer.Option(
            "--insist",
            help="Add labels although others are spelt almost alike, or they look like titles of "
            "columns.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add labels that people may give to documents."""
    text = _listed(file)
    with backend() as opened:
        opened.registry.follow()
        outcome = opened.services.labels.add(SYSTEM, text, insist=insist)
    if as_json:
        print_json({"added": list(outcome.added), "present": list(outcome.present)})
        return
    present = f", {len(outcome.present):,} were there already" if outcome.present else ""
    say(f"{len(outcome.added):,} labels added{present}")


def _is_table(file: Path) -> bool:
    from setwise.models.data.formats.layout import TABLE_FORMATS, FileLayout
    from setwise.models.data.lines import STDIN

    if str(file) == STDIN:
        return False
    return FileLayout().format_of(file, "text") in {*TABLE_FORMATS, "jsonl"}


def _listed(file: Path) -> str:
    """Return the labels of a file, each on its line; those of a table stand in a column."""
    from setwise.models.data.formats.tables import table_rows
    from setwise.models.data.lines import DataError, read_text

    if not _is_table(file):
        return read_text(file)
    cure = "name it so in the first line, or give one label a line in a .txt file"
    lines: list[str] = []
    try:
        numbered = list(table_rows(file))
    except DataError:
        # A list without a first line of titles can be a table that nothing fits.
        if file.suffix.lower() in {".csv", ".tsv"} and "label" not in _beginning(file).casefold():
            raise DataError(file, None, "there is no column 'label'", cure) from None
        raise
    if not numbered:
        raise DataError(file, None, "there is no row below the titles", cure)
    for number, row in numbered:
        column = next((name for name in row if name.casefold() in _LABEL_COLUMNS), None)
        if column is None:
            fault = f"there is no column 'label' among {', '.join(map(repr, row))}"
            raise DataError(file, None, fault, cure)
        lines += [""] * (number - 1 - len(lines))
        lines.append(" ".join(str(row[column] or "").split()))
    return "\n".join(lines)


def _beginning(file: Path) -> str:
    from setwise.models.data.lines import decode, read_lines

    return "".join(decode(file, number, line) for number, line in islice(read_lines(file), 2))


@labels.command(name="list")
def list_labels(as_json: AsJson = False) -> None:
    """List the labels that people may give, those of the model first."""
    with backend() as opened:
        opened.registry.follow()
        matches = opened.services.labels.search(SYSTEM, limit=MOST_LABEL_NOTES).items
    columns: Columns = {
        "label": "label",
        "name": "name",
        "state": "state",
        "in model": lambda label: "yes" if label.in_model else "",
    }
    print_items(matches, _LABEL_MEMBERS, columns, as_json=as_json)
