"""The environment, read once."""

from pathlib import Path

import pytest

from setwise.service.settings import BadSetting, Settings, Source, misspelt, shown, without_secrets


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SETWISE_{name.upper()}", raising=False)
        monkeypatch.delenv(f"SETWISE_{name.upper()}_FILE", raising=False)


def test_everything_lies_in_the_data_folder_by_default(tmp_path: Path) -> None:
    settings = Settings.read()
    folder = tmp_path / "setwise-data"
    assert settings.data_dir == folder
    assert settings.database_url == f"sqlite:///{folder}/setwise.db"
    assert settings.artifact_url == str(folder / "artifacts")
    assert settings.files_url == str(folder / "files")
    assert settings.embedded_worker
    assert not folder.exists()


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETWISE_DATA_DIR", "~/models")
    monkeypatch.setenv("SETWISE_EMBEDDED_WORKER", "false")
    monkeypatch.setenv("SETWISE_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("SETWISE_MAX_TEXT_BYTES", "5000")
    settings = Settings.read()
    assert settings.data_dir == Path("~/models").expanduser()
    assert (settings.embedded_worker, settings.log_level) == (False, "debug")
    assert settings.max_body_bytes > 3 * 5_000


def test_an_empty_variable_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", "")
    monkeypatch.setenv("SETWISE_DATA_DIR", "")
    assert Settings.read().database_url == f"sqlite:///{tmp_path}/setwise-data/setwise.db"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_is_reached_by_psycopg(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", f"{scheme}://me@host/db")
    assert Settings.read().database_url == "postgresql+psycopg://me@host/db"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://me:hunter2@host/db"),
        ("DATABASE_URL", "hunter2"),
        ("EMBEDDED_WORKER", "perhaps"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("MAX_UPLOAD_BYTES", "10"),
        ("BREAKER_STALE_DOCUMENTS", "-1"),
        ("JOB_FILES_DAYS", "0"),
        ("MAX_TEXT_BYTES", "ten"),
        ("MAX_TEXT_BYTES", "0"),
        ("LEASE_S", "-5"),
        ("LEASE_S", "nan"),
        ("PEPPER", "hunter2"),
        ("ENCRYPTION_KEYS", "hunter2"),
        ("RETAIN_AUTO_DAYS", "-1"),
        ("RETAIN_REVIEWED_DAYS", "ever"),
        ("SESSION_IDLE_S", "0"),
        ("OIDC_ISSUER", "hunter2"),
        ("OIDC_ISSUER", "http://id.example"),
        ("OIDC_ROLES", "coders=king"),
        ("OPEN_METRICS", "perhaps"),
        ("PUBLIC_URL", "hunter2"),
        ("OTLP_ENDPOINT", "collector:4318"),
        ("DASK_SCHEDULER", "hunter2:8786"),
        ("DASK_SCHEDULER", "tcp://dask"),
        ("PUBLIC_URL", "https://me:hunter2@host"),
        ("PUBLIC_URL", "https://host//path"),
        ("PUBLIC_URL", "https://host/path?x=1"),
        ("TRUSTED_PROXIES", "10.0.0.0/8, proxy"),
    ],
)
def test_a_bad_setting_is_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"SETWISE_{name}", value)
    with pytest.raises(BadSetting) as refused:
        Settings.read()
    line = str(refused.value)
    assert line.startswith(f"SETWISE_{name}: ")
    assert "\n" not in line
    assert "hunter2" not in line


def test_an_operator_has_few_settings_to_know() -> None:
    assert len(Settings.model_fields) <= 35


def test_secrets_are_not_shown() -> None:
    settings = Settings.read(database_url="postgresql://me:hunter2@host/db", pepper="hunter2" * 5)
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings)


