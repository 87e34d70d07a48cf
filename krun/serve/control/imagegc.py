"""Asks the worker for the collection of unused images: every five minutes, as the kubelet (ImageGCPeriod).

The server knows which images revisions name, the worker which ones instances and unpacking have in hand. What came of it is told
in the log, in metrics, and by Events about the Node, as the kubelet's.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.control import pods
from krun.serve.control.context import Context
from krun.serve.control.periodic import Periodic
from krun.serve.model.kinds import REVISION, Kind
from krun.serve.proxy.metrics import Family
from krun.serve.settings import Images
from krun.serve.store.store import Store

PERIOD = 300.0
#: The machine, as Events name it; the API does not serve it.
NODE = Kind("Node", "nodes", "node", group="", namespaced=False)


class Collecting(Protocol):
    """What is needed of run.instance.Runner."""

    async def collect_images(self, references: list[str], rules: dict[str, float]) -> dict[str, Any]: ...


class ImageGc:
    """See above. Arguments: rules, the settings of the moment."""

    def __init__(
        self,
        store: Store,
        runner: Collecting,
        rules: Callable[[], Images],
        context: Context,
        report: Callable[[str], None],
    ) -> None:
        self.store = store
        self.runner = runner
        self.rules = rules
        self.context = context
        self.report = report
        self.removed: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.percent = 0
        self._rounds = Periodic(self.once, "collect images", report)

    def start(self, period: float = PERIOD) -> None:
        """Begins; the first collection is after a period, as what a restart needs is not known before."""
        self._rounds.start(period)

    def close(self) -> None:
        """Ends; a collection that has begun is finished by the worker."""
        self._rounds.close()

    def references(self) -> list[str]:
        """Returns the images of all revisions, also of those without an instance."""
        found: set[str] = set()
        for revision in self.store.each(REVISION):
            spec = revision["spec"]
            for one in (*spec["containers"], *(spec.get("initContainers") or ())):
                found.add(one["image"])
        return sorted(found)

    async def once(self) -> None:
        """Collects once. A failure is told, and the next period tries again."""
        try:
            told = await self.runner.collect_images(self.references(), asdict(self.rules()))
        except KrunError as error:
            self.report(f"collect images: {error.message}")
            self._event("Warning", "ImageGCFailed", error.message)
            return
        self.percent = told["percent"]
        for name, size, reason in told["removed"]:
            self.removed[reason] += 1
            self.bytes[reason] += size
            self.report(f"collect images: removed {name} ({size} bytes, {reason})")
        if told["removed"]:
            total = sum(size for _, size, _ in told["removed"])
            self._event(
                "Normal", "ImagesCollected", f"Removed {len(told['removed'])} unused layers, {total} bytes."
            )
        if told["freed"] < told["wanted"]:
            text = (
                "Failed to garbage collect required amount of images. Attempted to free"
                f" {told['wanted']} bytes, but only found {told['freed']} bytes eligible to free."
            )
            self.report(f"collect images: {text}")
            self._event("Warning", "FreeDiskSpaceFailed", text)

    def _event(self, type: str, reason: str, message: str) -> None:
        node = {"metadata": {"name": pods.NODE_NAME, "namespace": "default", "uid": pods.NODE_NAME}}
        self.context.event(NODE, node, type, reason, message)

    def metrics(self, family: Family) -> None:
        """Adds the metrics; the first has the kubelet's name."""
        for name, counts in (
            ("kubelet_image_garbage_collected_total", self.removed),
            ("krun_image_garbage_collected_bytes_total", self.bytes),
        ):
            for reason in ("age", "space"):
                family(name, "counter").append(f'{name}{{reason="{reason}"}} {counts[reason]}')
        name = "krun_image_filesystem_used_percent"
        family(name, "gauge").append(f"{name} {self.percent}")
