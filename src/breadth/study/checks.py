"""Checks that look at several keys of a study at once: models, recipe, training data, evaluation, prompts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

from pydantic import ValidationError

from breadth.datasets import PROTOCOLS, REGISTRY, Pattern, Task, answer_problems, answer_warnings, fields_of
from breadth.endpoints import is_exposed, key_env_problem, url_problem
from breadth.errors import InputError, did_you_mean, listed
from breadth.lm import (
    AUTO,
    BUILT_IN,
    HUB_ID,
    NO_LOSS_SCALE,
    NONE,
    PURE_BFLOAT16,
    PURE_WARNING,
    check_pickled,
    fault_of,
    has_chat_template,
    has_safetensors,
    model_folder,
    read_chat_template,
)
from breadth.study.document import PLACEHOLDER, Place, Problem, listed_twice, quoted
from breadth.study.expansion import (
    ADAPTERS,
    EVALUATE,
    TRAINED,
    expand_study,
    merge_recipe,
    total_steps,
    training_testset,
    variants_of,
)
from breadth.study.mixture import share_out
from breadth.study.model_places import find_directory, find_source
from breadth.study.own_sets import (
    own_set_problems,
    own_set_warnings,
    place_problems,
    resolve_task,
    unusual_columns,
    used_sets,
)
from breadth.study.schema import CHAT_KEYS, ENDPOINT_KEYS, MOST_STEPS, ModelEntry, Recipe, StudySpec, Train
from breadth.study.sections import plain_problems

#: Most runs and checkpoints of a study.
MOST_RUNS, MOST_CHECKPOINTS = 100_000, 1_000_000


def study_problems(study: StudySpec, base: Path) -> Iterator[Problem]:
    """Everything that is wrong with a study whose keys are valid one by one; paths are relative to ``base``."""
    yield from _size_problems(study)
    yield from _model_problems(study, base)
    yield from _recipe_problems(study)
    yield from _training_problems(study)
    yield from _evaluation_problems(study)
    yield from _protocol_problems(study)
    yield from _pattern_problems(study)
    yield from own_set_problems(study, REGISTRY, base)


def _size_problems(study: StudySpec) -> Iterator[Problem]:
    """A study of more runs or checkpoints than anybody can run, counted without making a list of them."""
    train, runs, points = study.train, 0, 0
    for _, recipe in _recipes(study):
        sizes: Sequence[int | None] = train.examples if train is not None and recipe.method in TRAINED else [None]
        variants = [] if train is None else [len(train.names), len(train.seeds), len(variants_of(train))]
        each = prod(variants) if recipe.method not in ("zero-shot", EVALUATE) else 1
        lasts = [total_steps(recipe, examples) for examples in sizes]
        runs += each * len(sizes)
        points += each * sum(last // (study.evaluate.every or last or 1) + 2 for last in lasts)
        if max(lasts) > MOST_STEPS:
            yield Problem(("recipe", "epochs"), f"makes {max(lasts):,} steps; at most {MOST_STEPS:,} are run")
    for what, number, most in (("runs", runs, MOST_RUNS), ("checkpoints", points, MOST_CHECKPOINTS)):
        if number > most:
            place = ("train",) if what == "runs" else ("evaluate", "every")
            yield Problem(place, f"the study has {number:,} {what}; at most {most:,} can be run together")


def _model_problems(study: StudySpec, base: Path) -> Iterator[Problem]:
    """Unknown models, models listed twice, and wrong keys in a model's own recipe."""
    for k, entry in enumerate(study.models):
        yield from _endpoint_problems(entry, ("models", k))
        yield from _chat_problems(study, k, base)
        yield from _weights_problems(entry, ("models", k), base)
        if entry.has_checkpoints:
            yield from _checkpoint_problems(study, k, base)
        elif entry.endpoint is None:  # else its server knows the name
            yield from _name_problems(entry.name, ("models", k), base, (("models", k, "name"),))
        try:
            merge_recipe(study.recipe, entry.recipe)
        except ValidationError as error:
            yield from plain_problems(error, Recipe, ("models", k, "recipe"))
    yield from _repeated_models(study, base)


