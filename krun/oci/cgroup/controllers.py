"""THE table of controllers: for each value of linux.resources its file of cgroup v1 and v2, its systemd property and its flag of `update`.

`limits` writes along it, `systemd` makes unit properties of it, `stats` reads what a controller counts, `update` takes its
flags from it, `v1` the names of the hierarchies; tests/unit/test_cgroup_table.py compares it with oci/fields.py (the
types that are checked, and docs/spec-conformance.md) and with cli/table.py. The order of the rows is the order of the writes.
config-linux.md "Control groups"; admin-guide/cgroup-v1, admin-guide/cgroup-v2; systemd.resource-control(5).
"""

from krun.oci.cgroup import convert as to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.oci.cgroup.convert import Conversion

    Unit = tuple[str, Conversion]


class Setting:
    """One value.

    key: in the controller's member of linux.resources; "" = the member itself, None = a file that only linux.resources.unified
    names. v1, v2: the file, "" = none there; to_v1, to_v2: what is written. each: the value is a list, a write for each
    element. writer: this function of v1.WRITERS and v2.WRITERS writes it, together with the others of that name, whose order
    matters to the kernel. unit_v1, unit_v2: property of a systemd unit and its conversion; unset: the
    conversion sees an absent value, too. flag: of `update`; size: the flag takes 64m. zero: 0 is a value (else: not given).
    refuse, ignore: version to the text of an error, or of a warning.
    """

    __slots__ = (
        "key", "v1", "v2", "to_v1", "to_v2", "each", "writer", "unit_v1", "unit_v2", "unset", "flag", "size", "zero",
        "refuse", "ignore",
    )  # fmt: skip

    def __init__(
        self,
        key: "str | None",
        v1: str = "",
        v2: str = "",
        *,
        to_v1: "Conversion" = to.plain,
        to_v2: "Conversion" = to.plain,
        each: bool = False,
        writer: str = "",
        unit_v1: "Unit | None" = None,
        unit_v2: "Unit | None" = None,
        unset: bool = False,
        flag: str = "",
        size: bool = False,
        zero: bool = False,
        refuse: "tuple[int, str]" = (0, ""),
        ignore: "tuple[int, str]" = (0, ""),
    ) -> None:
        self.key = key
        self.v1, self.to_v1 = v1, to_v1
        self.v2, self.to_v2 = v2, to_v2
        self.each = each
        self.writer = writer
        self.unit_v1, self.unit_v2, self.unset = unit_v1, unit_v2, unset
        self.flag, self.size = flag, size
        self.zero = zero
        self.refuse, self.ignore = refuse, ignore

    def given(self, section: "Any") -> "Any":
        """Return the value in a member of linux.resources, None when it is not given."""
        if self.key is None:
            return None
        value = section.get(self.key) if self.key else section
        if not value and not (self.zero and value == 0 and value is not False):
            return None
        return value


class Controller:
    """One controller.

    member: of linux.resources, "" = none. tree: v1's hierarchy. what: of the error when that is not mounted.
    events: its word in `krun events`, "" = counts nothing there; counters: (word, file) of one number each, the
    same files in v1 and v2; where there are none, stats.READERS reads the word.
    """

    __slots__ = ("member", "tree", "what", "settings", "events", "counters")

    def __init__(
        self,
        member: str,
        tree: str,
        what: str,
        settings: "tuple[Setting, ...]",
        events: str = "",
        counters: "tuple[tuple[str, str], ...]" = (),
    ) -> None:
        self.member = member
        self.tree = tree
        self.what = what
        self.settings = settings
        self.events = events
        self.counters = counters


def _throttle(key: str, v1: str, v2: str) -> Setting:
    return Setting(
        key, f"blkio.throttle.{v1}_device", "io.max", to_v1=to.device_rate, to_v2=to.io_max(v2), each=True
    )


_GONE = "linux.resources.memory.{} is not settable on current kernels and is ignored"
_NO_REALTIME = (2, "set realtime cpu time: cgroup v2 has no such limit")

