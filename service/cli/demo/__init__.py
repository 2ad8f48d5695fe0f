"""`setwise demo`: the whole service on generated notes, in one command.

Everything is stored in one folder. A second run reuses the model, database and keys in it and
creates what is missing, for example after an interrupted run.
"""

# ruff: noqa: PLC0415 - the learning and serving libraries import slowly: only where needed

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import read_settings
from setwise.service.cli.console import CommandError, Report, note, progress, say
from setwise.service.cli.demo.accounts import DemoPeople, Keyring, SecretsFile
from setwise.service.cli.demo.history import (
    PLAN,
    TRAINING_NOTES,
    History,
    HistoryPlan,
    TravellingClock,
    incoming_notes,
)
from setwise.service.cli.demo.welcome import Examples, shown, welcome, welcome_to_nothing
from setwise.service.domain.accounts.callers import SYSTEM, Caller

if TYPE_CHECKING:
    from setwise.models.predictor import SetPredictor
    from setwise.service.build import Application
    from setwise.service.services.all import Services
    from setwise.service.services.ports import Predictor
    from setwise.service.settings import Settings

commands = typer.Typer()

HOST = "127.0.0.1"

# A later run tops up a short queue, so that there is always something to review.
LEAST_WAITING, TOP_UP = 20, 60
FIRST_NOTES = 500  # that a demo without a model offers to read
EXAMPLES = 200  # notes, of which one with a high and one with a low confidence is shown
LONGEST_EXAMPLE = 300  # characters; users paste it into a terminal


@commands.command()
def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder for all data; default: `demo` in SETWISE_DATA_DIR.")
    ] = None,
    empty: Annotated[
        bool,
        typer.Option(
            "--empty", help="Start without a model and without documents, to bring your own."
        ),
    ] = False,
) -> None:
    """Run the whole service on generated notes."""
    _refuse_port_in_use(port)
    from setwise.service import app as main
    from setwise.service.build import build

    settings = _settings(data_dir, "demo-empty" if empty else "demo")
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{settings.data_dir}: cannot be used: {error.strerror}") from error
    greeting = _begun(settings) if empty else _filled(settings)
    # An application can run only once.
    served = build(settings)
    served.registry.start()
    try:
        main.serve(
            served,
            main.listen(HOST, port),
            started=lambda url: _greet(greeting(url)),
        )
    except KeyboardInterrupt:
        pass  # Ctrl-C ends a demo
    except OSError as error:
        raise _cannot_listen(port, error) from error
    finally:
        served.close()
    say(f"\nStopped. The next demo continues with the data in {shown(settings.data_dir)}.")


def _filled(settings: "Settings") -> Callable[[str], str]:
    """Train and fill a demo; return what it says at an address."""
    from setwise.service.build import build
    from setwise.service.stores.database import OneClock

    with progress("demo") as report:
        model = _trained(settings.data_dir, _part(report, 0.0, 0.8))
        report(0.8, "fill the queue")
        clock = TravellingClock()
        with closing(build(settings, clock=OneClock(clock))) as built:
            secrets, passwords, examples = _prepared(built, clock, model, _part(report, 0.8, 1.0))
    return lambda url: welcome(
        url,
        secrets,
        settings.data_dir,
        passwords=passwords,
        examples=examples,
        command=Path(sys.argv[0]),
    )


def _begun(settings: "Settings") -> Callable[[str], str]:
    """Prepare a demo without a model; return what it says at an address."""
    from setwise.models.demo_notes import read_notes
    from setwise.service.build import build
    from setwise.service.stores.upkeep import migrate

    folder = settings.data_dir
    with closing(build(settings)) as built:
        migrate.upgrade(built.engine)
        secrets = Keyring(SecretsFile(folder / "demo-keys.json"), built.services).opened()
        people = DemoPeople(SecretsFile(folder / "demo-passwords.json"), built.services)
        passwords = people.opened()
    notes = read_notes()[:FIRST_NOTES]
    labels = sorted({label for note in notes for label in note.labels})
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels), "utf-8")
    texts = [{"id": note.id, "text": note.text} for note in notes]
    lines = "".join(f"{json.dumps(text)}\n" for text in texts)
    (folder / "texts.jsonl").write_text(lines, "utf-8")
    return lambda url: welcome_to_nothing(url, secrets, folder, passwords)


def _settings(data_dir: Path | None, name: str = "demo") -> "Settings":
    """Return settings that keep the demo away from real databases."""
    from setwise.service.logs import configure_logging
    from setwise.service.settings import Settings

    overrides: dict[str, object] = {
        "data_dir": data_dir or read_settings().data_dir / name,
        "database_url": "",
        "artifact_url": "",
        "pepper": None,
        "encryption_keys": None,
        "embedded_worker": True,
    }
    if "SETWISE_LOG_LEVEL" not in os.environ:
        overrides["log_level"] = "warning"  # a line for each request would hide the welcome
    settings = Settings.read(**overrides)
    configure_logging(settings.log_level, settings.log_format)
    return settings


