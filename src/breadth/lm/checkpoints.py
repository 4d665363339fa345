"""Checkpoints that a trainer wrote: where they are, their steps, and whether one can be read. Needs no torch.

A checkpoint is a directory with weights of a whole model or of a PEFT adapter, or a revision of a Hub repository.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from breadth.errors import InputError, NothingFoundError, listed
from breadth.lm.kept_files import read_weights_record, refuse_damaged_weights
from breadth.lm.loading import HUB_ID, INDEX, check_index, fetch_revision
from breadth.lm.model_files import read_json_object
from breadth.lm.models import BUILT_IN
from breadth.lm.weight_files import read_tensor_headers

ADAPTER_CONFIG, ADAPTER_WEIGHTS, TRAINER_STATE = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "trainer_state.json",
)

#: Most bytes of a trainer's state, which has a row per logged step, and of an index of weights.
MOST_STATE = 200_000_000

#: Most checkpoints of one model.
MOST_CHECKPOINTS = 100_000

#: Seconds that files must not have changed for, unless the trainer's state, which is written last, is there.
SETTLED = 5.0

# A number of parameters is no step: checkpoint-1.5b, checkpoint-7b.
_STEP = re.compile(
    r"(?:^|[^a-z])(checkpoint|ckpt|(?:global)?[-_]?steps?|iter(?:ation)?)[-_=]?(\d+)(?!\d|\.\d|[bm](?![a-z]))", re.I
)
_RANGE = re.compile(r"^(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?$")
_BRACES = re.compile(r"\{([^{}]*)\}")
_REVISION = re.compile(r"^[\w./-]+$")


@dataclass(frozen=True)
class Checkpoint:
    """A step, and where its weights are: a directory, or ``OWNER/REPO@REVISION``."""

    step: int
    place: str

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return "@" not in self.place or os.path.isdir(self.place)

    def folder(self) -> Path:
        """Its directory; a revision is fetched into the Hub's cache."""
        if self.is_local:
            return Path(self.place)
        repository, revision = self.place.rsplit("@", 1)
        return fetch_revision(repository, revision)

    @cached_property
    def is_adapter(self) -> bool:
        """Whether it holds a PEFT adapter rather than a whole model."""
        return (self.folder() / ADAPTER_CONFIG).is_file() and not (self.folder() / "config.json").is_file()


def find_checkpoints(patterns: Sequence[str], base: Path) -> tuple[Checkpoint, ...]:
    """The checkpoints that globs, directories or directories of checkpoints stand for, in the order of their steps.

    Relative paths are below ``base``. A pattern without a match, a path without a step, and two checkpoints of one step
    are errors.
    """
    folders = [folder for pattern in patterns for folder in _folders(pattern, base)]
    steps: dict[int, str] = {}
    for folder in dict.fromkeys(folders):
        step = step_of(Path(folder))
        if step is None:
            raise InputError(
                f"{folder}: its step is unknown; name the directory as checkpoint-500 or step500, or copy the "
                f"trainer's {TRAINER_STATE} into it"
            )
        if step in steps:
            raise InputError(
                f"{steps[step]} and {folder} are both step {step:,}; leave one out, or give each training run its own "
                "name"
            )
        steps[step] = folder
    return tuple(Checkpoint(step, steps[step]) for step in sorted(steps))


def _folders(pattern: str, base: Path) -> list[str]:
    path = os.path.normpath(os.path.join(base, os.path.expanduser(pattern)))
    if os.path.isdir(path):
        inside = [os.path.join(path, name) for name in os.listdir(path)]
        named = [folder for folder in inside if os.path.isdir(folder) and _in_name(os.path.basename(folder))]
        return named or _with_states(path, inside) or [_itself(path)]
    if not glob.has_magic(path):
        if os.path.exists(path):
            raise InputError(f"{path}: is a file; give the directory it is in")
        raise NothingFoundError(f"{path}: there is no such directory; give the checkpoints of a trainer")
    found = [os.path.normpath(each) for each in glob.glob(path) if os.path.isdir(each)]
    if not found:
        raise NothingFoundError(f"{path}: matches no directory; give the checkpoints of a trainer")
    return found


def _with_states(path: str, inside: Sequence[str]) -> list[str]:
    """The checkpoints in a directory that is none itself, if other things than their names tell all steps."""
    if weight_paths(Path(path)) or (Path(path) / "config.json").is_file():
        return []
    held = [folder for folder in inside if os.path.isdir(folder) and weight_paths(Path(folder))]
    return held if all(step_of(Path(folder)) is not None for folder in held) else []


