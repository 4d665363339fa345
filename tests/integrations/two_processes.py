"""Trains a tiny model with the Trainer in two processes, three times; prints what became of each as JSON.

Arguments: directory of the model, directory to work in. With the callback; without it; and with a callback whose
directory is refused. The libraries are loaded once, and the processes are forked before torch is used.
"""

import json
import os
import socket
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, set_seed

from breadth.errors import InputError
from breadth.integrations.transformers import BreadthCallback


def train(model_folder: Path, study: Path | None, saved: Path) -> dict[str, object]:
    """Train, in one of the processes."""
    set_seed(0)
    model = AutoModelForCausalLM.from_pretrained(model_folder, attention_dropout=0.1)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    texts = [f"The cat number {k} sat on the mat" for k in range(32)]
    rows = [tokenizer(text, padding="max_length", max_length=24)["input_ids"] for text in texts]
    arguments = TrainingArguments(
        output_dir=f"{saved}-trainer", max_steps=4, per_device_train_batch_size=4, learning_rate=0.01, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, ddp_backend="gloo", logging_steps=2,
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in rows]
    trainer = Trainer(model, arguments, train_dataset=data, processing_class=tokenizer)
    if study is not None:
        callback = BreadthCallback(trainer, study, testsets=["plain", "negation"], items=24, every=2, name="tiny")
        trainer.add_callback(callback)
    trainer.train()
    if trainer.is_world_process_zero():
        trainer.model.save_pretrained(saved)
    scores = [entry["eval_breadth/plain"] for entry in trainer.state.log_history if "eval_breadth/plain" in entry]
    return {"processes": arguments.world_size, "scores": scores}


def both(*arguments: Path | None) -> list[dict[str, object]]:
    """What two processes return that train together, each with the variables that torchrun sets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(2):
        read, write = os.pipe()
        if os.fork() == 0:
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR="127.0.0.1")
            os.dup2(2, 1)  # what the Trainer prints is not for the test
            try:
                result = train(*arguments)
            except InputError as error:
                result = {"refused": str(error)}
            os.write(write, json.dumps(result).encode())
            os._exit(0)
        os.close(write)
        children.append(read)
    for _ in children:
        os.wait()
    return [json.loads(os.read(read, 100_000) or b"{}") for read in children]


def main() -> None:
    """Train with the callback, without it, and with one that is refused."""
    assert torch.get_num_threads() == 1
    model, work = map(Path, sys.argv[1:])
    results = {
        "watched": both(model, work / "study", work / "watched"),
        "plain": both(model, None, work / "plain"),
        "refused": both(model, work / "other", work / "refused"),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
