"""What a run spends on anything but training, frozen layers and evaluation; its memory; and how good the estimate was.

    python benchmarks/overhead.py

One run of SmolLM2-135M (fetched if it is not in the cache) on the generated suite, on one thread: 16 steps of LoRA in
the top 8 layers, three checkpoints of 220 items. Every call of what computes is timed, and of what the terminal shows;
storing and bookkeeping are the rest. Takes two to five minutes.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

STUDY = """\
name: overhead
models: smollm2-135m
train: {set: plain, examples: 64}
recipe: {method: lora, rank: 16, layers: 8, lr: 1.0e-3, batch: 16, steps: 16}
evaluate:
  every: 8
  items: 20
  on: [plain, science, formal, chat, negation, quantifiers, numbers, word_order, paraphrase, coreference, chains]
"""

#: Kinds of work, by the functions that do it. Time in an inner call is not the outer one's.
PARTS = {
    "training steps": [("breadth.lm.training.Trainer", "advance")],
    "frozen layers, once": [
        ("breadth.execute.session", "keep_frozen_states"),
        ("breadth.lm.train_set.EncodedTrainSet", "keep_frozen_states"),
    ],
    "answering": [("breadth.execute.session", "evaluate")],
    "loading and encoding": [
        ("breadth.execute.session", "load_adapted"),
        ("breadth.execute.session", "encode_testset"),
        ("breadth.execute.session", "encode_train_set"),
    ],
    "storing: answers": [("breadth.records.store.RunStore", "write_part")],
    "storing: states": [("breadth.execute.session.Checkpointer", "save")],
    "progress on the terminal": [
        ("breadth.cli.progress.TerminalEvents", name) for name in ("trained", "answered", "checkpoint", "begun", "note")
    ],
}
WORK = ("training steps", "frozen layers, once", "answering")


class Clock:
    """Seconds by kind of work."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.inner = [0.0]

    def watch(self, part: str, owner: str, name: str) -> None:
        """Time a function from now on."""
        from pydoc import locate

        place = locate(owner)
        work = getattr(place, name)

        def timed(*arguments, **options):
            started = time.perf_counter()
            self.inner.append(0.0)
            try:
                return work(*arguments, **options)
            finally:
                taken = time.perf_counter() - started
                self.seconds[part] += taken - self.inner.pop()
                self.inner[-1] += taken

        setattr(place, name, timed)


def main() -> None:
    import torch

    from breadth.cli.progress import TerminalEvents
    from breadth.execute import Events, TimeLeft, execute_plan, measure_pace, plan_study
    from breadth.lm import fetch_model
    from breadth.study import read_study_file

    torch.set_num_threads(1)
    fetch_model("smollm2-135m")
    with tempfile.TemporaryDirectory() as name:
        path, into = Path(name, "study.yaml"), Path(name, "s")
        path.write_text(STUDY)
        file = read_study_file(path)
        plan = plan_study(file, into)
        started = time.perf_counter()
        paces = {"smollm2-135m": measure_pace(plan.units[0], plan.study_data, Events())}
        estimate = TimeLeft(plan, paces).seconds()
        measuring = time.perf_counter() - started
        clock = Clock()
        for part, places in PARTS.items():
            for owner, function in places:
                clock.watch(part, owner, function)
        started, used = time.perf_counter(), time.process_time()
        with TerminalEvents(plan, paces) as events:
            execute_plan(plan, events=events)
        taken, used = time.perf_counter() - started, time.process_time() - used
    seconds = {part: clock.seconds[part] for part in PARTS}
    seconds["everything else"] = taken - sum(seconds.values())
    print(f"{'part':28} {'seconds':>8} {'share':>7}")
    for part, each in seconds.items():
        print(f"{part:28} {each:8.2f} {each / taken:7.2%}")
    print(f"{'in all':28} {taken:8.2f} {1:7.2%}   ({used:.1f} s of processor time)")
    overhead = sum(each for part, each in seconds.items() if part not in (*WORK, "loading and encoding"))
    print(f"storing, bookkeeping, progress: {overhead / taken:.2%} (target: under 3 %)")
    print(f"not training, frozen layers or evaluation: {1 - sum(seconds[part] for part in WORK) / taken:.2%}")
    print(f"estimate: {estimate:.1f} s, {estimate / taken:.2f} of what it took; measuring it took {measuring:.1f} s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory: {memory:.2f} GB (target: under 3 GB)")


if __name__ == "__main__":
    main()
