"""Settings from the environment, read once.

An invalid setting stops the start with one line.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from setwise.service.domain.annotators import PersonalFigures
from setwise.service.domain.text import nearest, question
from setwise.service.secret_files import SUFFIX, BadSecretFile, read_secrets
from setwise.service.sign_in.oidc import read_roles
from setwise.service.stores.columns.ciphers import read_keys
from setwise.service.stores.upkeep.addresses import sqlite_url

PREFIX = "SETWISE_"

SECRETS = ("database_url", "pepper", "encryption_keys", "oidc_client_secret")
"""Settings that can be given as the name of a file, in a variable that ends in ``_FILE``."""

_OF_TESTS = ("SETWISE_TEST_", "SETWISE_REQUIRE_")
"""Variables that tests read, not the service."""

PositiveSeconds = Annotated[float, Field(gt=0, le=86_400)]


class BadSetting(ValueError):
    """An environment variable has an invalid value; the message is one line."""


_DATA_DIR = Path("setwise-data")


def _places_under(folder: Path) -> dict[str, str]:
    return {
        "database_url": sqlite_url(folder / "setwise.db"),
        "artifact_url": str(folder / "artifacts"),
        "files_url": str(folder / "files"),
    }


class Settings(BaseSettings):
    """Settings of an installation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=True,
    )

    data_dir: Path = _DATA_DIR
    database_url: Annotated[str, Field(repr=False)] = ""  # may contain a password
    """SQLAlchemy URL; by default an SQLite file in ``data_dir``."""
    database_app_user: str = ""
    """PostgreSQL role of the service, for ``setwise db upgrade`` with another role."""
    database_pool_size: Annotated[int, Field(ge=2, le=1_000)] = 40
    """Most connections of a process to the database."""
    artifact_url: str = ""
    """Folder, or any fsspec URL, for model artifacts."""
    files_url: str = ""
    """Folder, or any fsspec URL, for the uploads and results of jobs."""
    training_data: Path | None = None
    """Folder of training documents that retraining may read; none without it."""
    pepper: SecretStr | None = None
    """Secret mixed into the stored hashes of API keys; by default, a file in ``data_dir`` holds it.
    Servers that share a database must share it.
    """
    encryption_keys: SecretStr | None = None
    """Keys of 32 bytes in base64, separated by commas, that protect stored content of documents.
    The first one encrypts, all of them decrypt. Without keys, nothing is encrypted. Keys are set
    before anything is stored.
    """
    retain_auto_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    retain_reviewed_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    """How long to keep the texts of automatically sent and of reviewed documents; 0 keeps them
    indefinitely.
    """
    embedded_worker: bool = True
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Server processes that share the port."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
    max_text_bytes: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    """Largest text of a document, in bytes of UTF-8."""
    lease_s: PositiveSeconds = 900.0
    """How long a claimed review task is held."""
    attachment_hosts: Annotated[str, Field(pattern=r"^[\w.:, -]*$")] = ""
    """Hosts, by commas, whose PDFs and images the desk shows: a document's `attachment_url`."""
    personal_figures: PersonalFigures = "leads"
    """Who sees pace and error rates of single persons; everyone sees their own."""
    max_upload_bytes: Annotated[int, Field(ge=1_000, le=1_000_000_000_000)] = 1_000_000_000
    """Largest file in one request."""
    job_files_days: Annotated[float, Field(gt=0, le=3_650)] = 7.0
    """How long to keep the files of a finished job."""
    dask_scheduler: Annotated[str, Field(pattern=r"^((tcp|tls)://[^\s/]+:\d+)?$")] = ""
    """Scheduler of the Dask cluster that scores uploaded files, such as ``tcp://dask:8786``; the
    worker itself by default.
    """
    webhook_allow_private: bool = False
    """Allow webhooks on private, loopback and link-local addresses, without encryption there."""
    session_idle_s: PositiveSeconds = 7_200.0
    """A session ends after this long without use."""
    open_metrics: bool = True
    """Serve ``/metrics`` without a key; otherwise it needs a key that may inspect."""
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr | None = None
    """OpenID Connect provider for sign-in, and the credentials of this service with it."""
    oidc_role_claim: str = "groups"
    oidc_roles: str = ""
    """Claim of the token with groups, and the role of each group: ``coders=reviewer``."""
    public_url: str = ""
    """URL of the service for browsers, such as ``https://setwise.example`` or, below a path,
    ``https://host.example/setwise``; if empty, the URL in each request.
    """
    otlp_endpoint: str = ""
    """OpenTelemetry collector that receives spans by OTLP over HTTP, such as
    ``http://collector:4318``; none by default.
    """
    audit_reading_days: Annotated[float, Field(gt=0, le=3_650)] = 7.0
    """Days in which audits are read; unfinished ones count as wrong afterwards."""
    breaker_stale_documents: Annotated[int, Field(ge=0, le=1_000_000_000)] = 20_000
    """Documents that may be sent before an audit is completed; 0 for no limit."""
    trusted_proxies: str = ""
    """Addresses and networks, separated by commas, whose ``X-Forwarded-For`` and
    ``X-Forwarded-Proto`` are trusted.
    """

    _commanded: frozenset[str] = PrivateAttr(default=frozenset())

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("pepper")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 32:
            raise ValueError(
                "takes at least 32 characters, such as the output of `openssl rand -hex 32`"
            )
        return value

    @field_validator("encryption_keys")
    @classmethod
    def _usable_keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            read_keys(value.get_secret_value())
        return value

    @field_validator("oidc_roles")
    @classmethod
    def _known_roles(cls, value: str) -> str:
        read_roles(value)
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _safe_issuer(cls, value: str) -> str:
        host = urlsplit(value).hostname
        local = host in {"localhost", "127.0.0.1", "::1"}
        if value and (not host or not value.startswith(("https://", "http://" if local else " "))):
            raise ValueError("takes an https address, such as https://id.example/realms/main")
        return value

    @field_validator("public_url")
    @classmethod
    def _browsers_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (
            parts.scheme not in {"http", "https"}
            or not parts.hostname
            or not re.fullmatch(r"(/[\w.~-]+)*/?", parts.path, re.ASCII)
            or parts.query
            or parts.fragment
            or parts.username is not None
        ):
            raise ValueError(
                "takes an address such as https://setwise.example or https://host.example/setwise"
            )
        return value.rstrip("/")

    @field_validator("otlp_endpoint")
    @classmethod
    def _collector(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError("takes an http(s) address, such as http://collector:4318")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        for network in filter(None, (part.strip() for part in value.split(","))):
            try:
                ip_network(network)
            except ValueError as error:
                raise ValueError(
                    f"takes addresses and networks separated by commas, such as "
                    f"127.0.0.1,10.0.0.0/8; {error}"
                ) from None
        return value

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        if not value or scheme in {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}:
            return value
        if separator and scheme in {"postgresql", "postgres"}:
            return f"postgresql+psycopg://{rest}"
        raise ValueError("takes sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/NAME")

    @model_validator(mode="before")
    @classmethod
    def _places(cls, values: dict[str, Any]) -> dict[str, Any]:  # Any: not yet validated
        """Default the database, artifacts and files to places in the data folder."""
        folder = Path(values.get("data_dir") or _DATA_DIR).expanduser().absolute()
        usual = _places_under(folder)
        return values | {
            "data_dir": folder,
            **{name: values.get(name) or place for name, place in usual.items()},
        }

    @property
    def max_body_bytes(self) -> int:
        """Return the largest request body that an allowed document needs.

        When ``json.dumps`` escapes a character, it takes up to three times its bytes of UTF-8. The
        rest of the body, mainly metadata, has a quarter of a megabyte.
        """
        return 3 * self.max_text_bytes + 256_000

    @classmethod
    def read(cls, **overrides: object) -> Self:
        """Return the settings from the environment; ``overrides`` take precedence.

        Raises `BadSetting` if a setting is invalid. The message names the variable, the fault and
        the remedy.
        """
        try:
            secrets = read_secrets(PREFIX, SECRETS)
        except BadSecretFile as error:
            raise BadSetting(str(error)) from error
        try:
            # pydantic checks the values, whatever their type.
            settings = cls(**{**secrets, **overrides})  # type: ignore[arg-type]
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(str(part) for part in fault["loc"]).upper()
            raise BadSetting(
                f"{PREFIX}{name}: {fault['msg'].removeprefix('Value error, ')}"
            ) from error
        settings._commanded = frozenset(overrides)
        return settings

    @property
    def commanded(self) -> frozenset[str]:
        """Names of the settings that the command set over the environment."""
        return self._commanded


class Source(StrEnum):
    """Where the value of a setting comes from."""

    ENVIRONMENT = "the environment"
    COMMAND = "the command"
    DEFAULT = "its default"


@dataclass(frozen=True)
class ShownSetting:
    """A setting as shown to people."""

    variable: str
    """The environment variable that sets it."""
    value: str
    """Its value, without secrets."""
    source: Source
    """Where the value comes from."""

    @property
    def given(self) -> bool:
        """Whether it was set; otherwise it has its default."""
        return self.source is not Source.DEFAULT


def shown(settings: Settings) -> list[ShownSetting]:
    """Return all settings without secrets, ordered by name."""
    # Places are filled in before pydantic records which settings were given.
    usual = _places_under(settings.data_dir) | {"data_dir": _DATA_DIR.absolute()}
    values = {name: getattr(settings, name) for name in sorted(Settings.model_fields)}
    return [
        ShownSetting(
            f"{PREFIX}{name.upper()}",
            _shown(value),
            _source(settings, name, is_usual=name in usual and value == usual[name]),
        )
        for name, value in values.items()
    ]


def _source(settings: Settings, name: str, *, is_usual: bool) -> Source:
    if is_usual or name not in settings.model_fields_set:
        return Source.DEFAULT
    return Source.COMMAND if name in settings.commanded else Source.ENVIRONMENT


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return "set, not shown"
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return without_secrets(str(value))


def without_secrets(text: str) -> str:
    """Return a URL without its password and the values of its query.

    >>> without_secrets("postgresql+psycopg://setwise:hunter2@db/setwise?sslpassword=x")
    'postgresql+psycopg://…@db/setwise?…'
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    before, asks, query = rest.partition("?")
    if "@" in query and "@" not in before:
        return f"{scheme}://…"  # perhaps a password that contains a question mark
    _, signs_in, place = before.rpartition("@")
    return f"{scheme}://{'…@' if signs_in else ''}{place}{'?…' if asks else ''}"


def misspelt(names: Iterable[str]) -> list[str]:
    """Return a line for each variable that looks like a misspelt setting.

    >>> misspelt(["SETWISE_DATABSE_URL", "SETWISE_LOG_LEVEL", "HOME"])
    ['SETWISE_DATABSE_URL is no setting and has no effect; is `SETWISE_DATABASE_URL` meant?']
    """
    known = [f"{PREFIX}{name.upper()}" for name in Settings.model_fields]
    known += [f"{PREFIX}{name.upper()}{SUFFIX}" for name in SECRETS]
    lines = []
    for name in sorted(names):
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in known or upper.startswith(_OF_TESTS):
            continue
        hint = question(nearest(upper, known)) or "; setwise doctor lists those that are"
        lines.append(f"{name} is no setting and has no effect{hint}")
    return lines
