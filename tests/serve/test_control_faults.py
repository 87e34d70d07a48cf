"""The control plane, when one object, one start or one number is not what it should be: the others go on, and nothing stays behind."""

import asyncio
import functools

from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import World

from krun.serve.model.kinds import CONFIG_MAP

MAPS = "/api/v1/namespaces/knative-serving/configmaps"


def loop(test):
    """Runs an asynchronous test."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@loop
async def test_templates_that_make_no_host_do_not_end_the_control_loop(tmp_path):
    """Such a map is refused; one that an earlier server took is as if it were not there."""
    async with World(str(tmp_path / "store")) as world:
        tagged = [{"percent": 100, "latestRevision": True, "tag": "t"}]
        await world.call("POST", f"{SERVING}/services", ksvc(traffic=tagged))
        await world.ready()
        data = {
            "tag-template": "{{.Namespace}}-{{.Tag}}-{{.Name}}",
            "domain-template": "{{.Name}}.\u00fc.{{.Domain}}",
        }
        for key, text in data.items():
            code, answer = await world.call(
                "POST", MAPS, {"metadata": {"name": "config-network"}, "data": {key: text}}
            )
            assert code == 400 and key in answer["message"]
            metadata = {"name": "config-network", "namespace": "knative-serving"}
            world.store.create(CONFIG_MAP, {"metadata": metadata, "data": {key: text}})
            world.engine.start()
            await world.call("POST", f"{SERVING}/services", ksvc(f"of-{key}"))
            await world.ready(f"of-{key}")
            world.store.delete(CONFIG_MAP, "knative-serving", "config-network")
        await world.leads("t-hello.default.localhost", {"hello-00001": 100})


@loop
async def test_an_error_at_the_end_of_a_turn_does_not_end_the_turns(monkeypatch):
    async with World() as world:
        replace, failures = world.table.replace, [RuntimeError("broken"), RuntimeError("broken")]

        def broken(hosts):
            if failures:
                raise failures.pop()
            replace(hosts)

        monkeypatch.setattr(world.table, "replace", broken)
        for name in ("one", "two"):
            await world.call("POST", f"{SERVING}/services", ksvc(name))
            await world.ready(name)
            await world.leads(f"{name}.default.localhost", {f"{name}-00001": 100})
        assert any("end of a turn: internal error: RuntimeError: broken" in one for one in world.lines)
