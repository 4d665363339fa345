"""States of the Hugging Face trainer: ``trainer_state.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from breadth.errors import InputError
from breadth.sources.checkpoint_scores.scores import MOST_ITEMS, CheckpointScore, ScoreOptions, TrainingRun, real
from breadth.sources.columns import Column, Columns, json_list
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import SourceFile, mapping, words
from breadth.sources.training_steps import step_in

STATE = Columns(
    Column("history", "log_history", json_list, required=True),
    Column("reached", "global_step", real, default=0.0),
)

#: Files beside a state that name the model from which training started, and where.
BASE_MODELS = (("adapter_config.json", "base_model_name_or_path"), ("config.json", "_name_or_path"))


class TrainerState(Source):
    """The state of a Hugging Face trainer: a row per log entry; several evaluation sets have a row each."""

    name: ClassVar[str] = "trainer-state"
    looks_like: ClassVar[str] = "Hugging Face trainer_state.json"

    def detect(self, file: SourceFile) -> Detection | None:
        """An object with a log_history."""
        if file.is_list or "log_history" not in file.keys:
            return None
        return Detection(Part.SCORES, "a JSON object with log_history", has_scores=True)

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Yield the numbers of every log entry."""
        state = STATE.read(file.json(), str(file.path))
        folder = file.path.resolve().parent
        output = folder.parent if is_checkpoint_folder(folder.name) else folder
        run = TrainingRun(output.as_posix(), model=_base_model(folder))
        stepless = 0
        for place, row in enumerate(state["history"], 1):
            if not isinstance(row, dict):
                raise InputError(f"{file.path}: entry {place} of log_history is not an object; the file is damaged")
            step = real(row.get("step"))
            if step is None:
                stepless += 1
                continue
            # Every checkpoint repeats the history so far, so the last one knows most.
            yield from _scores_of_row(row, run, step, state["reached"])
        if stepless:
            options.notes.append(
                f"{file.path}: {stepless} of {len(state['history'])} entries of log_history have no step, left out"
            )


def is_checkpoint_folder(name: str) -> bool:
    """Whether the trainer calls folders of checkpoints so."""
    return name.startswith("checkpoint-") and step_in(name).rest == ""


def _scores_of_row(
    row: Mapping[str, object], run: TrainingRun, step: float, reached: float
) -> Iterator[CheckpointScore]:
    """The numbers of one entry of the log."""
    values: dict[str, float] = {}
    for key, cell in row.items():
        value = real(cell)
        if value is not None and key != "step":
            values[key] = value
    # Other values of an entry of training have any name.
    of_training = "loss" in values or "train_runtime" in values
    for key, value in values.items():
        training = of_training and not key.startswith(("eval_", "test_"))
        yield CheckpointScore(run, step, key, value, reached, items=_items(key, values), training=training)


def _items(key: str, values: Mapping[str, float]) -> int | None:
    """How many items an evaluation had: its speed times the time that it took."""
    stem = key
    while "_" in stem:
        # Of eval_hans_accuracy the times are eval_hans_runtime, or those of all sets, eval_runtime.
        stem = stem.rpartition("_")[0]
        if f"{stem}_runtime" in values:
            items = values[f"{stem}_runtime"] * values.get(f"{stem}_samples_per_second", 0.0)
            return round(items) if 0.5 < items < MOST_ITEMS else None
    return None


def _base_model(folder: Path) -> str | None:
    """The model that a trainer started from, as the files beside its state name it."""
    for name, key in BASE_MODELS:
        path = folder / name
        if not path.is_file():
            continue
        try:
            model = words(mapping(SourceFile.look(path).json()).get(key))
        except InputError:
            # It only names the model; what matters is in another file.
            continue
        if model is not None:
            return model
    return None
