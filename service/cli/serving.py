"""Commands that run the service: ``serve``, ``worker``; and ``openapi``."""

# ruff: noqa: PLC0415 - FastAPI and uvicorn import slowly: only where needed

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import FrameType
from typing import Annotated

import typer

from setwise.service.cli.assembly import application
from setwise.service.cli.console import CommandError, note, print_json
from setwise.service.cli.targets import written_whole

commands = typer.Typer()


Host = Annotated[str, typer.Option(help="Address to listen on.")]


@commands.command()
def serve(
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Processes that share the port; SETWISE_WORKERS or 1 by default."
        ),
    ] = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="Socket of `--workers`.")] = None,
) -> None:
    """Start the server: API, pages and jobs."""
    from setwise.service.app import serve as serve_on
    from setwise.service.app import url_of

    if fd is not None:
        stop_with_parent()
    with application() as built:
        if fd is not None:
            serve_on(built, socket.socket(fileno=fd))
            return
        listener = _listen(host, port)
        if workers is None:
            workers = built.settings.workers
        if workers == 1:
            serve_on(built, listener, started=lambda url: note(f"Setwise listens on {url}"))
            return
    note(f"Setwise listens on {url_of(listener)} with {workers} processes")
    _serve_together(listener, workers)


def _listen(host: str, port: int) -> socket.socket:
    from setwise.service.app import listen

    try:
        return listen(host, port)
    except OSError as error:
        raise CommandError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port"
        ) from error


def _serve_together(listener: socket.socket, workers: int) -> None:
    """Serve one socket from several processes; when one ends, end all.

    A process that dies is left to the service manager, which starts everything again. If this one
    dies, the others find the end of their standard input, which it never writes to.
    """
    from setwise.service.telemetry import SHARED_METRICS

    stopping = False
    with TemporaryDirectory(prefix="setwise-metrics-") as counts, listener:
        program = "from setwise.service.cli import main; main()"
        command = [sys.executable, "-c", program, "serve", "--fd", str(listener.fileno())]
        processes = [
            subprocess.Popen(  # noqa: S603 -- this very program
                command,
                env=os.environ | {SHARED_METRICS: counts},
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
            for _ in range(workers)
        ]

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
            nonlocal stopping
            stopping = True
            for process in processes:
                process.terminate()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # any of them
        asked = stopping
        stop(signal.SIGTERM, None)
        statuses = [process.wait() for process in processes]
    if not asked:
        raise CommandError(f"a server process died (statuses {statuses}); all stopped")


def stop_with_parent() -> None:
    """Stop this process as after SIGTERM once its parent closes standard input, or dies."""

    def watch() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="parent-watcher", daemon=True).start()


@commands.command()
def worker(
    host: Host = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port for health, readiness and metrics; none by default."
        ),
    ] = None,
) -> None:
    """Run jobs and deliver webhooks, without a server."""
    from setwise.service.app import serving_health, url_of

    with application() as built, ExitStack() as open_port:

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
            built.worker.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        if port is not None:
            listener = _listen(host, port)
            note(f"Setwise's worker answers on {url_of(listener)}")  # before the server's own lines
            open_port.enter_context(serving_health(built, listener))
        built.registry.start()
        built.shadow.start(built.services.models.record)
        built.courier.start()
        built.indexer.start()
        built.worker.run()
        built.indexer.stop()
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
        with written_whole(out) as file:
            file.write(json.dumps(document, indent=2) + "\n")
