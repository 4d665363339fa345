"""What other tools call the keys and values of a study file, for messages about unknown ones.

The names are those of transformers, peft, trl, axolotl, LLaMA-Factory, torchtune and lm-evaluation-harness.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

#: Keys of a study file and their names elsewhere. A name under several keys means the one that its section has, or
#: else the first.
_NAMES = {
    "models": "model_name model_name_or_path base_model pretrained_model_name_or_path pretrained model_id model_path "
    "model_args llm llms",
    "evaluate.on": "datasets tasks task eval_datasets eval_dataset eval_tasks test_sets testsets test_set benchmarks "
    "benchmark eval_on val_data",
    "evaluate.every": "eval_steps eval_every eval_interval eval_freq evaluation_steps save_steps checkpoint_every "
    "checkpoint_interval evals_per_epoch val_check_interval save_every_n_steps",
    "evaluate.items": "limit max_eval_samples num_eval_examples n_eval eval_size n_items num_items max_samples "
    "num_examples num_samples n_samples samples val_set_size",
    "train.set": "dataset dataset_name train_dataset train_datasets train_set training_data train_data train_on "
    "datasets dataset_path data task tasks",
    "train.examples": "n_train num_train train_size max_train_samples num_train_samples num_train_examples n_examples "
    "train_examples shots n_shots num_shots num_examples num_samples n_samples samples max_samples subset_size size",
    "train.seeds": "seed random_seed random_state data_seed num_seeds n_seeds",
    "train.levels": "num_levels n_levels bins n_bins num_bins buckets",
    "train.start": "pretrain warm_start",
    "recipe.method": "finetuning_type peft_type peft adapter tuner use_lora use_peft",
    "recipe.rank": "r lora_r lora_rank lora_dim",
    "recipe.alpha": "lora_alpha lora_scale scaling",
    "recipe.dropout": "lora_dropout",
    "recipe.targets": "target_modules lora_target_modules lora_target lora_modules lora_target_linear modules",
    "recipe.layers": "num_layers n_layers lora_layers layers_to_transform trainable_layers num_layer_trainable "
    "freeze_layers num_freeze_layers",
    "recipe.optimiser": "optim opt",
    "recipe.lr": "learning_rate peak_lr max_lr base_lr",
    "recipe.betas": "adam_beta1 adam_beta2 beta1 beta2 adam_betas",
    "recipe.weight_decay": "wd l2 decay",
    "recipe.clip": "max_grad_norm gradient_clipping gradient_clip_val grad_clip clip_grad_norm max_norm",
    "recipe.schedule": "lr_scheduler_type lr_scheduler lr_schedule scheduler",
    "recipe.warmup": "warmup_ratio warmup_steps num_warmup_steps lr_warmup_steps",
    "recipe.batch": "batch_size per_device_train_batch_size train_batch_size per_device_batch_size global_batch_size "
    "effective_batch_size bs",
    "recipe.micro_batch": "micro_batch_size gradient_accumulation_steps grad_accum accumulate_grad_batches",
    "recipe.epochs": "num_epochs num_train_epochs n_epochs train_epochs max_epochs",
    "recipe.steps": "max_steps num_steps n_steps train_steps total_steps num_training_steps max_train_steps "
    "max_steps_per_epoch iterations max_iters",
    "recipe.num_fewshot": "n_shot k_shot fewshot few_shot n_fewshot shots n_shots num_shots",
    "recipe.context": "max_length max_seq_length max_seq_len seq_len sequence_len block_size cutoff_len "
    "context_length model_max_length",
    "recipe.dtype": "torch_dtype precision mixed_precision bf16 fp16 compute_dtype",
    "recipe.quantise": "load_in_4bit load_in_8bit quantization quantize quantization_bit bits",
    "recipe.device": "device_map accelerator",
    "models[].endpoint": "base_url api_base url openai_api_base host",
    "models[].key_env": "api_key key token openai_api_key api_key_env",
    "models[].concurrency": "num_concurrent max_connections parallel max_concurrency",
    "sets": "custom_datasets own_sets",
    "sets.NAME.file": "path data_path file_path data_files test_file test_data",
    "sets.NAME.label": "label_column label_field target target_column answer_column output_column doc_to_target gold",
    "sets.NAME.item": "id id_column item_id question_id",
    "sets.NAME.options": "choices_column options_column",
    "pattern": "prompt template prompt_template doc_to_text",
    "answers": "verbalizer verbaliser label_words doc_to_choice",
}

_ACCUMULATION = "Give the number of examples in memory at a time: batch divided by {}"
_WARMUP = "Give a share of the steps: {} divided by all steps"
_METHOD = "Write method: lora or method: full"
_TRAINED = "Give the number of layers that are trained, counted from the top"
_BETAS = "Give a list, as [0.9, 0.999]"
_SCALE = "The adapters' output is multiplied by alpha / rank"
_BITS = "Write quantise: 4bit or quantise: 8bit"
_INTERVAL = "Give the steps between two checkpoints"

#: How the value of a key has to be converted.
_CONVERSIONS = {
    "per_device_train_batch_size": "Count all examples of a step: multiply by gradient_accumulation_steps and by the "
    "number of devices",
    "micro_batch_size": "Give the number of examples in memory at a time; recipe.batch counts all examples of a step",
    "gradient_accumulation_steps": _ACCUMULATION.format("gradient_accumulation_steps"),
    "grad_accum": _ACCUMULATION.format("grad_accum"),
    "accumulate_grad_batches": _ACCUMULATION.format("accumulate_grad_batches"),
    "warmup_steps": _WARMUP.format("warmup_steps"),
    "num_warmup_steps": _WARMUP.format("num_warmup_steps"),
    "lr_warmup_steps": _WARMUP.format("lr_warmup_steps"),
    **dict.fromkeys(("evals_per_epoch", "val_check_interval"), _INTERVAL),
    "max_steps_per_epoch": "Count all steps of a run",
    **dict.fromkeys(("adam_beta1", "adam_beta2", "beta1", "beta2"), _BETAS),
    **dict.fromkeys(("lora_scale", "scaling"), _SCALE),
    **dict.fromkeys(("use_lora", "use_peft"), _METHOD),
    "lora_target_linear": "Write targets: all",
    **dict.fromkeys(("layers_to_transform", "freeze_layers", "num_freeze_layers"), _TRAINED),
    "bf16": "Write dtype: bfloat16",
    "fp16": "Write dtype: bfloat16 to train, or dtype: float16 to evaluate",
    "mixed_precision": "Write dtype: bfloat16, which trains float32 weights, or float32",
    "load_in_4bit": "Write quantise: 4bit",
    "load_in_8bit": "Write quantise: 8bit",
    **dict.fromkeys(("quantization_bit", "bits"), _BITS),
    **dict.fromkeys(("num_seeds", "n_seeds"), "List the seeds, as [0, 1, 2]"),
    "val_set_size": "Give the items per test set",
}

_SECRET = "Name the environment variable that holds the key; never write a key into a study file"
_CONVERSIONS |= dict.fromkeys(("api_key", "key", "token", "openai_api_key"), _SECRET)

_SAVES = "No such key is needed: every checkpoint is written, and a stopped run resumes"
_LOGS = "No such key is needed: `breadth view DIR` shows the progress"

#: Keys that a study file needs no counterpart for.
_WITHOUT = {
    "output_dir": "The directory is an option: `breadth run STUDY --into DIR`",
    "output_path": "The directory is an option: `breadth run STUDY --into DIR`",
    "overwrite_output_dir": "Nothing finished is overwritten; choose a directory with `breadth run STUDY --into DIR`",
    "resume_from_checkpoint": "No such key is needed: `breadth run` resumes by itself",
    "save_strategy": _SAVES,
    "save_total_limit": _SAVES,
    "eval_strategy": "Give the steps between checkpoints as evaluate.every",
    "evaluation_strategy": "Give the steps between checkpoints as evaluate.every",
    "do_train": "Set recipe.method to zero-shot to train nothing",
    "do_eval": "Every checkpoint is evaluated; remove it",
    "logging_steps": _LOGS,
    "logging_dir": _LOGS,
    "report_to": _LOGS,
    "wandb_project": _LOGS,
    "per_device_eval_batch_size": "Batches of the evaluation are chosen by breadth; remove it",
    "eval_batch_size": "Batches of the evaluation are chosen by breadth; remove it",
    "gradient_checkpointing": "Lower recipe.micro_batch to use less memory",
    "num_gpus": "Several machines or GPUs share a study with `breadth run STUDY --shard I/N`",
    "devices": "Several machines or GPUs share a study with `breadth run STUDY --shard I/N`",
}

#: Values of other tools that are not spelled alike.
VALUES = {
    "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32", "constant_with_warmup": "constant",
    "qlora": "lora", "peft": "lora", "sft": "full", "full_finetuning": "full", "paged_adamw_8bit": "adamw",
    "adam": "adamw", "nf4": "4bit", "int4": "4bit", "int8": "8bit",
}  # fmt: skip


class OtherName(NamedTuple):
    """The key of a study file that is meant (empty if there is none), and how its value differs."""

    key: str
    note: str = ""


def other_name(name: str, here: Collection[str]) -> OtherName | None:
    """What a key of another tool is called here; a key of the section that it is in, ``here``, comes first.

    >>> other_name("learning_rate", ["lr", "batch"]), other_name("learning-rate", ["name"])
    (OtherName(key='lr', note=''), OtherName(key='recipe.lr', note=''))
    """
    plain = name.lower().replace("-", "_").replace(" ", "_")
    if plain in _WITHOUT:
        return OtherName("", _WITHOUT[plain])
    homes = [key for key, names in _NAMES.items() if plain in names.split()]
    if not homes:
        return None
    own = next((key.rpartition(".")[2] for key in homes if key.rpartition(".")[2] in here), None)
    return OtherName(own or homes[0], _CONVERSIONS.get(plain, ""))
