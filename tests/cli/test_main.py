"""How the command ends: exit statuses and the lines that go with them."""

import subprocess
import sys
import warnings
from importlib.metadata import version

import pytest

import setwise.service.cli
from setwise.service.cli import main
from setwise.service.cli.console import CommandError, one_line, progress


def end(monkeypatch, error):
    """Run the command with a body that raises; return the exit status."""

    def body(*_, **__):
        raise error

    monkeypatch.setattr(setwise.service.cli, "app", body)
    with pytest.raises(SystemExit) as stopped_error:
        main(["anything"])
    return stopped_error.value.code


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (CommandError("a: is wrong; do b"), 2, "setwise: a: is wrong; do b\n"),
        (ValueError("two\nlines\x1b[31m"), 2, "setwise: two lines [31m\n"),
        (FileNotFoundError(2, "No such file or directory", "a"), 2, "setwise: a: No such file "),
        (
            ModuleNotFoundError("no", name="sqlalchemy.orm"),
            2,
            "setwise: sqlalchemy is missing; run pip install 'setwise[service]' for this command\n",
        ),
        (KeyboardInterrupt(), 130, "setwise: interrupted\n"),
        (KeyError("x"), 1, "setwise: unexpected KeyError: 'x'; this is a fault in Setwise"),
    ],
)
def test_every_error_ends_in_one_line_and_its_status(monkeypatch, capsys, error, status, line):
    monkeypatch.delenv("SETWISE_LOG_LEVEL", raising=False)
    assert end(monkeypatch, error) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_the_traceback_is_there_for_those_who_ask(monkeypatch, capsys):
    monkeypatch.setenv("SETWISE_LOG_LEVEL", "DEBUG")
    assert end(monkeypatch, KeyError("x")) == 1
    assert "Traceback" in capsys.readouterr().err


def test_warnings_take_one_line_each(monkeypatch, capsys):
    def body(*_, **__):
        warnings.warn("odd\nbut fine", UserWarning, stacklevel=1)

    monkeypatch.setattr(setwise.service.cli, "app", body)
    showwarning = warnings.showwarning
    with pytest.raises(SystemExit) as error:
        main(["anything"])
    assert error.value.code == 0
    assert capsys.readouterr().err == "setwise: warning: odd but fine\n"
    assert warnings.showwarning is showwarning


def test_the_version_is_printed_alone(capsys):
    with pytest.raises(SystemExit) as error:
        main(["--version"])
    assert error.value.code == 0
    assert capsys.readouterr().out.startswith(f"setwise {version('setwise')}, Python 3.")


def test_without_arguments_it_helps(capsys):
    with pytest.raises(SystemExit) as error:
        main([])
    assert error.value.code == 0
    assert "Usage: setwise" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["trian"], "setwise: No such command 'trian'. Did you mean 'train'? see setwise --help\n"),
        (["certify"], "setwise: Missing argument 'AUDITS'; see setwise --help\n"),
    ],
)
def test_a_line_about_the_usage_has_one_mark_after_a_sentence(capsys, arguments, line):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert capsys.readouterr().err == line


def test_progress_off_a_terminal_is_a_line_per_stage_and_tenth(capsys):
    with progress("work") as report:
        for step in range(101):
            report(step / 100, "one" if step < 50 else "two")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "work: 0%, one"
    assert "work: 50%, two" in lines
    assert lines[-1] == "work: 100%, two"
    assert 11 <= len(lines) <= 13


def test_progress_on_a_terminal_shows_names_as_they_are(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("work [/]") as report:
        report(0.5, "reading [/b] :smile:")
        report(1.0, "[a]")


def test_one_line_has_no_breaks_or_controls():
    assert one_line("a\r\nb\tc\x00\u2028d") == "a b c d"


SLOW = {
    "setwise.service.cli": {"sqlalchemy", "pydantic", "numpy", "fastapi"},
    "setwise.service.backend": {"fastapi", "alembic", "prometheus_client", "sklearn", "numba"},
    "setwise.models.storage.artifacts": {"sqlalchemy", "fastapi", "sklearn.cluster", "xgboost"},
}
"""Libraries that load slowly; the help, commands of the service and predictions need none."""


def test_a_command_imports_only_what_it_needs():
    program = "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules)"
    for name, slow in SLOW.items():
        command = [sys.executable, "-c", program, name]
        stdout = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert slow.isdisjoint(stdout.split()), name
