"""The whole service put together from settings, on a real database."""

import errno
import shutil
import stat
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx
import pytest
from sqlalchemy import text

from setwise.service import build
from setwise.service.app import serving
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.documents import DocumentFilter
from setwise.service.domain.predictions import Document
from setwise.service.settings import BadSetting, Settings
from setwise.service.stores.database import POOL_SIZE
from setwise.service.stores.upkeep import migrate
from tests.samples import add_predictions, prediction


def _settings(folder: Path, database_url: str = "") -> Settings:
    return Settings(data_dir=folder, database_url=database_url)


def test_nothing_is_opened_before_it_is_used(tmp_path: Path) -> None:
    built = build.build(_settings(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["pepper"]
    built.close()


def test_a_given_pepper_needs_no_file(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "x", pepper="0123456789abcdef" * 2)
    build.build(settings).close()
    assert not (tmp_path / "x").exists()


def test_keys_stay_good_across_restarts(tmp_path: Path, database_url: str) -> None:
    settings = _settings(tmp_path / "data", database_url)
    first = build.build(settings)
    key, secret = first.services.keys.create(SYSTEM, "billing", Role.CLIENT)
    first.close()
    second = build.build(settings)
    assert second.services.keys.authenticate(secret).id == key.id
    second.close()


def test_processes_that_start_at_once_share_one_pepper(tmp_path: Path) -> None:
    start = threading.Barrier(8)
    peppers: list[bytes] = []

    def start_one() -> None:
        start.wait()
        built = build.build(_settings(tmp_path))
        peppers.append(built.services.keys.digest("x"))
        built.close()

    threads = [threading.Thread(target=start_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(peppers) == 8
    assert len(set(peppers)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["pepper"]
    assert stat.S_IMODE((tmp_path / "pepper").stat().st_mode) == 0o600


def test_a_data_folder_that_cannot_be_used_is_a_bad_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetting, match="SETWISE_DATA_DIR"):
        build.build(_settings(tmp_path / "file"))


@pytest.mark.parametrize("missing", ["oidc_client_id", "oidc_roles", "public_url"])
def test_an_identity_provider_needs_the_rest_of_its_settings(tmp_path: Path, missing: str) -> None:
    given = {
        "oidc_issuer": "https://id.example",
        "oidc_client_id": "setwise",
        "oidc_roles": "coders=reviewer",
        "public_url": "https://setwise.example",
    }
    built = build.build(Settings(data_dir=tmp_path, **given))
    assert built.edge.provider is not None
    assert built.edge.https
    built.close()
    with pytest.raises(BadSetting, match=f"SETWISE_{missing.upper()}: is needed"):
        build.build(Settings(data_dir=tmp_path, **given | {missing: ""}))


def test_a_cluster_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Settings(data_dir=tmp_path, dask_scheduler="tcp://dask:8786")
    build.build(given).close()
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BadSetting, match=r"SETWISE_DASK_SCHEDULER: install .*setwise\[dask\]"):
        build.build(given)


def test_a_bad_address_of_the_database_is_a_bad_setting(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="SETWISE_DATABASE_URL"):
        build.build(_settings(tmp_path, "sqlite://"))


async def _get(application: build.Application, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=serving(application))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get(path)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_readiness_tells_an_empty_database_from_an_absent_one(
    tmp_path: Path, empty_database_url: str
) -> None:
    built = build.build(_settings(tmp_path / "data", empty_database_url))
    problem = (await _get(built, "/readyz/predictions")).json()
    assert [fault["pointer"] for fault in problem["errors"]] == [
        "/checks/database",
        "/checks/model",
    ]
    assert "run setwise db upgrade" in problem["detail"]
    migrate.upgrade(built.engine)
    assert (await _get(built, "/readyz")).status_code == 200
    problem = (await _get(built, "/readyz/predictions")).json()
    assert [fault["pointer"] for fault in problem["errors"]] == ["/checks/model"]
    with built.engine.begin() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
    problem = (await _get(built, "/readyz")).json()
    assert "is empty" in problem["errors"][0]["detail"]
    built.close()


@pytest.mark.anyio
async def test_a_full_disk_is_unready(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build.build(_settings(tmp_path, database_url))
    usage = SimpleNamespace(total=1 << 40, free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    problem = (await _get(built, "/readyz")).json()
    assert "/checks/disk" in [fault["pointer"] for fault in problem["errors"]]
    built.close()


@pytest.mark.anyio
async def test_a_disk_that_is_away_is_unready(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build.build(_settings(tmp_path, database_url))

    def away(_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(shutil, "disk_usage", away)
    response = await _get(built, "/readyz")
    assert response.status_code == 503
    assert "Stale file handle" in response.json()["detail"]
    built.close()


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/readyz", "/readyz/predictions"])
async def test_a_server_without_a_free_connection_is_unready_not_broken(
    tmp_path: Path, database_url: str, path: str
) -> None:
    built = build.build(_settings(tmp_path, database_url))
    built.engine.pool._timeout = 0.01
    with ExitStack() as opened:
        for _ in range(POOL_SIZE):
            opened.enter_context(built.begin(read_only=True))
        response = await _get(built, path)
        assert response.status_code == 503
        assert "every connection is in use" in response.json()["detail"]
        assert (await _get(built, "/metrics")).status_code == 200
        page = await _get(built, "/login")
        assert page.status_code in {200, 503}
    assert (await _get(built, "/readyz")).status_code == 200
    built.close()


@pytest.mark.anyio
async def test_a_database_that_does_not_answer_is_unready_not_broken(tmp_path: Path) -> None:
    built = build.build(_settings(tmp_path, "postgresql+psycopg://nobody@127.0.0.1:1/x"))
    response = await _get(built, "/readyz")
    assert response.status_code == 503
    assert "does not answer" in response.json()["errors"][0]["detail"]
    assert (await _get(built, "/metrics")).status_code == 200
    assert (await _get(built, "/healthz")).status_code == 200
    built.close()


@pytest.mark.anyio
async def test_a_text_that_was_stored_before_a_crash_is_indexed_after_it(
    tmp_path: Path, database_url: str
) -> None:
    settings = _settings(tmp_path / "data", database_url)
    made = prediction(document=Document(id=None, text="fever"))
    crashed = build.build(settings)
    with crashed.begin() as transaction:
        add_predictions(transaction, made)
    crashed.close()
    built = build.build(settings, timing=build.Timing(job_poll_s=0.01))
    async with built.running():
        with anyio.fail_after(60):
            while not _with_word(built, "fever"):  # noqa: ASYNC110 -- another thread indexes it
                await anyio.sleep(0.01)
        assert _with_word(built, "fever") == [made.id]


def _with_word(built: build.Application, word: str) -> list[str]:
    with built.begin(read_only=True) as transaction:
        return list(transaction.documents.ids(DocumentFilter(text=word), most=9))
