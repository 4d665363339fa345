"""Pickled weights (``pytorch_model.bin``): converted once into safetensors, and only if they are asked for.

A pickle is a program: it names functions, and whoever loads it calls them. So breadth loads none by default. With
``weights: bin`` three walls stand between a file and this machine. Its instructions are read without being carried out,
and a file that names anything but tensors is refused. What is left is loaded by torch's restricted loader. Then every
value must be a plain tensor that the file is large enough to hold. The result is a directory of safetensors in the
cache, which is loaded as any other; it appears by one rename, as a built-in model does.
"""

from __future__ import annotations

import fnmatch
import json
import pickle
import pickletools
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import xxhash

from breadth.boundary import first_line, reading
from breadth.errors import InputError
from breadth.lm.extra import quiet, require_lm
from breadth.lm.fetch import Progress, Stage, flush_directory, flush_files, hold_lock, remove_partial, report_nothing
from breadth.lm.model_files import check_model_files
from breadth.lm.models import RECORD, cache_root, cached_sum, fault_of, file_sum
from breadth.sources import check_nesting

#: The form of weights that may be read: safetensors alone, or pickles where there are no safetensors.
Weights = Literal["safetensors", "bin"]

#: A file with all pickled weights, and the index of several.
SINGLE = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"

#: What belongs to a model beside its weights: settings, tokenizer, chat template, licence. No code, and no pickles.
BESIDE = ("*.json", "*.jinja", "tokenizer.model", "spiece.model", "vocab.txt", "merges.txt", "LICENSE*")

#: Not to be copied although they match: an index of files that are not there, and what makes transformers look for an
#: adapter.
_NOT_COPIED = ("*.index.json", "adapter_config.json", RECORD)

#: All that pickled tensors need. torch's own list is longer, and libraries add to it while they are imported.
_ALLOWED = frozenset(
    {
        "collections OrderedDict",
        "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_tensor",
        "torch._utils _rebuild_tensor_v2",
        *(f"torch {kind}Storage" for kind in ("BFloat16", "Half", "Float", "Double")),
        *(f"torch {kind}Storage" for kind in ("Bool", "Byte", "Char", "Short", "Int", "Long")),
    }
)

#: Instructions that import or create by other means than a name in the file, which could hide what is named.
_HIDING = frozenset({"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID"})

#: Most bytes of instructions; those of a model with ten thousand tensors take two megabytes.
MOST_INSTRUCTIONS = 100_000_000

#: Pickles at the beginning of a file of torch before 1.6: magic number, version, machine, tensors, names of storages.
_LEGACY_PICKLES = 5

#: Most bytes of an index.
MOST_INDEX = 100_000_000

#: Counts up when a conversion gives other files, so that older ones are not used.
_VERSION = 1

#: What the Hub's cache calls a large file: its SHA-256.
_SHA256 = re.compile(r"^[0-9a-f]{64}$")


def has_safetensors(folder: Path) -> bool:
    """Whether a directory holds weights that need no conversion."""
    return any(folder.glob("*.safetensors"))


def has_pickled(folder: Path) -> bool:
    """Whether a directory holds pickled weights that ``weights: bin`` would convert."""
    return (folder / SINGLE).is_file() or (folder / PICKLED_INDEX).is_file()


def pickled_paths(folder: Path) -> list[Path]:
    """The files that hold a model's pickled weights, in the order of their names; nothing of them is read."""
    index = folder / PICKLED_INDEX
    if not index.is_file():
        if (folder / SINGLE).is_file():
            return [folder / SINGLE]
        raise InputError(f"{folder}: has neither {SINGLE} nor {PICKLED_INDEX}, so there are no weights to convert")
    paths = []
    for name in sorted(_names_in_index(index)):
        path = folder / name
        if not path.is_file():
            raise InputError(f"{index}: names {name}, which is not there; copy the model again")
        paths.append(path)
    return paths


