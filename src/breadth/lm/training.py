"""Fine-tuning one step at a time, such that a run can stop at any step and resume with the same results.

Everything a step depends on is either derived from the seed and the number of the step (order of the examples,
dropout, learning rate) or part of the training state: trained weights and the optimiser's moments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from breadth.errors import InputError
from breadth.lm.layers import top_blocks, trainable
from breadth.lm.precision import check_trained_weights
from breadth.lm.split_model import SplitModel
from breadth.lm.train_set import TrainSet


class Trainer:
    """Trains the trainable weights of a model on a training set.

    With ``keep_order``, every epoch uses the examples in the given order.
    """

    def __init__(
        self,
        model: SplitModel,
        train_set: TrainSet,
        recipe: Any,
        seed: int,
        steps: int,
        keep_order: bool = False,
    ) -> None:
        self.model, self.train_set, self.recipe = model, train_set, recipe
        self.seed, self.steps, self.keep_order = seed, steps, keep_order
        self.step = 0
        self.weights = trainable(model.model)
        check_trained_weights(self.weights, recipe.dtype)
        self.blocks = top_blocks(model.model, recipe.layers)
        self.optimiser = _optimiser(recipe, list(self.weights.values()))

    def advance(self) -> float:
        """Take one optimiser step; return the mean loss of its examples."""
        examples = examples_of_step(len(self.train_set), self.recipe.batch, self.step, self.seed, self.keep_order)
        self._training_mode()
        torch.manual_seed(derived_seed(self.seed, 1, self.step))
        for group in self.optimiser.param_groups:
            share = learning_rate_share(self.step, self.steps, self.recipe.schedule, self.recipe.warmup)
            group["lr"] = self.recipe.lr * share
        total, weight = 0.0, self.train_set.loss_weight(examples)
        for part in self.train_set.micro_batches(examples, self.recipe.micro_batch):
            loss = self.train_set.summed_loss(self.model, part) / weight
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not math.isfinite(total):
            raise InputError(f"step {self.step}: the loss is {total}; lower recipe.lr, or set recipe.dtype to float32")
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return total

    def _training_mode(self) -> None:
        """Enable dropout in the blocks that are trained; frozen layers below stay in evaluation mode."""
        if not self.blocks[-1].training:
            self.model.model.train(self.recipe.layers == "all")
            for block in self.blocks:
                block.train()

    def state(self) -> dict[str, torch.Tensor]:
        """Everything that training has changed, as named tensors; on a CPU they share memory with the weights."""
        state = {"step": torch.tensor(self.step)}
        for name, weight in self.weights.items():
            state[f"weight/{name}"] = weight.detach().cpu().contiguous()
            for key, value in self.optimiser.state.get(weight, {}).items():
                state[f"{key}/{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
        return state

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Load trained weights and nothing else: step and optimiser stay as they are."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                if weights[name].dtype is not weight.dtype:
                    # Earlier versions trained in bfloat16 with dtype auto on GPUs; the two do not go together.
                    raise InputError(
                        f"the saved weights are {_name(weights[name].dtype)}, and this run trains in "
                        f"{_name(weight.dtype)}; run the study again in another directory"
                    )
                weight.copy_(weights[name])

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Resume from a saved state; one of other weights is refused."""
        if {name for name in state if name.startswith("weight/")} != {f"weight/{name}" for name in self.weights}:
            raise InputError("the saved state belongs to another model or recipe")
        self.load_weights({name: state[f"weight/{name}"] for name in self.weights})
        for name, weight in self.weights.items():
            keys = {key.partition("/")[0] for key in state if key.partition("/")[2] == name} - {"weight"}
            moments = {key: state[f"{key}/{name}"].clone() for key in keys}
            self.optimiser.state[weight] = {
                key: value if key == "step" else value.to(weight.device) for key, value in moments.items()
            }
        self.step = int(state["step"])


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _optimiser(recipe: Any, weights: list[Any]) -> torch.optim.Optimizer:
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(weights, lr=recipe.lr, momentum=recipe.betas[0], weight_decay=recipe.weight_decay)
    return torch.optim.AdamW(weights, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay)


def learning_rate_share(step: int, steps: int, schedule: str, warmup: float) -> float:
    """Share of the full learning rate at a step: rises during the warm-up, then constant, linear decay or cosine.

    >>> [round(learning_rate_share(s, 10, "linear", 0.2), 2) for s in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 0.12]
    """
    rise = round(warmup * steps)
    if step < rise:
        return (step + 1) / rise
    if schedule == "constant":
        return 1.0
    done = (step - rise) / max(steps - rise, 1)
    return 1 - done if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))


def derived_seed(*numbers: int) -> int:
    """A seed derived from several numbers, so that no two purposes share a random stream."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def examples_of_step(n: int, batch: int, step: int, seed: int, keep_order: bool) -> list[int]:
    """The examples of a step: every epoch uses each example once, in a new order unless the order is kept."""
    examples = []
    orders: dict[int, Any] = {}
    for k in range(step * batch, (step + 1) * batch):
        epoch = k // n
        if epoch not in orders:
            orders[epoch] = np.arange(n) if keep_order else np.random.default_rng([seed, 0, epoch]).permutation(n)
        examples.append(int(orders[epoch][k % n]))
    return examples
