"""Recording a training loop that is not breadth's: a model is evaluated as it is, and its answers go into a study."""

from __future__ import annotations

import io
import json
import operator
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from breadth.datasets import REGISTRY, Loaded, draw_items, load
from breadth.errors import InputError, did_you_mean, listed
from breadth.execute.data import load_own_testset
from breadth.execute.directory import check_recording, write_environment
from breadth.records import DamagedError, RunRecord, RunStore, StudyStore
from breadth.study import differences, is_set_name

if TYPE_CHECKING:
    from breadth.lm import ChatSettings, EncodedTestSet, LanguageModel

#: The method of a run that breadth did not train itself.
METHOD = "recorded"

_OWN = "describe a file or frame of your own as {'name': ..., 'file': ..., 'prompt': ..., 'answers': {...}}"

_Value = TypeVar("_Value")


class Recorder:
    """Records the answers of a model while any loop trains it, as a study that every command of breadth reads.

    Parameters
    ----------
    directory
        Directory of the study; new, empty, or one that a recorder made. Several runs can share it.
    testsets
        What to evaluate on: names of data sets (``breadth ls datasets``); mappings that describe a file or a pandas or
        polars frame with the keys of ``sets`` in a study file and ``name``; or sets that ``breadth.datasets.load``
        returned.
    tokenizer
        The model's tokenizer.
    every
        Evaluate at steps that are multiples of this; by default whenever ``evaluate`` is called.
    items
        Items per test set, the same for all runs; by default all.
    trained_on
        Name of the test set with held-out items of the training data, which is in-domain.
    name, seed
        Name of the model (by default that under which it was loaded) and seed: together with ``trained_on`` they tell
        the runs of a directory apart.
    config
        Settings of the training to keep with the run. A restart with others is refused.
    context
        Maximum tokens of a prompt; longer prompts are shortened.
    chat_template, system
        Ask in chat form: ``"auto"`` for the tokenizer's own template, or a file with one; and a system prompt. By
        default prompts are plain text.
    data
        Directory with files of registered data sets; otherwise BREADTH_DATA, then the Hub.

    Example
    -------
    >>> import breadth
    >>> recorder = breadth.Recorder("runs/mine", testsets=["plain", "negation"], tokenizer=tokenizer, every=100)
    ...                                                                                 # doctest: +SKIP
    >>> for step, batch in enumerate(batches):                                          # doctest: +SKIP
    ...     recorder.evaluate(model, step)
    ...     train_one_step(model, batch)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        testsets: Sequence[str | Mapping[str, Any] | Loaded],
        tokenizer: Any,
        every: int | None = None,
        items: int | None = None,
        trained_on: str | None = None,
        name: str | None = None,
        seed: int | None = None,
        config: Mapping[str, Any] | None = None,
        context: int = 512,
        chat_template: str | os.PathLike[str] | None = None,
        system: str | None = None,
        data: str | os.PathLike[str] | None = None,
    ) -> None:
        from breadth.lm import require_lm

        require_lm()
        if tokenizer is None or not callable(tokenizer):
            raise InputError("Recorder: tokenizer must be the model's tokenizer, as AutoTokenizer loads it")
        for option, value, least in (
            ("every", every, 1),
            ("items", items, 2),
            ("seed", seed, 0),
            ("context", context, 16),
        ):
            if value is not None and (type(value) is not int or value < least):
                raise InputError(f"Recorder: {option} is {value!r}; it must be a whole number, {least} or more")
        for option, text in (("trained_on", trained_on), ("name", name)):
            if text is not None and not (isinstance(text, str) and text.strip()):
                raise InputError(f"Recorder: {option} is {text!r}; it must be a non-empty string")
        self.every, self.items, self.trained_on, self.name, self.seed = every, items, trained_on, name, seed
        self.tokenizer, self.context, self.config = tokenizer, context, _json_values(config or {})
        self.chat = _chat_settings(chat_template, system)
        self.testsets = load_testsets(testsets, items=items, trained_on=trained_on, data=data)
        self.store = StudyStore(directory)
        check_recording(self.store)
        self._encoded: tuple[str, list[EncodedTestSet]] = ("", [])
        self._open_runs: set[str] = set()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the data; after the first evaluation also what a user should know about prompts."""
        loaded = [f"{name}: {note}" for name, testset in self.testsets.items() for note in testset.notes]
        return (*loaded, *(note for testset in self._encoded[1] for note in testset.notes))

    def evaluate(self, model: Any, step: int, *, force: bool = False) -> dict[str, float] | None:
        """Evaluate the model as it is, unless this step is recorded already, and return its accuracy by test set.

        Returns None, and does nothing, at a step that is no multiple of ``every`` (unless ``force``). Weights,
        gradients, training mode, dtype, device and random state stay as they are, so training continues as it would
        without this call. With torch.distributed, call it in every process: each evaluates a share, the first writes.

        Parameters
        ----------
        model
            A causal language model of transformers; PEFT adapters, DDP and torch.compile may be around it.
        step
            Number of training steps that the model has taken; 0 before training.
        force
            Evaluate also at a step that is no multiple of ``every``, such as the last one.
        """
        from breadth.lm import SplitModel, as_found, borrow, compute_outputs, score_outputs, with_chat

        step = _checked_step(step)
        if not force and self.every is not None and step % self.every:
            return None
        language_model = with_chat(borrow(model, self.tokenizer, self.name), self.chat)
        processes = Processes()
        run = self.store.run(self._run_name(language_model))
        with ExitStack() as stack:
            scores = processes.first(lambda: self._begin(run, language_model, step, stack))
            if scores is not None:
                return scores
            with as_found(language_model.model):
                # A new one every time: weights that it packs or keeps would be those of an earlier step.
                split = SplitModel(language_model.model, copies=False)
                testsets = self._encode(language_model)
                if not all(bool(weight.isfinite().all()) for weight in language_model.model.parameters()):
                    raise InputError(
                        f"{language_model.name}, step {step}: its weights are not finite numbers: training diverged. "
                        "Lower the learning rate, or clip gradients"
                    )
                split.require_agreement(testsets[0].prompts[0], language_model.name)
                shares = [(testset, testset.part(processes.rank, processes.size)) for testset in testsets]
                outputs = compute_outputs(language_model, split, shares)
            gathered = processes.gather(outputs)

            def write() -> dict[str, float]:
                frames = [score_outputs(each, [out[k] for out in gathered]) for k, each in enumerate(testsets)]
                run.write_part(step, pl.concat(frames))
                return self._scores(pl.concat(frames))

            return processes.first(write)

    def _begin(
        self, run: RunStore, language_model: LanguageModel, step: int, stack: ExitStack
    ) -> dict[str, float] | None:
        """Lock and open the run; the scores of a step that is recorded already."""
        if run.name not in self._open_runs:
            self._open(run, self._record(language_model))
        if not stack.enter_context(run.store.lock(run.key, wait=False)):
            raise InputError(
                f"{run.folder}: another process is evaluating this run; give every training run its own name or seed"
            )
        if run.name not in self._open_runs:
            run.repair()
            write_environment(run)
            for text in (*self.store.warnings, *run.warnings):
                warnings.warn(text, stacklevel=4)
            self._open_runs.add(run.name)
        content = run.sound_part(step)
        return None if content is None else self._scores(pl.read_parquet(io.BytesIO(content)))

    def _open(self, run: RunStore, record: RunRecord) -> None:
        """Write the items and the record of the run, once; refuse others than those it began with."""
        store = self.store
        with store.store.lock("", wait=True):
            check_recording(store)
            store.store.clean("")
            store.store.clean("items")
            before = None
            with suppress(DamagedError):  # it is written again
                before = run.record()
            if before is not None and before != record:
                if run.sound_steps():
                    changed = differences(before.specification(), record.specification())
                    raise InputError(
                        f"{run.folder}: this run began with other settings. Changed: {'; '.join(changed)}. Undo the "
                        "change, or give another name or seed, or another directory"
                    )
                run.store.delete(f"{run.key}/run.json")  # nothing was recorded with these settings
            for name, testset in self.testsets.items():
                store.write_items(name, _with_stored_shift(store, name, testset.frame))
            run.write_record(record)

    def _record(self, language_model: LanguageModel) -> RunRecord:
        tasks = {name: testset.task.spec() for name, testset in self.testsets.items()}
        chat = {} if self.chat is None else {"chat": self.chat.identity()}
        return RunRecord(
            language_model.name,
            self.trained_on,
            seed=self.seed,
            method=METHOD,
            recipe={**self.config, "context": self.context, **chat},
            evaluate={"on": sorted(self.testsets), "items": self.items},
            tasks=_json_values(tasks),
        )

    def _run_name(self, language_model: LanguageModel) -> str:
        words = [language_model.name, self.trained_on, None if self.seed is None else f"s{self.seed}"]
        plain = [re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-._") or "model" for word in words if word is not None]
        return "-".join(plain)

    def _encode(self, language_model: LanguageModel) -> list[EncodedTestSet]:
        """The test sets on the model's device, encoded when first needed."""
        from breadth.lm import encode_testset

        key = f"{language_model.name} {language_model.device}"
        if self._encoded[0] != key:
            sets = [encode_testset(language_model, each, context=self.context) for each in self.testsets.values()]
            self._encoded = (key, sets)
        return self._encoded[1]

    def _scores(self, answers: pl.DataFrame) -> dict[str, float]:
        means = dict(answers.group_by("testset").agg(pl.col("correct").cast(pl.Float64).mean()).iter_rows())
        return {name: means[name] for name in self.testsets}


def _chat_settings(template: str | os.PathLike[str] | None, system: str | None) -> ChatSettings | None:
    from breadth.lm import AUTO, NONE, ChatSettings, read_chat_template

    given = NONE if template is None else os.fspath(template)
    if given == NONE:
        if system is not None:
            raise InputError("Recorder: system needs chat_template, either 'auto' or a file with a template")
        return None
    return ChatSettings(AUTO if given == AUTO else read_chat_template(Path(given)), system)


class Processes:
    """This process among those that train together with torch.distributed; alone if there are no others.

    The first one reads and writes files for all of them. Every process must make the same calls in the same order.
    """

    def __init__(self) -> None:
        from torch import distributed

        together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if together else 0
        self.size = distributed.get_world_size() if together else 1

    def first(self, work: Callable[[], _Value]) -> _Value:
        """What ``work`` returns in the first process, in all of them; an ``InputError`` is raised in all of them, too.

        Otherwise the others would wait for a process that has stopped.
        """
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = work()
            except InputError as error:
                if self.size == 1:
                    raise
                outcome[1] = str(error)
        if self.size > 1:
            from torch import distributed

            distributed.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise InputError(outcome[1])
        value: _Value = outcome[0]
        return value

    def gather(self, value: _Value) -> list[_Value]:
        """The values of all processes, in all of them."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values


def load_testsets(
    testsets: Iterable[str | Mapping[str, Any] | Loaded],
    *,
    items: int | None = None,
    trained_on: str | None = None,
    data: str | os.PathLike[str] | None = None,
) -> dict[str, Loaded]:
    """Load test sets by name or description, and draw their items as a study does."""
    if not isinstance(testsets, Iterable | Loaded):
        raise InputError(f"testsets: {testsets!r} is not a list of test sets; name data sets, or {_OWN}")
    given = [testsets] if isinstance(testsets, str | Mapping | Loaded) else list(testsets)
    if not given:
        raise InputError("testsets: is empty; name at least one data set (see `breadth ls datasets`)")
    loaded: dict[str, Loaded] = {}
    for one in given:
        testset = _load_testset(one, trained_on, data)
        if testset.name in loaded:
            raise InputError(f"testsets: {testset.name!r} is listed twice; remove one")
        shift = testset.shift if testset.shift != "in-domain" else "domain"
        shift = "in-domain" if testset.name == trained_on else shift
        frame = draw_items(testset.frame, items, 0).with_columns(shift=pl.lit(shift))
        loaded[testset.name] = replace(testset, shift=shift, frame=frame)
    if trained_on is not None and trained_on not in loaded:
        hint = did_you_mean([trained_on], loaded)
        raise InputError(
            f"trained_on: {trained_on!r} is not one of the test sets ({listed(loaded)}).{hint} "
            "Add held-out items of the training data as a test set, or leave trained_on out"
        )
    return loaded


def _load_testset(testset: Any, trained_on: str | None, data: str | os.PathLike[str] | None) -> Loaded:
    if isinstance(testset, Loaded):
        return testset
    if isinstance(testset, str):
        if testset not in REGISTRY:
            hint = did_you_mean([testset.replace("-", "_")], REGISTRY, most=1)
            raise InputError(
                f"testsets: unknown data set {testset!r}.{hint} `breadth ls datasets` lists the known ones; {_OWN}"
            )
        loaded = load(testset, "test", data=data)
        whole = loaded.halved and testset != trained_on
        return load(testset, "all", data=data) if whole else loaded
    if not isinstance(testset, Mapping):
        raise InputError(f"testsets: {type(testset).__name__} is not a test set; give a name, or {_OWN}")
    keys = dict(testset)
    name = keys.pop("name", None)
    if not isinstance(name, str) or not is_set_name(name):
        raise InputError(
            f"testsets: the name of a set of your own is {name!r}; it must begin with a letter or digit and have only "
            "letters, digits, dots, dashes and underscores"
        )
    if name in REGISTRY:
        raise InputError(f"testsets: {name!r} is the name of a data set that breadth knows; choose another")
    if "file" not in keys:
        raise InputError(f"testsets: {name} has no file; {_OWN}")
    return load_own_testset(name, keys)


def _with_stored_shift(store: StudyStore, name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The items as they are stored already, if only the kind of shift differs: another run may train on other data."""
    if name not in store.item_files():
        return frame
    with suppress(DamagedError):  # they are written again
        stored = store.read_items(name)
        if stored.drop("shift", strict=False).equals(frame.drop("shift")):
            return stored
    return frame


def _checked_step(step: Any) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if number < 0 or isinstance(step, bool):
        raise InputError(f"step: {step!r} is not a number of training steps; give 0 or more")
    return number


def _json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON holds them."""
    if not isinstance(values, Mapping):
        raise InputError(f"config: {values!r} is not a mapping of settings to values")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"config: holds what JSON cannot ({error}); give numbers, texts, lists and mappings"
        ) from error
    return plain
