"""What the files beside a model's weights may say, read before transformers or PEFT see them. Needs no torch.

The settings of a model are written by whoever made it. Some of their keys make transformers fetch code or open other
files, and some numbers make it build without end. Such files are refused by name, before anything is loaded. The page
``docs/concepts/model-files.md`` lists the keys, and where transformers and PEFT read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from breadth.boundary import reading
from breadth.errors import InputError, listed
from breadth.lm.weight_files import Tensor
from breadth.sources import check_nesting, regular_file

#: Most bytes of a file of JSON beside the weights. Vocabularies, and indexes of weights, are larger than settings.
MOST_BYTES = 1_000_000
MOST_VOCABULARY = 200_000_000

#: Files that may be as large as a vocabulary. Settings of tokenizers repeat every added token.
_VOCABULARIES = {"tokenizer.json": MOST_VOCABULARY, "vocab.json": 50_000_000, "tekken.json": 50_000_000}
_SETTINGS = dict.fromkeys(("tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"), 20_000_000)

#: Most tokens that are added to a vocabulary one by one; the models with most of them have seven thousand.
MOST_ADDED = 20_000

#: The directory of further chat templates, all of which transformers reads.
_TEMPLATES = "additional_chat_templates"

#: How attention may be computed. Every other name is a library, or code on the Hub.
ATTENTION = ("eager", "sdpa")

#: How experts may be computed: by transformers' own loops and products.
EXPERTS = ("eager", "batched_mm", "grouped_mm")

_ATTENTION_KEYS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
_EXPERTS_KEYS = ("experts_implementation", "_experts_implementation", "_experts_implementation_internal")

#: Keys of a model's settings that replace code, fetch it, or choose other files, and what they do.
_REFUSED_KEYS = {
    "use_kernels": "fetches code",
    "kernel_config": "fetches code",
    "fusion_config": "replaces modules of the model",
    "distributed_config": "starts other processes",
    "transformers_weights": "names another file for the weights",
    "configuration_files": "names another file for the settings",
    "use_pretrained_backbone": "fetches another model",
    "custom_pipelines": "runs code of the model's directory",
    "custom_generate": "runs code of the model's directory",
    "trust_remote_code": "runs code of the model's directory",
    "gguf_file": "names another file for the weights",
}

#: Settings for writing texts that would have transformers look for code, or for another model.
_REFUSED_GENERATION = {
    "custom_generate": "runs code of the model's directory",
    "trust_remote_code": "runs code of the model's directory",
    "penalty_alpha": "needs code from the Hub",
    "dola_layers": "needs code from the Hub",
    "constraints": "needs code from the Hub",
    "force_words_ids": "needs code from the Hub",
    "compile_config": "compiles the model",
}

#: Settings of a tokenizer that are objects of the library, not values of a file.
_REFUSED_TOKENIZER = (
    *("tokenizer_object", "tokenizer_padding", "tokenizer_truncation", "post_processor", "fast_tokenizer_files"),
    *("gguf_file", "vocab", "merges", "trust_remote_code"),
)

#: Settings of a tokenizer that older versions of transformers wrote, and newer ones never open.
_IDLE_FILES = ("special_tokens_map_file", "name_or_path", "_name_or_path")

_FILE_KEY = re.compile(r"_(file|files|path|paths|dir|url)$")
_TOKENIZER_CLASS = re.compile(r"^[A-Z]\w*Tokenizer(Fast)?$")
_BACKENDS = ("TokenizersBackend", "PythonBackend", "SentencePieceBackend", "MistralCommonBackend")
#: Tokenizers that load others, or hand their settings to dictionaries and programs outside of transformers.
_REFUSED_CLASSES = ("AutoTokenizer", "RagTokenizer", "BertJapaneseTokenizer", "Wav2Vec2PhonemeCTCTokenizer")

#: A key that counts layers, modules or names: each of them costs time and memory before any weight is read.
_COUNT = re.compile(
    r"(^|_)(num|n)_.*(layers?|blocks?|groups?|experts?|labels?|codebooks?)$|(^|_)layers?$|(^|_)n_layers?$|^depth$"
    r"|^num_(hidden|decoder|encoder).*|^num_labels$"
)
#: Any key that may be the size of something.
_SIZE = re.compile(
    r"size|dim|layer|expert|head|embd|ctx|position|inner|width|rank|state|channel|kernel|num_|n_|label|block|group"
    r"|vocab|period|hidden|window|seq|chunk|depth|interval|conv"
)
_NO_SIZE = re.compile(r"token_id|theta|_id$|base$|num_param|flos|scale|seed|std|factor")

#: Most layers that a model may have although its files hold fewer tensors; some keys count things of another model.
FEW = 256

#: Most positions, tokens or columns of anything.
MOST_SIZE = 1 << 24

#: Most characters of a value or a place in a message.
MOST_SHOWN = 100

#: Quantised weights that are loaded as they are, by a library that fetches nothing.
_QUANTISED = ("bitsandbytes",)


def read_json_object(path: Path, most: int = MOST_BYTES) -> dict[str, Any]:
    """An object of JSON that somebody else wrote."""
    size = regular_file(path)
    if size > most:
        raise InputError(f"{path}: has {size:,} bytes; at most {most:,} are read")
    with reading(path, "JSON"):
        content = path.read_bytes()
    check_nesting(content, path)
    with reading(path, "JSON"):
        values = json.loads(content)
    if not isinstance(values, dict):
        raise InputError(f"{path}: does not hold keys and values; copy it again")
    return values


def read_tokenizer_settings(folder: Path) -> dict[str, Any]:
    """The settings of a tokenizer; empty if it has none."""
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return {}
    return read_json_object(path, _SETTINGS[path.name])


def check_model_files(folder: Path, tensors: Mapping[str, Tensor] | None) -> None:
    """Refuse settings of a model that fetch or run code, read other files, or are larger than its weights.

    ``tensors`` are those of its safetensors; None if its weights are in another form.
    """
    _check_kinds(folder)
    if tensors is not None:
        _check_alone(folder)
    path = folder / "config.json"
    config = read_json_object(path)
    _check_settings(path, config)
    _check_sizes(path, config, tensors)
    _check_tokenizer_class(path, config)
    path = folder / "generation_config.json"
    if path.is_file():
        generation = read_json_object(path)
        for key, why in _REFUSED_GENERATION.items():
            if generation.get(key):
                raise _refused(path, key, why)


def check_tokenizer_files(folder: Path) -> None:
    """Refuse settings of a tokenizer that choose other classes or files, or add tokens without end."""
    _check_kinds(folder)
    path, values = folder / "tokenizer_config.json", read_tokenizer_settings(folder)
    _check_tokenizer_class(path, values)
    _check_tokenizer_settings(path, values)
    _check_added(path, values)
    for name in ("added_tokens.json", "special_tokens_map.json"):
        path = folder / name
        if path.is_file():
            _check_added(path, read_json_object(path, _SETTINGS[name]))


def _check_kinds(folder: Path) -> None:
    """Refuse what is no file where a file belongs, files too large to be settings, and names that load otherwise."""
    templates = folder / _TEMPLATES
    further = templates.iterdir() if templates.is_dir() else ()
    for path in sorted([*folder.iterdir(), *further]):
        if path.is_dir():
            continue
        if path.suffix in (".json", ".jinja", ".txt", ".model", ".safetensors"):
            size = regular_file(path)
            most = _most_bytes(path)
            if most is not None and size > most:
                raise InputError(f"{path}: has {size:,} bytes; at most {most:,} are read")
        # transformers takes such a file for a part of a distributed model, and reads all of them in another way.
        if path.name.startswith("shard-") and path.suffix == ".safetensors":
            raise InputError(f"{path}: is a part of a distributed model; save the model whole, with `save_pretrained`")


def _check_alone(folder: Path) -> None:
    """Refuse an adapter beside a whole model; a conversion of pickled weights leaves it behind."""
    if (folder / "adapter_config.json").is_file():
        # transformers would attach it by itself, with whatever PEFT does for its type.
        raise InputError(
            f"{folder}: has an adapter (adapter_config.json) beside a whole model; move one of them to a directory of "
            "its own"
        )


def _most_bytes(path: Path) -> int | None:
    """The limit of a file's size; None if breadth and transformers do not read it as a whole."""
    if path.name in _VOCABULARIES:
        return _VOCABULARIES[path.name]
    if path.name in _SETTINGS:
        return _SETTINGS[path.name]
    if path.suffix in (".txt", ".model"):
        return 50_000_000
    if path.suffix == ".jinja":
        return MOST_BYTES
    if path.name in ("config.json", "generation_config.json", "adapter_config.json", "chat_template.json"):
        return MOST_BYTES
    return None