def _itself(path: str) -> str:
    """A directory without checkpoints in it, if it is one: a trainer's own directory may be empty at first."""
    folder = Path(path)
    if step_of(folder) is not None or weight_paths(folder) or (folder / "config.json").is_file():
        return path
    unnamed = sorted(each.name for each in folder.iterdir() if each.is_dir() and weight_paths(each))
    if unnamed:
        raise InputError(
            f"{path}: its directories do not say their steps ({listed(unnamed, most=3)}); name them as "
            "checkpoint-500 or step500"
        )
    raise NothingFoundError(f"{path}: holds no checkpoints; give the directory that a trainer writes them to")


def find_revisions(patterns: Sequence[str]) -> tuple[Checkpoint, ...]:
    """The revisions that ``OWNER/REPO@step{1000..3000..1000}`` stands for; ranges and lists in braces are expanded."""
    steps: dict[int, str] = {}
    for pattern in patterns:
        repository, at, revisions = pattern.partition("@")
        if not at or not HUB_ID.match(repository) or not revisions:
            raise InputError(
                f"{pattern!r} is not OWNER/REPO@REVISION, as EleutherAI/pythia-160m@step{{1000..3000..1000}}"
            )
        for name in expand_braces(revisions):
            step = _step_in(name)
            if not _REVISION.match(name) or step is None:
                raise InputError(f"{repository}@{name}: its step is unknown; revisions are named as step1000")
            if step in steps:
                raise InputError(f"{steps[step]} and {repository}@{name} are both step {step:,}")
            steps[step] = f"{repository}@{name}"
    return tuple(Checkpoint(step, steps[step]) for step in sorted(steps))


def expand_braces(text: str) -> list[str]:
    """Text with every brace replaced by what it stands for, as a shell does it.

    >>> expand_braces("step{0,512}"), expand_braces("step{1000..3000..1000}")
    (['step0', 'step512'], ['step1000', 'step2000', 'step3000'])
    """
    parts = _BRACES.split(text)
    choices = [[part] if k % 2 == 0 else _list_alternatives(part) for k, part in enumerate(parts)]
    count = 1
    for each in choices:
        count *= len(each)
    if count > MOST_CHECKPOINTS:
        raise InputError(f"{text!r} stands for {count:,} revisions; at most {MOST_CHECKPOINTS:,} are evaluated")
    return ["".join(each) for each in itertools.product(*choices)]


def _list_alternatives(inside: str) -> list[str]:
    match = _RANGE.match(inside)
    if match is None:
        return inside.split(",")
    first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
    if abs(last - first) // step >= MOST_CHECKPOINTS:
        raise InputError(f"{{{inside}}} stands for more than {MOST_CHECKPOINTS:,} revisions")
    numbers = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
    return list(map(str, numbers))


def _in_name(name: str) -> re.Match[str] | None:
    """Where a name tells its step; a number after "step" comes first, then the last one of others."""
    matches = list(_STEP.finditer(name))
    return max(matches, key=lambda match: ("step" in match[1].lower(), match.start()), default=None)


def _step_in(name: str) -> int | None:
    match = _in_name(name)
    return int(match[2]) if match else int(name) if re.fullmatch(r"\d+", name) else None


def step_of(folder: Path) -> int | None:
    """The step of a checkpoint: from its directory's name, or else from the trainer's state in it.

    >>> [step_of(Path(name)) for name in ("checkpoint-500", "step500-tokens2B", "checkpoint-1.5b-step-100", "final")]
    [500, 500, 100, None]
    """
    named = _step_in(folder.name)
    if named is not None:
        return named
    state = folder / TRAINER_STATE
    step = read_json_object(state, MOST_STATE).get("global_step") if state.is_file() else None
    return step if isinstance(step, int) and not isinstance(step, bool) and step >= 0 else None


def pattern_of(path: str) -> str:
    """A glob for a checkpoint and those that its trainer writes after it.

    >>> pattern_of("runs/a/checkpoint-500"), pattern_of("runs/a")
    ('runs/a/checkpoint-*', 'runs/a')
    """
    folder, name = os.path.split(path.rstrip("/"))
    match = _in_name(name)
    return path if match is None else os.path.join(folder, f"{name[: match.start(2)]}*{name[match.end(2) :]}")


