"""The workers of a Ray cluster: actors that are started where there is room, lost, replaced and told what to do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from breadth.errors import InputError
from breadth.execute.cluster.connection import ClusterConnection, NodeReport, alive_nodes, check_nodes, node_question
from breadth.execute.cluster.driver import Completion, Fault
from breadth.execute.cluster.driver import ObjectLostError as LostError
from breadth.execute.cluster.resources import Shape, room
from breadth.execute.cluster.shipping import DamagedShipmentError, ModelFiles, ShippedData, read_chunks

#: Seconds between two looks at the nodes of the cluster, and for a machine to say what it has.
REFRESH, PROBE = 5.0, 120.0

#: Workers that may die before they are ready, one after the other, until the cluster is given up.
STILLBORN = 6

#: A model that is sent to nodes may take this share of the smallest object store.
STORE_SHARE = 0.5


class _Actor:
    """A worker in a process of its own."""

    def __init__(
        self,
        data: ShippedData,
        groups: Mapping[str, str],
        threads: int,
        models: Mapping[str, ModelFiles],
        chunks: Any,
        share: float,
    ) -> None:
        from breadth.execute.cluster.worker import Worker

        def fetch(model: str) -> Iterable[tuple[str, bytes]]:
            return ((name, ray.get(reference)) for name, reference in chunks[model])

        self.worker = Worker(data, groups, threads, models, fetch, share)

    def environment(self) -> tuple[str, dict[str, Any]]:
        """The node, versions and hardware."""
        return str(ray.get_runtime_context().get_node_id()), self.worker.environment()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker."""
        return getattr(self.worker, method)(*arguments)


@dataclass
class _WorkerActor:
    """An actor, its shape and its node."""

    handle: Any
    shape: str
    node: str | None
    ready: Any = None


