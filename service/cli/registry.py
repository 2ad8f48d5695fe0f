"""Commands for models, ``model add|list|activate|verify|explain``, and ``label add|list``."""

# ruff: noqa: PLC0415 - numpy and xgboost import slowly: only where needed

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, cast

import typer

from setwise.service.cli.assembly import backend
from setwise.service.cli.console import AsJson, Columns, described, print_items, print_json, say
from setwise.service.cli.explanation import explain
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.labels.notes import MOST_LABEL_NOTES

_MEMBERS = ("id", "version", "active", "summary", "created_at")
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
        typer.Option(help="With --external: file with every label of the other model, one a line."),
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
    from setwise.models.data.lines import read_names
    from setwise.models.storage.artifacts import save
    from setwise.models.training_external import start_external

    save(start_external(read_names(labels, "label")), folder / "model")
    return folder / "model"


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
    file: Annotated[Path, typer.Argument(help="File with one label a line; - for standard input.")],
    insist: Annotated[
        bool, typer.Option("--insist", help="Add labels although others are spelt almost alike.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add labels that people may give to documents."""
    from setwise.models.data.lines import read_text

    text = read_text(file)
    with backend() as opened:
        opened.registry.follow()
        outcome = opened.services.labels.add(SYSTEM, text, insist=insist)
    if as_json:
        print_json({"added": list(outcome.added), "present": list(outcome.present)})
        return
    present = f", {len(outcome.present):,} were there already" if outcome.present else ""
    say(f"{len(outcome.added):,} labels added{present}")


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
