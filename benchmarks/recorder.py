"""Does recording change a training, and does a training that is killed leave the same record?

    python benchmarks/recorder.py [--model smollm2-135m] [--steps 12] [--kills 10]

1. A Trainer of transformers with and without BreadthCallback: the final weights must be identical bit by bit. With
   dropout, so that a single random number drawn by the evaluation would show.
2. A plain loop of PyTorch that saves its own checkpoints and is killed (SIGKILL) at random instants, then started
   again until it is through: its parts must be those of the loop that was left alone, byte by byte. On a tiny model,
   where an instant is as likely to hit a write as a product.

One thread. Needs about ten minutes with SmolLM2, half a minute with ``--model tiny``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

TESTSETS = ("plain", "negation", "science")
ITEMS, LOOP_STEPS, SAVE_EVERY = 24, 10, 3


def examples(tokenizer: Any, count: int, length: int = 48) -> list[dict[str, Any]]:
    """Training texts of the generated suite, cut to one length."""
    from breadth.datasets import load

    rows = load("plain", "train").frame.head(count).iter_rows(named=True)
    texts = [f"{row['premise']} Question: {row['hypothesis']} Yes or No? {row['label']}" for row in rows]
    encoded = [tokenizer((text + " ") * 8, truncation=True, max_length=length)["input_ids"] for text in texts]
    return [{"input_ids": ids, "labels": ids, "attention_mask": [1] * length} for ids in encoded]


def model_folder(name: str, scratch: Path) -> Path:
    from breadth.lm import fetch_model, write_tiny_model

    return write_tiny_model(scratch / "tiny") if name == "tiny" else Path(fetch_model(name))


def load(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, attention_dropout=0.1)
    return model.float(), AutoTokenizer.from_pretrained(folder)


def digest(model: Any) -> str:
    """A hash of all weights."""
    total = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        total.update(name.encode() + weight.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def trained(folder: Path, scratch: Path, steps: int, into: Path | None) -> tuple[str, float]:
    """Train with the Trainer, with the callback if there is a directory for it: hash of the weights and seconds."""
    from transformers import Trainer, TrainingArguments, set_seed

    from breadth.integrations.transformers import BreadthCallback

    set_seed(0)
    model, tokenizer = load(folder)
    arguments = TrainingArguments(
        output_dir=str(scratch / "trainer"), max_steps=steps, per_device_train_batch_size=4, learning_rate=1e-3,
        logging_steps=4, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, seed=0,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=examples(tokenizer, 64), processing_class=tokenizer)
    if into is not None:
        trainer.add_callback(BreadthCallback(trainer, into, testsets=TESTSETS, items=ITEMS, every=3))
    started = time.perf_counter()
    trainer.train()
    return digest(trainer.model), time.perf_counter() - started


def loop(folder: Path, work: Path, into: Path) -> None:
    """A training loop as people write it: its own checkpoints, the recorder at every step."""
    import torch

    import breadth

    torch.manual_seed(0)
    model, tokenizer = load(folder)
    recorder = breadth.Recorder(into, testsets=TESTSETS, tokenizer=tokenizer, items=ITEMS, seed=0, trained_on="plain")
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.tensor([example["input_ids"] for example in examples(tokenizer, 64)])
    step, saved = 0, work / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])
    model.train()
    while True:
        recorder.evaluate(model, step)
        if step == LOOP_STEPS:
            return
        batch = ids[torch.randint(len(ids), (4,))]
        model(input_ids=batch, labels=batch).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        step += 1
        if step % SAVE_EVERY == 0:
            state = {"step": step, "model": model.state_dict(), "optimiser": optimiser.state_dict()}
            torch.save({**state, "random": torch.get_rng_state()}, work / "new.pt")
            (work / "new.pt").rename(saved)


def forked_loop(folder: Path, work: Path, into: Path, seconds: float | None = None) -> bool:
    """Run the loop in a child, which is killed after so many seconds; returns whether it came to its end."""
    work.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            loop(folder, work, into)
            code = 0
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit("the loop failed")
    return os.WIFEXITED(status)


def parts(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("runs/*/step-*"))}


def killed(folder: Path, scratch: Path, kills: int, seed: int = 0) -> tuple[list[int], bool]:
    """Kill loops at random instants: how many parts each kill found, and whether all loops left the same parts."""
    import torch

    for name in ("breadth.execute.recorder", "breadth.lm.evaluation", "transformers"):
        import_module(name)  # here, so that children need not
    assert torch.get_num_threads() == 1
    seconds = 0.0
    for name in ("first", "whole"):  # the first one also warms the caches of the system
        started = time.monotonic()
        assert forked_loop(folder, scratch / f"{name}-work", scratch / name)
        seconds = time.monotonic() - started
    whole = parts(scratch / "whole")
    same, there, chance, loops = parts(scratch / "first") == whole, list[int](), random.Random(seed), 0
    assert len(whole) == LOOP_STEPS + 1
    while len(there) < kills:
        loops += 1
        work, into = scratch / f"work{loops}", scratch / f"torn{loops}"
        while not forked_loop(folder, work, into, chance.uniform(0.2, 0.8) * seconds):
            there.append(len(parts(into)))
        same = same and parts(into) == whole
    return there, same


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        # First, because its children are forked before this process has used torch.
        tiny = model_folder("tiny", scratch)
        there, same = killed(tiny, scratch, options.kills)
        print(f"killed with {there} of {LOOP_STEPS + 1} parts written: parts identical: {same}")
        folder = model_folder(options.model, scratch)
        plain, seconds = trained(folder, scratch, options.steps, None)
        watched, longer = trained(folder, scratch, options.steps, scratch / "study")
        checkpoints = len(parts(scratch / "study"))
        print(f"{options.model}, {options.steps} steps: {seconds:.1f} s; with {checkpoints} evaluations {longer:.1f} s")
        print(f"weights identical: {plain == watched} ({plain[:16]}, {watched[:16]})")


if __name__ == "__main__":
    main()