def _names_in_index(index: Path) -> set[str]:
    if index.stat().st_size > MOST_INDEX:
        raise InputError(f"{index}: has more than {MOST_INDEX:,} bytes; copy the model again")
    content = index.read_bytes()
    check_nesting(content, index)
    with reading(index, "JSON"):
        values = json.loads(content)
    shards = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise InputError(f"{index}: has no weight_map; copy the model again")
    names: set[str] = set()
    for name in shards.values():
        # A path would lead out of the directory; another ending is not what the user allowed to be read.
        if not isinstance(name, str) or not name.endswith(".bin") or Path(name).name != name:
            raise InputError(f"{index}: names {name!r} for weights; breadth reads *.bin files beside it only")
        names.add(name)
    return names


def weight_size(folder: Path, weights: Weights = "safetensors") -> int:
    """Bytes of the weights in a directory, as they would be loaded; 0 if there are none."""
    paths = list(folder.glob("*.safetensors"))
    if not paths and weights == "bin" and has_pickled(folder):
        paths = pickled_paths(folder)
    return sum(path.stat().st_size for path in paths)


def copied_paths(folder: Path) -> list[Path]:
    """The files of a model beside its weights."""
    paths = []
    for path in sorted(folder.iterdir()):
        wanted = any(fnmatch.fnmatch(path.name, pattern) for pattern in BESIDE)
        unwanted = any(fnmatch.fnmatch(path.name, pattern) for pattern in _NOT_COPIED)
        if wanted and not unwanted and path.is_file():
            paths.append(path)
    return paths


def source_digest(folder: Path) -> str:
    """A name for the content of a model's files: another one as soon as a byte of them changes."""
    return _weights_digest([*pickled_paths(folder), *copied_paths(folder)])


def pickled_digest(folder: Path) -> str:
    """The same for its weights alone."""
    return _weights_digest(pickled_paths(folder))


def _weights_digest(paths: Iterable[Path]) -> str:
    digest = xxhash.xxh3_128(f"{_VERSION}\n".encode())
    for path in paths:
        digest.update(f"{path.name} {path.stat().st_size} {_content_name(path)}\n".encode())
    return digest.hexdigest()


def _content_name(path: Path) -> str:
    """What stands for a file's content: in the Hub's cache its name there, which is a checksum; else a checksum."""
    real = path.resolve()
    if real.parent.name == "blobs" and _SHA256.match(real.name):
        return real.name
    return cached_sum(real)


def convert_pickled(
    folder: Path, *, progress: Progress | None = None, warn: Callable[[str], None] | None = None
) -> Path:
    """Convert the pickled weights of a directory into safetensors, unless that was done before; returns the result.

    Parameters
    ----------
    folder
        A model's directory with ``pytorch_model.bin``, or with an index and the files it names.
    progress
        Called with the stage, how much of it is done and how much there is.
    warn
        Called with a sentence if the conversion in the cache is damaged and has to be made again.
    """
    require_lm("torch", "transformers")
    report = progress or report_nothing
    target = cache_root() / "converted" / source_digest(folder)
    if fault_of(target) is None:
        remove_partial(target)  # a conversion may have been killed when its result was in place
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(target.parent / f".{target.name}.lock", report):
            fault = fault_of(target)
            if fault is not None:
                if target.exists() and warn:
                    warn(f"{target} is damaged ({fault}); {folder} is converted again")
                _convert(folder, target, report)
    except OSError as error:
        raise InputError(
            f"{folder} could not be converted into {target.parent}: {first_line(error)}; "
            "free some space, or set BREADTH_CACHE to a writable directory"
        ) from error
    return target


