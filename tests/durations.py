"""Where the time of a run goes: each folder, and its slowest tests. A pytest plugin.

`--durations` lists set-up, call and teardown of a test apart; here they are one sum.
"""

import time
from collections import defaultdict

import pytest

LEAST_S = 1.0
"""A test that takes less is not worth a line."""

MOST_TESTS = 50


def folder_of(node_id: str) -> str:
    """Return what a test counts with: a folder of tests, a file beside them, or doctests."""
    parts = node_id.partition("::")[0].split("/")
    return "/".join(parts[:2]) if parts[0] == "tests" else "doctests"


class Durations:
    """Adds up what each test took, in whichever worker it ran."""

    def __init__(self) -> None:
        self.started_at = time.perf_counter()
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a set-up, a call or a teardown."""
        self.seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the folders, most time first, and the tests that took longest."""
        folders: dict[str, list[float]] = defaultdict(list)
        for node_id, seconds in self.seconds.items():
            folders[folder_of(node_id)].append(seconds)
        terminalreporter.section("where the time went")
        wall = time.perf_counter() - self.started_at
        total = sum(self.seconds.values())
        line = terminalreporter.write_line
        line(f"{len(self.seconds)} tests, {total:.0f} s of all workers, {wall:.0f} s by the clock")
        for folder, spent in sorted(folders.items(), key=lambda item: -sum(item[1])):
            line(f"{sum(spent):8.0f} s {len(spent):6} tests  {folder}")
        slowest = sorted(self.seconds.items(), key=lambda item: -item[1])[:MOST_TESTS]
        for node_id, seconds in slowest:
            if seconds >= LEAST_S:
                line(f"{seconds:8.1f} s  {node_id}")


def pytest_configure(config: pytest.Config) -> None:
    """Count where reports arrive: in the session itself, not in its workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())
