"""Settings in, the finished service out. Only here are concrete classes named."""

from service.wiring.all_verbs import verbs
from service.wiring.application import Application, build, storage
from service.wiring.checks import unmigrated
from service.wiring.http_edge import edge

__all__ = ["Application", "build", "edge", "storage", "unmigrated", "verbs"]
