"""The files that a platform gives to a container: hosts, hostname, resolv.conf (runtime contract, "DNS", "Default filesystems").

They are the platform's own files, one set an instance, bound over the image's; the host's resolv.conf is the source of servers.
"""

import os

_HOSTS = """# krun serve
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def write(
    directory: str, hostname: str, address: str, search: list[str], servers: list[str] | None
) -> dict[str, str]:
    """Write the files of an instance. Arguments: directory of the instance; hostname; address of the instance ("127.0.0.1" where
    it has no network); search domains; servers, or None for the host's. Returns destination -> path. Raises OSError.
    """
    if servers is None:
        servers = host_servers()
    texts = {
        "hosts": f"{_HOSTS}{address}\t{hostname}\n",
        "hostname": f"{hostname}\n",
        "resolv.conf": "".join(
            [
                f"search {' '.join(search)}\n" if search else "",
                *(f"nameserver {s}\n" for s in servers),
                "options ndots:5\n",
            ]
        ),
    }
    places = {}
    for name, text in texts.items():
        path = os.path.join(directory, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)
        places[f"/etc/{name}"] = path
    return places


def host_servers() -> list[str]:
    """Return the name servers of the host that are reachable from another network namespace: none of loopback's."""
    found = []
    for path in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        try:
            with open(path) as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if (
                len(words) >= 2
                and words[0] == "nameserver"
                and not words[1].startswith(("127.", "::1"))
                and words[1] not in found
            ):
                found.append(words[1])
    return found