def _repeated_models(study: StudySpec, base: Path) -> Iterator[Problem]:
    """Models listed twice with nothing that tells their runs apart; with recipes of their own they may be."""
    names = Counter(entry.name for entry in study.models if entry.name != PLACEHOLDER)
    seen: set[str] = set()
    for k, entry in enumerate(study.models):
        if names[entry.name] < 2:
            continue
        try:
            # All entries share the rest of the study, so their first runs are the same if all are.
            first = expand_study(study.model_copy(update={"models": [entry]}), base)[0].name
        except (InputError, ValidationError):
            continue  # what is wrong with it is reported anyway
        if first in seen:
            message = f"{entry.name!r} is listed more than once with the same recipe; keep one, or change its recipe"
            yield Problem(("models", k), message, (("recipe",), ("train",), ("models", k)))
        seen.add(first)


def _name_problems(name: str, place: Place, base: Path, needs: tuple[Place, ...] = ()) -> Iterator[Problem]:
    """A model that is neither built in nor a directory nor an id of the Hub."""
    exists = find_directory(name, base) is not None
    is_path = exists or name.startswith((".", "/", "~"))
    if is_path and not exists:
        yield Problem(place, f"{name!r} is not a directory (paths are relative to the study file)", needs)
    elif not is_path and name not in BUILT_IN and not HUB_ID.match(name):
        yield Problem(
            place,
            f"unknown model {name!r}.{did_you_mean([name], BUILT_IN, most=1)} Built-in models: {listed(BUILT_IN)}; "
            "name others by Hub id (owner/name) or by the path of a directory",
            needs,
        )


def _weights_problems(entry: ModelEntry, place: Place, base: Path) -> Iterator[Problem]:
    """Pickled weights asked for where there are none, or that hold more than tensors."""
    if entry.weights != "bin":
        return
    loaded = entry.base if entry.has_checkpoints else entry.name
    if entry.endpoint is not None:
        yield Problem((*place, "weights"), "the weights of a model behind an endpoint are not read; remove this key")
    elif loaded in BUILT_IN:
        message = f"{loaded} is a built-in model, whose weights are safetensors; remove this key"
        yield Problem((*place, "weights"), message, ((*place, "name"), (*place, "base")))
    elif loaded is not None:
        found = find_directory(loaded, base)
        if found is not None and not has_safetensors(Path(found)):
            try:
                check_pickled(Path(found))
            except InputError as error:
                yield Problem((*place, "weights"), str(error))


def _checkpoint_problems(study: StudySpec, k: int, base: Path) -> Iterator[Problem]:
    """Checkpoints that are not there, cannot be told apart or cannot be read; a base that is unknown."""
    entry, place = study.models[k], ("models", k)
    method = {**study.recipe.model_dump(), **entry.recipe}["method"]
    needs = (("recipe", "method"), (*place, "recipe", "method"))
    key = "revisions" if entry.revisions is not None else "checkpoints"
    if entry.revisions is not None and entry.checkpoints is not None:
        yield Problem((*place, "revisions"), "both checkpoints and revisions are given; make two models of them")
    elif method != EVALUATE:
        yield Problem((*place, key), f"method {method} does not use checkpoints; set recipe.method to evaluate", needs)
    else:
        try:
            find_source(entry, base)
        except InputError as error:
            yield Problem((*place, key), str(error))
    if entry.base is not None:
        yield from _name_problems(entry.base, (*place, "base"), base)
    if entry.trained_on is not None and entry.trained_on not in study.evaluate.on:
        yield Problem(
            (*place, "trained_on"),
            f"{entry.trained_on!r} is not evaluated, so it is no control; evaluate on it, too, or leave it out",
            (("evaluate", "on"),),
        )


