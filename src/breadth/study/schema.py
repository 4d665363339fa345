"""The study file: what may stand in it. One class per section; `read` checks a file, `expansion` makes runs of it.

The descriptions of the fields are what docs/study.md shows and what a message about a missing key says.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from breadth.errors import InputError
from breadth.records.schemas import SHIFTS
from breadth.study.problems import did_you_mean

Strategy = Literal["easy", "hard", "middle", "full", "centred", "spiral", "curriculum", "anti-curriculum"]
Order = Literal["shuffled", "rising", "falling", "spiral"]
Shift = Literal["in-domain", "domain", "style", "difficulty", "adversarial"]
assert set(SHIFTS) == set(Shift.__args__)  # type: ignore[attr-defined]

#: Groups of modules that `recipe.targets` knows by a word.
TARGETS = ("attention", "mlp", "all")


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return value if isinstance(value, list) or value is None else [value]


def _texts(value: Any) -> Any:
    """Labels and answers are texts, even where they look like numbers."""
    if not isinstance(value, dict):
        return value
    return {
        str(key): str(text).lower() if isinstance(text, bool) else str(text) if isinstance(text, int | float) else text
        for key, text in value.items()
    }


def _targets(value: Any) -> Any:
    words = isinstance(value, list) and value and all(isinstance(name, str) and name for name in value)
    if words or (isinstance(value, str) and value in TARGETS):
        return value
    hint = did_you_mean(value, TARGETS) if isinstance(value, str) else ""
    raise InputError(
        f"{value!r} is none of {', '.join(TARGETS)}.{hint} Modules by their own names go in a list, as [q_proj, v_proj]"
    )


def _layers(value: Any) -> Any:
    if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise InputError(f"{value!r} is neither the word all nor a number of layers, counted from the top, of 1 or more")


Names = Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_listed), Field(min_length=1)]
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(_listed), Field(min_length=1)]
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
Beta = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of a study file: no unknown keys, nothing changed after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_no_truth_values(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true for 1; in a study file that is a slip."""
        values = value if isinstance(value, list) and info.field_name != "models" else [value]
        wanted = cls.model_fields[str(info.field_name)].annotation is bool
        if not wanted and any(isinstance(each, bool) for each in values):
            raise InputError("true and false are no numbers and no texts; put a word in quotation marks")
        return value


class Recipe(Section):
    """How a model is adapted and trained."""

    method: Literal["lora", "full", "zero-shot", "few-shot"] = Field(
        "lora", description="low-rank adapters, all weights, or no training without or with examples in the prompt"
    )
    rank: int = Field(8, ge=1, description="rank of the adapters (lora)")
    alpha: float = Field(32.0, gt=0, description="scale of the adapters: their output is multiplied by alpha / rank")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of adapter inputs dropped in training (lora)")
    targets: Annotated[Literal["attention", "mlp", "all"] | list[str], BeforeValidator(_targets)] = Field(
        "attention", description="modules that get adapters: attention, mlp, all, or a list of module names (lora)"
    )
    layers: Annotated[Literal["all"] | int, BeforeValidator(_layers)] = Field(
        "all", description="how many layers, counted from the top, are trained: a number, or all"
    )
    optimiser: Literal["adamw", "sgd"] = Field("adamw", description="what turns gradients into steps")
    lr: float = Field(1e-4, gt=0, description="learning rate")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="decay rates of the two averages of adamw")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay")
    clip: float | None = Field(1.0, gt=0, description="largest norm of the gradient; null for no limit")
    schedule: Literal["constant", "linear", "cosine"] = Field("constant", description="learning rate after warm-up")
    warmup: float = Field(0.0, ge=0, le=1, description="share of the steps in which the learning rate rises from 0")
    batch: int = Field(16, ge=1, description="examples per step")
    micro_batch: int | None = Field(
        None, ge=1, description="examples in memory at a time; divides batch; null for the whole batch"
    )
    epochs: float | None = Field(None, gt=0, description="passes over the examples; give this or steps")
    steps: int | None = Field(None, ge=1, description="optimiser steps; give this or epochs")
    loss: Literal["answers", "completion"] = Field(
        "answers", description="compare the answer words with one another, or train to write the right text"
    )
    examples: int = Field(4, ge=1, description="examples in the prompt (few-shot)")
    context: int = Field(512, ge=16, description="most tokens of a prompt; longer ones are shortened")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="number format of weights")
    device: str = Field("auto", min_length=1, description="where to compute: auto, cpu, cuda, cuda:1, mps")
    quantise: Literal["4bit", "8bit"] | None = Field(None, description="load the frozen weights in few bits")
    trunk: Literal["auto", "on", "off"] = Field(
        "auto", description="keep what the untrained lower layers compute, instead of computing it again every time"
    )


