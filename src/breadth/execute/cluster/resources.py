"""What a worker needs, and whether a cluster has it: from the study file, or from the size of the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from breadth.errors import InputError
from breadth.lm import BUILT_IN, Weights, built_in_model, locate, read_tensor_headers, weight_size
from breadth.study import RunSpec, StudyFile

GB = 2**30

#: Bytes that Python and its libraries take in a worker.
PROCESS = 1.2 * GB

#: A worker's memory in multiples of the weights: as they are in memory, packed for oneDNN, states and activations.
WEIGHTS = 2.5

#: Bytes per weight while it is trained: weight, gradient and two moments, in float32 whatever the recipe's dtype.
TRAINED_BYTES = 16

#: Up to so many bytes of weights, a model shares a GPU: its share.
SHARES = {1 * GB: 0.25, 3 * GB: 0.5}


@dataclass(frozen=True)
class Shape:
    """Resources of a worker: processors (threads), GPUs or a fraction of one, bytes of memory (0: not counted)."""

    cpus: float
    gpus: float = 0.0
    memory: int = 0

    @property
    def name(self) -> str:
        """The shape in words, which is also its key."""
        parts = [f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}"]
        parts += [f"{self.gpus:g} GPU{'' if self.gpus == 1 else 's'}"] if self.gpus else []
        parts += [f"{self.memory / GB:.3g} GB of memory"] if self.memory else []
        return ", ".join(parts)

    @property
    def threads(self) -> int:
        """Threads for torch."""
        return max(1, int(self.cpus))

    def fits(self, node: Node) -> int:
        """How many workers of this shape a node holds."""
        counts = [
            math.floor(there / need + 1e-9)
            for there, need in ((node.cpus, self.cpus), (node.gpus, self.gpus), (node.memory, self.memory))
            if need
        ]
        return min(counts, default=0)


@dataclass(frozen=True)
class Node:
    """A machine of the cluster: what it has in all, or what is free."""

    name: str
    cpus: float
    gpus: float
    memory: float

    def without(self, shape: Shape) -> Node:
        """What is left beside a worker."""
        return Node(self.name, self.cpus - shape.cpus, self.gpus - shape.gpus, self.memory - shape.memory)


def weight_bytes(model: str, weights: Weights = "safetensors") -> int | None:
    """Bytes of a model's weights, where that is known without loading it."""
    if model in BUILT_IN:
        return built_in_model(model).converted_size
    folder = _model_directory(model)
    return None if folder is None else weight_size(folder, weights) or None


def trained_bytes(run: RunSpec) -> int:
    """Bytes that training takes if a run trains all weights; 0 if it trains a part of them, which is small."""
    if run.method != "full" or run.recipe.layers != "all":
        return 0
    if run.model in BUILT_IN:
        return TRAINED_BYTES * built_in_model(run.model).converted_size // 4  # which are kept in float32
    folder = _model_directory(run.loads)
    if folder is None:
        return 0
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        # Pickled files have no headers that can be read without loading them; half precision is usual.
        return TRAINED_BYTES * weight_size(folder, run.weights) // 2
    tensors = read_tensor_headers(paths) or {}
    return TRAINED_BYTES * sum(math.prod(tensor.shape) for tensor in tensors.values())


def _model_directory(model: str) -> Path | None:
    """The directory with a model's files on this machine, if there is one."""
    folder = Path(locate(model)[0])
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(model, "config.json")
        folder = Path(config).parent if isinstance(config, str) else folder
    return folder if folder.is_dir() else None


def shapes_of(
    file: StudyFile, runs: Iterable[RunSpec], nodes: Iterable[Node], threads: int | None = None
) -> dict[str, Shape]:
    """The shape of each model's workers, by its label; refused if no node can ever hold one."""
    nodes = list(nodes)
    shapes: dict[str, Shape] = {}
    for run in runs:
        if run.label not in shapes:
            shapes[run.label] = shape_of(file, run, any(node.gpus for node in nodes), threads)
            _check(run.label, shapes[run.label], nodes)
    return {model: _shared(shape, shapes.values(), nodes) for model, shape in shapes.items()}


def _shared(shape: Shape, others: Iterable[Shape], nodes: list[Node]) -> Shape:
    """The same with the memory of the largest other shape of which every node holds as many.

    One worker then serves several models: it loads the next instead of making room for another process.
    """
    alike = [other for other in others if (other.cpus, other.gpus) == (shape.cpus, shape.gpus)]
    suited = [other for other in alike if all(other.fits(node) == shape.fits(node) for node in nodes)]
    return max(suited, key=lambda other: other.memory)


def shape_of(file: StudyFile, run: RunSpec, has_gpus: bool, threads: int | None = None) -> Shape:
    """The shape of the workers of a run's model: as the study file says, else by the size of the model."""
    given = {"gpus": None, "cpus": None, "memory": None}
    for section in (file.study.resources, run.resources):
        given |= {} if section is None else section.model_dump(exclude_none=True)
    size, training = weight_bytes(run.loads, run.weights), trained_bytes(run)
    wants_gpu = has_gpus and run.recipe.device.partition(":")[0] in ("auto", "cuda")
    gpus = given["gpus"]
    if gpus is None:
        on_gpu = max(size or 0, training)
        gpus = next((share for limit, share in SHARES.items() if size and on_gpu <= limit), 1.0) if wants_gpu else 0.0
    cpus = threads or given["cpus"] or 1.0
    memory = given["memory"]
    if memory is None:
        # On its way to a GPU, a model that is trained as a whole is in memory in float32.
        needed = max(size or 0, training // 4) if gpus else max(WEIGHTS * (size or 0), training)
        memory = 0.0 if size is None else (PROCESS + needed) / GB
    return Shape(float(cpus), float(gpus), int(memory * GB))


def _check(model: str, shape: Shape, nodes: list[Node]) -> None:
    if any(shape.fits(node) for node in nodes):
        return
    largest = [f"{max(values):g}" for values in zip(*[(n.cpus, n.gpus, n.memory / GB) for n in nodes], strict=True)]
    has = f"{largest[0]} CPUs, {largest[1]} GPUs and {float(largest[2]):.3g} GB of memory" if nodes else "nothing"
    raise InputError(
        f"{model}: a worker needs {shape.name}, and no node of the cluster has that (at most {has}); lower `resources` "
        "in the study file, or add larger nodes"
    )


def room(shapes: Mapping[str, Shape], wanted: Mapping[str, int], nodes: Iterable[Node]) -> Counter[tuple[str, str]]:
    """How many workers of each shape to place on each node: (node, shape). Large shapes first, then by turns."""
    free = {node.name: node for node in nodes}
    placed: Counter[tuple[str, str]] = Counter()
    left = Counter({name: count for name, count in wanted.items() if count > 0})
    order = sorted(left, key=lambda name: (-shapes[name].gpus, -shapes[name].memory, -shapes[name].cpus))
    while left:
        before = placed.total()
        for name in [name for name in order if left[name] > 0]:
            node = next((node for node in free.values() if shapes[name].fits(node)), None)
            if node is not None:
                free[node.name] = node.without(shapes[name])
                placed[node.name, name] += 1
                left[name] -= 1
        if placed.total() == before:
            break
    return placed
