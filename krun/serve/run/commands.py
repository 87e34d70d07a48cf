"""The worker's commands: each runs in a thread of the worker, and answers with an object and descriptors (wire.py).

A descriptor of an answer is a copy, which the main thread closes after it has been sent: the instance may be removed meanwhile.
"""

import functools
import os
import re
import time
from typing import Any

from krun.errors import KrunError
from krun.serve.run import programs, usage, volumes, wire
from krun.serve.run.image import collector
from krun.serve.run.sandbox import Container, Sandbox, label
from krun.serve.run.worker import Answer, Command, Worker

_ID = re.compile(r"[a-z][a-z0-9-]{0,200}")


def hello(worker: Worker, message: dict[str, Any]) -> Answer:
    """The protocol's version, the worker's pid, and every instance, for a server that starts."""
    del message
    found = [
        {"id": own.id, "spec": own.spec, "containers": own.states()}
        for own in list(worker.sandboxes.values())
        if not own.removed
    ]
    return {
        "version": wire.VERSION,
        "pid": os.getpid(),
        "instances": found,
        "network": worker.network_config,
    }, []


def netns(worker: Worker, message: dict[str, Any]) -> Answer:
    """The descriptor of an instance's network namespace, and how its containers are."""
    own = worker.sandbox(message["id"])
    with own.lock:
        own.alive()
        told = {"containers": own.states(), "paused": own.paused, "address": own.address}
        return told, [os.dup(own.netns)]


def image(worker: Worker, message: dict[str, Any]) -> Answer:
    """Resolve an image, unpacking it where that is needed."""
    found = worker.store.resolve(message["image"])
    return {"digest": found.digest, "config": found.config.to_json(), "layers": found.layers}, []


def collect(worker: Worker, message: dict[str, Any]) -> Answer:
    """Remove what neither the images of `references` nor an instance uses, by the `rules` (collector.Rules)."""
    kept = {part for text in message["references"] for part in worker.store.parts(text)}

    def used(path: str) -> bool:
        # Asked anew for each entry: an instance may have started meanwhile.
        layer = worker.store.layer_of(path)
        return path in kept or any(
            layer in layers for own in list(worker.sandboxes.values()) for layers in list(own.layers.values())
        )

    return collector.collect(worker.store, collector.Rules(**message["rules"]), used), []


def link(worker: Worker, message: dict[str, Any]) -> Answer:
    """Give a reference to a path of this machine."""
    worker.store.link(message["image"], message["path"])
    return {}, []


def doors(worker: Worker, message: dict[str, Any]) -> Answer:
    """The sockets by which instances reach the server, and their address; none without a network."""
    del message
    if worker.network is None:
        return {"address": ""}, []
    return {"address": worker.network.doors.address}, worker.network.doors.duplicates()


def sandbox(worker: Worker, message: dict[str, Any]) -> Answer:
    """Make an instance without containers; answers with its network namespace."""
    id = message["id"]
    if not _ID.fullmatch(id):
        raise KrunError(f"instance {id!r}: malformed id")
    if id in worker.sandboxes:
        raise KrunError(f"instance {id} exists")
    if worker.stopping:
        raise KrunError(f"instance {id}: the worker of krun serve ends")
    made = Sandbox(
        id,
        os.path.join(worker.directory, "instances", id),
        worker.runtime,
        worker.cgroup,
        message["spec"],
        worker.network,
        trash=worker.trash,
    )
    try:
        worker.on_main(lambda: worker.add(made))
    except BaseException:
        made.remove()
        worker.on_main(lambda: worker.drop(made))
        made.syslog.close()
        raise
    return {"address": made.address}, [os.dup(made.netns)]


def start(worker: Worker, message: dict[str, Any]) -> Answer:
    """Create and start a container of an instance; its output goes to a log of its own."""
    own = worker.sandbox(message["id"])
    spec = message["container"]
    label(spec["name"])
    with worker.store.using(spec["image"]) as found, own.lock:
        own.alive()
        # Before the image is let go of: the collector asks for both.
        own.layers[spec["name"]] = found.layers
        old = own.containers.get(spec["name"])
        if old is not None:
            worker.on_main(lambda: worker.unwatch(old))
        log = worker.open_log(own.id, spec["name"], own.starts.get(spec["name"], 0))
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        worker.on_main(lambda: worker.read_streams(log, [pipe[0] for pipe in pipes]))
        worker.on_main(lambda: own.logs_into(spec["name"], log))
        try:
            container = own.start(spec, found, pipes[0][1], pipes[1][1])
        finally:
            for _, writing in pipes:
                os.close(writing)
        pid = container.process.pid if container.process else 0
        answer = {"pid": pid, "digest": found.digest, "starts": container.starts}
        worker.on_main(lambda: worker.watch(own, container))
    return answer, []


