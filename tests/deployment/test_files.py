"""What describes a deployment is well formed, and fits the service that it deploys."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from setwise.service.cli import app
from setwise.service.settings import Settings
from tests.edge import Service

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"

TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
DURATION = {"type": "string", "pattern": r"^(\d+(s|m|h))+$"}
SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image", "networks"],
    "properties": {
        "image": {"type": "string", "pattern": r"^[\w./-]+:[\w.${}:-]+$"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "required": ["context", "dockerfile"],
            "properties": {"context": TEXT, "dockerfile": TEXT},
        },
        "command": TEXTS,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "read_only": {"type": "boolean"},
        "tmpfs": TEXTS,
        "cap_add": TEXTS,
        "cap_drop": TEXTS,
        "security_opt": TEXTS,
        "profiles": TEXTS,
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^[\d.:]+(/udp)?$"}},
        "volumes": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:ro)?$"},
        },
        "networks": TEXTS,
        "stop_grace_period": DURATION,
        "environment": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "healthcheck": {
            "oneOf": [
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["test"],
                    "properties": {
                        "test": TEXTS,
                        "interval": DURATION,
                        "timeout": DURATION,
                        "retries": {"type": "integer", "minimum": 1},
                    },
                },
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["disable"],
                    "properties": {"disable": {"const": True}},
                },
            ]
        },
        "depends_on": {
            "oneOf": [
                TEXTS,
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["condition"],
                        "properties": {
                            "condition": {
                                "enum": [
                                    "service_started",
                                    "service_healthy",
                                    "service_completed_successfully",
                                ]
                            }
                        },
                    },
                },
            ]
        },
    },
}
COMPOSE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "networks": {
            "type": "object",
            "additionalProperties": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"internal": {"type": "boolean"}},
                    },
                ]
            },
        },
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}
"""The part of the Compose Specification that the file uses; anything else is a slip."""


VARIABLES = {f"SETWISE_{name.upper()}" for name in Settings.model_fields}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def test_the_dockerfile_keeps_the_rules() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_image_runs_as_nobody_in_particular_and_can_build_nothing() -> None:
    final = (DOCKER / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert re.search(r"^USER 1\d+:1\d+$", final, re.MULTILINE)
    assert "HEALTHCHECK" in final
    assert "pip uninstall --yes --quiet pip" in final
    assert not re.search(r"pip install|gcc|curl", final)
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE
    )
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name


def test_the_compose_file_fits_its_specification(compose: dict[str, Any]) -> None:
    jsonschema.validate(compose, COMPOSE)
    services = compose["services"]
    for name, service in services.items():
        assert set(service["networks"]) <= set(compose["networks"]), name
        assert set(service.get("depends_on", [])) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = (
                (ROOT / source).exists()
                if source.startswith("./")
                else source in compose["volumes"]
            )
            assert known, f"{name}: {volume}"
        if service.get("build"):
            assert service["read_only"]
            assert service["cap_drop"] == ["ALL"]
            assert (ROOT / service["build"]["dockerfile"]).is_file()
    for name, needed in (
        ("roles", "service_healthy"),
        ("migrate", "service_completed_successfully"),
        ("api", "service_completed_successfully"),
    ):
        (condition,) = services[name]["depends_on"].values()
        assert condition == {"condition": needed}


def command_names() -> set[str]:
    """Return the names of all commands and groups of commands."""
    names = {str(group.name) for group in app.registered_groups}
    for group in app.registered_groups:
        assert group.typer_instance is not None
        names |= {
            command.name or command.callback.__name__
            for command in group.typer_instance.registered_commands
            if command.callback is not None
        }
    return names


def test_the_compose_file_sets_settings_and_runs_commands_that_exist(
    compose: dict[str, Any],
) -> None:
    commands = command_names()
    for name in ("migrate", "api", "worker"):
        service = compose["services"][name]
        assert set(service["environment"]) <= VARIABLES
        assert service.get("command", ["serve"])[0] in commands
    given = re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text())
    example = (DOCKER / "example.env").read_text()
    assert {name for name in given if f"{name}=" not in example} <= {
        "SETWISE_VERSION",
        "SETWISE_LOG_LEVEL",
    }


@pytest.mark.parametrize("name", ["migrate", "api", "worker"])
def test_the_compose_file_passes_every_setting(compose: dict[str, Any], name: str) -> None:
    given = compose["services"][name]["environment"]
    of_the_image = {"data_dir"}
    of_the_migration = {"database_app_user"}
    for field in set(Settings.model_fields) - of_the_image - of_the_migration:
        assert f"SETWISE_{field.upper()}" in given, field
    # An empty value would replace the default; no value passes on what `.env` or the shell has.
    assert "" not in given.values()


def test_the_service_does_not_learn_the_password_of_the_owner(compose: dict[str, Any]) -> None:
    for name in ("api", "worker"):
        service = compose["services"][name]
        assert "env_file" not in service
        assert "${POSTGRES_PASSWORD" not in str(service["environment"])
        assert "SETWISE_DATABASE_APP_USER" not in service["environment"]


def _expressions() -> list[str]:
    rules = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
    dashboard = json.loads((DOCKER / "grafana" / "dashboards" / "setwise.json").read_text())
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]] + [
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    ]


def test_rules_and_dashboards_ask_for_metrics_that_there_are(service: Service) -> None:
    service.predict()
    with service.app.state.edge.metrics.stages.score():
        pass
    text = service.get("/metrics", by="admin").text
    there = set(re.findall(r"^(setwise_\w+?)(?:\{| )", text, re.MULTILINE))
    there |= set(re.findall(r"^# TYPE (setwise_\w+) gauge$", text, re.MULTILINE))  # no value yet
    for expression in _expressions():
        asked = re.findall(r"\bsetwise_\w+", expression)
        assert set(asked) <= there, expression
        assert asked or expression.startswith("up{")
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression
        for labels in re.findall(r"\{([^}]*)\}", expression):
            assert re.fullmatch(r'(\w+(=|!=|=~|!~)"[^"]*",?)+', labels), expression


def test_prometheus_and_grafana_are_told_of_files_that_there_are(compose: dict[str, Any]) -> None:
    prometheus = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    for name in prometheus["rule_files"]:
        assert (DOCKER / "prometheus" / name).is_file()
    rules = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
            assert rule["annotations"]["summary"]
    targets = [
        t for job in prometheus["scrape_configs"] for t in job["static_configs"][0]["targets"]
    ]
    assert {target.split(":")[0] for target in targets} <= set(compose["services"])
    sources = yaml.safe_load(
        (DOCKER / "grafana/provisioning/datasources/prometheus.yml").read_text()
    )
    uids = {source["uid"] for source in sources["datasources"]}
    dashboard = json.loads((DOCKER / "grafana/dashboards/setwise.json").read_text())
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} <= uids
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


KUBERNETES = [
    manifest
    for file in sorted((DOCKER / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
]


@pytest.mark.parametrize(
    "manifest", KUBERNETES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)
def test_every_manifest_fits_kubernetes_and_the_service(manifest: dict[str, Any]) -> None:
    if manifest["kind"] == "ServiceMonitor":  # its schema comes with Prometheus Operator
        ports = {
            port["name"]
            for each in KUBERNETES
            if each["kind"] == "Service"
            for port in each["spec"]["ports"]
        }
        assert {endpoint["port"] for endpoint in manifest["spec"]["endpoints"]} <= ports
        return
    kubernetes_validate.validate(manifest, "1.31", strict=True)
    assert set(manifest.get("data") or manifest.get("stringData") or ()) <= VARIABLES
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {"containers": []})
    for container in pod["containers"]:
        assert {variable["name"] for variable in container.get("env", ())} <= VARIABLES
        assert container["args"][0] in command_names()
        assert container["securityContext"]["readOnlyRootFilesystem"]
        probes = [probe for name, probe in container.items() if name.endswith("Probe")]
        assert {probe["httpGet"]["path"] for probe in probes} <= {"/healthz", "/readyz"}


def test_the_image_installs_what_the_tests_have_seen() -> None:
    pins = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)
    tested = dict(pins.findall((ROOT / "requirements.lock").read_text()))
    for name in ("requirements.lock", "build.lock"):
        installed = dict(pins.findall((DOCKER / name).read_text()))
        assert installed
        assert installed.items() <= tested.items()
        assert not {"pytest", "ruff", "mypy", "playwright"} & set(installed)


def test_an_install_from_a_lock_resolves_nothing() -> None:
    # Otherwise pip reads "coverage[toml]" as one more requirement, finds a release made since the
    # lock was written, and refuses it because it has no hash.
    for file in (ROOT / "Makefile", DOCKER / "Dockerfile"):
        commands = file.read_text().replace("\\\n", " ").replace("&&", "\n").splitlines()
        from_lock = [command for command in commands if re.search(r"install\b.*\.lock", command)]
        assert from_lock
        assert all("--no-deps" in command for command in from_lock)


def test_the_lock_holds_all_that_its_packages_require() -> None:
    subprocess.run([sys.executable, "-m", "pip", "check"], check=True)