def test_settings_are_shown_with_their_source_and_without_secrets(tmp_path: Path) -> None:
    given = Settings(
        data_dir=tmp_path,
        database_url="postgresql://ann:hunter2@db/setwise?sslpassword=hunter3",
        pepper="x" * 32,
        embedded_worker=False,
    )
    listed = {one.variable: one for one in shown(given)}
    assert listed["SETWISE_PEPPER"].value == "set, not shown"
    assert listed["SETWISE_DATABASE_URL"].value == "postgresql+psycopg://…@db/setwise?…"
    assert listed["SETWISE_EMBEDDED_WORKER"].value == "false"
    told = {name.removeprefix("SETWISE_").lower() for name, one in listed.items() if one.given}
    assert told == {"data_dir", "database_url", "pepper", "embedded_worker"}
    assert not any("hunter" in one.value or "xxx" in one.value for one in listed.values())
    assert not any(one.given for one in shown(Settings()))


def test_a_setting_names_the_environment_or_the_command_as_its_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SETWISE_LEASE_S", "60")
    monkeypatch.setenv("SETWISE_LOG_LEVEL", "error")
    read = Settings.read(log_level="warning", data_dir=tmp_path, database_url="")
    sources = {one.variable.removeprefix("SETWISE_"): one.source for one in shown(read)}
    assert sources["LEASE_S"] is Source.ENVIRONMENT
    assert sources["LOG_LEVEL"] is Source.COMMAND, "it wins over the environment"
    assert sources["DATA_DIR"] is Source.COMMAND
    assert sources["DATABASE_URL"] is Source.DEFAULT
    assert sources["SESSION_IDLE_S"] is Source.DEFAULT


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("s3://bucket/models", "s3://bucket/models"),
        ("s3://key:se@cret@bucket/models", "s3://…@bucket/models"),
        ("https://token@host/x?key=a@b", "https://…@host/x?…"),
        ("postgresql://u:what?ever@host/x", "postgresql://…"),
        ("https://host/x?mail=a@b", "https://…"),
        ("/srv/models", "/srv/models"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(address: str, seen: str) -> None:
    assert without_secrets(address) == seen


def test_secrets_are_read_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = {
        "DATABASE_URL": "postgresql+psycopg://me:hunter2@host/db",
        "PEPPER": "p" * 64,
        "ENCRYPTION_KEYS": "A" * 43 + "=",
        "OIDC_CLIENT_SECRET": "s3cret",
    }
    for name, value in secrets.items():
        (tmp_path / name).write_text(value + "\n")
        monkeypatch.setenv(f"SETWISE_{name}_FILE", str(tmp_path / name))
    settings = Settings.read()
    assert settings.database_url == secrets["DATABASE_URL"]
    for name in ("PEPPER", "ENCRYPTION_KEYS", "OIDC_CLIENT_SECRET"):
        assert getattr(settings, name.lower()).get_secret_value() == secrets[name]
    assert "hunter2" not in repr(settings)
    assert {one.source for one in shown(settings) if one.variable == "SETWISE_PEPPER"} == {
        Source.ENVIRONMENT
    }
    assert misspelt([f"SETWISE_{name}_FILE" for name in secrets]) == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "is not text"),
        (b"x" * 100_000, "is too large"),
        (b"hunter2", "at least 32 characters"),
    ],
)
def test_a_wrong_secret_file_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, fault: str
) -> None:
    path = tmp_path / "pepper"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SETWISE_PEPPER_FILE", str(path))
    with pytest.raises(BadSetting) as refused:
        Settings.read()
    said = str(refused.value)
    assert said.startswith("SETWISE_PEPPER")
    assert fault in said
    assert "\n" not in said
    assert "hunter2" not in said


def test_a_secret_is_given_in_one_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pepper").write_text("p" * 64)
    monkeypatch.setenv("SETWISE_PEPPER", "q" * 64)
    monkeypatch.setenv("SETWISE_PEPPER_FILE", str(tmp_path / "pepper"))
    with pytest.raises(BadSetting, match="SETWISE_PEPPER is set too"):
        Settings.read()