def _chat_problems(study: StudySpec, k: int, base: Path) -> Iterator[Problem]:
    """A template file that is not there or is none, and a system prompt that has no place."""
    entry = study.models[k]

    def place(key: str) -> Place:
        return (key,) if getattr(entry, key) is None else ("models", k, key)

    own = [key for key in CHAT_KEYS if getattr(entry, key) not in (None, NONE)]
    if entry.endpoint is not None:
        if own:
            message = "a server applies its own chat template (api: chat asks in chat form); remove this key"
            yield Problem(place(own[0]), message)
        return
    template, system = study.chat_of(entry)
    if template == NONE:
        if system is not None:
            message = "needs chat form; set chat_template to auto or to a file with a template, or remove this key"
            yield Problem(place("system"), message, (place("chat_template"),))
    elif template != AUTO:
        try:
            read_chat_template(base / os.path.expanduser(template))
        except InputError as error:
            yield Problem(place("chat_template"), str(error))
    elif system is not None and _lacks_chat_template(entry, base):
        message = f"{entry.name} has no chat template, so a system prompt has no place"
        remedy = "remove this key, or set chat_template to a file with a template"
        yield Problem(place("system"), f"{message}; {remedy}", (("models", k, "name"),))


def _lacks_chat_template(entry: ModelEntry, base: Path) -> bool:
    """Whether a model is on this machine and has no chat template; false if only loading it could tell."""
    if entry.has_checkpoints or entry.endpoint is not None:
        return False
    if entry.name in BUILT_IN:
        folder = model_folder(entry.name)
        return fault_of(folder) is None and not has_chat_template(folder)
    found = find_directory(entry.name, base)
    return found is not None and not has_chat_template(Path(found))


def _endpoint_problems(entry: ModelEntry, place: Place) -> Iterator[Problem]:
    """Keys of a model behind an endpoint. What looks like a key is not repeated."""
    if entry.endpoint is None:
        stray = [key for key in ENDPOINT_KEYS if key in entry.model_fields_set]
        if stray:
            yield Problem((*place, stray[0]), "is for a model behind an endpoint; add endpoint, or remove it")
        return
    if entry.model is None:
        yield Problem(place, "model is missing: the name of the model at the endpoint", ((*place, "model"),))
    if entry.resources is not None:
        yield Problem((*place, "resources"), "a model behind an endpoint takes none here; remove this key")
    wrong = url_problem(entry.endpoint)
    if wrong is not None:
        yield Problem((*place, "endpoint"), wrong)
    wrong = None if entry.key_env is None else key_env_problem(entry.key_env)
    if wrong is not None:
        yield Problem((*place, "key_env"), wrong)


def _recipes(study: StudySpec) -> list[tuple[int, Recipe]]:
    """Recipes of the models whose own keys are valid, by position in the list of models."""
    recipes = []
    for k, entry in enumerate(study.models):
        try:
            recipes.append((k, merge_recipe(study.recipe, entry.recipe)))
        except ValidationError:
            continue
    return recipes


def _trained(study: StudySpec) -> list[Recipe]:
    return [recipe for _, recipe in _recipes(study) if recipe.method in TRAINED]