def kill(worker: Worker, message: dict[str, Any]) -> Answer:
    """Signal the init of each container of an instance, or of one; with `ending` no container starts from now on.

    A start sets the process, then looks at `ending`; this sets `ending`, then looks at the process: one of both sees the other.
    """
    own = worker.sandbox(message["id"])
    own.ending = own.ending or bool(message.get("ending"))
    for container in list(own.containers.values()):
        process = container.process
        if process is not None and message.get("container") in (None, container.name):
            process.signal(message["signal"])
    return {}, []


def exec_(worker: Worker, message: dict[str, Any]) -> Answer:
    """Run a program in a container to its end."""
    timeout = message["timeout"] - (time.monotonic() - message["asked"])
    if timeout <= 0:
        return {"status": -1, "output": "no thread was free within its time"}, []  # who asked has gone
    own, container = _running(worker, message)
    status, output = worker.runtime.exec(container.id, message["argv"], own.directory, timeout)
    return {"status": status, "output": output}, []


def program(worker: Worker, message: dict[str, Any]) -> Answer:
    """Start a program in a container; answers with its streams (programs.launch). Its end is an event with its "name"."""
    own, container = _running(worker, message)
    generation = worker.programs.generation
    process, fds = programs.launch(worker.runtime, container.id, message, own.directory)
    worker.on_main(lambda: worker.programs.add(message["name"], own.id, process, generation))
    return {}, fds


def program_kill(worker: Worker, message: dict[str, Any]) -> Answer:
    """End a program of `program`."""
    worker.on_main(lambda: worker.programs.kill(message["name"]))
    return {}, []


def _running(worker: Worker, message: dict[str, Any]) -> tuple[Sandbox, Container]:
    """The instance and the container of a message. Raises KrunError where it does not run."""
    own = worker.sandbox(message["id"])
    container = own.containers.get(message["container"])
    if container is None or container.process is None:
        raise KrunError(f"container {message['container']} of {own.id} does not run")
    return own, container


def pause(worker: Worker, message: dict[str, Any]) -> Answer:
    """Freeze all containers of an instance, or thaw them ("verb": "pause", "resume")."""
    own = worker.sandbox(message["id"])
    with own.lock:
        own.alive()
        own.freeze(message["verb"] == "pause")
    return {}, []


def usage_(worker: Worker, message: dict[str, Any]) -> Answer:
    """The local storage of an instance: its disk-backed emptyDirs; each container's writable layer, logs and termination log; "files",
    the others of the platform that its payload can write.
    """
    own = worker.sandbox(message["id"])
    disk = {
        name: path
        for name, path in own.directories.items()
        if name in own.writable and path not in own.memory_volumes
    }
    logs = os.path.join(worker.directory, "logs", own.id)
    layers = {
        c.name: [os.path.join(c.directory, "upper"), os.path.join(logs, c.name)]
        for c in list(own.containers.values())
    }
    found = usage.of_instance(disk, layers)
    for c in list(own.containers.values()):
        if c.name in found["containers"]:
            found["containers"][c.name] += usage.of_files([c.termination])
    return {**found, "files": usage.of_files(own.files.values())}, []


def remove(worker: Worker, message: dict[str, Any]) -> Answer:
    """Take an instance down, its containers running or not. What fails is tried again by the worker (Worker._remove_again)."""
    own = worker.sandbox(message["id"])
    with own.lock:
        own.removed = True
        for container in list(own.containers.values()):
            worker.on_main(functools.partial(worker.unwatch, container))
        own.remove()
    worker.on_main(lambda: worker.drop(own))
    worker.trim_logs(own.id)
    return {}, []


def publish(worker: Worker, message: dict[str, Any]) -> Answer:
    """Give a volume of an instance new files."""
    own = worker.sandbox(message["id"])
    with own.lock:
        own.alive()
        if message["volume"] not in own.directories or message["volume"] in own.writable:
            raise KrunError(f"instance {own.id} has no volume of files {message['volume']!r}")
        volumes.publish(own.directories[message["volume"]], message["files"])
    return {}, []


def forget(worker: Worker, message: dict[str, Any]) -> Answer:
    """Remove the logs of an instance that has gone."""
    if _ID.fullmatch(message["id"]):
        worker.forget(message["id"])
    return {}, []


def stop(worker: Worker, message: dict[str, Any]) -> Answer:
    """End when the last instance has gone; new ones are refused from now on."""
    del message
    worker.on_main(lambda: setattr(worker, "stopping", True))
    return {}, []


COMMANDS: dict[str, Command] = {
    "hello": hello,
    "netns": netns,
    "image": image,
    "collect": collect,
    "link": link,
    "doors": doors,
    "sandbox": sandbox,
    "start": start,
    "kill": kill,
    "exec": exec_,
    "program": program,
    "program-kill": program_kill,
    "pause": pause,
    "usage": usage_,
    "remove": remove,
    "publish": publish,
    "forget": forget,
    "stop": stop,
}
