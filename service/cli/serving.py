"""Commands that run the service: ``serve``, ``worker``; and ``openapi``."""

# ruff: noqa: PLC0415 - FastAPI and uvicorn import slowly: only where needed

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from setwise.service.cli.assembly import application
from setwise.service.cli.console import CommandError, note, print_json

commands = typer.Typer()


@commands.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
) -> None:
    """Start the server: API, pages and jobs."""
    from setwise.service import app as main

    with application() as built:
        try:
            main.serve(
                built, host=host, port=port, started=lambda url: note(f"Setwise listens on {url}")
            )
        except OSError as error:
            raise CommandError(
                f"cannot listen on {host} port {port}: {error.strerror}; choose another --port"
            ) from error


@commands.command()
def worker() -> None:
    """Run jobs and deliver webhooks, without a server."""
    with application() as built:

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
            built.worker.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        built.registry.start()
        built.shadow.start()
        built.courier.start()
        built.worker.run()
        built.courier.stop()
        built.shadow.stop()
        built.registry.stop()


@commands.command()
def openapi(
    out: Annotated[Path | None, typer.Option(help="File to write instead of stdout.")] = None,
) -> None:
    """Print the OpenAPI 3.1 document."""
    import json

    from setwise.service.app import create_app

    document = create_app().openapi()
    if out is None:
        print_json(document)
    else:
        out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
