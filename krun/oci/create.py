"""`krun create`: a container whose program waits for `start`."""

import os

from krun.errors import KrunError
from krun.oci import caller, container, labels, namespaces, plan, spec
from krun.sysio import unix_connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.oci.container import Container
    from krun.oci.foreground import Foreground


def main(opts: "Options") -> int:
    """Creates a container. Raises KrunError with runc's prefix."""
    try:
        make(opts, caller.seal_descriptors(opts.preserve_fds, opts.logger.fileno()), True)
    except KrunError as e:
        raise prefixed("create", e) from None
    return 0


def prefixed(verb: str, error: KrunError) -> KrunError:
    """Returns the error as "krun VERB failed: ...", which is how runc's callers know the line that matters."""
    return KrunError(f"krun {verb} failed: {error}", error.exit_code)


def make(
    opts: "Options", keep: "list[int]", detach: bool, console: int = -1, front: "Foreground | None" = None
) -> "Container | None":
    """The common part of create and run.

    Arguments: opts; keep, descriptors that the payload inherits; detach, whether we go away before the container
    does; console, socket for the terminal of a `run` in the foreground; front, of such a one.
    Returns the Container, None after --dry-run. Raises KrunError, SysError.
    """
    bundle = os.path.abspath(opts.bundle or ".")
    config = spec.load(bundle, opts.config)
    if not opts.settings.hooks_allowed and any(config.hooks.values()):
        raise KrunError(
            "config.json has hooks, and the administrator allows none (hooks.allowed in /etc/krun/krun.yaml)"
        )
    if namespaces.inherit_own(config.namespaces):
        spec.check_namespaces(config)
    if config.intel_rdt is not None:
        # Cost: hardly any container has a class of service.
        from krun.oci import resctrl

        resctrl.check(config.intel_rdt)
    if caller.notify_socket():
        # Cost: socket and its enums; only service managers set the variable.
        from krun.oci import notify

        notify.add(config, f"{opts.root}/{opts.id}")
    keyring = "" if opts.no_new_keyring else labels.keyring_name(opts.id)
    made = plan.build(config, bool(opts.no_pivot), keyring)
    if opts.dry_run:
        os.write(1, ("\n".join(made.describe()) + "\n").encode("utf-8", "surrogateescape"))
        return None
    process = config.process
    assert process is not None
    caller.pass_listen_fds(process)
    caller.check_terminal(process, detach, opts.console_socket)
    if opts.console_socket:
        console = unix_connect(opts.console_socket)
    options = container.CreateOptions(opts.root, opts.id, opts.logger)
    options.notify = bool(caller.notify_socket())
    options.manager, options.rootless = manager_of(opts), is_rootless(opts)
    options.keyring, options.settings = keyring, opts.settings
    options.foreground = not detach
    options.keep, options.console, options.t0 = keep, console, opts.t0
    options.trace_log = opts.trace_log
    options.trace, options.pid_file, options.pidfd_socket = opts.trace, opts.pid_file, opts.pidfd_socket
    if front is not None and not process.terminal:
        options.stdio = front.take_streams()
    return container.create(config, made, options)


def manager_of(opts: "Options") -> str:
    """Returns the cgroup manager that the command line asks for."""
    if opts.systemd_cgroup:
        return "systemd"
    return opts.cgroup_manager or "cgroupfs"


def is_rootless(opts: "Options") -> bool:
    """Tells whether we are an ordinary user's."""
    if opts.rootless in ("true", "1"):
        return True
    return opts.rootless not in ("false", "0") and os.geteuid() != 0
