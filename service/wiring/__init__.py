"""Settings in, the finished service out. Only here are concrete classes named."""

from setwise.service.wiring.all_verbs import verbs
from setwise.service.wiring.application import Application, build, storage
from setwise.service.wiring.checks import unmigrated
from setwise.service.wiring.http_edge import edge

__all__ = ["Application", "build", "edge", "storage", "unmigrated", "verbs"]
