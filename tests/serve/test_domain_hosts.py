"""A DomainMapping does not take the requests of a Route, whatever its name."""

import pytest
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import World

from krun.serve.model.kinds import DOMAIN_MAPPING

from .test_control_faults import loop


@pytest.mark.parametrize("host", ["hello.default.localhost", "hello.default", "hello.default.svc"])
def test_a_mapping_named_as_a_host_of_a_route(host):
    @loop
    async def test():
        async with World() as world:
            for name in ("hello", "other"):
                await world.call("POST", f"{SERVING}/services", ksvc(name))
                await world.ready(name)
            mapping = {
                "apiVersion": "serving.knative.dev/v1beta1", "kind": "DomainMapping", "metadata": {"name": host},
                "spec": {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "other"}},
            }  # fmt: skip
            path = "/apis/serving.knative.dev/v1beta1/namespaces/default/domainmappings"
            assert (await world.call("POST", path, mapping))[0] == 201
            await world.until(
                lambda: world.condition(DOMAIN_MAPPING, host, "IngressReady")[1] == "HostOfRoute",
                "it is told",
            )
            await world.leads(host, {"hello-00001": 100})
            await world.call("DELETE", f"{SERVING}/services/hello")
            await world.leads(host, {"other-00001": 100})

    test()