class ModelEntry(Section):
    """A model by name, Hub id or path, with what differs from the study's recipe."""

    name: str = Field(min_length=1, description="an embedded model, a Hub id (owner/name) or the path of a directory")
    recipe: dict[str, Any] = Field(
        default_factory=dict, description="keys of recipe that differ for this model; epochs replaces steps and back"
    )


def _as_entry(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Difficulty(Section):
    """Where the difficulty of items comes from: a column of the data, a calibration file, or a study's checkpoints."""

    column: str | None = Field(None, description="column of the data that says how hard an item is")
    hard_is: Literal["high", "low"] = Field("high", description="whether high or low values of column are hard")
    calibration: str | None = Field(None, description="file with item and difficulty, from `breadth calibrate`")
    study: str | None = Field(None, description="directory of a study whose answers are calibrated first")


class Start(Section):
    """What every model learns first, once for all runs; step 0 of every run, and so every gain, counts from there."""

    shots: int = Field(ge=1, description="examples, drawn from all that may be trained on, of every difficulty")
    lr: float | None = Field(None, gt=0, description="learning rate of the start; null for the recipe's")
    epochs: float | None = Field(
        None, gt=0, description="passes over these examples; null for the epochs or steps of the recipe"
    )


class Train(Section):
    """What is trained on: data sets, sizes, seeds; by level of difficulty or by strategy where asked."""

    set: Names = Field(description="data set or sets to train on, one run each")
    shots: Counts = Field(default_factory=lambda: [128], description="number or numbers of training examples")
    seeds: Seeds = Field(default_factory=lambda: [0], description="seeds of examples, their order and the adapters")
    difficulty: Difficulty | None = Field(None, description="where the difficulty of items comes from")
    levels: int | None = Field(None, ge=2, le=100, description="equal-sized levels of difficulty; one run for each")
    train_levels: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="levels to train on, 0 is the easiest; null for all of them"
    )
    strategies: list[Strategy] = Field(
        default_factory=list, description="ways to choose examples by difficulty; one run for each"
    )
    order: Order | None = Field(None, description="order of the examples; null for the order of the strategy")
    start: Start | None = Field(
        None, description="what every model learns before the runs part; null to begin with the untrained model"
    )


class Evaluate(Section):
    """When and on what a model is evaluated."""

    on: Names = Field(description="test sets: names of `breadth ls datasets` or of your own under sets")
    every: int | None = Field(None, ge=1, description="steps from one checkpoint to the next; null: first and last")
    items: int | None = Field(None, ge=2, description="items of each test set, drawn once; null for all")
    seed: int = Field(0, ge=0, description="seed of that draw")


class OwnSet(Section):
    """A test set from the user's own file: its columns, its pattern and its answers."""

    file: str = Field(min_length=1, description="table of test items, relative to the study file")
    shift: Shift = Field("domain", description="how the set differs from the training data")
    fields: Texts = Field(default_factory=dict, description="field of the pattern: column of the file, if they differ")
    label: str = Field("label", min_length=1, description="column with the right label or answer")
    labels: Texts | None = Field(None, description="value of that column: label; rows with other values are dropped")
    item: str | None = Field(None, description="column with the name of an item; null to number them")
    train_file: str | None = Field(None, description="table of training items, needed to train on this set")
    kind: Literal["pattern", "choice", "generate"] = Field(
        "pattern", description="compare answer words, compare an item's options, or let the model write"
    )
    pattern: str | None = Field(None, description="the prompt, with columns in braces")
    answers: Texts | None = Field(None, description="label: answer words, with their leading space (pattern)")
    shorten: str | None = Field(None, description="field that gives way where a prompt is too long")
    options: str | None = Field(None, description="column with the options of an item (choice)")
    normalise: bool = Field(False, description="divide an option's log-likelihood by its length (choice)")
    extract: str | None = Field(None, description="regular expression whose first group is the answer (generate)")
    metric: Literal["exact", "number", "math"] = Field("exact", description="how an answer is compared (generate)")
    most_tokens: int = Field(256, ge=1, description="most tokens to write (generate)")


class Study(Section):
    """A whole study file."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the study's name: letters, digits, dots, dashes"
    )
    description: str = Field("", description="a line for people")
    models: Annotated[
        list[Annotated[ModelEntry, BeforeValidator(_as_entry)]], BeforeValidator(_listed), Field(min_length=1)
    ] = Field(description="models, each a name or {name: ..., recipe: {...}}")
    train: Train | None = Field(None, description="what to train on; needed unless the method is zero-shot")
    recipe: Recipe = Field(description="how a model is adapted and trained")
    evaluate: Evaluate = Field(description="when and on what a model is evaluated")
    sets: dict[str, OwnSet] = Field(default_factory=dict, description="your own test sets by name")
    pattern: str | None = Field(None, description="prompt for every set of kind pattern that has none of its own here")
    answers: Texts | None = Field(None, description="label: answer words, for the same sets")
