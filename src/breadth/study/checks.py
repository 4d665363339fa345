"""Checks that look at several keys of a study at once: models, method, training data, evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from breadth.datasets.tasks import Pattern, Task, fields_of
from breadth.errors import InputError, listed
from breadth.study.known import KnownSet, known_models
from breadth.study.problems import Place, Problem, did_you_mean, quoted, repeated
from breadth.study.recipes import TRAINED, merge_recipe, total_steps
from breadth.study.schema import Recipe, Study, Train
from breadth.study.scoring import kind_of, own_task, used_sets
from breadth.study.wording import plain_problems

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")


def model_problems(study: Study, base: Path) -> Iterator[Problem]:
    """Unknown models, models that stand twice, and keys of a model's own recipe that are wrong."""
    models = known_models()
    for k, entry in enumerate(study.models):
        folders = [base / Path(entry.name).expanduser(), Path(entry.name).expanduser()]
        is_path = entry.name.startswith((".", "/", "~")) or any(folder.is_dir() for folder in folders)
        if entry.name in models or (_HUB_ID.match(entry.name) and not is_path):
            pass
        elif is_path and not any(folder.is_dir() for folder in folders):
            yield Problem(("models", k), f"there is no directory {entry.name!r}", (("models", k, "name"),))
        elif not is_path:
            yield Problem(
                ("models", k),
                f"there is no model {entry.name!r}.{did_you_mean(entry.name, models)} Embedded models: "
                f"{listed(models)}; others by Hub id (owner/name) or the path of a directory",
                (("models", k, "name"),),
            )
        try:
            merge_recipe(study.recipe, entry.recipe)
        except ValidationError as error:
            yield from plain_problems(error, ("models", k, "recipe"))
    twice = repeated([entry.name for entry in study.models])
    if twice:
        yield Problem(("models",), f"{quoted(twice)} stands there more than once; keep one")


def recipes_by_model(study: Study) -> list[tuple[int, Recipe]]:
    """Recipes of the models whose own keys are sound."""
    found = []
    for k, entry in enumerate(study.models):
        try:
            found.append((k, merge_recipe(study.recipe, entry.recipe)))
        except ValidationError:
            continue
    return found


def recipe_problems(study: Study) -> Iterator[Problem]:
    """Keys of a recipe that do not go together."""
    for k, recipe in recipes_by_model(study):

        def place(key: str, own: dict[str, object] = study.models[k].recipe, k: int = k) -> Place:
            return ("models", k, "recipe", key) if key in own else ("recipe", key)

        method, lengths = recipe.method, (place("epochs"), place("steps"))
        given = [key for key in ("epochs", "steps") if getattr(recipe, key) is not None]
        needs = (place("method"), *lengths)
        if method in TRAINED and study.train is None:
            yield Problem(
                ("train",), f"is missing: method {method} needs examples, as train: {{set: plain, shots: 128}}", needs
            )
        if method in TRAINED and len(given) != 1:
            what = "both epochs and steps are given; keep one" if given else "give epochs or steps"
            yield Problem(place("steps") if given else place("method"), f"method {method}: {what}", needs)
        if method not in TRAINED and given:
            yield Problem(place(given[0]), f"method {method} trains nothing; leave out {' and '.join(given)}", needs)
        if method == "few-shot" and study.train is None:
            yield Problem(("train",), "is missing: few-shot takes its examples from train.set", needs)
        if recipe.micro_batch is not None and recipe.batch % recipe.micro_batch:
            yield Problem(
                place("micro_batch"), f"{recipe.micro_batch} does not divide batch {recipe.batch}", (place("batch"),)
            )


def evaluation_problems(study: Study, known: dict[str, KnownSet]) -> Iterator[Problem]:
    """Unknown or repeated test sets, and checkpoints where nothing is trained."""
    yield from _names(("evaluate", "on"), study.evaluate.on, [*study.sets, *known])
    trained = any(recipe.method in TRAINED for _, recipe in recipes_by_model(study))
    if study.evaluate.every is not None and not trained:
        yield Problem(
            ("evaluate", "every"),
            "nothing is trained, so there is one checkpoint; leave it out",
            (("recipe", "method"),),
        )


