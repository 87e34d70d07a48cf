"""krun deploy: a Service from an image or a directory, without kn. Waits until it is ready and prints its URL."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from typing import Any

from krun.errors import KrunError, UsageError
from krun.serve.cli import address, directory
from krun.serve.model import conditions
from krun.serve.model.names import label_1035
from krun.serve.request import Server, ask, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Options

Object = dict[str, Any]
_WAIT = 120.0
_POLL = 0.1
#: Seconds that a server which was started a moment ago has until it listens.
_LISTEN = 30.0


def name_of(image: str) -> str:
    """Returns a service's name for an image or a directory: its last part, as a label."""
    last = re.split(r"[/\\]", image.rstrip("/"))[-1].partition("@")[0].partition(":")[0]
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:63]


def service(name: str, namespace: str, image: str, env: list[str], port: int | None) -> Object:
    """Returns the Service object."""
    container: Object = {"image": image}
    if env:
        container["env"] = [{"name": item.partition("=")[0], "value": item.partition("=")[2]} for item in env]
    if port:
        container["ports"] = [{"containerPort": port}]
    # A new revision even if nothing but the image's contents has changed: two in one second are two, too.
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    notes = {"client.knative.dev/updateTimestamp": f"{stamp}.{time.time_ns() % 10**9:09d}Z"}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"metadata": {"annotations": notes}, "spec": {"containers": [container]}}},
    }


def main(opts: Options) -> int:
    """Deploys opts.image and waits for it. Errors: KrunError with the condition's reason if it fails."""
    where = find(
        os.path.abspath(opts.directory or directory()),
        address(opts.api, "api") if opts.api else None,
        opts.token_file,
    )
    name = opts.name or name_of(opts.image)
    if label_1035(name):
        raise UsageError(f"{name!r} is no name of a service; give --name")
    image = opts.image
    if os.path.isdir(image) or image.endswith(".tar"):
        image = _link(opts, name)
    namespace = opts.namespace or "default"
    _listening(where.address)
    path = f"/apis/serving.knative.dev/v1/namespaces/{namespace}/services"
    obj = service(name, namespace, image, opts.env, opts.port)
    known = [one for one in ask(where, "GET", path)["items"] if one["metadata"]["name"] == name]
    if known:
        obj["metadata"] = known[0]["metadata"]
        obj["spec"]["traffic"] = known[0]["spec"].get("traffic")
        ask(where, "PUT", f"{path}/{name}", obj)
    else:
        ask(where, "POST", path, obj)
    url = _wait(where, f"{path}/{name}")
    sys.stdout.write(url + "\n")
    return 0


def _listening(where: tuple[str, int]) -> None:
    """Waits for a server that is just starting (`krun serve &` in a script), and says so. Errors are the next request's."""
    end = time.monotonic() + _LISTEN
    told = False
    while time.monotonic() < end:
        try:
            socket.create_connection(where, timeout=_LISTEN).close()
            return
        except ConnectionRefusedError:
            if not told:
                sys.stderr.write(f"waiting for krun serve on {where[0]}:{where[1]}\n")
                told = True
            time.sleep(_POLL)
        except OSError:
            return


def _link(opts: Options, name: str) -> str:
    """Makes a directory or archive an image of the server: a link in its directory of local images."""
    # A repository has two letters at least, and a service may have one.
    base = os.path.join(os.path.abspath(opts.directory or directory()), "local", "dev.local", "krun")
    reference = f"{name}:{time.strftime('%Y%m%d%H%M%S', time.gmtime())}{time.time_ns() % 10**9:09d}"
    path = os.path.abspath(opts.image)
    try:
        os.makedirs(base, exist_ok=True)
        if path.endswith(".tar"):
            os.symlink(path, os.path.join(base, reference + ".tar"))
        elif os.path.exists(os.path.join(path, "rootfs")) or os.path.exists(os.path.join(path, "oci-layout")):
            os.symlink(path, os.path.join(base, reference))
        else:
            raise KrunError(
                f"deploy {path}: it has neither rootfs/ (with config.json beside it) nor oci-layout; "
                "tools/runenv.py pack makes an image of a program's files (docs/getting-started.md)"
            )
    except OSError as error:
        raise KrunError(f"deploy {path}: {error.strerror}: {error.filename}") from error
    return f"dev.local/krun/{reference}"


def _wait(where: Server, path: str) -> str:
    end = time.monotonic() + _WAIT
    while time.monotonic() < end:
        obj = ask(where, "GET", path)
        if conditions.is_ready(obj):
            return str(obj["status"]["url"])
        if conditions.is_failed(obj):
            # The route only says that there is no revision; the configuration says why.
            told = [conditions.find(obj["status"], word) or {} for word in ("ConfigurationsReady", "Ready")]
            cause = next((one for one in told if one.get("status") == "False"), {})
            raise KrunError(f"deploy {path}: {cause.get('reason')}: {cause.get('message')}")
        time.sleep(_POLL)
    raise KrunError(f"deploy {path}: it is not ready after {_WAIT:.0f} s; kubectl describe ksvc tells more")
