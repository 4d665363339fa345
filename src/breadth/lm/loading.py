"""Loading a language model by name: built-in, from a local directory or from the Hugging Face Hub."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from breadth.boundary import first_line, reading
from breadth.errors import InputError, listed
from breadth.lm.chat import Chat, ChatSettings, start_chat
from breadth.lm.extra import quiet, require_lm
from breadth.lm.fetch import Progress, fetch_model
from breadth.lm.model_files import check_model_files, check_tokenizer_files, read_json_object, shorten
from breadth.lm.models import BUILT_IN, fault_of, model_folder, name_hint
from breadth.lm.pickled import BESIDE, PICKLED_INDEX, SINGLE, Weights, convert_pickled, has_pickled, has_safetensors
from breadth.lm.placement import BFLOAT16, Placement, place
from breadth.lm.skeleton import check_skeleton
from breadth.lm.trials import try_tokenizer
from breadth.lm.weight_files import Tensor, read_header

#: What the Hub calls a model: owner/name.
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")

#: The file with all weights, and the one that says which file holds which weights.
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"

#: Most bytes of such an index; those of the largest models have twenty million.
MOST_INDEX = 200_000_000

#: Most characters in the name of a file; systems refuse longer ones.
LONGEST_NAME = 255

#: Seconds to wait for the Hub.
HUB_TIMEOUT = 10.0
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json", "vocab.txt")
#: What is fetched of a revision, by the form of its weights. No other pickles, and no code.
_FETCHED: dict[Weights, list[str]] = {
    "safetensors": ["*.safetensors", *BESIDE],
    "bin": ["pytorch_model*.bin", *BESIDE],
}
#: The same of a model whose weights are fetched by name; some tokenizers have files of other names.
_BESIDE = [*BESIDE, "*.model", "*.tiktoken", "*.spm", "vocab.bpe"]


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model with its tokenizer, and notes on what was chosen and why; ``chat`` is None for plain text.

    ``compute`` is the torch dtype of products where it is not that of the weights (see ``prepare_training``).
    """

    name: str
    model: Any
    tokenizer: Any
    device: str
    dtype: str
    bos: bool
    notes: tuple[str, ...]
    chat: Chat | None = None
    compute: Any = None

    def encode(self, text: str) -> list[int]:
        """Tokens of a prompt, with exactly one BOS token in front if the model needs it, and nothing at the end."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if self.bos and ids[:1] != [self.tokenizer.bos_token_id]:
            return [self.tokenizer.bos_token_id, *ids]
        return ids


def locate(name: str) -> tuple[str, str]:
    """What to pass to ``from_pretrained`` for a name, and a sentence that says what it is. Fetches nothing."""
    if name in BUILT_IN:
        folder = model_folder(name)
        state = "in the cache" if fault_of(folder) is None else f"not fetched yet: breadth get {name}"
        return str(folder), f"{name}: built-in model, {state}"
    path = os.path.expanduser(name)  # which, unlike a Path, leaves an unknown user alone
    if os.path.isdir(path):
        return path, f"{name}: local directory"
    if os.path.exists(path):
        raise InputError(f"{name}: is a file; give the directory with config.json and the weights")
    if name.startswith((".", "/", "~")) or not HUB_ID.match(name):
        raise InputError(
            f"{name!r} is not a model: there is no such directory, and it is neither a built-in model nor a Hub id "
            f"(owner/name).{name_hint(name)}"
        )
    return name, f"{name}: Hugging Face Hub id"


def load_model(
    name: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    quantise: str | None = None,
    tokenizer_of: str | None = None,
    train_all: bool = False,
    weights: Weights = "safetensors",
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> LanguageModel:
    """Load a model and its tokenizer.

    Parameters
    ----------
    name
        A built-in model (fetched if necessary), a local directory, or a Hub id.
    dtype
        ``"auto"`` (float32 on a CPU, bfloat16 on a GPU that supports it), ``"float32"``, ``"bfloat16"``, ``"float16"``;
        ``"pure-bfloat16"`` differs from bfloat16 in training only.
    device
        ``"auto"`` (all CUDA GPUs, or else the CPU), or a device of torch: ``"cpu"``, ``"cuda:1"``, ``"mps"``.
    quantise
        ``"4bit"`` or ``"8bit"`` by bitsandbytes, on CUDA only.
    tokenizer_of
        The model whose tokenizer to load instead of its own, for a checkpoint that was saved without one.
    train_all
        All weights will be trained, so they are loaded in float32 where bfloat16 is only the precision of products.
    weights
        ``"safetensors"``, or ``"bin"`` to convert pickled weights (``pytorch_model.bin``) if there are no safetensors.
        They are converted once, into the cache; a file that holds anything but tensors is refused.
    progress, warn
        Passed on to ``fetch``.
    """
    require_lm("torch", "transformers", "accelerate")
    placement = place(dtype, device, quantise)
    if train_all and placement.dtype_name == BFLOAT16:
        placement = _with_float32_weights(placement)
    source, origin = locate(name)
    is_converted = _needs_conversion(name, source, weights)
    shown = source
    if name in BUILT_IN:
        source = shown = str(fetch_model(name, progress=progress, warn=warn))
        origin = f"{name}: built-in model, in the cache"
    elif is_converted:
        folder = Path(source) if Path(source).is_dir() else fetch_revision(source, None, "bin")
        _check_directory(folder, tokenizer_of is None, weights)
        shown, source = name, str(convert_pickled(folder, progress=progress, warn=warn))
        origin += f"; its pickled weights (*.bin) were converted into safetensors in {source}"
    elif Path(source).is_dir():
        _check_directory(Path(source), tokenizer=tokenizer_of is None)
    else:
        # What is loaded are the files that were checked, and not what the Hub has a moment later.
        source = str(_fetch_whole(source))
        _check_directory(Path(source), tokenizer=tokenizer_of is None)
    if name not in BUILT_IN:  # whose files have the checksums that were written when they were made
        check_skeleton(Path(source), read_weight_headers(Path(source)))
    tokenizer = _load_tokenizer(source, name) if tokenizer_of is None else _load_other_tokenizer(tokenizer_of, progress)
    model = _load_weights(source, placement, shown)
    notes = [origin, *placement.notes]
    if weights == "bin" and not is_converted:
        notes.append("weights: bin changes nothing here: the model has safetensors, and they are used")
    bos = adds_bos(tokenizer)
    if bos:
        notes.append(f"BOS token {tokenizer.bos_token!r} in front of every prompt: the tokenizer adds it")
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
        notes.append(f"padding with {tokenizer.eos_token!r}: the tokenizer has no padding token")
    where = str(model.get_input_embeddings().weight.device)
    return LanguageModel(name, model.eval(), tokenizer, where, placement.dtype_name, bos, tuple(notes))


def with_chat(loaded: LanguageModel, settings: ChatSettings | None) -> LanguageModel:
    """The model with its prompts in chat form, if the settings ask for it and it has a template."""
    if settings is None:
        return loaded
    chat, note = start_chat(loaded.tokenizer, settings, loaded.name)
    return replace(loaded, chat=chat, notes=(*loaded.notes, note))


def _with_float32_weights(placement: Placement) -> Placement:
    import torch

    note = "weights in float32, because all of them are trained; products in bfloat16"
    return replace(placement, dtype=torch.float32, notes=(*placement.notes, note))


def _load_other_tokenizer(name: str, progress: Progress | None) -> Any:
    """The tokenizer of a model that is not loaded itself."""
    if name in BUILT_IN:
        return _load_tokenizer(str(fetch_model(name, progress=progress)), name)
    source, _ = locate(name)
    folder = Path(source) if Path(source).is_dir() else _fetch_beside(source)
    if (folder / "config.json").is_file():  # transformers asks it for the kind of tokenizer
        check_model_files(folder, read_weight_headers(folder))
    return _load_tokenizer(str(folder), name)


def _needs_conversion(name: str, source: str, weights: str) -> bool:
    """Whether pickled weights are to be converted: they are asked for, and there are no safetensors."""
    if weights not in get_args(Weights):
        raise InputError(f"weights: {weights!r} is not one of {listed(get_args(Weights))}")
    if weights != "bin":
        return False
    if name in BUILT_IN:
        raise InputError(f'{name}: is a built-in model, whose weights are safetensors; leave out weights="bin"')
    if Path(source).is_dir():
        return not has_safetensors(Path(source))
    return not _names_safetensors(_hub_names(source, is_cached_only(source)))


def _names_safetensors(names: list[str]) -> bool:
    """Whether safetensors are among the files at the top of a repository."""
    return any(name.endswith(".safetensors") and "/" not in name for name in names)


def _hub_names(name: str, local_only: bool) -> list[str]:
    """Names of the files of a Hub model; those in the local cache if the Hub cannot be reached."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    if local_only:
        config = try_to_load_from_cache(name, "config.json")
        return [path.name for path in Path(config).parent.iterdir()] if isinstance(config, str) else []
    try:
        siblings = HfApi().model_info(name, timeout=HUB_TIMEOUT).siblings
    except Exception as error:  # over a network, anything
        raise InputError(f"{name}: its files cannot be listed ({first_line(error)})") from error
    return [each.rfilename for each in siblings or []]


