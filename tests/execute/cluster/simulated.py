"""A Ray cluster of several nodes on this machine, whose workers and nodes can be killed."""

import os
import socket

import psutil

#: A node that is killed refuses connections: it is lost after two checks. One that is slow to answer has half a minute.
QUICK = {
    "health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_timeout_ms": 30_000,
    "health_check_failure_threshold": 2,
}  # fmt: skip
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class SimulatedCluster:
    """A head without processors, where the driver is, and nodes with one each. ``client`` is its ray:// address."""

    def __init__(self, nodes):
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
        from ray.cluster_utils import Cluster

        port = free_port()
        head = {
            **NODE, "num_cpus": 0, "include_dashboard": False, "ray_client_server_port": port, "_system_config": QUICK,
        }  # fmt: skip
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(**NODE) for _ in range(nodes)]
        self.address, self.client = self.cluster.address, f"ray://127.0.0.1:{port}"

    def lose_node(self, chance):
        """Kill a node with everything on it; another one joins."""
        node = self.nodes.pop(chance.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        try:
            self.nodes.append(self.cluster.add_node(**NODE))
        except Exception:  # on a very busy machine a node may not start within Ray's half minute
            self.nodes.append(self.cluster.add_node(**NODE))

    def kill_worker(self, chance):
        """Kill the process of a worker; its node stays. The nodes are children of this process."""
        below = psutil.Process().children(recursive=True)
        workers = [each for each in below if each.cmdline()[:1] and each.cmdline()[0].startswith("ray::_Actor")]
        chance.choice(workers).kill()

    def close(self):
        self.cluster.shutdown()
