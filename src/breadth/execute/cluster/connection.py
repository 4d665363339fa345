"""Reaching a Ray cluster: one on this machine, or one that is there. Refuses with one message what cannot work."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadth.errors import InputError, listed
from breadth.execute.cluster.resources import Node

#: Packages that nodes must have; responses of other versions may differ by rounding.
PACKAGES = ("ray", "torch", "transformers", "peft", "polars", "tokenizers", "safetensors")

#: Seconds for a port to answer, and for what answers to show that it is a Ray cluster.
PORT_TIMEOUT, TIMEOUT = 5.0, 12.0

#: Calls that every Ray cluster answers: of the server of its clients, and of its head.
_PING = ("/ray.rpc.RayletDriver/ClusterInfo", b"\x08\x06")
_CHECK_ALIVE = ("/ray.rpc.NodeInfoGcsService/CheckAlive", b"")

#: Settings of Ray, unless the user has others. Its client tries three times, with these limits for ten seconds in all.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "4",
}

_TOKEN = (
    "requires a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the token of the cluster, which "
    "`ray get-auth-token` shows on its head (RAY_AUTH_MODE alone is enough where ~/.ray/auth_token has it)"
)

_WRONG_TOKEN = (
    "does not accept the token of this machine; set RAY_AUTH_TOKEN to that of the cluster, which `ray get-auth-token` "
    "shows on its head"
)

_ADDRESS = re.compile(r"^(?P<client>ray://)?(?P<host>[^\s:/]+|\[[^\]]+\]):(?P<port>\d+)$")


@dataclass
class ClusterConnection:
    """A cluster that this process is connected to. ``owned``: it was started here, and ends with this process."""

    owned: bool
    here_before: bool = False

    def nodes(self) -> list[Node]:
        """The machines that are alive."""
        found = [(node["NodeID"], node["Resources"]) for node in alive_nodes()]
        return [Node(name, has.get("CPU", 0.0), has.get("GPU", 0.0), has.get("memory", 0.0)) for name, has in found]

    def close(self) -> None:
        """Leave the cluster, or stop it if it was started here."""
        import ray

        if not self.here_before:
            ray.shutdown()


def alive_nodes() -> list[dict[str, Any]]:
    """The machines that are alive, as Ray describes them."""
    import ray

    nodes: Any = ray.nodes  # Ray does not say what it returns
    return [node for node in nodes() if node["Alive"]]


def connect(address: str = "") -> ClusterConnection:
    """Connect to the cluster at an address (``ray://host:10001``, or ``host:6379`` on one of its machines).

    Without one, that of RAY_ADDRESS is used, and without that a Ray is started on this machine.
    """
    require_ray(address)
    where = _resolved(address)
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return ClusterConnection(owned=False, here_before=True)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not where:
        os.environ.setdefault("RAY_worker_niceness", "0")  # as a local run, which this replaces
        ray.init(address="local", include_dashboard=False, **quiet)
        return ClusterConnection(owned=True)
    package = str(Path(__file__).resolve().parents[2])
    try:
        ray.init(address=where, runtime_env={"py_modules": [package]}, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        raise InputError(f"{where}: {_refusal_reason(error)}") from error
    return ClusterConnection(owned=False)


def _resolved(address: str) -> str:
    """The address given, or that of RAY_ADDRESS; empty for a Ray of this machine's own."""
    where = address or os.environ.get("RAY_ADDRESS", "")
    return "" if where == "local" else where


def require_ray(address: str = "") -> None:
    """Say how to install what is missing."""
    names = ("ray", "grpc") if _resolved(address) else ("ray",)
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"--on ray needs {listed(missing)}; install with: pip install 'breadth[ray]'")


