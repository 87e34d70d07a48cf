"""THE table of rows: the statements of Knative's runtime contract that bind an OCI runtime, each with its check.

Two texts (profiles): 2019, the contract of knative/serving release-0.5; current, knative/specs,
specs/serving/runtime-contract.md (2026-04). A row has a level for each, or None where the text does not have the statement. The
sentences are our own. Statements that bind only the platform, its documentation or the developer have no row here.
"""

from typing import NamedTuple

from krun.conformance import checks
from krun.conformance.facts import Check

PROFILES = ("2019", "current")
#: A failing row of these levels ends the command with 1. OCI: the contract takes the statement from the runtime specification.
BINDING = ("MUST", "MUST NOT", "OCI")
MUST, MUST_NOT, OCI, SHOULD, SHOULD_NOT, MAY = "MUST", "MUST NOT", "OCI", "SHOULD", "SHOULD NOT", "MAY"


class Row(NamedTuple):
    """A statement. Fields: its number; levels of the 2019 and of the current text; what it says; its check."""

    number: str
    level_2019: str | None
    level_current: str | None
    statement: str
    check: Check

    def level(self, profile: str) -> str | None:
        """Return the level in a profile, None where the text does not have the statement."""
        return self.level_2019 if profile == "2019" else self.level_current


ROWS = (
    Row(
        "RC-01", OCI, SHOULD, "The runtime follows the OCI runtime specification, version 1.", checks.version
    ),
    Row("RC-02", SHOULD, SHOULD, "A container starts in less than a second.", checks.starts_fast),
    Row(
        "RC-06",
        MAY,
        MAY,
        "A stopped container can be deleted at once, and nothing of it is left.",
        checks.reclaimed,
    ),
    Row("RC-07", MAY, MAY, "The program is the first process of a pid namespace.", checks.pid_one),
    Row("RC-10", SHOULD, MUST, "SIGTERM reaches the program at an orderly shutdown.", checks.terminated),
    Row(
        "RC-11",
        SHOULD,
        SHOULD,
        "A program that outlives SIGTERM is ended by SIGKILL, and not before.",
        checks.killed,
    ),
    Row(
        "RC-13",
        MUST,
        MUST,
        "The words and the exit code of a program that fails arrive.",
        checks.failure_seen,
    ),
    Row("RC-15", MUST, MUST, "Without an annotation a container has the OCI lifecycle.", checks.lifecycle),
    Row(
        "RC-19",
        SHOULD,
        None,
        "The program can leave a message in /dev/termination-log.",
        checks.termination_log,
    ),
    Row("RC-20", SHOULD_NOT, SHOULD_NOT, "The container has no way to the runtime.", checks.no_interface),
    Row(
        "RC-21", MAY, MAY, "The operator can ask for the state of a running container.", checks.state_and_kill
    ),
    Row("RC-24", MAY, MAY, "Hooks of config.json run, in the order of the specification.", checks.hooks),
    Row("RC-25", SHOULD, SHOULD, "A read from standard input gives end of file.", checks.stdin_eof),
    Row("RC-26", SHOULD, MUST, "Standard output and error arrive, apart from each other.", checks.output),
    Row("RC-27", MAY, MAY, "Processes of a container can share pipes.", checks.pipes),
    Row("RC-28", OCI, OCI, "/dev has the links of the specification.", checks.device_links),
    Row("RC-57", SHOULD, SHOULD, "The platform's resolv.conf replaces the image's.", checks.resolver),
    Row("RC-59", MAY, MAY, "The root can be read-only, and /tmp stays writable.", checks.root_readonly),
    Row("RC-61", MAY, MAY, "A read-only volume can be read and not written.", checks.volume),
    Row("RC-63", SHOULD_NOT, SHOULD_NOT, "The program has no terminal.", checks.no_terminal),
    Row(
        "RC-64",
        MUST_NOT,
        MUST_NOT,
        "Rights and limits of the process are those that the operator gives.",
        checks.linux_process,
    ),
    Row("RC-65", MUST, MUST, "PORT arrives in the environment.", checks.port),
    Row("RC-66", SHOULD, SHOULD, "K_REVISION, K_CONFIGURATION and K_SERVICE arrive.", checks.revision),
    Row("RC-69", MUST, MUST, "The program runs as the user that is asked for.", checks.runs_as_user),
    Row("RC-70", MUST, MUST, "Without one it runs as the image's user.", checks.runs_as_image_user),
    Row("RC-73", OCI, OCI, "The default file systems and devices are there.", checks.file_systems),
    Row("RC-74", MUST, MUST, "/tmp can be written by every user.", checks.temporary),
    Row("RC-75", MUST, MAY, "/var/log is a writable directory.", checks.var_log),
    Row("RC-76", MUST, None, "/dev/log is a socket that takes messages of syslog(3).", checks.dev_log),
    Row(
        "RC-77",
        SHOULD,
        SHOULD,
        "hosts, hostname and resolv.conf below /etc are the platform's.",
        checks.etc_files,
    ),
    Row("RC-78", MAY, MAY, "There are no mounts but those of config.json.", checks.platform_mounts),
    Row("RC-79", MUST, MUST, "Namespaces are those that the operator gives.", checks.namespaces),
    Row("RC-80", MUST_NOT, MUST_NOT, "There are no devices but the default ones.", checks.devices),
    Row(
        "RC-81",
        MUST,
        MUST,
        "Limits of the operator are the limits of the container's control group.",
        checks.host_limits,
    ),
    Row("RC-82", SHOULD, SHOULD, "Control groups are mounted read-only.", checks.groups_readonly),
    Row("RC-84", SHOULD, SHOULD, "The container can read its limits below /sys/fs/cgroup.", checks.limits),
    Row(
        "RC-85",
        MAY,
        MAY,
        "A container can be paused, so that it has no CPU time, and goes on.",
        checks.paused,
    ),
    Row("RC-86", SHOULD_NOT, SHOULD_NOT, "The program cannot change a sysctl.", checks.sysctl),
    Row("RC-87", MAY, MAY, "The operator's seccomp profile holds.", checks.seccomp),
    Row(
        "RC-88", MUST_NOT, MUST_NOT, "No mount of the container is shared with the host.", checks.propagation
    ),
    Row("RC-89", MUST_NOT, MUST_NOT, "The operator's masked paths cannot be read.", checks.masked),
    Row(
        "RC-90",
        MUST_NOT,
        MUST_NOT,
        "The operator's read-only paths cannot be written.",
        checks.readonly_paths,
    ),
    Row("RC-91", OCI, OCI, "Annotations of config.json are in the state.", checks.annotations),
)