def training_problems(study: Study, known: dict[str, KnownSet]) -> Iterator[Problem]:
    """Training data: unknown sets, levels and strategies without a difficulty, kinds that a loss cannot use."""
    train = study.train
    if train is None:
        return
    yield from _names(("train", "set"), train.set, [*study.sets, *known])
    for key, values in (("shots", train.shots), ("seeds", train.seeds), ("strategies", train.strategies)):
        twice = repeated(values)
        if twice:
            yield Problem(("train", key), f"{quoted(twice)} stands there more than once; keep one")
    yield from _difficulty_problems(train)
    if train.start is not None and not any(recipe.method in TRAINED for _, recipe in recipes_by_model(study)):
        yield Problem(("train", "start"), "nothing is trained; leave it out", (("recipe", "method"),))
    used = any(recipe.method != "zero-shot" for _, recipe in recipes_by_model(study))
    losses = {recipe.loss for _, recipe in recipes_by_model(study) if recipe.method in TRAINED}
    for k, name in enumerate(train.set):
        task = _task(study, name, known)
        if "answers" in losses and task is not None and not isinstance(task, Pattern):
            yield Problem(
                ("train", "set", k),
                f"{name} is of kind {kind_of(task)}, which loss answers cannot train on; set recipe.loss to completion",
                (("recipe", "loss"), ("recipe", "method"), ("sets", name, "kind")),
            )
        own = study.sets.get(name)
        if own is not None and own.train_file is None and train.difficulty is None and used:
            yield Problem(
                ("train", "set", k), f"sets.{name} has no train_file, and items of the test file are not trained on"
            )


def _difficulty_problems(train: Train) -> Iterator[Problem]:
    asked = [key for key in ("levels", "strategies") if getattr(train, key)]
    if train.order not in (None, "shuffled"):
        asked.append("order")
    if asked and train.difficulty is None:
        yield Problem(
            ("train", asked[0]), "needs train.difficulty with column, calibration or study", (("train", "difficulty"),)
        )
    if train.difficulty is not None:
        given = [key for key in ("column", "calibration", "study") if getattr(train.difficulty, key) is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} are given; keep one" if given else "say column, calibration or study"
            yield Problem(("train", "difficulty"), what, (("train", "difficulty"),))
        elif train.difficulty.hard_is == "low" and given != ["column"]:
            yield Problem(("train", "difficulty", "hard_is"), f"is for column; {given[0]} has its own direction")
    if train.train_levels is not None and train.levels is None:
        yield Problem(("train", "train_levels"), "needs train.levels", (("train", "levels"),))
    elif train.train_levels is not None and train.levels is not None:
        outside = [level for level in train.train_levels if level >= train.levels]
        twice = repeated(train.train_levels)
        if outside:
            last = train.levels - 1
            yield Problem(
                ("train", "train_levels"),
                f"there is no level {quoted(outside)}; levels are 0 to {last}",
                (("train", "levels"),),
            )
        if twice:
            yield Problem(("train", "train_levels"), f"{quoted(twice)} stands there more than once; keep one")
        if not train.train_levels and not train.strategies:
            yield Problem(("train", "train_levels"), "is empty; leave it out to train on every level")


def wording_problems(study: Study, known: dict[str, KnownSet]) -> Iterator[Problem]:
    """The study's own pattern and answers, against the sets they are meant for."""
    tasks = {name: known[name].task for name in used_sets(study) if name not in study.sets and name in known}
    patterns = {name: task for name, task in tasks.items() if isinstance(task, Pattern)}
    if study.answers is not None:
        yield from answer_problems(("answers",), study.answers)
        for name, task in patterns.items() if len(study.answers) > 1 else ():
            missing = [label for label in task.labels if label not in study.answers]
            if missing:
                message = f"no answer for {quoted(missing)}, which {name} has as a label"
                yield Problem(("answers",), message, (("answers",),))
                break
    if study.pattern is not None:
        try:
            fields = fields_of(study.pattern)
        except InputError as error:
            yield Problem(("pattern",), str(error))
            return
        if not fields:
            yield Problem(("pattern",), "has no field in braces, so every item would get the same prompt")
        for name, task in patterns.items():
            wrong = [field for field in fields if field not in fields_of(task.template)]
            if wrong:
                there = fields_of(task.template)
                hint = did_you_mean(wrong[0], there)
                yield Problem(("pattern",), f"{name} has no field {quoted(wrong)}.{hint} Fields: {listed(there)}")
                break


