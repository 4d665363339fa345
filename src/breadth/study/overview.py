"""Studies described for people: what a study would run, how far it has come, which studies come with breadth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from breadth.datasets import PROTOCOLS, REGISTRY
from breadth.errors import InputError
from breadth.lm import AUTO, NONE
from breadth.records import StudyStore, is_imported, is_study
from breadth.sources import read_table
from breadth.study.document import flow_yaml, read_document, resolved_yaml
from breadth.study.expansion import TRAINED, RunSpec, expand
from breadth.study.mixture import normalised_shares, share_out
from breadth.study.own_sets import resolve_task, used_sets
from breadth.study.read import StudyFile, parse_study, read_study_file, read_study_text, shipped_studies
from breadth.study.schema import Recipe, StudySpec, Train

if TYPE_CHECKING:
    import polars as pl

#: Rows of models that a table shows one by one.
MOST_ROWS = 12

#: Model, training sets, runs, steps, checkpoints.
RunRow = tuple[str, str, str, str, str]

#: Keys of a recipe that are worth knowing even where they have their default.
_ALWAYS = ("lr", "batch", "epochs", "steps")


class Summary(NamedTuple):
    """Rows of model, training sets, runs, steps and checkpoints; and a sentence with the totals."""

    rows: list[RunRow]
    text: str


def summarise_study(file: StudyFile) -> Summary:
    """Count a study's runs, checkpoints and answers without running anything."""
    runs = expand(file)
    points = sum(len(run.checkpoints()) for run in runs)
    sizes = [expected_items(file, name) for name in file.study.evaluate.on]
    text = f"{count_of(len(runs), 'run')} with {count_of(points, 'checkpoint')} in all, each evaluated on "
    text += count_of(len(sizes), "test set")
    if None in sizes:
        return Summary(run_rows(runs), f"{text}. The number of items depends on data that is not read here.")
    items = sum(size or 0 for size in sizes)
    own, answers = _training_words(runs), items * points + _training_answers(runs)
    return Summary(run_rows(runs), f"{text}: {items:,} items per checkpoint{own}, {answers:,} answers.")


def _training_answers(runs: Sequence[RunSpec]) -> int:
    """Answers of all runs to their own training examples."""
    return sum(sum(run.training_sizes().values()) * len(run.checkpoints()) for run in runs)


def _training_words(runs: Sequence[RunSpec]) -> str:
    """What a count of items leaves out, because it differs from run to run."""
    return " and the training examples of the run" if any(run.training_sizes() for run in runs) else ""


def run_rows(runs: Sequence[RunSpec]) -> list[RunRow]:
    """Models with their training sets, and how many runs, steps and checkpoints those have.

    Runs of a model that are equally long share a row; so do models, if there would be more than ``MOST_ROWS`` rows.
    """
    methods = {run.method for run in runs}
    groups: dict[tuple[str, int, int], list[str]] = {}
    for run in runs:
        model = run.label
        if model == run.model and len(methods) > 1:
            model = f"{run.model}, {run.method}"
        groups.setdefault((model, run.total_steps(), len(run.checkpoints())), []).append(run.train_set or "-")
    alike: dict[tuple[str, str, int, int, int], list[str]] = {}
    for (model, steps, points), train_sets in groups.items():
        own = model if len(groups) <= MOST_ROWS else ""
        alike.setdefault((own, ", ".join(dict.fromkeys(train_sets)), len(train_sets), steps, points), []).append(model)
    rows = []
    for (_, names, count, steps, points), models in alike.items():
        more = f" and {len(models) - 1} more" if len(models) > 1 else ""
        rows.append((models[0] + more, names, f"{count * len(models):,}", f"{steps:,}", f"{points:,}"))
    return rows


def expected_items(file: StudyFile, name: str) -> int | None:
    """Items of a test set that a checkpoint is evaluated on; None if only its data can tell."""
    study = file.study
    own, wanted = study.own_sets.get(name), study.evaluate.items
    if study.train and study.train.difficulty and name in study.train.sets:
        return None  # some items have no difficulty, and half of the others are held out
    if own is not None:
        # Rows with other labels are dropped when the set is read, so the file may have more rows than items.
        size = read_table(file.base / own.file).frame.height if own.labels is None else None
    else:
        size = None if REGISTRY[name].kind == "generated" else REGISTRY[name].items
    if name in study.evaluate.split_by and wanted is not None:
        return None  # so many of each part, and only the data tells how many parts there are
    return wanted if size is None else size if wanted is None else min(size, wanted)