def check_answers(address: str = "") -> None:
    """Refuse an address at which no cluster answers, or one that wants a token, before Ray waits for minutes."""
    where = _resolved(address)
    if where in ("", "auto"):
        return
    match = _ADDRESS.match(where)
    if match is None:
        raise InputError(f"{where!r}: is not the address of a Ray cluster; give ray://HOST:10001 or HOST:6379")
    host, port = match["host"].strip("[]"), int(match["port"])
    remedy = "check host and port, and that `ray status` shows a cluster there"
    try:
        socket.create_connection((host, port), timeout=PORT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{where}: does not answer ({reason}); {remedy}") from error
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return  # only Ray itself has the certificates
    token = _token(bool(match["client"]))
    answer = _request_status(f"{match['host']}:{port}", _PING if match["client"] else _CHECK_ALIVE, token)
    if answer == "UNAUTHENTICATED":
        raise InputError(f"{where}: {_WRONG_TOKEN if token else _TOKEN}")
    if answer != "OK":
        hint = "10001 is the port of Ray's client" if match["client"] else "6379 is the port of the head"
        raise InputError(
            f"{where}: answers, but not as a Ray cluster of this version; {remedy} ({hint} unless it was started with "
            "another)"
        )


def _request_status(address: str, call: tuple[str, bytes], token: str) -> str:
    """Call what Ray's own clients call first, and return the status.

    They say only that they could not connect where a token is missing or wrong, and end the process after a minute.
    """
    import grpc

    metadata = [("authorization", f"Bearer {token}")] if token else None
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(call[0])(call[1], timeout=TIMEOUT, wait_for_ready=True, metadata=metadata)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def _token(client: bool) -> str:
    """The token that Ray would send, empty for none; its client sends one only if told to."""
    if os.environ.get("RAY_AUTH_MODE", "" if client else "token") != "token":
        return ""
    if token := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _refusal_reason(error: BaseException) -> str:
    """The first lines of what Ray says, with a remedy."""
    text = " ".join(str(error).split())
    words = text[:400] + ("..." if len(text) > 400 else "")
    if "ersion" in text:
        return f"the cluster has other versions ({words}); install the same versions of Ray and Python here and there"
    if "timeout" in text or "Failed to connect" in text:
        return f"cannot be used ({words}); check `ray status`, and RAY_AUTH_TOKEN if it requires a token"
    return f"cannot be used ({words}); use ray://HOST:10001 from outside the cluster, and HOST:6379 on its machines"


@dataclass(frozen=True)
class NodeReport:
    """What a machine of the cluster has: versions, and which models."""

    node: str
    versions: Mapping[str, str]
    models: Mapping[str, bool]


def node_question() -> Any:
    """A function that reports what the node has on which it is called.

    It is not known by name, so Ray sends the function itself, and the node answers without importing all of breadth.
    """
    names = (*PACKAGES,)

    def report(models: Mapping[str, tuple[str, Mapping[str, int]]]) -> tuple[str, dict[str, str], dict[str, bool]]:
        import platform
        from importlib import metadata
        from pathlib import Path

        import ray

        import breadth

        def version(name: str) -> str:
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                return "absent"

        def has(folder: str, sizes: Mapping[str, int]) -> bool:
            paths = {Path(folder) / name: size for name, size in sizes.items()}
            return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())

        versions = {"breadth": breadth.__version__, "python": ".".join(platform.python_version_tuple()[:2])}
        versions |= {name: version(name) for name in names}
        node = str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""
        return node, versions, {name: has(*each) for name, each in models.items()}

    return report


def check_nodes(reports: list[NodeReport], own: Mapping[str, str]) -> list[str]:
    """Refuse machines that cannot work with this one; returns warnings about versions that change rounding only."""
    for report in reports:
        absent = [name for name, version in report.versions.items() if version == "absent"]
        if absent:
            raise InputError(f"node {report.node}: has no {listed(absent)}; install there: pip install 'breadth[ray]'")
        for name in ("breadth", "python", "ray"):
            here, there = own[name], report.versions[name]
            if here != there:
                raise InputError(
                    f"node {report.node}: has {name} {there}, and this machine {here}; install the same version"
                )
    differing = {
        f"{name} {report.versions[name]} instead of {version}"
        for report in reports
        for name, version in own.items()
        if report.versions.get(name) != version
    }
    return [f"some nodes have {listed(sorted(differing))}: responses may differ by rounding"] if differing else []