def _convert(folder: Path, target: Path, report: Progress) -> None:
    """Convert next to the target, then rename. The caller holds the lock."""
    remove_partial(target)
    if (folder / "config.json").is_file():
        check_model_files(folder, None)
    paths = pickled_paths(folder)
    needed = sum(path.stat().st_size for path in paths)
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise InputError(
            f"{folder} needs {needed / 1e9:.1f} GB in {target.parent} for its conversion, and only {free / 1e9:.1f} GB "
            "are free; free some space, or set BREADTH_CACHE to another directory"
        )
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        made = partial / "model"
        made.mkdir()
        _write_weights(folder, paths, made, report)
        for path in copied_paths(folder):
            shutil.copyfile(path, made / path.name)
        _write_conversion_record(paths, made)
        if source_digest(folder) != target.name:
            raise InputError(f"{folder}: changed while it was converted; wait until it is complete, and try again")
        flush_files(made)
        if target.exists():
            target.rename(partial / "damaged")
        made.rename(target)
        flush_directory(target.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_weights(folder: Path, paths: Sequence[Path], made: Path, report: Progress) -> None:
    """Write one file of safetensors for each pickled one, which is in memory by itself; and their index."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tied = _tied_names(folder)
    places: dict[str, str] = {}
    total = 0
    for number, path in enumerate(paths, start=1):
        report(Stage.WRITING, number - 1, len(paths))
        tensors = _without_duplicates(read_tensors(path), tied)
        name = "model.safetensors"
        if len(paths) > 1:
            name = f"model-{number:05d}-of-{len(paths):05d}.safetensors"
        for key, tensor in tensors.items():
            if key in places:
                raise InputError(
                    f"{path}: holds {key}, which another file of {folder} holds, too; copy the model again"
                )
            places[key] = name
            total += tensor.numel() * tensor.element_size()
        try:
            with reading(path, "weights"):
                save_file(tensors, made / name, metadata={"format": "pt"})
        except InputError as error:
            # A full disk: safetensors does not raise the system's own exception.
            if isinstance(error.__cause__, SafetensorError):
                raise OSError(str(error.__cause__)) from error
            raise
    report(Stage.WRITING, len(paths), len(paths))
    if len(paths) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": places}
        (made / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _write_conversion_record(paths: Iterable[Path], made: Path) -> None:
    """Record where the weights come from, and the sizes and checksums of all files."""
    files = sorted(made.iterdir())
    record = {
        "sources": {path.name: path.stat().st_size for path in paths},
        "files": {path.name: path.stat().st_size for path in files},
        "checksums": {path.name: file_sum(path) for path in files},
    }
    (made / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _tied_names(folder: Path) -> dict[str, str]:
    """Weights that a model takes from others by its configuration, as the head takes the embedding's.

    Where that cannot be told, there are none: then shared tensors are written twice, which loads as well.
    """
    import torch
    import transformers

    models: Any = transformers.AutoModelForCausalLM
    configs: Any = transformers.AutoConfig
    try:
        with quiet(), torch.device("meta"):
            config = configs.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
            model = models.from_config(config, trust_remote_code=False)
    except Exception:  # a configuration may be wrong in any way; loading the result says how
        return {}
    tied = getattr(model, "all_tied_weights_keys", None)
    return dict(tied) if isinstance(tied, Mapping) else {}


def _without_duplicates(tensors: Mapping[str, Any], tied: Mapping[str, str]) -> dict[str, Any]:
    """The tensors with one name for each, ready to be written.

    A pickle may hold a tensor under two names, safetensors may not. A name is left out if the model takes it from the
    other name anyway; every other one becomes a copy.
    """
    import torch

    names: dict[tuple[Any, ...], list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(_place_in_memory(tensor), []).append(name)
    kept: dict[str, Any] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        others = [other for other in names[_place_in_memory(tensor)] if other != name]
        source = tied.get(name, "")
        # Weights that were saved without their head have shorter names: decoder.x where the model says model.decoder.x.
        if source and any(source == other or source.endswith(f".{other}") for other in others):
            continue
        storage = tensor.untyped_storage().data_ptr()
        if storage in storages or not tensor.is_contiguous():
            kept[name] = tensor.clone(memory_format=torch.contiguous_format)
        else:
            kept[name] = tensor
        storages.add(storage)
    return kept


def _place_in_memory(tensor: Any) -> tuple[Any, ...]:
    # Tensors without elements have no place: each is its own.
    place = tensor.data_ptr() if tensor.numel() else id(tensor)
    return place, tuple(tensor.shape), tensor.stride(), tensor.dtype


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a pickled file by name; a file that holds or needs anything else is refused, and nothing is run.

    Those of a file of torch 1.6 or newer stay on the disk until they are used.
    """
    import torch

    _check_file(path)
    try:
        with reading(path, "weights"):
            loaded = torch.load(path, weights_only=True, mmap=_is_zipped(path), map_location="cpu")
    except InputError as error:
        if isinstance(error.__cause__, pickle.UnpicklingError):
            # torch's message is long and tells how to load the file all the same.
            raise _refusal(path, "is refused by torch's restricted loader") from error
        raise
    return _checked_tensors(path, loaded)


def check_pickled(folder: Path) -> None:
    """Refuse a directory whose pickled weights could not be converted. Reads instructions only, and runs nothing."""
    for path in pickled_paths(folder):
        _check_file(path)


def _check_file(path: Path) -> None:
    if _is_zipped(path):
        _check_zip(path)
    else:
        _check_legacy(path)


def _refusal(path: Path, why: str) -> InputError:
    return InputError(
        f"{path}: {why}; breadth reads pickled weights only if they hold tensors and nothing else, and has run nothing "
        "of it. Ask its author for safetensors, or convert it where it can do no harm"
    )


def _is_zipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _check_zip(path: Path) -> None:
    """Refuse an archive that could become larger than it is, and instructions that need more than tensors."""
    with reading(path, "weights"), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        programs = [entry for entry in entries if entry.filename.endswith(".pkl")]
        if len(names) != len(set(names)):
            raise _refusal(path, "holds two parts of one name")
        # torch compresses nothing, and reads tensors from where they lie in the file.
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise _refusal(path, "is compressed, which torch does not do")
        if len(programs) != 1 or not programs[0].filename.endswith("/data.pkl"):
            raise _refusal(path, "is not a file of weights")
        if programs[0].file_size > MOST_INSTRUCTIONS:
            raise _refusal(path, f"has {programs[0].file_size:,} bytes of instructions")
        with archive.open(programs[0]) as program:
            _check_instructions(path, program)


def _check_legacy(path: Path) -> None:
    """The same for a file of torch before 1.6: a row of pickles, then the numbers."""
    # Even older files were tar archives, whose members torch would write to the disk.
    if tarfile.is_tarfile(path):
        raise _refusal(path, "is a tar archive")
    with path.open("rb") as file, reading(path, "weights"):
        for _ in range(_LEGACY_PICKLES):
            _check_instructions(path, file)


def _check_instructions(path: Path, program: IO[bytes]) -> None:
    """Refuse a pickle that names anything but what tensors need. Its instructions are read, not carried out."""
    for instruction, argument, _ in pickletools.genops(program):
        if instruction.name == "GLOBAL" and argument not in _ALLOWED:
            wanted = ".".join(str(argument).split(" "))
            raise _refusal(path, f"would call {wanted!r} when loaded")
        if instruction.name in _HIDING:
            raise _refusal(path, f"would create something else than a tensor when loaded ({instruction.name})")


def _checked_tensors(path: Path, loaded: Any) -> dict[str, Any]:
    """What was loaded, if it is a plain dictionary of plain tensors that the file can hold."""
    import torch

    if type(loaded) not in (dict, OrderedDict):
        raise _refusal(path, f"holds a {type(loaded).__name__} and not tensors by name")
    size = path.stat().st_size
    tensors: dict[str, Any] = {}
    total, seen = 0, set()
    # dict.items: an OrderedDict from a pickle may carry attributes that hide its own methods.
    for name, value in dict.items(loaded):
        if type(name) is not str or name == "__metadata__":
            raise _refusal(path, f"holds something under the name {name!r}")
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise _refusal(path, f"holds a {type(value).__name__} under the name {name!r}")
        tensor = value.detach()
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise _refusal(path, f"holds numbers of an unusual kind under the name {name!r}")
        # A shape of a few bytes can declare any number of elements: all of them one, or beyond the end of the file.
        bytes_needed = tensor.numel() * tensor.element_size()
        if not bytes_needed <= tensor.untyped_storage().nbytes() <= size:
            raise _refusal(path, f"is too short for the {bytes_needed:,} bytes that it declares for {name!r}")
        place = _place_in_memory(tensor)
        if place not in seen:
            total += bytes_needed
            seen.add(place)
        if total > size:
            raise _refusal(path, f"has {size:,} bytes and declares more for its tensors")
        tensors[name] = tensor
    if not tensors:
        raise InputError(f"{path}: holds no tensors; copy the model again")
    return tensors
