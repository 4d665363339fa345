"""Fine-tuning, one step at a time, in a way that can stop at any step and go on as if it had not.

Everything a step depends on is either derived from the seed and the number of the step (order of the examples,
dropout, learning rate) or part of ``state``: trained weights and the optimiser's moments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from breadth.errors import InputError
from breadth.lm.adapters import trainable
from breadth.lm.body import Body
from breadth.lm.layers import top_blocks
from breadth.lm.lessons import Lesson


class Tuner:
    """Trains the trainable weights of a model on a lesson.

    ``keep_order``: every epoch passes over the examples in the order given.
    """

    def __init__(
        self, body: Body, lesson: Lesson, recipe: Any, seed: int, steps: int, keep_order: bool = False
    ) -> None:
        self.body, self.lesson, self.recipe = body, lesson, recipe
        self.seed, self.steps, self.keep_order = seed, steps, keep_order
        self.step = 0
        self.weights = trainable(body.model)
        self.blocks = top_blocks(body.model, recipe.layers)
        self.optimiser = _optimiser(recipe, list(self.weights.values()))

    def advance(self) -> float:
        """Take one optimiser step; return the mean loss of its examples."""
        examples = example_positions(len(self.lesson), self.recipe.batch, self.step, self.seed, self.keep_order)
        self._study_mode()
        torch.manual_seed(stream(self.seed, 1, self.step))
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.lr * rate(self.step, self.steps, self.recipe.schedule, self.recipe.warmup)
        total, whole = 0.0, self.lesson.weight_of(examples)
        for part in self.lesson.parts(examples, self.recipe.micro_batch):
            loss = self.lesson.loss_of(self.body, part) / whole
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not math.isfinite(total):
            raise InputError(
                f"step {self.step}: the loss is {total}; lower recipe.lr, or train in float32 (recipe.dtype)"
            )
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return total

    def _study_mode(self) -> None:
        """Dropout works where weights are adapted; what is frozen below answers as it always does."""
        if not self.blocks[-1].training:
            self.body.model.train(self.recipe.layers == "all")
            for block in self.blocks:
                block.train()

    def state(self) -> dict[str, torch.Tensor]:
        """Everything that training has changed, as named tensors; on a CPU they share memory with the weights."""
        found = {"step": torch.tensor(self.step)}
        for name, weight in self.weights.items():
            found[f"weight/{name}"] = weight.detach().cpu().contiguous()
            for key, value in self.optimiser.state.get(weight, {}).items():
                found[f"{key}/{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
        return found

    def begin_with(self, weights: dict[str, torch.Tensor]) -> None:
        """Take over trained weights, and nothing else: step and optimiser stay where they are."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a saved state; one that belongs to other weights is refused."""
        own = {f"weight/{name}" for name in self.weights}
        if {name for name in state if name.startswith("weight/")} != own:
            raise InputError("the saved state belongs to another model or recipe")
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state[f"weight/{name}"])
                keys = {key.partition("/")[0] for key in state if key.partition("/")[2] == name} - {"weight"}
                moments = {key: state[f"{key}/{name}"].clone() for key in keys}
                self.optimiser.state[weight] = {
                    key: value if key == "step" else value.to(weight.device) for key, value in moments.items()
                }
        self.step = int(state["step"])


def _optimiser(recipe: Any, weights: list[Any]) -> torch.optim.Optimizer:
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(weights, lr=recipe.lr, momentum=recipe.betas[0], weight_decay=recipe.weight_decay)
    return torch.optim.AdamW(weights, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay)


def rate(step: int, steps: int, schedule: str, warmup: float) -> float:
    """Share of the full learning rate at a step: rises over the warm-up, then stays, falls evenly, or as a cosine.

    >>> [round(rate(s, 10, "linear", 0.2), 2) for s in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 0.12]
    """
    rise = round(warmup * steps)
    if step < rise:
        return (step + 1) / rise
    if schedule == "constant":
        return 1.0
    gone = (step - rise) / max(steps - rise, 1)
    return 1 - gone if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * gone))


def stream(*numbers: int) -> int:
    """A seed made of several numbers, so that no two purposes share a stream."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def example_positions(n: int, batch: int, step: int, seed: int, keep_order: bool) -> list[int]:
    """Which examples a step trains on: every epoch passes over all of them once, in a new order unless it is kept."""
    found = []
    orders: dict[int, Any] = {}
    for k in range(step * batch, (step + 1) * batch):
        epoch = k // n
        if epoch not in orders:
            orders[epoch] = np.arange(n) if keep_order else np.random.default_rng([seed, 0, epoch]).permutation(n)
        found.append(int(orders[epoch][k % n]))
    return found