CONTROLLERS = (
    Controller(
        "memory",
        "memory",
        "memory limit",
        (
            Setting(
                "limit", "memory.limit_in_bytes", "memory.max", writer="memory", flag="memory", size=True,
                unit_v1=("MemoryLimit", to.infinity), unit_v2=("MemoryMax", to.infinity),
            ),
            Setting(
                "reservation", "memory.soft_limit_in_bytes", "memory.low", to_v2=to.max_below_zero,
                flag="memory_reservation", size=True, unit_v2=("MemoryLow", to.infinity),
            ),
            Setting(
                "swap", "memory.memsw.limit_in_bytes", "memory.swap.max", writer="memory", flag="memory_swap", size=True,
                unit_v2=("MemorySwapMax", to.swap_property), unset=True,
            ),
            Setting("disableOOMKiller", "memory.oom_control", to_v1=to.one),
            Setting("swappiness", "memory.swappiness", to_v1=to.percent, zero=True),
            Setting("kernel", ignore=(1, _GONE.format("kernel"))),
            Setting("kernelTCP", ignore=(1, _GONE.format("kernelTCP"))),
            Setting("useHierarchy"),  # always so since Linux 5.11
            Setting("checkBeforeUpdate"),  # read by the writer "memory"
            Setting(None, v2="memory.high", unit_v2=("MemoryHigh", to.infinity)),
            Setting(None, v2="memory.min", unit_v2=("MemoryMin", to.infinity)),
        ),
        "memory",
    ),
    Controller(
        "cpu",
        "cpu",
        "cpu limit",
        (
            # Before the shares, which an idle group refuses.
            Setting("idle", "cpu.idle", "cpu.idle", zero=True, flag="cpu_idle"),
            Setting(
                "shares", "cpu.shares", "cpu.weight", writer="shares", flag="cpu_share",
                unit_v1=("CPUShares", to.infinity), unit_v2=("CPUWeight", to.cpu_weight),
            ),
            Setting(
                "quota", "cpu.cfs_quota_us", "cpu.max", writer="bandwidth", flag="cpu_quota",
                unit_v1=("CPUQuotaPerSecUSec", to.quota_per_second), unit_v2=("CPUQuotaPerSecUSec", to.quota_per_second),
            ),
            Setting(
                "period", "cpu.cfs_period_us", "cpu.max", writer="bandwidth", flag="cpu_period",
                unit_v2=("CPUQuotaPeriodUSec", to.infinity),
            ),
            Setting("burst", "cpu.cfs_burst_us", "cpu.max.burst", writer="bandwidth", zero=True, flag="cpu_burst"),
            # The period first: it must hold the run time.
            Setting("realtimePeriod", "cpu.rt_period_us", flag="cpu_rt_period", refuse=_NO_REALTIME),
            Setting("realtimeRuntime", "cpu.rt_runtime_us", flag="cpu_rt_runtime", refuse=_NO_REALTIME),
        ),
        "cpu",
    ),
    Controller(
        "cpu",
        "cpuset",
        "cpu set",
        (
            Setting(
                "cpus", "cpuset.cpus", "cpuset.cpus", flag="cpuset_cpus", unit_v2=("AllowedCPUs", to.bitmap)
            ),
            Setting(
                "mems", "cpuset.mems", "cpuset.mems", flag="cpuset_mems", unit_v2=("AllowedMemoryNodes", to.bitmap)
            ),
        ),
        "cpuset",
    ),
    Controller(
        "pids",
        "pids",
        "pids limit",
        (
            Setting(
                "limit", "pids.max", "pids.max", to_v1=to.tasks_max, to_v2=to.tasks_max, zero=True, flag="pids_limit",
                unit_v1=("TasksMax", to.tasks), unit_v2=("TasksMax", to.tasks),
            ),
        ),
        "pids",
        (("current", "pids.current"), ("limit", "pids.max")),
    ),
    Controller(
        "blockIO",
        "blkio",
        "block I/O limit",
        (
            Setting(
                "weight", "blkio.weight", "io.weight", writer="weight", flag="blkio_weight",
                unit_v1=("BlockIOWeight", to.infinity), unit_v2=("IOWeight", to.io_weight),
            ),
            Setting("leafWeight", "blkio.leaf_weight"),
            Setting("weightDevice", "blkio.weight_device", "io.weight", writer="weight"),
            _throttle("throttleReadBpsDevice", "read_bps", "rbps"),
            _throttle("throttleWriteBpsDevice", "write_bps", "wbps"),
            _throttle("throttleReadIOPSDevice", "read_iops", "riops"),
            _throttle("throttleWriteIOPSDevice", "write_iops", "wiops"),
        ),
        "blkio",
    ),
    Controller(
        "hugepageLimits",
        "hugetlb",
        "huge page limit",
        (Setting("", "hugetlb.*.limit_in_bytes", "hugetlb.*.max", writer="hugetlb"),),
        "hugetlb",
    ),
    Controller("rdma", "rdma", "rdma limit", (Setting("", "rdma.max", "rdma.max", writer="rdma"),)),
    Controller(
        "network",
        "net_cls",
        "network class",
        (
            Setting("", ignore=(2, "linux.resources.network is for cgroup v1 only and is ignored on this host")),
            Setting("classID", "net_cls.classid"),
        ),
    ),
    Controller(
        "network",
        "net_prio",
        "network priority",
        (Setting("priorities", "net_prio.ifpriomap", to_v1=to.interface_priority, each=True),),
    ),
    Controller(
        "unified",
        "",
        "unified resource",
        (
            Setting(
                "", v2="*", writer="unified",
                refuse=(1, "set linux.resources.unified: this host has no cgroup v2 (unified) controllers"),
            ),
        ),
    ),
)  # fmt: skip


def given(resources: "dict[str, Any]") -> "Any":
    """Yield (controller, setting, value, section) of all that linux.resources asks for, in the table's order."""
    for controller in CONTROLLERS:
        section = resources.get(controller.member)
        if section:
            for setting in controller.settings:
                value = setting.given(section)
                if value is not None:
                    yield controller, setting, value, section
