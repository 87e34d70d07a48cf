"""exec, attach and port-forward: from the name of a Pod to its instance. A session keeps its instance from being frozen."""

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from krun.errors import KrunError
from krun.serve.control.member import Member
from krun.serve.control.pools import Pools
from krun.serve.run.instance import Instance
from krun.serve.run.session import STDERR, STDOUT, Session

_STREAMS = {"stdout": STDOUT, "stderr": STDERR}


class Remote:
    """Implements api.remote.Instances."""

    def __init__(self, pools: Pools) -> None:
        self.pools = pools

    async def execute(
        self, name: str, container: str, argv: list[str], streams: set[int], tty: bool
    ) -> Session:
        """Starts a program in a container of a Pod's instance. Errors: KrunError."""
        instance = await self._awake(name, container)
        return await instance.open(container, argv, streams, tty)

    async def attach(self, name: str, container: str, streams: set[int]) -> AsyncIterator[tuple[int, bytes]]:
        """Yields what the container's present start writes from now on. Errors: KrunError."""
        instance = await self._awake(name, container)
        pid = instance.pids.get(container)
        output = instance.attach(container, lambda: instance.pids.get(container) == pid)
        async for _, stream, text in output:
            number = _STREAMS.get(stream, STDOUT)
            if number in streams:
                yield number, text

    async def reach(self, name: str) -> Callable[[int], socket.socket]:
        """Returns what connects to a port inside the instance. Errors: KrunError."""
        await self._awake(name)

        def connect(port: int) -> socket.socket:
            # Asked anew for each connection: the instance may have gone.
            instance = self._member(name).instance
            assert instance is not None
            return instance.connect(port)

        return connect

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """For the time of a session: the Pod's instance is not frozen."""
        member = self._find(name)
        if member is not None:
            member.sessions += 1
        try:
            yield
        finally:
            if member is not None:
                member.sessions -= 1

    async def _awake(self, name: str, container: str = "") -> Instance:
        """The instance of a Pod, thawed. Errors: KrunError, it or the container does not run."""
        member = self._member(name, container)
        if member.frozen:
            await member.thaw()
            self._member(name, container)
        assert member.instance is not None
        return member.instance

    def _find(self, name: str) -> Member | None:
        for pool in self.pools.pools.values():
            if name in pool.members:
                return pool.members[name]
        return None

    def _member(self, name: str, container: str = "") -> Member:
        """The instance of a Pod. Errors: KrunError, it or the container does not run."""
        member = self._find(name)
        if member is None or member.instance is None or member.instance.netns < 0:
            raise KrunError(f"pod {name} has no instance that runs")
        if container and container not in member.instance.pids:
            raise KrunError(f"container {container} of pod {name} does not run")
        return member
