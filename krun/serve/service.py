"""krun serve under systemd: its unit, and the word that it is ready (systemd.service(5), sd_notify(3))."""

from __future__ import annotations

import os
import socket

from krun.errors import SysError

_UNIT = """[Unit]
Description=Knative services by krun
Documentation=man:krun(8)
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart={command} serve --directory /var/lib/krun-serve --unix /run/krun-serve/api.sock $KRUN_SERVE_OPTIONS
EnvironmentFile=-/etc/default/krun-serve
# A restart leaves the instances to the next server; a stop ends them, and waits for their grace and the open requests.
RestartKillSignal=SIGTERM
KillSignal=SIGINT
KillMode=process
TimeoutStopSec=60
Restart=on-failure
RestartSec=1
StateDirectory=krun-serve
StateDirectoryMode=0700
RuntimeDirectory=krun-serve
RuntimeDirectoryMode=0700
UMask=0022
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-500
# What is left out here would change the instances, which inherit it: NoNewPrivileges, each option that is a seccomp filter
# (Protect*, Restrict*, LockPersonality), PrivateDevices (/dev/kvm), ProtectKernelTunables (net.ipv4.ip_forward of --network bridge).
ProtectSystem=full
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_TIME CAP_SYSLOG CAP_SYS_RAWIO CAP_SYS_PACCT CAP_WAKE_ALARM
CapabilityBoundingSet=~CAP_BLOCK_SUSPEND CAP_LINUX_IMMUTABLE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_AUDIT_CONTROL CAP_AUDIT_READ

[Install]
WantedBy=multi-user.target
"""


def unit(command: str) -> str:
    """Return the unit of systemd. Argument: the path of krun's command."""
    return _UNIT.format(command=command)


def take_notify_socket() -> str:
    """Return NOTIFY_SOCKET, "" where there is none, and remove it from the environment.

    The runtime gives a program the socket that it finds there: an instance would speak for the server.
    """
    return os.environ.pop("NOTIFY_SOCKET", "")


def notify(path: str, words: str) -> None:
    """Tell the service manager: "READY=1", "STOPPING=1". Nothing where path is "". Raises SysError."""
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.connect(address)
            sock.send(words.encode())
    except OSError as error:
        raise SysError.of("tell the service manager", error, path) from None
