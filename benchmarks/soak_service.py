"""Measures whether a server's memory stays flat under load.

    python -m benchmarks.soak_service [--minutes 5] [--concurrency 16] [--pause-ms 0] [--most 20]

One process on an SQLite file takes single predictions, and batches from one more caller. Its
resident memory (RSS) is read every few seconds; the first fifth is warm-up. The result is the slope
of a least-squares line through the rest, with its standard error: memory that only fluctuates has a
slope within a few standard errors of zero. A pause between a caller's requests (fifty times as long
between batches) leaves room for other work on the machine. The exit status is 1 if memory grows by
more than ``--most`` MB an hour beyond what its error explains.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.loaded_servers import Server, load, setwise_server, trained_artifact

Floats = NDArray[np.float64]

EVERY_S = 2.0
WARM_UP_SHARE = 0.2


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="setwise-soak-") as name:
        folder = Path(name)
        artifact, texts = trained_artifact(folder)
        url = f"sqlite:///{folder / 'soak.db'}"
        with setwise_server(folder / "data", url, artifact, texts) as (server, _):
            seconds, megabytes, answered = asyncio.run(
                _soak(server, 60 * options.minutes, options.concurrency, options.pause_ms / 1000)
            )
        size = sum(path.stat().st_size for path in folder.glob("soak.db*")) / 1e6
    kept = seconds >= WARM_UP_SHARE * seconds[-1]
    slope, error = _slope(seconds[kept] / 3600, megabytes[kept])
    print(f"{answered} predictions in {seconds[-1] / 60:.1f} min; database {size:.0f} MB")
    print(
        f"RSS {megabytes[kept][0]:.1f} MB after the warm-up, {megabytes[-1]:.1f} MB at the end, "
        f"at most {megabytes.max():.1f} MB"
    )
    print(f"slope {slope:+.1f} ± {error:.1f} MB an hour ({kept.sum()} readings)")
    return int(slope - 3 * error > options.most)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--pause-ms", type=float, default=0.0, help="between a caller's requests")
    parser.add_argument("--most", type=float, default=20.0, help="tolerated growth, MB an hour")
    return parser.parse_args()


async def _soak(
    server: Server, duration_s: float, concurrency: int, pause_s: float
) -> tuple[Floats, Floats, int]:
    readings: list[tuple[float, float]] = []
    started = time.monotonic()

    async def watch() -> None:
        while True:
            readings.append((time.monotonic() - started, _resident_mb(server.process_id)))
            await asyncio.sleep(EVERY_S)

    watching = asyncio.create_task(watch())
    singles = load(server, duration_s, concurrency, pause_s=pause_s)
    batches = Server("batches", server.process_id, server.port, server.batches)
    measured, batched = await asyncio.gather(
        singles, load(batches, duration_s, 1, pause_s=50 * pause_s)
    )
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    answered = round((measured.per_second + 256 * batched.per_second) * duration_s)
    times, sizes = np.array(readings).T
    return times, sizes, answered


def _resident_mb(process_id: int) -> float:
    status = Path(f"/proc/{process_id}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _slope(
    x: Floats,
    y: Floats,
) -> tuple[float, float]:
    """Return the slope of the least-squares line and its standard error."""
    centred = x - x.mean()
    spread = float((centred**2).sum())
    slope = float((centred * y).sum() / spread)
    residuals = y - y.mean() - slope * centred
    return slope, float(np.sqrt((residuals**2).sum() / max(len(x) - 2, 1) / spread))


if __name__ == "__main__":
    sys.exit(main())