def count_of(number: int, what: str) -> str:
    """A number and what it counts, in the plural if it is not 1."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe_studies() -> pl.DataFrame:
    """One row per study that comes with breadth: name, models, runs, description."""
    import polars as pl

    rows = []
    for name in shipped_studies():
        file = read_study_file(name)
        rows.append((name, len(file.study.models), len(expand(file)), file.study.description))
    schema = {"name": pl.String, "models": pl.Int64, "runs": pl.Int64, "description": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


class Shown(NamedTuple):
    """A title, facts as pairs of a word and what there is to say, the study file, and notes."""

    title: str
    facts: list[tuple[str, str]]
    text: str
    notes: tuple[str, ...] = ()


def show_study(source: str, resolved: bool = False) -> Shown:
    """Describe a study that comes with breadth, a study file, or the directory of a study.

    ``resolved`` gives the file with every default filled in.
    """
    folder, shipped = Path(source), source in shipped_studies()
    if folder.is_dir() and not shipped:
        return _show_directory(folder, resolved)
    file = read_study_file(source)
    sizes = {name: expected_items(file, name) for name in file.study.evaluate.on}
    notes = (f"For the study in the directory {source}: breadth show {source}/",) if folder.is_dir() else ()
    return _make_shown(file, _facts(file, sizes), resolved, (*file.warnings, *notes))


def _show_directory(folder: Path, resolved: bool) -> Shown:
    path = folder / "study.yaml"
    if not path.is_file():
        what = "holds imported answers" if is_imported(folder) else "is a directory"
        raise InputError(f"{folder}: {what} without a study file; give a study file, or the directory of a study")
    store = StudyStore(folder)
    text = (store.read_study() if is_study(folder) else read_study_text(path)) or ""
    try:
        # Files that the study names are beside the file it was run from, so only its keys are checked here.
        file = StudyFile(StudySpec.model_validate(read_document(text, str(path)).value), path, text, folder)
    except ValidationError:
        file = parse_study(text, path, folder)  # says what is wrong
    stored = store.item_files()
    sizes = {name: store.read_items(name).height if name in stored else None for name in file.study.evaluate.on}
    done = sum(len(run.parts()) for run in store.runs())
    planned = sum(len(run.checkpoints()) for run in expand(file))
    return _make_shown(file, [*_facts(file, sizes), ("done", f"{done:,} of {planned:,} checkpoints")], resolved)


def _make_shown(file: StudyFile, facts: list[tuple[str, str]], resolved: bool, notes: tuple[str, ...] = ()) -> Shown:
    about = f": {file.study.description}" if file.study.description else ""
    return Shown(f"{file.name}{about}", facts, resolved_yaml(file.study) if resolved else file.text, notes)


def _facts(file: StudyFile, sizes: Mapping[str, int | None]) -> list[tuple[str, str]]:
    study, runs = file.study, expand(file)
    own = [f" ({_settings_text(entry.recipe)})" if entry.recipe else "" for entry in study.models]
    items = sum(size or 0 for size in sizes.values())
    points = sum(len(run.checkpoints()) for run in runs)
    unknown = None in sizes.values()
    asked = [("protocol", _protocol_words(study))] if study.protocol is not None else []
    if any(run.chat is not None for run in runs):
        asked.append(("chat form", _chat_words(study)))
    known = f"{items:,} at every checkpoint{_training_words(runs)}"
    facts = [
        ("models", ", ".join(f"{entry.name}{more}" for entry, more in zip(study.models, own, strict=True))),
        ("train", _train_words(study.train, study.recipe)),
        ("recipe", _recipe_words(study.recipe)),
        ("test sets", ", ".join(_testset_words(study))),
        *asked,
        ("items", "known when the data is read" if unknown else known),
        ("runs", _run_words(study, runs)),
        ("checkpoints", _checkpoint_words(study, runs, points)),
    ]
    return [*facts, *([] if unknown else [("answers", f"{items * points + _training_answers(runs):,}")])]


def _protocol_words(study: StudySpec) -> str:
    """Which published prompts the study uses, and whether training and evaluation share them."""
    protocol = PROTOCOLS[study.protocol or ""]
    used = used_sets(study)
    apart = [name for name in used if resolve_task(name, study, REGISTRY).train_template is not None]
    text = f"{protocol.name}, {protocol.summary}"
    if apart:
        return f"{text}; {', '.join(apart)}: trained with one prompt and evaluated with another"
    return f"{text}; the same prompts in training and evaluation" if protocol.mismatched else text


def _chat_words(study: StudySpec) -> str:
    """Which chat templates and system prompts the models are asked with."""
    words = {AUTO: "the tokenizer's own template, where it has one", NONE: "plain text"}
    groups: dict[str, list[str]] = {}
    for entry in study.models:
        template, system = study.chat_of(entry)
        text = words.get(template, template)
        if system is not None and template != NONE:
            text += f", system prompt {system!r}" if system else ", empty system prompt"
        groups.setdefault(text, []).append(entry.name)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in groups.items())


def _testset_words(study: StudySpec) -> list[str]:
    """Test sets by name, with the columns that split them."""
    words = []
    for name in study.evaluate.on:
        columns = study.evaluate.split_by.get(name)
        words.append(f"{name} by {' and '.join(columns)}" if columns else name)
    return words


def _train_words(train: Train | None, recipe: Recipe) -> str:
    if train is None or recipe.method == "zero-shot":
        return "nothing"
    sets, seeds = _set_words(train), f"seed{'s' if len(train.seeds) > 1 else ''} {_values_text(train.seeds)}"
    if recipe.method not in TRAINED:
        words = [f"nothing; {count_of(recipe.num_fewshot, 'example')} of {sets} in the prompt, {seeds}"]
        return "; ".join([*words, *_difficulty_words(train)])
    words = [f"{sets}: {_values_text(train.examples)} examples", seeds]
    if train.mix is not None:
        words[0] = _mixture_words(train)
    words += _difficulty_words(train)
    if train.start is not None:
        words.append(f"after a start of {train.start.examples:,} examples")
    return "; ".join(words)


def _difficulty_words(train: Train) -> list[str]:
    """Levels and strategies, and where difficulty comes from."""
    words = []
    if train.levels is not None:
        words.append(f"{train.levels} levels of difficulty")
    if train.strategies:
        words.append(f"strategies {_values_text(train.strategies)}")
    if train.difficulty is not None:
        words.append(f"difficulty by {_settings_text(train.difficulty.model_dump(exclude_defaults=True))}")
    return words


def _set_words(train: Train) -> str:
    """Training sets by name; of a mixture, with their shares in percent."""
    if train.mix is None:
        return _values_text(train.names)
    shares = [f"{name} {share:.3g}%" for name, share in normalised_shares(train.mix, 100).items()]
    return f"a mixture ({', '.join(shares)})"


def _mixture_words(train: Train) -> str:
    """A mixture, and how many examples of each set its sizes make."""
    sizes = []
    for examples in train.examples:
        counts = share_out(examples, train.mix or {})
        sizes.append(f"{examples:,} examples ({', '.join(f'{name} {count:,}' for name, count in counts.items())})")
    return f"{_set_words(train)}: {'; '.join(sizes)}"


def _recipe_words(recipe: Recipe) -> str:
    always = _ALWAYS if recipe.method in TRAINED else ()
    changed = recipe.model_dump(exclude={"method"}, exclude_defaults=True)
    values = {key: getattr(recipe, key) for key in Recipe.model_fields if key in changed or key in always}
    values = {key: value for key, value in values.items() if value is not None}
    return ", ".join([recipe.method, *([_settings_text(values)] if values else [])])


def _run_words(study: StudySpec, runs: list[RunSpec]) -> str:
    train, factors = study.train, {"models": len(study.models)}
    if train is not None:
        variants = {(run.train_level, run.strategy) for run in runs if run.train_set is not None}
        factors |= {"training sets": len(train.names), "sizes": len(train.examples), "seeds": len(train.seeds)}
        factors |= {"levels and strategies": len(variants)}
    several = {what: number for what, number in factors.items() if number > 1}
    product = f" ({' x '.join(f'{number} {what}' for what, number in several.items())})"
    return f"{len(runs):,}" + (product if len(several) > 1 and prod(several.values()) == len(runs) else "")


def _checkpoint_words(study: StudySpec, runs: list[RunSpec], points: int) -> str:
    every, steps = study.evaluate.every, {run.total_steps() for run in runs if run.is_trained}
    if not steps:
        return f"{points:,}; nothing is trained"
    when = "before the first and after the last" if every is None else f"every {count_of(every, 'step')}"
    length = f"{'up to ' if len(steps) > 1 else ''}{count_of(max(steps), 'step')}"
    return f"{points:,}; runs of {length}, evaluated {when}"


def _values_text(values: Iterable[Any]) -> str:
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in values)


def _settings_text(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {f'{value:g}' if isinstance(value, float) else flow_yaml(value)}" for key, value in values.items()
    )