def _fetch_beside(name: str) -> Path:
    """The directory in the local cache with what belongs to a Hub model beside its weights; fetched if necessary."""
    from huggingface_hub import snapshot_download

    local_only = is_cached_only(name)
    try:
        with quiet():
            return Path(snapshot_download(name, allow_patterns=_BESIDE, local_files_only=local_only))
    except Exception as error:  # over a network, anything
        raise InputError(f"{name}: cannot be fetched ({first_line(error)})") from error


def _fetch_whole(name: str) -> Path:
    """The same with its weights, in safetensors. Its settings are checked before the weights are fetched."""
    folder = _fetch_beside(name)
    if (folder / "config.json").is_file():
        check_model_files(folder, None)
    local_only = is_cached_only(name)
    if not _hub_file(name, WHOLE, local_only).is_file() and not _hub_file(name, INDEX, local_only).is_file():
        names = _hub_names(name, local_only)
        if SINGLE in names or PICKLED_INDEX in names:
            raise InputError(pickled_message(name))
        raise InputError(f"{name}: has no weights ({WHOLE} or {INDEX})")
    for path in weight_files(folder):
        if not _hub_file(name, path.name, local_only).is_file():
            raise InputError(f"{name}: lacks {path.name}, which {INDEX} names")
    return folder