def _recipe_problems(study: StudySpec) -> Iterator[Problem]:
    """Keys of a recipe that do not go together."""
    for k, recipe in _recipes(study):

        def place(key: str, own: dict[str, object] = study.models[k].recipe, k: int = k) -> Place:
            return ("models", k, "recipe", key) if key in own else ("recipe", key)

        method, trained = recipe.method, recipe.method in TRAINED
        given = [key for key in ("epochs", "steps") if getattr(recipe, key) is not None]
        needs = (place("method"), place("epochs"), place("steps"))
        if method == EVALUATE and not study.models[k].has_checkpoints:
            message = "method evaluate needs checkpoints, as {checkpoints: runs/a/checkpoint-*}"
            yield Problem(("models", k), f"{message}; a model by itself is evaluated by method zero-shot", needs)
        if trained and study.models[k].endpoint is not None:
            message = f"method {method} trains weights, which an endpoint does not give; use zero-shot or few-shot"
            yield Problem(place("method"), message, needs)
            continue
        if study.train is None and method not in ("zero-shot", EVALUATE):
            example = "as train: {set: plain, examples: 128}" if trained else "which it takes from train.set"
            yield Problem(("train",), f"is missing: method {method} needs examples, {example}", needs)
        if trained and len(given) != 1:
            what = "both epochs and steps are given; keep one" if given else "give epochs or steps"
            yield Problem(place("steps") if given else place("method"), f"method {method}: {what}", needs)
        if not trained and given:
            yield Problem(place(given[0]), f"method {method} trains nothing; remove {' and '.join(given)}", needs)
        if method == EVALUATE and recipe.quantise is not None and not study.models[k].base:
            yield Problem(place("quantise"), "whole checkpoints are not quantised; remove this key", needs)
        if trained and recipe.dtype == "float16":
            yield Problem(place("dtype"), NO_LOSS_SCALE, needs)
        if recipe.keep != "none" and not trained and ("keep" in study.models[k].recipe or not _trained(study)):
            yield Problem(place("keep"), f"method {method} trains no weights to keep; remove this key", needs)
        if recipe.micro_batch is not None and recipe.batch % recipe.micro_batch:
            message = f"{recipe.micro_batch} does not divide batch {recipe.batch}"
            yield Problem(place("micro_batch"), message, (place("batch"),))


def _evaluation_problems(study: StudySpec) -> Iterator[Problem]:
    """Unknown or repeated test sets, and checkpoints where nothing is trained."""
    yield from _set_problems(study, ("evaluate", "on"), study.evaluate.on)
    if study.evaluate.every is not None and not _trained(study):
        message = "nothing is trained, so there is only one checkpoint; remove this key"
        yield Problem(("evaluate", "every"), message, (("recipe", "method"),))
    if study.evaluate.training and not _trained(study):
        message = "nothing is trained, so there are no training examples to evaluate on; remove this key"
        yield Problem(("evaluate", "training"), message, (("recipe", "method"),))
    for k, name in enumerate(study.evaluate.on):
        sets = study.train.sets if study.train and study.evaluate.training else []
        if name in map(training_testset, sets):
            message = f"{name} is the name of the training examples (evaluate.training); rename the set"
            yield Problem(("evaluate", "on", k), message, (("evaluate", "training"),))
    for name, columns in study.evaluate.split_by.items():
        place = ("evaluate", "split_by", name)
        if name not in study.evaluate.on:
            hint = did_you_mean([name], study.evaluate.on, most=1)
            message = f"is not a test set of this study.{hint} Test sets: {listed(study.evaluate.on)}"
            yield Problem(place, message, (("evaluate", "on"),))
        yield from listed_twice(place, columns)
    behind = [entry.name for entry in study.models if entry.endpoint is not None]
    if study.evaluate.predict == "vocabulary" and behind:
        message = f"{listed(behind, most=3)} is behind an endpoint, which does not give the likeliest of all tokens"
        yield Problem(("evaluate", "predict"), f"{message}; use predict: answers", (("models",),))