def _refuse_port_in_use(port: int) -> None:
    """Fail before training if the port is in use."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise _cannot_listen(port, error) from error


def _cannot_listen(port: int, error: OSError) -> CommandError:
    reason = os.strerror(error.errno or 0)
    return CommandError(f"cannot listen on {HOST} port {port}: {reason}; choose another --port")


def _greet(text: str) -> None:
    say(text)
    sys.stdout.flush()  # a pipe would buffer it until the end


def _part(report: Report, start: float, end: float) -> Report:
    """Return a report that fills the bar from `start` to `end`."""

    def scaled(fraction: float, message: str = "") -> None:
        report(start + (end - start) * fraction, message)

    return scaled


# The model


def _trained(folder: Path, report: Report) -> Path:
    """Return the folder of the demo's model; train a missing one.

    A damaged model is trained again.
    """
    from setwise.models.storage.artifacts import save, verify_artifact
    from setwise.models.storage.sealed_folder import ArtifactError

    target = folder / "model"
    if target.exists():
        try:
            verify_artifact(target)
        except ArtifactError as error:
            note(f"setwise: training the model again: {error}")
        else:
            return target
    report(0.0, "write notes")
    predictor = _fit(folder / "notes", report)
    save(predictor, target, overwrite=True)
    return target


def _fit(notes: Path, report: Report) -> "SetPredictor":
    from setwise.models.data.dataset_files import read_dataset
    from setwise.models.demo_notes import read_notes, write_jsonl
    from setwise.models.options import TrainingOptions
    from setwise.models.training import train

    notes.mkdir(exist_ok=True)
    write_jsonl(read_notes()[:TRAINING_NOTES], notes / "train.jsonl")
    write_jsonl(incoming_notes(), notes / "test.jsonl")
    return train(read_dataset(notes, "train"), TrainingOptions(preset="fast"), progress=report)


# The database


def _prepared(
    built: "Application", clock: TravellingClock, model: Path, report: Report
) -> tuple[dict[str, str], dict[str, str], Examples]:
    """Fill the database; return keys by role, passwords and example notes.

    Passwords are by login name.
    """
    from setwise.service.stores.upkeep import migrate

    migrate.upgrade(built.engine)
    _serve_model(built.services, model)
    folder = built.settings.data_dir
    keys = Keyring(SecretsFile(folder / "demo-keys.json"), built.services)
    secrets = keys.opened()
    passwords = DemoPeople(SecretsFile(folder / "demo-passwords.json"), built.services).opened()
    built.registry.start()
    try:
        _fill(built.services, keys, secrets, report, clock)
        _request_calibration(built.services, built.services.keys.authenticate(secrets["admin"]))
        return secrets, passwords, _examples(built.registry.active())
    finally:
        built.registry.stop()


def _request_calibration(services: "Services", admin: "Caller") -> None:
    """Request a calibrator learnt from the reviews, to have one to show."""
    from setwise.service.domain.recalibration import Options

    if not services.recalibration.page(admin, limit=1).items:
        services.recalibration.request(admin, Options())


def _examples(predictor: "Predictor") -> Examples:
    """Return the most and the least confident of some short notes."""
    from setwise.service.domain.predictions import Document, ScoredSet

    texts = [incoming.text for incoming in incoming_notes()[-EXAMPLES:]]
    texts = [text for text in texts if len(text) < LONGEST_EXAMPLE and "'" not in text]
    results = predictor.score([Document(text=text) for text in texts])
    confidences = {
        text: result.best.confidence
        for text, result in zip(texts, results, strict=True)
        if isinstance(result, ScoredSet)
    }
    ranked = sorted(confidences, key=confidences.__getitem__)
    return Examples(clear=ranked[-1], vague=ranked[0])


def _serve_model(services: "Services", folder: Path) -> None:
    """Register the model, and activate it unless another one is active."""
    from setwise.models.storage.artifacts import load
    from setwise.service.domain.errors import DuplicateModel

    try:
        model = services.models.add(SYSTEM, str(folder))
    except DuplicateModel:  # from an earlier run
        models = services.models.page(SYSTEM)
        if any(other.active for other in models):
            return
        version = load(folder).version
        model = next(other for other in models if other.version == version)
    services.models.activate(SYSTEM, model.id)


# The history


def _fill(  # noqa: PLR0917 -- one after the other, called once
    services: "Services",
    keys: Keyring,
    secrets: Mapping[str, str],
    report: Report,
    clock: TravellingClock,
    plan: HistoryPlan = PLAN,
) -> None:
    """Create the rest of the history; later runs top up the queue."""
    from setwise.service.domain.policy import FIRST_POLICY_VERSION

    client = services.keys.authenticate(secrets["client"])
    reviewer = services.keys.authenticate(secrets["reviewer"])
    history = History(services, clock, client, reviewer, cache(keys.annotator), plan)
    counts = services.reports.summary(SYSTEM)
    if services.policy.get(SYSTEM).version == FIRST_POLICY_VERSION:
        history.begin()
    if counts.predictions < history.total:
        history.happen(counts.predictions, report)
    elif counts.waiting < LEAST_WAITING:
        _post(services, client, counts.predictions, TOP_UP, report)


def _post(services: "Services", client: "Caller", start: int, n: int, report: Report) -> None:
    from setwise.service.domain.predictions import Document, Submission
    from setwise.service.services.predictions import all_predicted

    notes = incoming_notes()
    for place in range(start, start + n):
        incoming = notes[place % len(notes)]  # those of the history come in again, if need be
        document = Document(incoming.id, incoming.text, metadata=incoming.metadata)
        all_predicted(services.predictions.predict([Submission(client, document)]))
        report((place - start + 1) / n, "fill the queue")