def weight_paths(folder: Path) -> list[Path]:
    """The files that hold a checkpoint's weights; none if there are none yet. Pickled weights are refused."""
    if (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file():
        names = [ADAPTER_WEIGHTS] if (folder / ADAPTER_WEIGHTS).is_file() else []
    elif (folder / INDEX).is_file():
        check_index(folder / INDEX)
        names = sorted(set(read_json_object(folder / INDEX, MOST_STATE)["weight_map"].values()))
    else:
        names = ["model.safetensors"] if (folder / "model.safetensors").is_file() else []
    # A trainer's own files (optimizer.pt, rng_state.pth, training_args.bin) are pickles too, and are never read.
    pickled = ("adapter_model.bin", "pytorch_model*.bin", "model*.pt", "model*.pth", "*.ckpt")
    if not names and any(any(folder.glob(pattern)) for pattern in pickled):
        raise InputError(
            f"{folder}: its weights are pickled, which can run code when loaded, so breadth does not load them; save "
            "them as safetensors with `save_pretrained`. Only those of a base model, or of a model that is not listed "
            "as checkpoints, can be converted by weights: bin"
        )
    return [folder / name for name in names]


def unready(folder: Path) -> str | None:
    """Why a checkpoint cannot be read yet; None if it is whole."""
    paths = weight_paths(folder)
    if not paths:
        adapter = [name for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS) if (folder / name).is_file()]
        if adapter and (folder / "config.json").is_file():
            return f"has an adapter ({adapter[0]}) and a config.json without weights; delete config.json"
        if adapter == [ADAPTER_WEIGHTS]:
            return f"has an adapter, but no {ADAPTER_CONFIG}"
        return "has no weights (*.safetensors)"
    if not any((folder / name).is_file() for name in (ADAPTER_CONFIG, "config.json")):
        return "has no config.json"
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        return f"lacks {listed(missing, most=3)}"
    return None if read_tensor_headers(paths) is not None else f"has incomplete weights ({paths[0].name} is cut off)"


def is_settled(folder: Path) -> bool:
    """Whether a trainer has finished a checkpoint: it is whole, and has its last file or has stopped changing."""
    if unready(folder) is not None:
        return False
    if (folder / TRAINER_STATE).is_file():
        return True
    return time.time() - max(path.stat().st_mtime for path in folder.iterdir()) >= SETTLED


def readable(checkpoints: Sequence[Checkpoint]) -> tuple[list[Checkpoint], list[str]]:
    """The checkpoints that can be read, and a line about each that is left out; if none can be, that is an error."""
    reasons = {each: unready(Path(each.place)) if each.is_local else None for each in checkpoints}
    for each, reason in reasons.items():
        if reason is not None and read_weights_record(Path(each.place)) is not None:
            refuse_damaged_weights(
                Path(each.place)
            )  # breadth puts its own in place whole, so nobody is still writing them
    whole = [each for each, reason in reasons.items() if reason is None]
    left_out = [f"{each.place}: {reason}" for each, reason in reasons.items() if reason is not None]
    if not whole:
        raise NothingFoundError(f"{left_out[0]}; give checkpoints that a trainer has finished")
    return whole, [f"{line}, so it is left out" for line in left_out]


def base_of(checkpoint: Checkpoint, base: str | None, beside: Path) -> str:
    """The model that an adapter belongs to: the given one, or the one its configuration names, if that is here.

    Nothing is fetched because a file names it.
    """
    if base is not None:
        given = os.path.normpath(os.path.join(beside, os.path.expanduser(base)))
        return given if base not in BUILT_IN and os.path.isdir(given) else base
    named = read_json_object(checkpoint.folder() / ADAPTER_CONFIG).get("base_model_name_or_path")
    if isinstance(named, str) and named:
        for folder in (beside, ""):
            place = os.path.normpath(os.path.join(folder, os.path.expanduser(named)))
            if os.path.isdir(place):
                return place
        if named in BUILT_IN or _is_cached(named):
            return named
        raise InputError(
            f"{checkpoint.place}: is an adapter of {named!r}, which is not here; give its base model (base: in a study "
            f"file, --base {named} on the command line)"
        )
    raise InputError(
        f"{checkpoint.place}: is an adapter that does not name its base model; give it (base: in a study file, --base "
        "on the command line)"
    )


def _is_cached(name: str) -> bool:
    """Whether the Hub's local cache has a model."""
    if not HUB_ID.match(name):
        return False
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, "config.json"), str)