def _training_problems(study: StudySpec) -> Iterator[Problem]:
    """Training data: unknown sets, levels and strategies without a difficulty, kinds that a loss cannot use."""
    train = study.train
    if train is None:
        return
    yield from _set_problems(study, ("train", "set"), train.set or [])
    yield from _mixture_problems(study, train)
    for key in ("examples", "seeds", "strategies"):
        yield from listed_twice(("train", key), getattr(train, key))
    yield from _difficulty_problems(train)
    if train.start is not None and not _trained(study):
        yield Problem(("train", "start"), "nothing is trained; remove this key", (("recipe", "method"),))
    used = any(recipe.method not in ("zero-shot", EVALUATE) for _, recipe in _recipes(study))
    losses = {recipe.loss for recipe in _trained(study)}
    for k, name in enumerate(train.sets):
        place: Place = ("train", "set", k) if train.mix is None else ("train", "mix", name)
        task = _task(study, name)
        wrong = sorted(losses - set(task.losses)) if task is not None else []
        if task is not None and wrong:
            yield Problem(
                place,
                f"{name} is of kind {task.kind}, which loss {wrong[0]} cannot train on; set recipe.loss to completion",
                (("recipe", "loss"), ("recipe", "method"), ("sets", name, "kind")),
            )
        own = study.own_sets.get(name)
        if own is not None and own.train_file is None and train.difficulty is None and used:
            yield Problem(place, f"sets.{name} has no train_file, and the items of its test file are not trained on")


def _mixture_problems(study: StudySpec, train: Train) -> Iterator[Problem]:
    """Neither or both of set and mix; sets of a mixture that are unknown or would give no example."""
    place, needs = ("train", "mix"), (("train", "set"),)
    if train.mix is None:
        if train.set is None:
            yield Problem(("train", "set"), f"is missing ({Train.model_fields['set'].description})", (place,))
        return
    if train.set is not None:
        yield Problem(place, "both set and mix are given; keep one", needs)
    if len(train.mix) < 2:
        yield Problem(place, "a mixture has at least two sets; use train.set for one", (place,))
    by_difficulty = [key for key in ("difficulty", "levels", "strategies", "order") if getattr(train, key)]
    if by_difficulty:
        yield Problem(place, f"a mixture has no levels of difficulty; remove {listed(by_difficulty)}, or use train.set")
    known = [*study.own_sets, *REGISTRY]
    for name in train.mix:
        if name not in known:
            hint = did_you_mean([name], known, most=1) or f" Data sets: {listed(known, most=40)}"
            yield Problem((*place, name), f"unknown data set {name!r}.{hint}", (("sets", name),))
    for examples in _example_counts(study, train):
        none = [name for name, count in share_out(examples, train.mix).items() if not count] if train.mix else []
        if none:
            message = f"its share of {examples} examples is less than one; give it more, or use more examples"
            yield Problem((*place, none[0]), message)
            break


def _example_counts(study: StudySpec, train: Train) -> list[int]:
    """All numbers of examples that runs draw: to train on, for their start, and for prompts."""
    counts: list[int] = []
    for _, recipe in _recipes(study):
        if recipe.method in TRAINED:
            counts += train.examples
            counts += [] if train.start is None else [train.start.examples]
        elif recipe.method == "few-shot":
            counts.append(recipe.num_fewshot)
    return counts


def _difficulty_problems(train: Train) -> Iterator[Problem]:
    source, needs = train.difficulty, (("train", "difficulty"),)
    by_difficulty = [key for key in ("levels", "strategies") if getattr(train, key)]
    by_difficulty += ["order"] if train.order not in (None, "shuffled") else []
    if by_difficulty and source is None:
        yield Problem(("train", by_difficulty[0]), "needs train.difficulty with column, calibration or study", needs)
    if source is not None:
        given = [key for key in ("column", "calibration", "study") if getattr(source, key) is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} are given; keep one" if given else "give column, calibration or study"
            yield Problem(("train", "difficulty"), what, needs)
        elif source.hard_is == "low" and given != ["column"]:
            yield Problem(("train", "difficulty", "hard_is"), f"is only for column; {given[0]} has its own direction")
    if train.train_levels is None:
        return
    place, needs = ("train", "train_levels"), (("train", "levels"),)
    if train.levels is None:
        yield Problem(place, "needs train.levels", needs)
        return
    outside = [level for level in train.train_levels if level >= train.levels]
    if outside:
        yield Problem(place, f"unknown level {quoted(outside)}; levels are 0 to {train.levels - 1}", needs)
    yield from listed_twice(place, train.train_levels)
    if not train.train_levels and not train.strategies:
        yield Problem(place, "is empty; remove it to train on every level")


