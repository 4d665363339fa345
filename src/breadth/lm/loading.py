"""Loading a language model by name: where it is found, on what it runs, in what precision, and why."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadth.errors import InputError, listed
from breadth.lm.convert import Progress
from breadth.lm.extra import first_line, quiet, require_lm
from breadth.lm.fetch import fetch
from breadth.lm.hub import is_cached_only
from breadth.lm.models import EMBEDDED, fault_of, model_folder, near_names
from breadth.lm.placement import Placement, place

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json", "vocab.txt")


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model with its tokenizer, and notes that say what was chosen and why."""

    name: str
    model: Any
    tokenizer: Any
    device: str
    dtype: str
    bos: bool
    notes: tuple[str, ...]

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with the BOS id in front exactly once if the model needs it, and nothing behind."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if self.bos and ids[:1] != [self.tokenizer.bos_token_id]:
            return [self.tokenizer.bos_token_id, *ids]
        return ids


def locate(name: str) -> tuple[str, str]:
    """What to pass to ``from_pretrained`` for a name, and a sentence that says how it was found. Fetches nothing."""
    if name in EMBEDDED:
        folder = model_folder(name)
        state = "in the cache" if fault_of(folder) is None else f"to be fetched: breadth get {name}"
        return str(folder), f"{name}: embedded model, {state}"
    path = Path(name).expanduser()
    if name and path.is_dir():
        return str(path), f"{name}: local directory"
    if name and path.exists():
        raise InputError(f"{name}: is a file; give the directory that holds config.json and the weights")
    if name.startswith((".", "/", "~")) or not _HUB_ID.match(name):
        raise InputError(
            f"{name!r} is not a model: there is no such directory, and it is neither an embedded model nor a Hub id "
            f"(owner/name).{near_names(name)} Embedded models: {listed(EMBEDDED)}"
        )
    return name, f"{name}: Hugging Face Hub id"


def load_model(
    name: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    quantise: str | None = None,
    progress: Progress | None = None,
) -> LanguageModel:
    """Load a model and its tokenizer, ready to answer.

    Parameters
    ----------
    name
        An embedded model (fetched if it is not there yet), a local directory, or a Hub id.
    dtype
        ``"auto"`` (float32 on a CPU, bfloat16 on a GPU that has it), ``"float32"``, ``"bfloat16"``, ``"float16"``.
    device
        ``"auto"`` (all CUDA GPUs, or else the CPU), or as torch spells it: ``"cpu"``, ``"cuda:1"``, ``"mps"``.
    quantise
        ``"4bit"`` or ``"8bit"`` through bitsandbytes, on CUDA only.
    """
    require_lm("torch", "transformers", "accelerate")
    placement = place(dtype, device, quantise)
    source, found = locate(name)
    on_hub = False
    if name in EMBEDDED:
        source = str(fetch(name, progress=progress))
        found = f"{name}: embedded model, in the cache"
    elif Path(source).is_dir():
        _check_directory(Path(source))
    else:
        on_hub = True
    # Off the network, what the Hub's cache holds is used; asking first keeps five slow retries away.
    local_only = is_cached_only(source) if on_hub else True
    tokenizer = _load_tokenizer(source, local_only)
    model = _load_weights(source, local_only, placement)
    notes = [found, *placement.notes]
    bos = _adds_bos(tokenizer)
    if bos:
        notes.append(f"BOS token {tokenizer.bos_token!r} in front of every prompt: the tokenizer asks for it")
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
        notes.append(f"padding with {tokenizer.eos_token!r}: the tokenizer has no padding token")
    where = str(model.get_input_embeddings().weight.device)
    return LanguageModel(name, model.eval(), tokenizer, where, placement.dtype_name, bos, tuple(notes))


def _check_directory(folder: Path) -> None:
    """Say in one line what a local directory lacks, before transformers says it in many."""
    config = folder / "config.json"
    if not config.is_file():
        adapter = (folder / "adapter_config.json").is_file()
        what = (
            "it holds an adapter; give the model it was made for" if adapter else "it is not the directory of a model"
        )
        raise InputError(f"{folder}: has no config.json, so {what}")
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{config}: cannot be read ({first_line(error)}); copy the model again") from error
    if not isinstance(content, dict) or "model_type" not in content:
        raise InputError(f"{config}: has no model_type, so it is not the configuration of a transformers model")
    if not list(folder.glob("*.safetensors")):
        if any(list(folder.glob(pattern)) for pattern in _PICKLES):
            raise InputError(
                f"{folder}: its weights are pickled, which can run code when they are read, and breadth does not read "
                "them; save them with `save_pretrained` of transformers, which writes safetensors"
            )
        raise InputError(f"{folder}: has no weights (*.safetensors)")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise InputError(f"{folder}: has no tokenizer ({listed(_TOKENIZERS)}); copy the tokenizer's files into it")


def _load_tokenizer(source: str, local_only: bool) -> Any:
    from transformers import AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local_only, trust_remote_code=False)
            empty = not tokenizer("word", add_special_tokens=False)["input_ids"]
    except Exception as error:  # the tokenizers library raises nothing more precise
        raise InputError(f"{source}: its tokenizer cannot be loaded ({first_line(error)})") from error
    if empty:
        raise InputError(f"{source}: its tokenizer gives no tokens; its files are missing or damaged")
    return tokenizer


def _load_weights(source: str, local_only: bool, placement: Placement) -> Any:
    import transformers

    models: Any = transformers.AutoModelForCausalLM

    try:
        with quiet():
            model, found = models.from_pretrained(
                source,
                dtype=placement.dtype,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=local_only,
                output_loading_info=True,
                **placement.arguments,
            )
    except _load_errors(local_only) as error:
        if "out of memory" in str(error):
            raise InputError(
                f"{source}: does not fit into the memory of the GPU; use a smaller model, quantise, or device: cpu"
            ) from error
        if "trust_remote_code" in str(error):
            raise InputError(f"{source}: needs code from its own repository, which breadth does not run") from error
        raise InputError(f"{source}: cannot be loaded ({first_line(error)})") from error
    # transformers fills what is missing with random numbers and only warns.
    missing = sorted({*found["missing_keys"], *(str(entry[0]) for entry in found["mismatched_keys"])})
    if missing:
        raise InputError(f"{source}: weights are missing or of the wrong shape: {listed(missing, most=3)}")
    if placement.move_to is not None:
        model = model.to(placement.move_to)
    return model


def _load_errors(local_only: bool) -> tuple[type[Exception], ...]:
    """What a model's damaged files raise; over a network, whatever its libraries raise as well."""
    from safetensors import SafetensorError

    if not local_only:
        return (Exception,)
    return (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError, SafetensorError)


def _adds_bos(tokenizer: Any) -> bool:
    """Whether the tokenizer, left to itself, puts its BOS token in front of a text."""
    start = tokenizer.bos_token_id
    if start is None:
        return False
    ids = tokenizer("word")["input_ids"]
    if ids[:2] == [start, start]:
        raise InputError(f"{tokenizer.name_or_path}: its tokenizer puts the BOS token in front twice; mend its files")
    return bool(ids[:1] == [start])