def answer_problems(place: Place, answers: dict[str, str]) -> Iterator[Problem]:
    """Answer words that are empty, too few, or the same for two labels."""
    if len(answers) < 2:
        yield Problem(place, "needs at least two labels with their answers", (place,))
    empty = [label for label, words in answers.items() if not words.strip()]
    if empty:
        yield Problem((*place, empty[0]), "the answer is empty")
    twice = [words for words in repeated([words.strip() for words in answers.values()]) if words]
    if twice:
        yield Problem(place, f"two labels have the answer {quoted(twice)}; no model could tell them apart")


def study_warnings(study: Study, known: dict[str, KnownSet], base: Path) -> Iterator[Problem]:
    """What is not wrong but worth knowing before a study runs."""
    train, recipes = study.train, recipes_by_model(study)
    trained = [recipe for _, recipe in recipes if recipe.method in TRAINED]
    if train is not None and trained:
        absent = [name for name in train.set if name not in study.evaluate.on]
        if absent:
            yield Problem(
                ("evaluate", "on"), f"{listed(absent)} is trained on but not evaluated: there is no in-domain control"
            )
        last = max(total_steps(recipe, shots) for recipe in trained for shots in train.shots)
        if study.evaluate.every is not None and study.evaluate.every > last:
            yield Problem(("evaluate", "every"), f"no run has more than {last} steps: only the first and last are seen")
    if train is not None and train.difficulty is not None:
        for key in ("calibration", "study"):
            path = getattr(train.difficulty, key)
            if path is not None and not (base / Path(path).expanduser()).exists():
                yield Problem(("train", "difficulty", key), f"{path} is not there yet; `breadth run` will need it")
    usual = Train.model_fields["shots"].get_default(call_default_factory=True)
    if train is not None and train.shots != usual and not trained:
        yield Problem(("train", "shots"), "is not used: nothing is trained, and recipe.examples counts the examples")
    tasks = [_task(study, name, known) for name in used_sets(study)]
    for key in ("pattern", "answers"):
        if getattr(study, key) is not None and not any(isinstance(task, Pattern) for task in tasks):
            yield Problem((key,), "is not used: no set here is of kind pattern")
    yield from _unspaced(study)


def _unspaced(study: Study) -> Iterator[Problem]:
    own = [(("sets", name, "answers"), each.answers, each.pattern) for name, each in study.sets.items()]
    for place, answers, pattern in [(("answers",), study.answers, study.pattern), *own]:
        if (pattern or "").endswith((" ", "\n", "\t")):
            continue
        for label, words in (answers or {}).items():
            if words[:1].isalnum():
                message = (
                    f"{words!r} does not begin with a blank, as a word after the prompt would; mean {' ' + words!r}?"
                )
                yield Problem((*place, label), message)


def _task(study: Study, name: str, known: dict[str, KnownSet]) -> Task | None:
    own = study.sets.get(name)
    if own is not None:
        return own_task(own, study)
    return known[name].task if name in known else None


def _names(place: Place, names: Sequence[str], there: Sequence[str]) -> Iterator[Problem]:
    for k, name in enumerate(names):
        if name not in there:
            hint = did_you_mean(name, there) or f" Data sets: {listed(there, most=40)}"
            message = f"there is no data set {name!r}.{hint}"
            yield Problem((*place, k), message, (("sets", name),))
    twice = repeated(names)
    if twice:
        yield Problem(place, f"{quoted(twice)} stands there more than once; keep one")