def _protocol_problems(study: StudySpec) -> Iterator[Problem]:
    """An unknown protocol, or one that says nothing about a set of the study."""
    name = study.protocol
    if name is None:
        return
    if name not in PROTOCOLS:
        hint = did_you_mean([name], PROTOCOLS, most=1)
        yield Problem(("protocol",), f"unknown protocol {name!r}.{hint} Protocols: {listed(PROTOCOLS)}")
        return
    wording = PROTOCOLS[name].wording
    absent = [each for each in used_sets(study) if each in REGISTRY and each not in wording]
    if absent:
        message = f"has no wording for {listed(absent)}; it is for {listed(wording)}. Remove the key or these sets"
        yield Problem(("protocol",), message, (("evaluate", "on"), ("train", "set")))


def _pattern_problems(study: StudySpec) -> Iterator[Problem]:
    """The study's own pattern and answers, against the sets they are for."""
    tasks = {name: REGISTRY[name].task for name in used_sets(study) if name not in study.own_sets and name in REGISTRY}
    patterns = {name: task for name, task in tasks.items() if task.shared_keys}
    if study.answers is not None:
        yield from place_problems(answer_problems(study.answers), ())
        for name, task in patterns.items() if len(study.answers) > 1 else ():
            missing = [label for label in task.labels if label not in study.answers]
            if missing:
                yield Problem(("answers",), f"no answer for {quoted(missing)}, a label of {name}", (("answers",),))
                break
    if study.pattern is None:
        return
    try:
        fields = fields_of(study.pattern)
    except InputError as error:
        yield Problem(("pattern",), str(error))
        return
    if not fields:
        yield Problem(("pattern",), "has no field in braces, so every item would get the same prompt")
    for name, task in patterns.items():
        known = fields_of(task.template)
        wrong = [field for field in fields if field not in known]
        if wrong:
            hint = did_you_mean([wrong[0]], known, most=1)
            yield Problem(("pattern",), f"{name} has no field {quoted(wrong)}.{hint} Fields: {listed(known)}")
            break


def study_warnings(study: StudySpec, base: Path) -> Iterator[Problem]:
    """What is not wrong but worth knowing before a study runs."""
    train, trained = study.train, _trained(study)
    yield from _chat_warnings(study, base)
    yield from _model_warnings(study, base)
    if train is not None and trained:
        absent = [name for name in train.sets if name not in study.evaluate.on]
        # One set of a mixture is control enough; of sets that are trained on one by one, each is needed.
        if absent and (train.mix is None or len(absent) == len(train.mix)):
            message = f"{listed(absent)} is trained on but not evaluated, so there is no in-domain control"
            yield Problem(("evaluate", "on"), message)
        last = max(total_steps(recipe, examples) for recipe in trained for examples in train.examples)
        if study.evaluate.every is not None and study.evaluate.every > last:
            message = f"no run has more than {last} steps, so only the first and the last are evaluated"
            yield Problem(("evaluate", "every"), message)
    if train is not None and train.difficulty is not None:
        for key in ("calibration", "study"):
            path = getattr(train.difficulty, key)
            if path is not None and not os.path.exists(base / os.path.expanduser(path)):
                yield Problem(("train", "difficulty", key), f"{path} does not exist yet; `breadth run` will need it")
    yield from _precision_warnings(study)
    methods = {recipe.method for recipe in trained}
    stray = [key for key in ADAPTERS if key in study.recipe.model_fields_set]
    if stray and methods and "lora" not in methods:
        message = f"is not used: it belongs to method lora, and this study has {listed(sorted(methods))}"
        yield Problem(("recipe", stray[0]), message)
    default = Train.model_fields["examples"].get_default(call_default_factory=True)
    if train is not None and train.examples != default and not trained:
        yield Problem(("train", "examples"), "is not used: nothing is trained; set recipe.num_fewshot instead")
    tasks = [_task(study, name) for name in used_sets(study)]
    for key in ("pattern", "answers"):
        if getattr(study, key) is not None and not any(task is not None and key in task.shared_keys for task in tasks):
            yield Problem((key,), "is not used: no set of this study is of kind pattern")
    yield from _evaluation_warnings(study)
    yield from place_problems(answer_warnings(study.answers or {}, study.pattern or ""), ())
    yield from _set_warnings(study)