@dataclass
class RayPool:
    """Actors of a connected cluster, at most ``limit`` of them; ``models`` are those that lie in local directories."""

    connection: ClusterConnection
    shapes: Mapping[str, Shape]
    data: ShippedData
    groups: Mapping[str, str]
    models: Mapping[str, ModelFiles]
    limit: int | None = None
    actor: type = _Actor
    warnings: list[str] = field(default_factory=list)
    places: dict[str, _WorkerActor] = field(default_factory=dict)
    _tasks: dict[Any, tuple[str, tuple[Any, ...]]] = field(default_factory=dict)
    _described: dict[str, Any] = field(default_factory=dict)
    _begun: int = 0
    _looked: float = 0.0
    _stillborn: int = 0
    _arguments: tuple[Any, ...] = ()

    def prepare(self) -> None:
        """Check the nodes, and put what workers need into the object store."""
        chunks = self._send_models() if not self.connection.owned else {}
        self._arguments = (ray.put(self.data), dict(self.groups), dict(self.models), chunks)

    def _send_models(self) -> dict[str, list[tuple[str, Any]]]:
        """Ask every node for its versions and models; models that some node lacks are put into the object store."""
        ask = ray.remote(num_cpus=0, max_retries=1)(node_question())
        nodes = [node for node in alive_nodes() if node["Resources"].get("CPU")]
        asked = [
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
                {name: (each.folder, dict(each.sizes)) for name, each in self.models.items()}
            )
            for node in nodes
        ]
        try:
            reports = [NodeReport(*each) for each in ray.get(asked, timeout=PROBE)]
        except GetTimeoutError as error:
            raise InputError(
                f"a node of the cluster does not answer within {PROBE:.0f} s; check `ray status`"
            ) from error
        except RayError as error:
            raise InputError(f"a node of the cluster cannot run breadth ({_last_line(error)})") from error
        self.warnings += check_nodes(reports, node_question()({})[1])
        stores = [node["Resources"].get("object_store_memory", 0.0) for node in nodes]
        chunks = {}
        for name, files in self.models.items():
            if all(report.models[name] for report in reports):
                continue
            if files.size > STORE_SHARE * min(stores):
                raise InputError(
                    f"{name}: is on this machine only, and too large to send ({files.size / 2**30:.1f} GB); copy it to "
                    "the same path on every node, or name a model of the Hub"
                )
            chunks[name] = [(file, ray.put(chunk)) for file, chunk in read_chunks(files)]
        return chunks

    def environment(self) -> dict[str, Any]:
        """Versions and hardware of a worker, and how many there are."""
        return {**self._described, "workers": len(self.places)}

    def refresh(self, wanted: Mapping[str, int]) -> list[tuple[str, str]]:
        """Start workers where there is room, stop those whose shape has no work; names and shapes of those ready."""
        ready = self._ready()
        now = time.monotonic()
        if now - self._looked >= REFRESH or not self.places:
            self._looked = now
            busy = {name for name, _ in self._tasks.values()}
            for name, place in list(self.places.items()):
                if not wanted.get(place.shape) and name not in busy:
                    ray.kill(place.handle)
                    del self.places[name]
            self._start(wanted)
        return ready

    def _ready(self) -> list[tuple[str, str]]:
        pending = {place.ready: name for name, place in self.places.items() if place.ready is not None}
        if not pending:
            return []
        done, _ = ray.wait(list(pending), num_returns=len(pending), timeout=0)
        ready = []
        for reference in done:
            name = pending[reference]
            place = self.places[name]
            place.ready = None
            try:
                place.node, self._described = ray.get(reference)
                self._stillborn = 0
                ready.append((name, place.shape))
            except RayError as error:
                del self.places[name]
                self._stillborn += 1
                if self._stillborn >= STILLBORN:
                    raise InputError(f"workers cannot be started on the cluster ({_last_line(error)})") from error
        return ready

    def _start(self, wanted: Mapping[str, int]) -> None:
        have = Counter(place.shape for place in self.places.values())
        left = {shape: count - have[shape] for shape, count in wanted.items()}
        nodes = {node.name: node for node in self.connection.nodes()}
        for place in self.places.values():
            if place.node in nodes:
                nodes[place.node] = nodes[place.node].without(self.shapes[place.shape])
        for (node, shape), count in room(self.shapes, left, nodes.values()).items():
            for _ in range(count):
                if self.limit is None or len(self.places) < self.limit:
                    self._start_worker(shape, node)

    def _start_worker(self, shape: str, node: str) -> None:
        self._begun += 1
        data, groups, models, chunks = self._arguments
        need = self.shapes[shape]
        options: dict[str, Any] = {"num_cpus": need.cpus, "num_gpus": need.gpus, "max_restarts": 0}
        if need.memory:
            options["memory"] = need.memory
        beside = need.fits(next(each for each in self.connection.nodes() if each.name == node))
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
        handle: Any = (
            ray.remote(self.actor)
            .options(**options)
            .remote(data, groups, need.threads, models, chunks, 1 / max(min(beside, self.limit or beside), 1))
        )
        self.places[f"worker {self._begun}"] = _WorkerActor(handle, shape, node, handle.environment.remote())

    def submit(self, worker: str, method: str, arguments: tuple[Any, ...], objects: int = 0) -> None:
        """Have a worker call a method."""
        call = self.places[worker].handle.call.options(num_returns=1 + objects)
        references = call.remote(method, *arguments)
        first, *others = references if objects else [references]
        self._tasks[first] = (worker, tuple(others))

    def wait(self, seconds: float) -> list[Completion]:
        """Tasks that have ended."""
        pending = [place.ready for place in self.places.values() if place.ready is not None]
        every = [*self._tasks, *pending]
        if not every:
            time.sleep(min(seconds, 0.2))
            return []
        ray.wait(every, num_returns=1, timeout=seconds)
        if not self._tasks:
            return []
        done, _ = ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._completion(reference) for reference in done]

    def _completion(self, reference: Any) -> Completion:
        worker, objects = self._tasks.pop(reference)
        try:
            return Completion(worker, ray.get(reference), objects)
        except (RayActorError, OutOfMemoryError) as error:
            place = self.places.pop(worker, None)
            alive = {node.name for node in self.connection.nodes()}
            fault = Fault.DIED if place is None or place.node in alive else Fault.NODE
            return Completion(worker, fault=fault, text=str(error))
        except ObjectLostError as error:
            return Completion(worker, fault=Fault.OBJECT, text=str(error))
        except RayTaskError as error:
            # What a worker was sent is damaged: weights or a state, which are made again like those that are lost.
            if isinstance(error.cause, DamagedShipmentError):
                return Completion(worker, fault=Fault.OBJECT, text=str(error.cause))
            return Completion(worker, fault=Fault.ERROR, text=str(error))

    def discard(self, worker: str) -> None:
        """Stop one worker."""
        place = self.places.pop(worker, None)
        if place is not None:
            ray.kill(place.handle)

    def read(self, reference: Any) -> Any:
        """The content of an object."""
        try:
            return ray.get(reference) if isinstance(reference, ray.ObjectRef) else reference
        except RayError as error:
            raise LostError(str(error)) from error

    def close(self) -> None:
        """Stop all workers."""
        for place in self.places.values():
            ray.kill(place.handle)
        self.places.clear()


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