def fetch_revision(name: str, revision: str | None, weights: Weights = "safetensors") -> Path:
    """The directory of one revision of a Hub repository in the local cache; of its weights, one form is fetched.

    Without a revision it is the default one.
    """
    require_lm("huggingface_hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RevisionNotFoundError

    local_only = is_cached_only(name, revision)
    try:
        with quiet():
            return Path(
                snapshot_download(
                    name, revision=revision, allow_patterns=_FETCHED[weights], local_files_only=local_only
                )
            )
    except RevisionNotFoundError as error:
        raise InputError(f"{name}: has no revision {revision!r}; check its branches on the model's page") from error
    except Exception as error:  # over a network, anything
        shown = name if revision is None else f"{name}@{revision}"
        raise InputError(f"{shown}: cannot be fetched ({first_line(error)})") from error


def is_cached_only(name: str, revision: str | None = None) -> bool:
    """Whether a Hub model must be loaded from the local cache, because the Hub cannot be reached.

    A model that is neither reachable nor cached is an error at once; loading it would first retry for twenty seconds.
    """
    from huggingface_hub import HfApi, constants, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    started = time.perf_counter()
    if constants.HF_HUB_OFFLINE:
        reason = "HF_HUB_OFFLINE is set"
    else:
        try:
            HfApi().model_info(name, timeout=HUB_TIMEOUT)
        except GatedRepoError as error:
            raise InputError(
                f"{name}: its owner grants access on request; request it on the model's page, then run `hf auth login`"
            ) from error
        except RepositoryNotFoundError as error:
            raise InputError(
                f"{name}: the Hub has no such public model, and there is no such directory; check the spelling, or run "
                "`hf auth login` for a private model"
            ) from error
        except Exception as error:  # anything the network library raises means: no answer
            reason = f"{first_line(error)}, after {time.perf_counter() - started:.0f} s"
        else:
            return False
    files = ("config.json",) if revision is None else ("config.json", "adapter_config.json")
    if any(isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in files):
        return True
    name = name if revision is None else f"{name}@{revision}"
    raise InputError(
        f"{name}: {constants.ENDPOINT} cannot be reached ({reason}), the local Hub cache does not have the model, and "
        f"there is no directory {name!r}; copy the model here and give its directory, or use a built-in model "
        "(`breadth ls models`)"
    )


def _check_directory(folder: Path, tokenizer: bool = True, weights: Weights = "safetensors") -> None:
    """Say in one line what a local directory lacks, before transformers does so in many."""
    config = folder / "config.json"
    if not config.is_file():
        adapter = (folder / "adapter_config.json").is_file()
        what = "it contains an adapter; give its base model" if adapter else "it is not the directory of a model"
        raise InputError(f"{folder}: has no config.json, so {what}")
    if "model_type" not in read_json_object(config):
        raise InputError(f"{config}: has no model_type, so it is not the configuration of a transformers model")
    if weights == "bin" and not has_safetensors(folder):
        if not has_pickled(folder):
            raise InputError(f"{folder}: has no weights (*.safetensors, {SINGLE} or {PICKLED_INDEX})")
    elif not has_safetensors(folder):
        if has_pickled(folder):
            raise InputError(pickled_message(str(folder)))
        if any(list(folder.glob(pattern)) for pattern in _PICKLES):
            raise InputError(
                f"{folder}: its weights are pickled, which can run code when loaded, so breadth does not load them; "
                "save them as safetensors with `save_pretrained` of transformers"
            )
        raise InputError(f"{folder}: has no weights (*.safetensors)")
    check_index(folder / INDEX)
    if tokenizer and not any((folder / name).is_file() for name in TOKENIZERS):
        raise InputError(
            f"{folder}: has no tokenizer ({listed(TOKENIZERS)}); copy the tokenizer's files "
            "into it, or, for a checkpoint, name the model whose tokenizer it has (--base, or base: in a study file)"
        )
    check_model_files(folder, read_weight_headers(folder))


def weight_files(folder: Path) -> list[Path]:
    """The files of safetensors that transformers loads from a directory; none if it would find none."""
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if not (folder / INDEX).is_file():
        return []
    check_index(folder / INDEX)
    names = read_json_object(folder / INDEX, MOST_INDEX)["weight_map"].values()
    return [folder / name for name in sorted(set(names))]


def read_weight_headers(folder: Path) -> dict[str, Tensor] | None:
    """The tensors that the weights of a directory declare; None if they are not in safetensors."""
    paths = weight_files(folder)
    if not paths:
        return None
    tensors: dict[str, Tensor] = {}
    for path in paths:
        if not path.is_file():
            raise InputError(f"{folder / INDEX}: names {path.name}, which is not there; copy the model again")
        header = read_header(path)
        if header is None:
            raise InputError(f"{path}: cannot be loaded, because it is incomplete; copy the model again")
        tensors |= header
    return tensors


def pickled_message(source: str) -> str:
    """What to say about a model that has pickled weights only."""
    return (
        f"{source}: its weights are pickled, which can run code when loaded, so breadth does not load them by default; "
        "set weights: bin for this model in the study file (--weights bin of `breadth evaluate`, weights='bin' in "
        "Python) to have them checked and converted once, or save them as safetensors with `save_pretrained` of "
        "transformers"
    )


def _hub_file(name: str, file: str, local_only: bool) -> Path:
    """A file of a Hub model in the local cache, fetched if necessary; a path that does not exist if it has none."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, file, local_files_only=local_only))
    except (EntryNotFoundError, LocalEntryNotFoundError):
        return Path(file, "absent")


def check_index(path: Path) -> None:
    """Refuse an index of weights that names anything but safetensors files beside it, which would be unpickled."""
    if not path.is_file():
        return
    shards = read_json_object(path, MOST_INDEX).get("weight_map")
    if not isinstance(shards, dict):
        raise InputError(f"{path}: has no weight_map; copy the model again")
    for name in shards.values():
        is_beside = isinstance(name, str) and Path(name).name == name and len(name) <= LONGEST_NAME
        if not is_beside or not name.endswith(".safetensors"):
            raise InputError(
                f"{path}: names {shorten(name)} for weights; breadth loads safetensors files beside it only"
            )


def refuse_degenerate(model: Any, source: str) -> None:
    """Refuse weights that are not finite or all the same: the files are damaged, and every answer would be too."""
    for name, weight in model.named_parameters():
        if weight.is_meta or not weight.numel():
            continue
        low, high = (value.item() for value in weight.detach().aminmax())
        if not math.isfinite(low) or not math.isfinite(high):
            raise InputError(f"{source}: the weights of {name} are not finite numbers; the files are damaged")
        if low == high and weight.ndim > 1 and weight.numel() > 1:
            raise InputError(f"{source}: the weights of {name} are all {low:g}; the files are damaged")


def _load_tokenizer(source: str, name: str) -> Any:
    """Load the tokenizer in a directory; unless it is that of a built-in model, it is checked and tried before."""
    from transformers import AutoTokenizer

    folder = Path(source)
    if name not in BUILT_IN:
        check_tokenizer_files(folder)
        if (folder / "tokenizer.json").is_file():
            try_tokenizer(folder / "tokenizer.json")
    try:
        with quiet(), reading(source, "a tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
            empty = not tokenizer("word", add_special_tokens=False)["input_ids"]
    except InputError as error:
        cause = error.__cause__ if error.__cause__ is not None else error
        raise InputError(f"{source}: its tokenizer cannot be loaded ({first_line(cause)})") from error
    if empty:
        raise InputError(f"{source}: its tokenizer returns no tokens; its files are missing or damaged")
    return tokenizer


def _load_weights(source: str, placement: Placement, shown: str) -> Any:
    """Load the weights in the directory ``source``, which messages call ``shown``."""
    import transformers

    models: Any = transformers.AutoModelForCausalLM

    try:
        with quiet():
            model, loading = models.from_pretrained(
                source,
                dtype=placement.dtype,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                **placement.arguments,
            )
    except _load_errors() as error:
        if "out of memory" in str(error):
            raise InputError(
                f"{shown}: does not fit into GPU memory; use a smaller model, quantise, or device: cpu"
            ) from error
        if "trust_remote_code" in str(error):
            raise InputError(f"{shown}: requires code from its own repository, which breadth does not run") from error
        raise InputError(f"{shown}: cannot be loaded ({first_line(error)})") from error
    # transformers fills missing weights with random numbers and only warns.
    missing = sorted({*loading["missing_keys"], *(str(entry[0]) for entry in loading["mismatched_keys"])})
    if missing:
        raise InputError(f"{shown}: weights are missing or have the wrong shape: {listed(missing, most=3)}")
    refuse_degenerate(model, shown)
    _return_hidden_states(model)
    if placement.move_to is not None:
        model = model.to(placement.move_to)
    return model


def _return_hidden_states(model: Any) -> None:
    """Have a model return its last hidden states by name and nothing more, whatever its settings say."""
    for config in (model.config, model.config.get_text_config(decoder=True)):
        config.return_dict = True
        config.output_hidden_states = False
        config.output_attentions = False


def _load_errors() -> tuple[type[Exception], ...]:
    """What damaged files raise."""
    from safetensors import SafetensorError

    return (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError, SafetensorError)


def adds_bos(tokenizer: Any) -> bool:
    """Whether the tokenizer puts its BOS token in front of a text by default."""
    start = tokenizer.bos_token_id
    if start is None:
        return False
    ids = tokenizer("word")["input_ids"]
    if ids[:2] == [start, start]:
        raise InputError(f"{tokenizer.name_or_path}: its tokenizer adds the BOS token twice; correct its files")
    return bool(ids[:1] == [start])