def _chat_warnings(study: StudySpec, base: Path) -> Iterator[Problem]:
    """Models that are asked in plain text although the study asks in chat form."""
    for k, entry in enumerate(study.models):
        template, _ = study.chat_of(entry)
        if template == AUTO and _lacks_chat_template(entry, base):
            place: Place = ("chat_template",) if entry.chat_template is None else ("models", k, "chat_template")
            yield Problem(place, f"{entry.name} has no chat template, so it is asked in plain text")


def _set_warnings(study: StudySpec) -> Iterator[Problem]:
    """What is unusual about the sets under ``sets``."""
    yield from unusual_columns(study, REGISTRY)
    for name in study.known_sets:
        if name not in used_sets(study):
            yield Problem(("sets", name), "is not used: the study neither evaluates nor trains on this set")
    yield from own_set_warnings(study)


def _model_warnings(study: StudySpec, base: Path) -> Iterator[Problem]:
    """Keys that travel in the open, and paths that are not relative to the study file."""
    for k, entry in enumerate(study.models):
        endpoint = entry.behind()
        if endpoint is not None and is_exposed(endpoint):
            yield Problem(
                ("models", k, "endpoint"), "the key is sent without encryption; use https if the server has it"
            )
        if not entry.has_checkpoints and endpoint is None:
            yield from _path_warnings(entry.name, ("models", k), base)
        if entry.base is not None:
            yield from _path_warnings(entry.base, ("models", k, "base"), base)


def _path_warnings(name: str, place: Place, base: Path) -> Iterator[Problem]:
    """A model that is only found from the current directory, and so not by the same command from another one."""
    found = find_directory(name, base)
    if found is None or found == os.path.abspath(base / os.path.expanduser(name)):
        return
    better = os.path.relpath(found, base)
    yield Problem(
        place,
        f"{name!r} is a directory only seen from the current one; a path is relative to the study file, so write "
        f"{better!r}",
    )


def _evaluation_warnings(study: StudySpec) -> Iterator[Problem]:
    """Keys of ``evaluate`` that have no effect on this study."""
    evaluated = [_task(study, name) for name in study.evaluate.on]
    if study.evaluate.predict == "vocabulary" and not any(isinstance(task, Pattern) for task in evaluated):
        yield Problem(("evaluate", "predict"), "is not used: no test set of this study is of kind pattern")


def _precision_warnings(study: StudySpec) -> Iterator[Problem]:
    """Training in half precision, once for every place that asks for it."""
    places: list[Place] = []
    for k, recipe in _recipes(study):
        if recipe.method not in TRAINED or recipe.dtype != PURE_BFLOAT16:
            continue
        is_own = "dtype" in study.models[k].recipe
        place: Place = ("models", k, "recipe", "dtype") if is_own else ("recipe", "dtype")
        if place not in places:
            places.append(place)
    for place in places:
        yield Problem(place, PURE_WARNING)


def _task(study: StudySpec, name: str) -> Task | None:
    if name in study.own_sets:
        return resolve_task(name, study, REGISTRY)
    return REGISTRY[name].task if name in REGISTRY else None


def _set_problems(study: StudySpec, place: Place, names: Sequence[str]) -> Iterator[Problem]:
    known = [*study.own_sets, *REGISTRY]
    for k, name in enumerate(names):
        if name not in known:
            hint = did_you_mean([name], known, most=1) or f" Data sets: {listed(known, most=40)}"
            yield Problem((*place, k), f"unknown data set {name!r}.{hint}", (("sets", name),))
    yield from listed_twice(place, names)
