"""Commands for models: ``model add|list|activate`` in the service, ``verify|explain`` on disk."""

# ruff: noqa: PLC0415 - numpy and xgboost import slowly: only where needed

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import application
from setwise.service.cli.console import print_json, print_table, say
from setwise.service.cli.explanation import explain

if TYPE_CHECKING:
    from setwise.service.domain.models import ModelVersion

commands = typer.Typer(help="Add, list, activate, verify and explain models.")
commands.command()(explain)

Artifact = Annotated[Path, typer.Argument(help="Folder that `setwise train` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@commands.command()
def add(
    artifact: Artifact,
    activate: Annotated[bool, typer.Option("--activate", help="Activate it at once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a model and register a copy of it."""
    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        model = built.services.models.add(SYSTEM, str(artifact))
        if activate:
            model = built.services.models.activate(SYSTEM, model.id)
    if as_json:
        print_json(_described(model))
    else:
        say(f"{model.id}  version {model.version}" + (", active" if model.active else ""))


@commands.command(name="list")
def list_models(as_json: AsJson = False) -> None:
    """List the registered models, newest first."""
    from rich.table import Column, Table

    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        models = built.services.models.page(SYSTEM)
    if as_json:
        print_json({"items": [_described(model) for model in models]})
        return
    table = Table(Column("id", min_width=36), "version", "active", "labels", "registered")
    for model in models:
        table.add_row(
            model.id,
            model.version,
            "yes" if model.active else "",
            str(model.summary.get("n_labels", "")),
            f"{model.created_at:%Y-%m-%d %H:%M}",
        )
    print_table(table)


@commands.command()
def activate(
    model_id: Annotated[str, typer.Argument(help="Id that `setwise model list` shows.")],
) -> None:
    """Activate a model; running servers follow within seconds."""
    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        model = built.services.models.activate(SYSTEM, model_id)
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


def _described(model: "ModelVersion") -> dict[str, object]:
    return {
        "id": model.id,
        "version": model.version,
        "active": model.active,
        "summary": dict(model.summary),
        "created_at": model.created_at.isoformat(),
    }
