"""`krun create`: a container whose program waits for `start`."""

import os

from krun.errors import KrunError
from krun.oci import launch, namespaces, plan, spec
from krun.sysio import unix_connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Options
    from krun.oci.launch import Container


def main(opts: "Options") -> int:
    """Creates a container. Raises KrunError with runc's prefix."""
    try:
        make(opts, launch.seal_descriptors(opts.preserve_fds), True)
    except KrunError as e:
        raise prefixed("create", e) from None
    return 0


def prefixed(verb: str, error: KrunError) -> KrunError:
    """Returns the error as "krun VERB failed: ...", which is how runc's callers know the line that matters."""
    return KrunError(f"krun {verb} failed: {error}", error.exit_code)


def make(opts: "Options", keep: "list[int]", detach: bool, console: int = -1) -> "Container | None":
    """What create and run share.

    Arguments: opts; keep, descriptors that the payload inherits; detach, whether we go away before the container
    does; console, socket for the terminal of a `run` in the foreground.
    Returns the Container, None after --dry-run. Raises KrunError, SysError.
    """
    bundle = os.path.abspath(opts.bundle or ".")
    config = spec.load(bundle, opts.config)
    namespaces.inherit_own_mounts(config.namespaces)
    if config.intel_rdt is not None:
        # Cost: hardly any container has a class of service.
        from krun.oci import resctrl

        resctrl.check(config.intel_rdt)
    if os.environ.get("NOTIFY_SOCKET"):
        # Cost: socket and its enums; only service managers set the variable.
        from krun.oci import notify

        notify.add(config, f"{opts.root}/{opts.id}")
    made = plan.build(config, opts.id, bool(opts.no_pivot), not opts.no_new_keyring)
    if opts.dry_run:
        os.write(1, ("\n".join(made.describe()) + "\n").encode("utf-8", "surrogateescape"))
        return None
    process = config.process
    assert process is not None
    launch.pass_listen_fds(process)
    launch.check_terminal(process, detach, opts.console_socket)
    if opts.console_socket:
        console = unix_connect(opts.console_socket)
    return launch.create(config, made, opts, keep, console, opts.t0)
