"""The sections of a study file, one class each. ``read`` checks a file; ``expansion`` turns a study into runs.

The descriptions of the fields appear in the documentation and in messages about missing keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny, SerializerFunctionWrapHandler, model_serializer

from breadth.datasets import Loss, Predict, Texts
from breadth.difficulty import Order, Strategy
from breadth.endpoints import Api, Endpoint
from breadth.errors import InputError, did_you_mean
from breadth.lm import NONE, Dtype, Quantisation, Weights, step_of
from breadth.study.mixture import mixture_name
from breadth.study.own_sets import KnownSet, OwnSet, SetSection, mark_known_sets
from breadth.study.sections import MOST, Counts, Names, Seeds, StudySection, as_list

#: Groups of modules that `recipe.targets` knows by name.
Targets = Literal["attention", "mlp", "all"]

#: Which trained weights a study keeps.
Keep = Literal["none", "last", "best", "all"]

#: Bounds that keep a slip of a digit from filling the memory.
MOST_STEPS, MOST_EPOCHS = 10_000_000, 1_000_000

Beta = Annotated[float, Field(ge=0, lt=1)]


def _targets(value: Any) -> Any:
    groups = get_args(Targets)
    names = isinstance(value, list) and value and all(isinstance(name, str) and name for name in value)
    if names or (isinstance(value, str) and value in groups):
        return value
    hint = did_you_mean([value], groups, most=1) if isinstance(value, str) else ""
    raise InputError(
        f"{value!r} is not one of {', '.join(groups)}.{hint} List modules by their own names, as [q_proj, v_proj]"
    )


def _layers(value: Any) -> Any:
    if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise InputError(f"{value!r} is wrong; give all, or how many layers to train, counted from the top (1 or more)")


Share = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _shares(value: Any) -> Any:
    if isinstance(value, dict) and not any(isinstance(share, bool) for share in value.values()):
        return value
    raise InputError("give every set its share, as {mnli: 0.7, hans: 0.3}")


class Recipe(StudySection):
    """How models are adapted and trained."""

    method: Literal["lora", "ia3", "bitfit", "full", "zero-shot", "few-shot", "evaluate"] = Field(
        "lora",
        description="train low-rank adapters, scaling vectors (ia3), biases (bitfit) or all weights; or no training, "
        "without or with examples in the prompt, or of checkpoints that are there already (evaluate)",
    )
    rank: int = Field(8, ge=1, le=MOST, description="rank of the adapters (lora)")
    alpha: float = Field(32.0, gt=0, description="scale of the adapters: their output is multiplied by alpha / rank")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of adapter inputs dropped in training (lora)")
    targets: Annotated[Targets | list[str], BeforeValidator(_targets)] = Field(
        "attention", description="modules that get adapters: attention, mlp, all, or a list of module names (lora)"
    )
    layers: Annotated[Literal["all"] | int, BeforeValidator(_layers)] = Field(
        "all", description="layers to train: all, or a number counted from the top"
    )
    optimiser: Literal["adamw", "sgd"] = Field("adamw", description="optimiser")
    lr: float = Field(1e-4, gt=0, description="learning rate")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="decay rates of the two moments of adamw")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay")
    clip: float | None = Field(1.0, gt=0, description="maximum norm of the gradient; null for no limit")
    schedule: Literal["constant", "linear", "cosine"] = Field("constant", description="learning rate after warm-up")
    warmup: float = Field(0.0, ge=0, le=1, description="share of the steps in which the learning rate rises from 0")
    batch: int = Field(16, ge=1, le=MOST, description="examples per step")
    micro_batch: int | None = Field(
        None, ge=1, description="examples in memory at a time; must divide batch; null for the whole batch"
    )
    epochs: float | None = Field(None, gt=0, le=MOST_EPOCHS, description="passes over the examples; give this or steps")
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="optimiser steps; give this or epochs")
    loss: Loss = Field(
        "answers",
        description="cross-entropy among the answer words, over the tokens of the completion, or of the right answer "
        "among all tokens of the vocabulary",
    )
    num_fewshot: int = Field(4, ge=1, le=MOST, description="examples in the prompt (few-shot)")
    context: int = Field(512, ge=16, le=MOST, description="maximum tokens of a prompt; longer prompts are shortened")
    dtype: Dtype = Field(
        "auto",
        description="number format; bfloat16: of frozen weights and of products, while trained weights are float32; "
        "pure-bfloat16: of trained weights, too; mixed: float32, with products in bfloat16 on a CPU in evaluation, "
        "except where that could change an answer; float16 trains nothing",
    )
    device: str = Field("auto", min_length=1, description="device: auto, cpu, cuda, cuda:1, mps")
    quantise: Quantisation | None = Field(None, description="load the frozen weights quantised")
    trunk: Literal["auto", "on", "off"] = Field(
        "auto", description="cache what the untrained lower layers compute instead of computing it at every checkpoint"
    )
    keep: Keep = Field(
        "none",
        description="checkpoints whose trained weights are kept in the study: none, the last, the best on the "
        "training set's test items, or all; may be changed at any time",
    )


class Resources(StudySection):
    """What a worker of a cluster gets; used by `breadth run --on ray` only. What is left out depends on the model."""

    gpus: float | None = Field(
        None, ge=0, description="GPUs of a worker; a fraction shares one, several hold one model"
    )
    cpus: float | None = Field(None, gt=0, description="processors of a worker, which are also its threads")
    memory: float | None = Field(None, gt=0, description="gigabytes of memory that a worker takes")


class ModelEntry(StudySection):
    """A model, and where its recipe differs from the study's."""

    name: str = Field(min_length=1, description="a built-in model, a Hub id (owner/name) or the path of a directory")
    recipe: dict[str, Any] = Field(
        default_factory=dict,
        description="keys of recipe that differ for this model; its epochs replace the study's steps, and vice versa",
    )
    resources: Resources | None = Field(None, description="keys of resources that differ for this model")
    weights: Weights = Field(
        "safetensors",
        description="form of the weights (of base, for adapters); bin: pickles, checked and converted once",
    )
    checkpoints: Names | None = Field(
        None, description="directories of checkpoints, globs, or a directory that holds them (method evaluate)"
    )
    revisions: Names | None = Field(
        None, description="branches of a Hub repository, as OWNER/REPO@step{1000..3000..1000} (method evaluate)"
    )
    chat_template: str | None = Field(
        None, min_length=1, description="as chat_template of the study, for this model; null for the study's"
    )
    system: str | None = Field(None, description="as system of the study, for this model; null for the study's")
    base: str | None = Field(
        None, min_length=1, description="model that the checkpoints' adapters belong to, or whose tokenizer they use"
    )
    trained_on: str | None = Field(
        None, min_length=1, description="the set in evaluate.on that the checkpoints were trained on: their control"
    )
    endpoint: str | None = Field(None, description="address of a server with the model, up to /v1; then give model")
    model: str | None = Field(None, min_length=1, description="name of the model there, which name defaults to")
    key_env: str | None = Field(None, description="environment variable with the key; null if the server needs none")
    api: Api = Field("auto", description="send prompts as text, as chat messages, or as text unless it is not served")
    concurrency: int = Field(Endpoint.concurrency, ge=1, le=1024, description="requests to the server at a time")
    timeout: float = Field(Endpoint.timeout, gt=0, le=86400, description="seconds to wait for an answer of the server")

    @model_serializer(mode="wrap")
    def _own_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Most models are on this machine and have no checkpoints; a resolved study does not list what they lack."""
        absent = [key for key in CHECKPOINT_KEYS if getattr(self, key) is None]
        absent += [] if self.endpoint is not None else ENDPOINT_KEYS
        absent += [key for key in CHAT_KEYS if getattr(self, key) is None]
        absent += ["weights"] if self.weights == "safetensors" else []
        return {key: value for key, value in dump(self).items() if key not in absent}

    @property
    def has_checkpoints(self) -> bool:
        """Whether its checkpoints are there already."""
        return self.checkpoints is not None or self.revisions is not None

    def behind(self) -> Endpoint | None:
        """The endpoint that the model is behind; None for one on this machine."""
        if self.endpoint is None:
            return None
        address = self.endpoint.rstrip("/")
        return Endpoint(address, self.model or "", self.api, self.key_env, self.concurrency, self.timeout)


#: Keys that say how a model is asked in chat form.
CHAT_KEYS = ("chat_template", "system")

#: Keys of a model whose checkpoints are there, and of one behind an endpoint.
CHECKPOINT_KEYS = ("checkpoints", "revisions", "base", "trained_on")
ENDPOINT_KEYS = ("endpoint", "model", "key_env", "api", "concurrency", "timeout")


def _as_entry(value: Any) -> Any:
    if not isinstance(value, dict) or "name" in value:
        return {"name": value} if isinstance(value, str) else value
    if "endpoint" in value:
        return {"name": value.get("model") or str(value["endpoint"]), **value}
    name = name_of_checkpoints(value.get("checkpoints"), value.get("revisions"))
    return {**value, "name": name} if name else value


def name_of_checkpoints(checkpoints: Any, revisions: Any = None) -> str:
    """What a model is called whose checkpoints are given and whose name is not; empty if that cannot be told.

    >>> name_of_checkpoints("runs/my-model/checkpoint-*"), name_of_checkpoints(None, "org/model@step{0..9}")
    ('my-model', 'org/model')
    """
    first = next((each for each in (*as_list(checkpoints or []), *as_list(revisions or []))), None)
    if not isinstance(first, str):
        return ""
    if not checkpoints:
        return first.partition("@")[0]
    parts = [part for part in first.split("/") if part and part.strip(".")]
    named = [part for part in parts if not any(mark in part for mark in "*?[") and step_of(Path(part)) is None]
    return named[-1] if named else ""


class Difficulty(StudySection):
    """Where the difficulty of items comes from: a column of the data, a calibration file or another study."""

    column: str | None = Field(None, description="column of the data with the difficulty of an item")
    hard_is: Literal["high", "low"] = Field("high", description="whether high or low values of column are hard")
    calibration: str | None = Field(None, description="file with item and difficulty, from `breadth calibrate`")
    study: str | None = Field(None, description="directory of a study whose responses are calibrated")


class Start(StudySection):
    """Training that all runs of a model share. Step 0 of every run comes after it, so gains are measured from there."""

    examples: int = Field(ge=1, le=MOST, description="training examples of the start, of every difficulty")
    lr: float | None = Field(None, gt=0, description="learning rate of the start; null for the recipe's")
    epochs: float | None = Field(
        None, gt=0, le=MOST_EPOCHS, description="passes over these examples; null for the epochs or steps of the recipe"
    )


class Train(StudySection):
    """What to train on: data sets, sizes and seeds, and optionally levels of difficulty or sampling strategies."""

    set: Names | None = Field(None, description="data sets to train on, one run each")
    mix: Annotated[dict[str, Share], BeforeValidator(_shares)] | None = Field(
        None,
        description="data set: share, to train on a mixture instead of set, as {mnli: 0.7, hans: 0.3}; the shares "
        "decide how many of the examples come from each",
    )
    examples: Counts = Field(default_factory=lambda: [128], description="numbers of training examples, one run each")
    seeds: Seeds = Field(
        default_factory=lambda: [0], description="seeds of the examples, their order and the adapters, one run each"
    )
    difficulty: Difficulty | None = Field(None, description="where the difficulty of items comes from")
    levels: int | None = Field(None, ge=2, le=100, description="equal-sized levels of difficulty, one run each")
    train_levels: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="levels to train on, 0 is the easiest; null for all of them"
    )
    strategies: list[Strategy] = Field(
        default_factory=list, description="strategies for sampling examples by difficulty, one run each"
    )
    order: Order | None = Field(None, description="order of the examples; null for the order of the strategy")
    start: Start | None = Field(
        None, description="training that all runs of a model share; null to start from the untrained model"
    )

    @property
    def sets(self) -> list[str]:
        """All data sets that are trained on, alone or in a mixture."""
        return list(self.mix or self.set or [])

    @property
    def names(self) -> list[str]:
        """What runs are trained on, one run each: data sets, or the mixture."""
        return [mixture_name(self.mix)] if self.mix else list(self.set or [])


class Evaluate(StudySection):
    """When to evaluate, and on which test sets."""

    on: Names = Field(description="test sets: names from `breadth ls datasets`, or your own from sets")
    every: int | None = Field(None, ge=1, description="steps between checkpoints; null: first and last step only")
    items: int | None = Field(None, ge=2, description="items per test set, the same for all runs; null for all items")
    seed: int = Field(0, ge=0, description="seed that selects these items")
    split_by: dict[str, Names] = Field(
        default_factory=dict,
        description="test set: column, or columns, whose values make test sets of their own, as {hans: heuristic}; "
        "items then counts those of each",
    )
    training: bool = Field(
        False, description="whether every run is also evaluated on its own training examples, as a test set apart"
    )
    predict: Predict = Field(
        "answers",
        description="what a model answers on sets of kind pattern: the likeliest of the answers, or the likeliest of "
        "all tokens, which may be neither",
    )


class StudySpec(StudySection):
    """A whole study file."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the study's name: letters, digits, dots, dashes"
    )
    description: str = Field("", description="one line that says what the study is about")
    models: Annotated[
        list[Annotated[ModelEntry, BeforeValidator(_as_entry)]], BeforeValidator(as_list), Field(min_length=1)
    ] = Field(
        description="models, each a name, {name: ..., recipe: {...}}, {checkpoints: runs/a/checkpoint-*} or "
        "{endpoint: ..., model: ...}"
    )
    train: Train | None = Field(None, description="what to train on; required if the method trains or is few-shot")
    recipe: Recipe = Field(description="how models are adapted and trained")
    evaluate: Evaluate = Field(description="when to evaluate, and on which test sets")
    chat_template: str = Field(
        NONE,
        min_length=1,
        description="chat form: none (plain text), auto (the tokenizer's own template, for models that have one), or a "
        "file with a Jinja template, relative to the study file",
    )
    system: str | None = Field(None, description="system prompt in chat form; null for what the template has")
    protocol: str | None = Field(
        None, description="prompts and scoring of a published study, for the sets it has; null for breadth's own"
    )
    sets: Annotated[dict[str, SerializeAsAny[SetSection]], BeforeValidator(mark_known_sets)] = Field(
        default_factory=dict, description="your own data sets by name, and changes to sets that breadth knows"
    )
    pattern: str | None = Field(None, description="prompt for all sets of kind pattern that have no own prompt here")
    answers: Texts | None = Field(None, description="label: answer words, for the same sets")
    resources: Resources | None = Field(None, description="what a worker of a cluster gets (`breadth run --on ray`)")

    @property
    def own_sets(self) -> dict[str, OwnSet]:
        """The user's own sets, by name."""
        return {name: each for name, each in self.sets.items() if isinstance(each, OwnSet)}

    @property
    def known_sets(self) -> dict[str, KnownSet]:
        """What the study changes about sets that breadth knows, by name."""
        return {name: each for name, each in self.sets.items() if isinstance(each, KnownSet)}

    def chat_of(self, entry: ModelEntry) -> tuple[str, str | None]:
        """The chat template and the system prompt of a model: its own keys, or else the study's."""
        template = self.chat_template if entry.chat_template is None else entry.chat_template
        system = self.system if entry.system is None else entry.system
        return template, system
