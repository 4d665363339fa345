"""Clusters that cannot be used: one message each, soon."""

import importlib.util
import socket

import pytest

from breadth.errors import InputError
from breadth.execute import EXECUTORS, ClusterOptions, executor_of, run
from breadth.execute.cluster import connection
from breadth.execute.cluster.connection import NodeReport, check_answers, check_nodes, connect, require_ray

from ..conftest import LORA

OWN = {"breadth": "0.1.0", "python": "3.11", "ray": "2.60.0", "torch": "2.13.0"}


def test_without_ray(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"on=.ray. needs ray; install with: pip install 'breadth\[ray\]'"):
        require_ray()
    with pytest.raises(InputError, match="needs ray, grpc"):
        connect("ray://head:10001")


@pytest.fixture
def unset(monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_an_address_where_nothing_is(study, tmp_path, unset):
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9"):
        with pytest.raises(
            InputError, match=rf"{address}: does not answer \(Connection refused\); check host and port"
        ):
            run(study(LORA), into=tmp_path / "s", on=address)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("address", ["127.0.0.1", "ray://127.0.0.1"])
def test_an_address_where_something_else_answers(monkeypatch, unset, address):
    monkeypatch.setattr(connection, "TIMEOUT", 0.5)
    monkeypatch.setattr(connection, "PORT_TIMEOUT", 0.5)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(InputError, match="answers, but not as a Ray cluster of this version; check host and port"),
    ):
        check_answers(f"{address}:{server.getsockname()[1]}")


TOKEN = "the-token-of-this-cluster-0123456789"


@pytest.fixture
def guarded():
    """A server that answers every call as a Ray cluster does that requires a token."""
    from concurrent.futures import ThreadPoolExecutor

    grpc = pytest.importorskip("grpc")

    class Guard(grpc.GenericRpcHandler):
        def service(self, details):
            def answer(request, context):
                if ("authorization", f"Bearer {TOKEN}") not in context.invocation_metadata():
                    context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid or missing authentication token")
                return b""

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Guard()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"ray://127.0.0.1:{port}"
    server.stop(None)


def test_a_cluster_that_requires_a_token(monkeypatch, unset, guarded, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="requires a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"):
        check_answers(guarded)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(InputError, match="requires a token"):
        check_answers(guarded)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another")
    with pytest.raises(InputError, match="does not accept the token of this machine; set RAY_AUTH_TOKEN to that"):
        check_answers(guarded)
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    check_answers(guarded)


def test_a_token_that_ray_finds_itself(monkeypatch, unset, guarded, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    head = guarded.removeprefix("ray://")
    with pytest.raises(InputError, match="requires a token"):
        check_answers(head)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(f"{TOKEN}\n")
    check_answers(head)
    with pytest.raises(InputError, match="requires a token"):
        check_answers(guarded)  # Ray's client does not look for one by itself
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="requires a token"):
        check_answers(head)


@pytest.mark.parametrize("address", ["ray://", "ray://head", "head:port", "ray://head:1:2"])
def test_what_is_not_an_address(address):
    with pytest.raises(InputError, match="is not the address of a Ray cluster; give ray://HOST:10001 or HOST:6379"):
        check_answers(address)


def test_the_address_of_the_environment(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://head")
    with pytest.raises(InputError, match="'ray://head': is not the address"):
        check_answers()
    monkeypatch.setenv("RAY_ADDRESS", "local")
    check_answers()


def test_addresses_are_told_from_names():
    executor = executor_of("head:6379", ClusterOptions(workers=3))
    assert type(executor) is EXECUTORS["ray"]
    assert executor.options == ClusterOptions("head:6379", 3)


@pytest.mark.parametrize("name", ["breadth", "python", "ray"])
def test_versions_that_must_be_the_same(name):
    report = NodeReport("abc", {**OWN, name: "0.9"}, {})
    with pytest.raises(InputError, match=rf"node abc: has {name} 0.9, and this machine {OWN[name]}; install the same"):
        check_nodes([report], OWN)


def test_versions_that_may_differ_by_rounding():
    (warning,) = check_nodes([NodeReport("abc", {**OWN, "torch": "2.12.0"}, {}), NodeReport("def", OWN, {})], OWN)
    assert warning == "some nodes have torch 2.12.0 instead of 2.13.0: responses may differ by rounding"
    assert check_nodes([NodeReport("def", OWN, {})], OWN) == []


def test_a_node_without_torch():
    with pytest.raises(InputError, match=r"node abc: has no torch; install there: pip install 'breadth\[ray\]'"):
        check_nodes([NodeReport("abc", {**OWN, "torch": "absent"}, {})], OWN)


def test_what_ray_says_about_versions_gets_a_remedy():
    text = "Version mismatch: The cluster was started with:\n    Ray: 2.59.0\n    Python: 3.10.1\n"
    assert "install the same versions of Ray and Python here and there" in connection._refusal_reason(
        RuntimeError(text)
    )
    assert "use ray://HOST:10001 from outside" in connection._refusal_reason(ConnectionError("no node"))
