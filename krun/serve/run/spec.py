"""What an instance is made of, and how one of its containers ended: values that all of krun serve hands around."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from krun.serve.run import volumes as volume_plans


@dataclass(frozen=True)
class InstanceSpec:
    """What an instance is made of; see docs/serve.md.

    containers: core/v1 Container with defaults applied; `env` and `envFrom` are resolved here. lookup: kind ("ConfigMap",
    "Secret") and name -> object or None. port: where the program listens. grace_seconds: between SIGTERM and SIGKILL.
    serving: name of the container that gets PORT.
    """

    id: str
    namespace: str
    service: str
    configuration: str
    revision: str
    containers: list[dict[str, Any]]
    volumes: list[dict[str, Any]]
    lookup: volume_plans.Lookup
    port: int
    grace_seconds: float
    serving: str = "user-container"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    service_account: str = "default"


@dataclass(frozen=True)
class ContainerExit:
    """How a container ended: exit code (128 + signal where one killed it), signal or 0, whether for memory, its last words."""

    container: str
    code: int
    signal: int
    oom: bool
    message: str

    @property
    def reason(self) -> str:
        """The word for a condition: OOMKilled, or ExitCodeN (knative/serving, revision_lifecycle.go)."""
        return "OOMKilled" if self.oom else f"ExitCode{self.code}"


def exit_of(container: str, told: dict[str, Any]) -> ContainerExit:
    """Return an exit from what the worker tells of it (Sandbox.ended)."""
    return ContainerExit(container, told["code"], told["signal"], told["oom"], told["message"])
