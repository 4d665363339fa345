"""A callback for the Trainer of transformers, and for what builds on it, such as the trainers of TRL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from breadth import Recorder
from breadth.errors import InputError, listed

When = Literal["save", "evaluate"]

#: Arguments of a Trainer that determine what is learnt; a resumed training has the same.
ARGUMENTS = (
    *("learning_rate", "lr_scheduler_type", "weight_decay", "warmup_steps", "max_grad_norm", "optim"),
    *("adam_beta1", "adam_beta2", "adam_epsilon", "per_device_train_batch_size", "gradient_accumulation_steps"),
)

#: What the names of scores begin with in the Trainer's log; trackers group names by the part before "_".
PREFIX = "eval_breadth/"


class BreadthCallback(TrainerCallback):
    """Evaluates the Trainer's model on test sets before training, during training and at its end.

    Answers go into a study directory, as with :class:`breadth.Recorder`; accuracies into the Trainer's log as
    ``eval_breadth/TESTSET``, and from there to TensorBoard, wandb and other trackers. Training ends with the same
    weights as without the callback. With several processes each evaluates a share of the items.

    Parameters
    ----------
    trainer
        The Trainer, which needs the callback with ``trainer.add_callback``.
    directory
        Directory of the study; new, empty, or one that a recorder made.
    testsets
        What to evaluate on, as for ``breadth.Recorder``.
    every
        Steps between evaluations; or ``"save"`` or ``"evaluate"``, to evaluate whenever the Trainer does that. The
        first step (0) and the last are always evaluated.
    tokenizer
        By default the Trainer's ``processing_class``.
    seed
        By default that of the training arguments.
    config
        Settings to keep with the run; by default the training arguments that determine what is learnt. A restart with
        others is refused.
    options
        Further options of ``breadth.Recorder``: ``items``, ``trained_on``, ``name``, ``context``, ``data``.

    Example
    -------
    >>> trainer = Trainer(model, args, train_dataset=dataset, processing_class=tokenizer)      # doctest: +SKIP
    >>> trainer.add_callback(BreadthCallback(trainer, "runs/mine", testsets=["plain"], every=100))   # doctest: +SKIP
    >>> trainer.train()                                                                        # doctest: +SKIP
    """

    def __init__(
        self,
        trainer: Trainer,
        directory: str | os.PathLike[str],
        *,
        testsets: Sequence[str | Mapping[str, Any] | Any],
        every: int | When = "save",
        tokenizer: Any = None,
        seed: int | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(trainer, Trainer):
            raise InputError(
                f"BreadthCallback: its first argument is the Trainer, not {type(trainer).__name__}; add it with "
                "trainer.add_callback(BreadthCallback(trainer, ...))"
            )
        if isinstance(every, str) and every not in get_args(When):
            raise InputError(f"BreadthCallback: every is {every!r}; give a number of steps or {listed(get_args(When))}")
        args = trainer.args
        self.trainer, self.every = trainer, every
        self.recorder = Recorder(
            directory,
            testsets=testsets,
            tokenizer=_tokenizer_of(trainer, tokenizer),
            every=every if isinstance(every, int) else None,
            seed=args.seed if seed is None else seed,
            config={name: _plain_value(getattr(args, name, None)) for name in ARGUMENTS} if config is None else config,
            **options,
        )

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate step 0; or the step of the checkpoint that training resumes from, if that was due and got lost."""
        if state.global_step == 0 or self.every != "evaluate":
            self._evaluate(state, control, force=state.global_step == 0)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate every so many steps, and after the last one."""
        last = state.global_step >= state.max_steps
        if last or isinstance(self.every, int):
            self._evaluate(state, control, force=last)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate what was saved."""
        if self.every == "save":
            self._evaluate(state, control)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate what the Trainer evaluated, unless it does so outside of training."""
        if self.every == "evaluate" and self.trainer.is_in_train:
            self._evaluate(state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the last step of a training that was stopped early, unless the best weights were loaded instead."""
        if not args.load_best_model_at_end:
            self._evaluate(state, control, force=True)

    def _evaluate(self, state: TrainerState, control: TrainerControl, force: bool = False) -> None:
        step = state.global_step
        if step > state.max_steps:  # a Trainer that resumes from its last checkpoint takes one step more
            return
        scores = self.recorder.evaluate(self.trainer.model, step, force=force)
        logged = any(
            entry["step"] == step and any(key.startswith(PREFIX) for key in entry) for entry in state.log_history
        )
        if scores is None or logged:
            return
        # Logging clears this flag, and with it a loss that is due at the same step. The trainers of TRL add their own
        # averages to whatever they log and begin new ones, so theirs is passed over.
        due = control.should_log
        Trainer.log(self.trainer, {f"{PREFIX}{name}": score for name, score in scores.items()})
        control.should_log = due


def _tokenizer_of(trainer: Trainer, tokenizer: Any) -> Any:
    """The tokenizer that was given, or else the Trainer's, which may be part of a processor."""
    given = trainer.processing_class if tokenizer is None else tokenizer
    given = getattr(given, "tokenizer", given)
    if not hasattr(given, "convert_tokens_to_ids"):
        raise InputError(
            "BreadthCallback: the Trainer has no tokenizer; pass processing_class=tokenizer to the Trainer, or "
            "tokenizer=tokenizer to BreadthCallback"
        )
    return given


def _plain_value(value: Any) -> Any:
    """An argument as plain value; an enumeration is its word."""
    return cast(Any, getattr(value, "value", value))
