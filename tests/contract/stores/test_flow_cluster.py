"""Flow checkpoints on a real Redis Cluster of three nodes: the whole contract, with scripts that touch many keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.stores import RedisCheckpointBackend, resume, run_steps
from holdfast.testing.contract.store_flow import FlowContract
from holdfast.testing.contract.store_flow_claims import FlowClaimContract, FlowRetentionContract
from holdfast.testing.contract.store_ground import StoreVenue
from holdfast.testing.servers import RedisServer
from holdfast.testing.servers.redis_cluster import RedisCluster
from holdfast.testing.skips import SkipReason, skip

if TYPE_CHECKING:
    from collections.abc import Iterator

BACKENDS = ("redis",)


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[RedisCluster]:
    if pytestconfig.getoption("--no-servers"):
        skip(SkipReason.SERVERS_NOT_WANTED)
    if not RedisServer.installed():
        skip(SkipReason.NO_REDIS)
    with RedisCluster() as made:
        yield made


@pytest.fixture
def store_venue(request: pytest.FixtureRequest, cluster: RedisCluster) -> StoreVenue:
    """Stand in for the single server."""
    _, colour = request.param
    return StoreVenue("redis", cluster.url, colour)


@pytest.mark.soak
class TestOnACluster(FlowContract, FlowClaimContract, FlowRetentionContract):
    """One suite, one more column; its small form is below."""


def test_prefixes_spread_over_the_nodes_and_each_works(cluster: RedisCluster) -> None:
    for number in range(6):
        with RedisCheckpointBackend.from_url(cluster.url, prefix=f"{{tag{number}}}:") as backend:
            last = run_steps("flow", [("double", lambda value: value * 2)], backend, input=number)
            assert resume(last.id, [("double", str)], backend).get_node_output("double") == number * 2
            assert [each.id for each in backend.get_chain(last.id)] == [
                each.id for each in backend.list_by_flow("flow")
            ]
            assert backend.cleanup("flow", keep_count=0) == 2
            assert backend.list_by_run(last.run_id) == []
