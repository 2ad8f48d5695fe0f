"""Rows of results: what was measured, where, on which code, and by which command.

A table is a file of JSON Lines in `benchmarks/results/`; benchmarks add to it with ``--record``. A
row of learning has digests of the code that it measures, so that it can be told from the present
code; other rows say at which commit they were measured.
"""

import ast
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "benchmarks" / "results"

RERANKING = (
    "models/data/characters.py",
    "models/data/scaler.py",
    "models/data/text.py",
    "models/data/words.py",
    "models/labels",
    "models/voters",
    "models/sets",
    "models/calibration",
    "models/options.py",
    "models/methods.py",
    "models/predictor.py",
    "models/training.py",
)
"""What decides the figures of ``br-rerank``, the default method."""

READING = ("models/labels/targets.py", "models/calibration/noisy_history.py")
"""Modules that only read and check input: no figure rests on them."""

Figure = str | float


@dataclass(frozen=True)
class Row:
    """One measurement."""

    subject: str
    """What the row of a table is about."""
    figures: dict[str, Figure]
    """What was measured, by column."""
    command: str
    commit: str
    machine: str
    measured_at: str
    """A day."""
    seed: int | None = None
    note: str = ""
    code: dict[str, str] = field(default_factory=dict)
    """Digests of the code that a row of learning measures, by path."""

    def outdated(self) -> list[str]:
        """Return the paths whose code has changed since."""
        return [path for path, digest in self.code.items() if code_digest(path) != digest]


def read(table: str) -> list[Row]:
    """Return the rows of a table.

    Parameters
    ----------
    table : str
        The file's name in `benchmarks/results/`, without its ending.
    """
    lines = (TABLES / f"{table}.jsonl").read_text("utf-8").splitlines()
    return [Row(**json.loads(line)) for line in lines]


def record(
    table: str,
    subject: str,
    figures: dict[str, Figure],
    *,
    seed: int | None = None,
    code: Iterable[str] = (),
) -> None:
    """Write a row to a table, in place of an earlier one of this subject and seed."""
    row = Row(
        subject=subject,
        figures=figures,
        command=_command(),
        commit=_commit(),
        machine=_machine(),
        measured_at=datetime.now(UTC).date().isoformat(),
        seed=seed,
        code={path: code_digest(path) for path in code},
    )
    path = TABLES / f"{table}.jsonl"
    rows = read(table) if path.exists() else []
    places = [n for n, other in enumerate(rows) if (other.subject, other.seed) == (subject, seed)]
    if places:
        rows[places[0]] = row
    else:
        rows.append(row)
    write(table, rows)


def write(table: str, rows: Iterable[Row]) -> None:
    """Write a table, one row a line."""
    lines = [
        json.dumps({name: value for name, value in asdict(row).items() if value not in ("", {})})
        for row in rows
    ]
    (TABLES / f"{table}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def code_digest(path: str) -> str:
    """Return a digest of what a module, or all modules of a folder, do.

    Comments, docstrings and layout do not count, nor modules that only read.
    """
    place = ROOT / path
    digest = hashlib.sha256()
    for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        name = file.relative_to(ROOT).as_posix()
        if name in READING:
            continue
        digest.update(name.encode())
        digest.update(_read(file.read_text("utf-8")))
    return digest.hexdigest()[:12]


@cache  # many rows measure the same code
def _read(source: str) -> bytes:
    return b"".join(part.encode() + b"\0" for part in _parts(ast.parse(source)))


def _parts(node: ast.AST) -> Iterator[str]:
    """Yield a syntax tree as the same strings under every version of Python."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
                continue  # a docstring
            if isinstance(item, ast.AST):
                yield name
                yield from _parts(item)
            elif item is not None:
                yield f"{name}={item!r}"


def _command() -> str:
    module = sys.modules["__main__"].__spec__
    arguments = [argument for argument in sys.argv[1:] if argument != "--record"]
    command = shlex.join(["python", "-m", module.name if module else sys.argv[0], *arguments])
    data = os.environ.get("SETWISE_TEST_DATA")
    return command.replace(data, "$SETWISE_TEST_DATA") if data else command


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def _machine() -> str:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0].partition(":")[2].strip() if models else name
    load = f", load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}{load}"
