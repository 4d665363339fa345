"""``breadth.evaluate``: a study of checkpoints that are there already, and following a trainer that writes more."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from breadth.errors import InputError, NothingFoundError
from breadth.execute.executors import LocalExecutor, Outcome, execute_plan
from breadth.execute.plan import StudyPlan, plan_study
from breadth.execute.progress import Events
from breadth.lm import AUTO, BUILT_IN, NONE, find_checkpoints, is_settled, pattern_of, read_weights_record, readable
from breadth.records import StudyStore
from breadth.study import (
    EVALUATE,
    ModelEntry,
    Problem,
    StudyFile,
    StudySpec,
    name_of_checkpoints,
    plain_problems,
    read_document,
    resolved_yaml,
    study_problems,
    study_warnings,
)

#: Seconds between two looks for new checkpoints.
POLL = 2.0

#: What the keys of the study are called where they are given one by one.
_OPTIONS = {
    "on": "--on",
    "base": "--base",
    "name": "--name",
    "trained_on": "--trained-on",
    "items": "--items",
    "dtype": "--dtype",
    "chat_template": "--chat-template",
    "system": "--system",
    "protocol": "--protocol",
    "predict": "--predict",
    "weights": "--weights",
}


@dataclass(frozen=True)
class Following:
    """When to stop looking for new checkpoints: at a step, or after minutes without any; None: never."""

    until: int | None = None
    patience: float | None = None


def evaluate(
    checkpoints: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    on: str | Sequence[str],
    into: str | os.PathLike[str],
    base: str | os.PathLike[str] | None = None,
    name: str | None = None,
    trained_on: str | None = None,
    items: int | None = None,
    dtype: str | None = None,
    chat_template: str | os.PathLike[str] | None = None,
    system: str | None = None,
    protocol: str | None = None,
    predict: str | None = None,
    weights: str | None = None,
    data: str | os.PathLike[str] | None = None,
    follow: bool = False,
    until: int | None = None,
    patience: float | None = None,
    events: Events | None = None,
) -> Outcome:
    """Evaluate checkpoints that are there already on test sets, and keep every response.

    The model is loaded once. What is done is not done again, and the study in ``into`` can be read by ``open``,
    ``report``, ``correlate`` and all others. A second call with another name adds a model to it.

    Parameters
    ----------
    checkpoints
        Directories that a trainer wrote (whole weights or PEFT adapters, in safetensors), globs, or a directory of
        checkpoints. Steps come from their names, as ``checkpoint-500``, or from ``trainer_state.json``.
    on
        Test sets.
    into
        Directory of the study.
    base
        The model that adapters belong to, by default the one they name; or whose tokenizer whole weights use.
    name
        Name of the model, by default that of the directory that holds the checkpoints.
    trained_on
        The test set that the checkpoints were trained on: the control of ``correlate``.
    items
        Items per test set; all by default.
    dtype
        Number format, as ``recipe.dtype`` of a study file: by default float32 on a CPU, bfloat16 on a GPU that supports
        it. ``"mixed"`` is faster on many CPUs and gives the answers of float32.
    chat_template, system
        Ask in chat form: ``"auto"`` for the tokenizer's own template, or a file with one; and a system prompt.
    protocol
        Prompts and scoring of a published study, such as ``"level-transfer"``; by default breadth's own.
    predict
        What a model answers on sets of kind pattern, as ``evaluate.predict`` of a study file: the likeliest of the
        ``"answers"`` (default), or of all tokens of the ``"vocabulary"``.
    weights
        ``"bin"`` if the base model has pickled weights only (``pytorch_model.bin``): they are checked, and converted
        once into safetensors. The checkpoints themselves are read as safetensors.
    data
        Directory with files of registered data sets; otherwise BREADTH_DATA, then the Hub.
    follow
        Whether to go on with checkpoints that are written from now on.
    until, patience
        Stop following after the checkpoint of this step, or after so many minutes without a new one.
    events
        Callbacks for progress.

    Returns
    -------
    Outcome
        What became of the run; see ``run``.
    """
    from breadth.lm import require_lm

    require_lm("torch", "transformers", "peft", "accelerate")
    paths = [checkpoints] if isinstance(checkpoints, str | os.PathLike) else list(checkpoints)
    file = checkpoint_study(
        [os.fspath(path) for path in paths], on=[on] if isinstance(on, str) else list(on), into=Path(into),
        base=None if base is None else os.fspath(base), name=name, trained_on=trained_on, items=items, dtype=dtype,
        chat_template=None if chat_template is None else os.fspath(chat_template), system=system, protocol=protocol,
        predict=predict, weights=weights, follow=follow,
    )  # fmt: skip
    executor, outcome, notes = LocalExecutor(), Outcome(Path(into)), (events or Events()).note
    following = Following(until, patience) if follow else None
    for plan in plans(file, Path(into), None if data is None else Path(data), following, notes):
        outcome = execute_plan(plan, events=events, executor=executor)
        if outcome.failed:
            raise InputError("\n".join(outcome.failures()))
    return outcome


def checkpoint_study(
    checkpoints: Sequence[str],
    *,
    on: Sequence[str],
    into: Path,
    base: str | None = None,
    name: str | None = None,
    trained_on: str | None = None,
    items: int | None = None,
    dtype: str | None = None,
    chat_template: str | None = None,
    system: str | None = None,
    protocol: str | None = None,
    predict: str | None = None,
    weights: str | None = None,
    follow: bool = False,
) -> StudyFile:
    """The study of some checkpoints, together with what the directory ``into`` already has.

    Paths in it are relative to ``into``, so that ``breadth run`` of the study file there works.
    """
    given = [pattern_of(path) for path in checkpoints] if follow else list(checkpoints)
    entry = {
        "checkpoints": [_relative_path(path, into) for path in dict.fromkeys(given)],
        "base": base if base is None or base in BUILT_IN or not os.path.isdir(base) else _relative_path(base, into),
        "trained_on": trained_on,
        "name": name or _kept_run(given[0]) or name_of_checkpoints(os.path.abspath(given[0])) or "model",
        "recipe": {} if dtype is None else {"dtype": dtype},
        "system": system,
    }
    if chat_template is not None:
        is_word = chat_template in (AUTO, NONE)
        entry["chat_template"] = chat_template if is_word else _relative_path(chat_template, into)
    if weights is not None:
        entry["weights"] = weights
    try:
        study = StudySpec.model_validate(
            {
                "name": re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._-]+", "", into.absolute().name) or "checkpoints",
                "models": [entry],
                "recipe": {"method": EVALUATE},
                "evaluate": {"on": list(on), "items": items, **({} if predict is None else {"predict": predict})},
                "protocol": protocol,
            }
        )
    except ValidationError as error:
        raise InputError(_problem_lines(plain_problems(error, StudySpec))) from error
    others = [each for each in _models_in(into) if each.name != study.models[0].name]
    study = study.model_copy(update={"models": [*others, study.models[0]]})
    problems = [
        each
        for each in study_problems(study, into)
        # What became of the checkpoints of other models does not matter: they were evaluated before.
        if each.place[0] != "models" or each.place[1:2] == (len(others),)
        if not (follow and _is_waiting(study, each.place, into))
    ]
    if problems:
        raise InputError(_problem_lines(problems))
    warnings = tuple(each.message for each in study_warnings(study, into))
    return StudyFile(study, Path("breadth evaluate"), resolved_yaml(study), into, warnings)


def _kept_run(pattern: str) -> str | None:
    """The run whose weights these are, if a study kept them: their own directory is called ``weights``."""
    with suppress(InputError):
        for each in find_checkpoints([pattern], Path.cwd()):
            run = (read_weights_record(Path(each.place)) or {}).get("run")
            if isinstance(run, str) and run:
                return run
    return None


def plans(
    file: StudyFile,
    into: Path,
    data: Path | None,
    following: Following | None,
    waiting: Callable[[str], None],
    dry: bool = False,
) -> Iterator[StudyPlan]:
    """The plan of a study of checkpoints; if they are followed, another one whenever there are new checkpoints."""
    seen: set[tuple[str, int]] = set()
    last = time.monotonic()
    while True:
        if following is None or _new(file, into) - seen:
            plan = plan_study(file, into, data=data, dry=dry)
            seen |= {(unit.run.model, step) for unit in plan.units for step in unit.run.checkpoints()}
            yield plan
            last = time.monotonic()
        if following is None or (following.until is not None and any(step >= following.until for _, step in seen)):
            return
        if following.patience is not None and time.monotonic() - last > 60 * following.patience:
            if not seen:
                raise NothingFoundError(f"no checkpoint was written within {following.patience:g} minutes")
            return
        waiting("waiting for new checkpoints; stop with Ctrl-C")
        time.sleep(POLL)


def _new(file: StudyFile, into: Path) -> set[tuple[str, int]]:
    """Models and steps of the checkpoints that are there; none while one of them is still being written."""
    there: set[tuple[str, int]] = set()
    for entry in file.study.models:
        with suppress(NothingFoundError, FileNotFoundError):  # a trainer may delete the oldest at any time
            whole, _ = readable(find_checkpoints(entry.checkpoints or [], into))
            if not all(is_settled(Path(each.place)) for each in whole):
                return set()
            there |= {(entry.name, each.step) for each in whole}
    return there


def _is_waiting(study: StudySpec, place: Sequence[str | int], into: Path) -> bool:
    """Whether a problem is only that no checkpoint is there yet."""
    if place[0] != "models" or place[-1] != "checkpoints":
        return False
    try:
        readable(find_checkpoints(study.models[int(place[1])].checkpoints or [], into))
    except NothingFoundError:
        return True
    except InputError:
        return False
    return False


def _models_in(into: Path) -> list[ModelEntry]:
    """Models of the study of checkpoints that a directory holds."""
    text = StudyStore(into).read_study() if (into / "study.yaml").is_file() else None
    if text is None:
        return []
    study = StudySpec.model_validate(read_document(text, str(into / "study.yaml")).value)
    return study.models if study.recipe.method == EVALUATE else []


def _relative_path(path: str, into: Path) -> str:
    return os.path.relpath(os.path.abspath(os.path.expanduser(path)), into.absolute())


def _problem_lines(problems: Sequence[Problem]) -> str:
    """Problems as lines, by the names of options."""
    lines = []
    for each in problems:
        option = next((_OPTIONS[key] for key in map(str, reversed(each.place)) if key in _OPTIONS), "")
        lines.append(f"{option}: {each.message}" if option else each.message)
    return "\n".join(dict.fromkeys(lines))
