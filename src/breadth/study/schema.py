"""The study file: what may stand in it. One class per section; `read` checks a file, `expansion` makes runs of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from breadth.records.schemas import SHIFTS

Strategy = Literal["easy", "hard", "middle", "full", "centred", "spiral", "curriculum", "anti-curriculum"]
Order = Literal["shuffled", "rising", "falling", "spiral"]
Shift = Literal["in-domain", "domain", "style", "difficulty", "adversarial"]
assert set(SHIFTS) == set(Shift.__args__)  # type: ignore[attr-defined]


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return value if isinstance(value, list) or value is None else [value]


Names = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_listed), Field(min_length=1)]
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(_listed), Field(min_length=1)]


class Section(BaseModel):
    """A part of a study file: no unknown keys, nothing changed after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Recipe(Section):
    """How a model is adapted and trained."""

    method: Literal["lora", "full", "zero-shot", "few-shot"] = "lora"
    rank: int = Field(8, ge=1)
    alpha: float = Field(32, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    targets: Literal["attention", "mlp", "all"] | list[str] = "attention"
    layers: Literal["all"] | Annotated[int, Field(ge=1)] = "all"
    optimiser: Literal["adamw", "sgd"] = "adamw"
    lr: float = Field(1e-4, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = Field(0.0, ge=0)
    clip: float | None = Field(1.0, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: float = Field(0.0, ge=0, le=1)
    batch: int = Field(16, ge=1)
    micro_batch: int | None = Field(None, ge=1)
    epochs: float | None = Field(None, gt=0)
    steps: int | None = Field(None, ge=1)
    loss: Literal["answers", "completion"] = "answers"
    examples: int = Field(4, ge=1)
    context: int = Field(512, ge=16)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    quantise: Literal["4bit", "8bit"] | None = None
    trunk: Literal["auto", "on", "off"] = "auto"


class ModelEntry(Section):
    """A model by name, Hub id or path, with what differs from the study's recipe."""

    name: str
    recipe: dict[str, Any] = Field(default_factory=dict)


def _as_entry(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Difficulty(Section):
    """Where the difficulty of items comes from: a column of the data, a calibration file, or a study's checkpoints."""

    column: str | None = None
    hard_is: Literal["high", "low"] = "high"
    calibration: str | None = None
    study: str | None = None


class Train(Section):
    """What is trained on: data sets, sizes, seeds; by level of difficulty or by strategy where asked."""

    set: Names
    shots: Counts = Field(default_factory=lambda: [128])
    seeds: Seeds = Field(default_factory=lambda: [0])
    difficulty: Difficulty | None = None
    levels: int | None = Field(None, ge=2, le=100)
    train_levels: list[int] | None = None
    strategies: list[Strategy] = Field(default_factory=list)
    order: Order | None = None


class Evaluate(Section):
    """When and on what a model is evaluated."""

    on: Names
    every: int | None = Field(None, ge=1)
    items: int | None = Field(None, ge=2)
    seed: int = Field(0, ge=0)


class OwnSet(Section):
    """A test set from the user's own file: its columns, its pattern and its answers."""

    file: str
    shift: Shift = "domain"
    fields: dict[str, str] = Field(default_factory=dict)
    label: str = "label"
    labels: dict[str, str] | None = None
    item: str | None = None
    train_file: str | None = None
    kind: Literal["pattern", "choice", "generate"] = "pattern"
    pattern: str | None = None
    answers: dict[str, str] | None = None
    shorten: str | None = None
    options: str | None = None
    normalise: bool = False
    extract: str | None = None
    metric: Literal["exact", "number", "math"] = "exact"
    most_tokens: int = Field(256, ge=1)


class Study(Section):
    """A whole study file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    models: Annotated[
        list[Annotated[ModelEntry, BeforeValidator(_as_entry)]], BeforeValidator(_listed), Field(min_length=1)
    ]
    train: Train | None = None
    recipe: Recipe
    evaluate: Evaluate
    sets: dict[str, OwnSet] = Field(default_factory=dict)
    pattern: str | None = None
    answers: dict[str, str] | None = None