def shorten(value: Any) -> str:
    """A value of a file as a message may hold it; it may have a megabyte."""
    text = repr(value)
    if len(text) > MOST_SHOWN:
        return f"{text[:MOST_SHOWN]} ..."
    return text


def _refused(path: Path, key: str, why: str) -> InputError:
    return InputError(f"{path}: {key} {why}, which breadth does not allow; remove it, or use another model")


def _walk(values: Any, place: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every value inside, with its place (``text_config.num_heads``) and its key; those in a list have the list's."""
    if isinstance(values, dict):
        for key, value in values.items():
            # A key may have a megabyte, and would be copied for every value inside.
            shown = str(key)[:MOST_SHOWN]
            inside = f"{place}.{shown}" if place else shown
            yield inside, str(key), value
            yield from _walk(value, inside)
    elif isinstance(values, list):
        key = place.rpartition(".")[2]
        for value in values:
            yield place, key, value
            yield from _walk(value, place)


def _check_settings(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse keys that name code or other files, wherever they stand: settings of parts are nested."""
    for place, key, value in _walk(config):
        if key in _ATTENTION_KEYS:
            _check_choice(path, place, value, ATTENTION)
        elif key in _EXPERTS_KEYS:
            _check_choice(path, place, value, EXPERTS)
        elif key in _REFUSED_KEYS and value:
            raise _refused(path, place, _REFUSED_KEYS[key])
        elif key in ("quantization_config", "compression_config") and value:
            _check_quantisation(path, place, value)


def _check_choice(path: Path, place: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse an implementation that is not transformers' own; parts of a model may have theirs in a dictionary."""
    for each in value.values() if isinstance(value, dict) else [value]:
        if isinstance(each, dict):
            _check_choice(path, place, each, allowed)
        elif each is not None and each not in allowed:
            raise InputError(
                f"{path}: {place} is {shorten(each)}, and may be {listed(allowed)} only, because other implementations "
                "are code that would be fetched; remove the key"
            )


def _check_quantisation(path: Path, place: str, value: Any) -> None:
    method = value.get("quant_method") if isinstance(value, dict) else None
    if method in _QUANTISED or (isinstance(value, dict) and method is None and _is_bitsandbytes(value)):
        return
    raise InputError(
        f"{path}: {place} asks for {shorten(method)}, whose library fetches and runs code of its own; breadth loads "
        f"{listed(_QUANTISED)} and weights that are not quantised"
    )


def _is_bitsandbytes(value: Mapping[str, Any]) -> bool:
    """Whether settings are of bitsandbytes before they said so."""
    return value.get("load_in_4bit") is True or value.get("load_in_8bit") is True


def _check_sizes(path: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor] | None) -> None:
    """Refuse numbers that the weights cannot have: a billion layers are built before one of them is missed."""
    most_layers, widest = FEW, FEW
    if tensors is not None:
        most_layers = max(FEW, len(tensors))
        widest = max([most_layers, *(max(tensor.shape, default=0) for tensor in tensors.values())])
    for place, key, value in _walk(config):
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        name = key.lower()
        # Between the layers of a list there is no key to tell what a number counts.
        is_size = _SIZE.search(name) is not None and _NO_SIZE.search(name) is None
        is_size = is_size or isinstance(config.get(place.partition(".")[0]), list)
        most = widest if "expert" in name else most_layers
        if _COUNT.search(name) and not 0 <= value <= most:
            raise InputError(
                f"{path}: {place} is {value:,}, but the weights hold "
                f"{'fewer' if tensors is None else f'{len(tensors):,}'} tensors; copy the model again"
            )
        if is_size and not -MOST_SIZE <= value <= MOST_SIZE:
            raise InputError(f"{path}: {place} is {value:,}; at most {MOST_SIZE:,} are built; copy the model again")


def _check_tokenizer_class(path: Path, values: Mapping[str, Any]) -> None:
    """Refuse a class that is no tokenizer: transformers would take anything that it exports by this name."""
    name = values.get("tokenizer_class")
    if name is None:
        return
    plain = isinstance(name, str) and (_TOKENIZER_CLASS.match(name) or name in _BACKENDS)
    if not plain or name.removesuffix("Fast") in _REFUSED_CLASSES:
        raise InputError(f"{path}: tokenizer_class is {shorten(name)}, which is no tokenizer that breadth loads")


def _check_tokenizer_settings(path: Path, values: Mapping[str, Any]) -> None:
    for key in _REFUSED_TOKENIZER:
        if values.get(key):
            raise _refused(path, key, "replaces a part of the tokenizer")
    if values.get("init_inputs"):
        raise _refused(path, "init_inputs", "names other files")
    for place, key, value in _walk(values):
        if not _FILE_KEY.search(key) or key in _IDLE_FILES or value is None or isinstance(value, dict | list):
            continue
        if not isinstance(value, str) or Path(value).name != value or "\\" in value:
            raise InputError(f"{path}: {place} is {shorten(value)}, and only files beside it are read; remove the key")
    options = values.get("sp_model_kwargs")
    if isinstance(options, dict) and {"model_file", "model_proto"} & {*options}:
        raise _refused(path, "sp_model_kwargs", "names other files")


def _check_added(path: Path, values: Mapping[str, Any]) -> None:
    """Refuse settings with more texts than a vocabulary adds, whatever key they stand under.

    transformers takes added tokens from half a dozen keys, and from any that ends in ``_token``.
    """
    containers: list[tuple[str, Any]] = [(path.name, values)]
    containers += [(place, value) for place, _, value in _walk(values) if isinstance(value, dict | list)]
    for place, value in containers:
        if len(value) > MOST_ADDED:
            raise InputError(f"{path}: {place} adds {len(value):,} tokens; at most {MOST_ADDED:,} are added one by one")
