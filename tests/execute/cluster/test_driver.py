"""The driver with workers in this process: the same bytes as a local run, whatever happens on the way."""

import contextlib
import json
import random
import subprocess
import sys
from dataclasses import replace

import polars as pl
import pytest

from breadth.errors import InputError
from breadth.execute import Events, run
from breadth.execute.cluster.driver import Fault
from breadth.execute.cluster.executor import worker_group
from breadth.execute.cluster.shipping import pack_answers, pack_pieces, seal, unpack_pieces
from breadth.study import expand, read_study_file

from ..conftest import FULL, LORA, START, parts
from .in_process import run_in_process

pytestmark = pytest.mark.slow

MIXED = """\
name: s
models: [{model}]
train: {{set: plain, examples: 8, seeds: [0, 1]}}
recipe: {{method: few-shot, num_fewshot: 2}}
evaluate: {{on: [negation, plain], items: 24}}
"""


#: A template, and a study in which one model is asked in two forms: a worker must not mix up their prompts.
CHAT = "{% for m in messages %}<bos>{{ m['role'] }}: {{ m['content'] }}<eos>{% endfor %}<bos>"
TWO_FORMS = LORA.replace(
    "models: {model}", "models: [{{name: {model}}}, {{name: {model}, chat_template: chat.jinja, system: Hello.}}]"
)


def test_the_driver_needs_no_torch():
    code = "import sys, breadth.execute.cluster.driver, breadth.execute.cluster.pool; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.fixture(scope="module")
def local(tmp_path_factory, tiny, tiny_opt):
    """Studies as this process runs them, once for all tests of the module."""
    folder, known = tmp_path_factory.mktemp("local"), {}
    (folder / "chat.jinja").write_text(CHAT)

    def get(name, text):
        if name not in known:
            path = folder / f"{name}.yaml"
            path.write_text(text.format(model=tiny_opt if "bitfit" in text else tiny))
            run(path, into=folder / name)
            known[name] = (path, parts(folder / name))
        return known[name]

    return get


STUDIES = {
    **{"lora": LORA, "full": FULL, "start": START, "few-shot": MIXED},
    "lora in bfloat16": LORA.replace("method: lora", "method: lora, dtype: bfloat16"),
    "full in bfloat16": FULL.replace("method: full", "method: full, dtype: bfloat16"),
    "ia3": LORA.replace("lora", "ia3"),
    "bitfit": START.replace("lora", "bitfit"),
    "chat": TWO_FORMS,
}


@pytest.mark.parametrize("name", STUDIES)
def test_the_bytes_of_a_local_run(local, tmp_path, name):
    path, whole = local(name, STUDIES[name])
    outcome, _, _ = run_in_process(path, tmp_path / "s", workers=3)
    assert parts(tmp_path / "s") == whole
    assert not outcome.failed
    # Nothing but the results stays: no states, no pieces.
    names = {file.name.partition("-")[0] for file in tmp_path.glob("s/runs/*/*")}
    assert names <= {".lock", "environment.json", "log.jsonl", "run.json", "step"}
    assert json.loads((tmp_path / "s" / "cluster.json").read_text())["finished"]
    again, pool, _ = run_in_process(path, tmp_path / "s")
    assert (again.complete, pool.number) == ([], 0)


@pytest.mark.parametrize("name", ["lora", "full", "start", "ia3", "bitfit"])
def test_workers_and_their_objects_lost_at_random(local, tmp_path, name):
    path, whole = local(name, STUDIES[name])
    chance = random.Random(5)
    outcome, pool, driver = run_in_process(
        path, tmp_path / "s", 3, lambda *_: Fault.NODE if chance.random() < 0.2 else None
    )
    assert pool.gone
    assert driver.schedule.retries
    assert not outcome.failed
    assert parts(tmp_path / "s") == whole
    assert list(tmp_path.glob("s/runs/*/failures.log"))


class StopError(Exception):
    """The driver is interrupted."""


@pytest.mark.parametrize("name", ["lora", "full", "start"])
def test_a_driver_that_stops_after_any_task_resumes(local, tmp_path, name):
    path, whole = local(name, STUDIES[name])
    done = []
    for stop in (2, 3, 5, 4, 6, 1000):

        def fault(number, worker, method, stop=stop):
            if number > stop:
                raise StopError

        with contextlib.suppress(StopError):
            run_in_process(path, tmp_path / "s", 2, fault)
        # What was written stays as it was.
        now = parts(tmp_path / "s")
        assert all(now[key] == value for key, value in dict(done).items())
        done = list(now.items())
    assert dict(done) == whole


def test_finished_units_of_an_unfinished_checkpoint_are_not_computed_again(local, tmp_path):
    path, whole = local("full", FULL)

    def fault(number, worker, method):
        if method == "score":
            raise StopError

    with pytest.raises(StopError):
        run_in_process(path, tmp_path / "s", 1, fault)
    assert list(tmp_path.glob("s/runs/*/piece-*"))
    _, pool, _ = run_in_process(path, tmp_path / "s", 1)
    assert parts(tmp_path / "s") == whole
    assert ("evaluate", 0) not in [(method, step) for method, _, step in pool.calls]
    assert not list(tmp_path.glob("s/runs/*/piece-*"))


def test_a_unit_that_always_fails(local, tmp_path):
    path, whole = local("lora", LORA)
    names = [each.name for each in expand(read_study_file(path))]
    warned = []

    class Heard(Events):
        def warn(self, text):
            warned.append(text)

    from breadth.execute.cluster import worker as module

    evaluate = module.Worker.evaluate

    def broken(self, run, step, cells, weights):
        if (run, step) == (names[1], 4):
            raise RuntimeError("this one never works")
        return evaluate(self, run, step, cells, weights)

    module.Worker.evaluate = broken
    try:
        outcome, _, _ = run_in_process(path, tmp_path / "s", 2, events=Heard())
    finally:
        module.Worker.evaluate = evaluate
    assert (outcome.complete, list(outcome.failed)) == (names[:1], names[1:])
    reason = outcome.failed[names[1]]
    assert reason.startswith("RuntimeError: this one never works (step 4; see ")
    assert "Traceback" not in reason
    missing = {name for name in whole if name.startswith(f"runs/{names[1]}/step-000004")}
    assert parts(tmp_path / "s") == {name: content for name, content in whole.items() if name not in missing}
    assert len(warned) == 1
    assert "step 4" in warned[0]
    assert "this one never works" in (tmp_path / "s" / "runs" / names[1] / "failures.log").read_text()
    # The same command tries again, and only that.
    again, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert again.complete == names[1:]
    assert parts(tmp_path / "s") == whole


def flip(sealed):
    """One bit of the content is another one."""
    content = bytearray(sealed.content)
    content[len(content) // 2] ^= 1
    return sealed._replace(content=bytes(content))


def cut(sealed):
    """The end is missing."""
    return sealed._replace(content=sealed.content[:-7])


def empty(sealed):
    """Nothing arrived."""
    return


def swapped(sealed):
    """Something else that is whole, with its own checksum."""
    return seal(b"something else", sealed.origin)


def damage_once(method, change):
    """Change what a method returns, the first time that it returns anything to change; and the list of changes."""
    changes = []

    def damage(number, called, values):
        if called != method or changes:
            return values
        if method == "evaluate":
            changes.append(number)
            return values._replace(pieces=change(values.pieces))
        if method == "score":
            changes.append(number)
            return (values[0], change(values[1]))
        if method == "score_and_keep":
            (report, answers), files = values
            if not files:
                return values
            changes.append(number)
            name = max(files, key=lambda each: len(files[each].content))
            return (report, answers), {**files, name: change(files[name])}
        for k, each in enumerate(values[1:], start=1):
            if each.content:
                changes.append(number)
                return (*values[:k], change(each), *values[k + 1 :])
        return values

    return damage, changes


class Warned(Events):
    """Warnings that a user would see."""

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        """Keep a warning."""
        self.warnings.append(text)


@pytest.mark.parametrize("change", [flip, cut, empty, swapped])
@pytest.mark.parametrize("method", ["evaluate", "score"])
def test_a_damaged_part_is_made_again_by_another_worker(local, tmp_path, method, change):
    path, whole = local("full", FULL)
    damage, changes = damage_once(method, change)
    events = Warned()
    outcome, pool, driver = run_in_process(path, tmp_path / "s", 2, events=events, damage=damage)
    assert len(changes) == 1
    assert not outcome.failed
    assert parts(tmp_path / "s") == whole
    assert driver.schedule.retries == 1
    # The worker is stopped, and its task was done by another.
    assert len(pool.gone) == 1
    (warning,) = events.warnings
    assert next(iter(pool.gone)) in warning
    assert "damaged result" in warning
    (log,) = tmp_path.glob("s/runs/*/failures.log")
    assert f"{method} step" in log.read_text()
    assert not list(tmp_path.glob("s/runs/*/piece-*"))


@pytest.mark.parametrize("change", [flip, cut])
@pytest.mark.parametrize(("name", "method"), [("start", "train_start"), ("start", "train"), ("full", "train")])
def test_damaged_weights_are_trained_again(local, tmp_path, name, method, change):
    path, whole = local(name, STUDIES[name])
    damage, changes = damage_once(method, change)
    outcome, _, _ = run_in_process(path, tmp_path / "s", 2, damage=damage)
    assert len(changes) == 1
    assert not outcome.failed
    assert parts(tmp_path / "s") == whole


def test_a_damaged_state_is_not_written(local, tmp_path):
    path, whole = local("full", FULL)
    written = {True: set(), False: set()}
    for is_damaged in (False, True):
        folder = tmp_path / str(is_damaged)

        def look(number, worker, method, folder=folder, is_damaged=is_damaged):
            written[is_damaged] |= {file.name for file in folder.glob("runs/*/state-*")}

        def damage(number, method, values, is_damaged=is_damaged):
            if is_damaged and method == "train" and values[2].content:
                return (*values[:2], flip(values[2]))
            return values

        outcome, _, _ = run_in_process(path, folder, 2, fault=look, damage=damage)
        assert not outcome.failed
        assert parts(folder) == whole
    assert written[False]
    assert not written[True]


def test_answers_to_other_items_are_noticed(local, tmp_path):
    """A worker that seals what it should not have made: fewer rows, or rows in another order."""
    path, whole = local("full", FULL)
    wrong = [lambda frame: frame.head(-1), lambda frame: frame.reverse(), lambda frame: frame.drop("margin")]

    def damage(number, method, values):
        if method != "score" or not wrong:
            return values
        answers = pl.read_ipc(values[1].content)
        return (values[0], pack_answers(wrong.pop()(answers), values[1].origin))

    # If all three are at the same checkpoint, it is set aside, and only the next call writes it.
    _, pool, _ = run_in_process(path, tmp_path / "s", 2, damage=damage)
    assert not wrong
    assert len(pool.gone) == 3
    assert set(parts(tmp_path / "s").items()) <= set(whole.items())
    again, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert not again.failed
    assert parts(tmp_path / "s") == whole


class Muddled:
    """A worker that does a task as it should, but another one than it was given; the first time that it can."""

    def __init__(self, mistaken):
        self.mistaken, self.mistakes = mistaken, []

    def __call__(self, number, worker, method, arguments):
        known = self.mistaken(worker, method, arguments) if not self.mistakes else None
        if known is None:
            return getattr(worker, method)(*arguments)
        self.mistakes.append(number)
        return known


def of_another_step(method):
    """Does for one checkpoint of a run what it was asked to do for another."""
    first = []

    def mistaken(worker, called, arguments):
        if called != method:
            return None
        run, step, what, *weights = arguments
        if not first:
            first.extend([run, step, what, weights])
            return None
        if run != first[0] or step == first[1]:
            return None
        # The same cells, or the outputs of all of them.
        what = what if method == "evaluate" else first[2]
        return getattr(worker, called)(run, first[1], what, *first[3])

    return mistaken


def of_another_run(method):
    """Keeps what the checkpoint of one run gave, and gives it for the same step of another."""
    kept = {}

    def mistaken(worker, called, arguments):
        if called != method or arguments[1] == 0:
            return None
        run, step, *others = arguments
        for (other, *same), value in kept.items():
            if other != run and same == [step, cells_of(others[0])]:
                return value
        kept[run, step, cells_of(others[0])] = getattr(worker, called)(*arguments)
        return None

    return mistaken


def of_another_cell(method):
    """Evaluates what belongs to another test set, and calls it by the names that were asked for."""

    def mistaken(worker, called, arguments):
        if called != method:
            return None
        run, step, cells, weights = arguments
        others = []
        for cell in cells:
            other = "plain" if cell.testset == "negation" else "negation"
            others.append(replace(cell, testset=other))
        report = worker.evaluate(run, step, tuple(others), weights)
        pieces = unpack_pieces(report.pieces.content, others)
        renamed = {cell: pieces[other] for cell, other in zip(cells, others, strict=True)}
        # It does not know that it has mixed them up, so the seal says what it did.
        return report._replace(pieces=seal(pack_pieces(renamed), report.pieces.origin))

    return mistaken


def cells_of(argument):
    """The cells of an evaluation, or of the outputs to score, without regard to order."""
    return frozenset(argument)


MISTAKES = {
    "outputs of another step": (FULL, of_another_step("evaluate")),
    "answers of another step": (FULL, of_another_step("score")),
    "outputs of another run": (LORA, of_another_run("evaluate")),
    "answers of another run": (LORA, of_another_run("score")),
    "outputs of another test set": (LORA, of_another_cell("evaluate")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_sound_part_of_something_else_is_noticed(local, tmp_path, mistake):
    """The same items, a right checksum, answers as good as any: only what was sealed says that they are others."""
    text, mistaken = MISTAKES[mistake]
    path, whole = local("full" if text is FULL else "lora", text)
    muddled, events = Muddled(mistaken), Warned()
    outcome, pool, driver = run_in_process(path, tmp_path / "s", 2, events=events, call=muddled)
    assert len(muddled.mistakes) == 1
    assert not outcome.failed
    assert parts(tmp_path / "s") == whole
    assert driver.schedule.retries  # of more than this task, if weights were on the worker
    assert len(pool.gone) == 1
    (warning,) = events.warnings
    assert next(iter(pool.gone)) in warning
    assert "arrived instead of" in warning
    assert not list(tmp_path.glob("s/runs/*/piece-*"))


def test_weights_of_another_step_are_not_evaluated(local, tmp_path):
    """The first checkpoint's weights come back once more for a later one: they are trained again."""
    path, whole = local("full", FULL)
    known, swaps = [], []

    def damage(number, method, values):
        if method != "train" or not values[1].content or swaps:
            return values
        if not known:
            known.append(values[1])
            return values
        swaps.append(number)
        return (values[0], known[0], *values[2:])

    outcome, _, driver = run_in_process(path, tmp_path / "s", 2, damage=damage)
    assert swaps
    assert not outcome.failed
    assert driver.schedule.retries
    assert parts(tmp_path / "s") == whole


def test_a_cluster_that_damages_everything_sets_aside_and_says_so(local, tmp_path):
    path, whole = local("full", FULL)

    def damage(number, method, values):
        return (values[0], flip(values[1])) if method == "score" else values

    outcome, _, _ = run_in_process(path, tmp_path / "s", 2, damage=damage)
    (reason,) = outcome.failed.values()
    assert "damaged result" in reason
    assert parts(tmp_path / "s") == {}
    again, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert not again.failed
    assert parts(tmp_path / "s") == whole


def test_a_run_that_another_process_works_on(local, tmp_path):
    from breadth.records.store import StudyStore

    path, _ = local("lora", LORA)
    names = [each.name for each in expand(read_study_file(path))]
    own = StudyStore(tmp_path / "s").run(names[0])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / ".lock").touch()
    with own.store.lock(own.key, wait=True):
        outcome, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert (outcome.elsewhere, outcome.complete) == (names[:1], names[1:])


def test_what_runs_have_in_common_on_a_worker(study):
    runs = expand(read_study_file(study(LORA)))
    assert worker_group(runs[0]) == worker_group(runs[1])
    other = expand(read_study_file(study(LORA, [("layers: 2", "layers: 1")])))
    assert worker_group(other[0]) != worker_group(runs[0])
    faster = expand(read_study_file(study(LORA, [("lr: 1.0e-2", "lr: 1.0e-3")])))
    assert worker_group(faster[0]) == worker_group(runs[0])


def keeping(text, keep):
    return text.replace("batch: 8", f"batch: 8, keep: {keep}")


KEEPING = {
    "lora-best": keeping(LORA, "best"),
    "full-best": keeping(FULL, "best"),
    "full-top-all": keeping(FULL, "all").replace('trunk: "off"', "layers: 2"),
    "start-last": keeping(START, "last"),
}


def kept(folder):
    """Names and bytes of all kept weights."""
    paths = [path for path in sorted(folder.glob("runs/*/weights/**/*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(params=KEEPING)
def local_kept(request, local):
    """A study that keeps weights, and the answers and weights of a local run of it."""
    path, answers = local(request.param, KEEPING[request.param])
    weights = kept(path.parent / request.param)
    assert weights
    return path, answers, weights


def test_weights_that_are_kept_are_those_of_a_local_run(local_kept, tmp_path):
    path, answers, weights = local_kept
    outcome, pool, _ = run_in_process(path, tmp_path / "s", workers=3)
    assert (outcome.failed, outcome.without_weights) == ({}, [])
    assert parts(tmp_path / "s") == answers
    assert kept(tmp_path / "s") == weights
    assert "score_and_keep" in {method for method, *_ in pool.calls}


def test_weights_are_kept_although_workers_and_objects_are_lost(local_kept, tmp_path):
    path, answers, weights = local_kept
    chance = random.Random(5)
    outcome, pool, _ = run_in_process(path, tmp_path / "s", 3, lambda *_: Fault.NODE if chance.random() < 0.2 else None)
    assert pool.gone
    assert (outcome.failed, outcome.without_weights) == ({}, [])
    assert parts(tmp_path / "s") == answers
    assert kept(tmp_path / "s") == weights


def test_weights_are_kept_although_the_driver_stops(local_kept, tmp_path):
    path, answers, weights = local_kept
    for stop in (2, 3, 5, 4, 6, 1000):

        def fault(number, worker, method, stop=stop):
            if number > stop:
                raise StopError

        with contextlib.suppress(StopError):
            run_in_process(path, tmp_path / "s", 2, fault)
    assert parts(tmp_path / "s") == answers
    assert kept(tmp_path / "s") == weights


def test_weights_are_trained_again_for_a_checkpoint_that_only_had_to_be_scored(local, tmp_path):
    """The outputs of its cells are on the driver's disk, its weights went with the workers."""
    path, answers = local("full-best", KEEPING["full-best"])

    def fault(number, worker, method):
        if method == "score_and_keep":
            raise StopError

    with pytest.raises(StopError):
        run_in_process(path, tmp_path / "s", 1, fault)
    assert list(tmp_path.glob("s/runs/*/piece-000002*"))
    _, pool, _ = run_in_process(path, tmp_path / "s", 1)
    assert ("evaluate", 2) not in [(method, step) for method, _, step in pool.calls]
    assert parts(tmp_path / "s") == answers
    assert kept(tmp_path / "s") == kept(path.parent / "full-best")


def test_weights_of_a_checkpoint_that_is_not_the_best_do_not_travel(local, tmp_path):
    from breadth.execute.cluster import worker as module

    path, _ = local("full-best", KEEPING["full-best"])
    sent, score_and_keep = {}, module.Worker.score_and_keep

    def counting(self, run, step, pieces, weights, base, best):
        value, files = score_and_keep(self, run, step, pieces, weights, base, best)
        sent[step] = bool(files)
        return value, files

    module.Worker.score_and_keep = counting
    try:
        run_in_process(path, tmp_path / "s", 1)
    finally:
        module.Worker.score_and_keep = score_and_keep
    (folder,) = tmp_path.glob("s/runs/*/weights/step-*")
    best = int(folder.name.removeprefix("step-"))
    later = [files for step, files in sent.items() if step > best]
    assert sent[best]
    assert later
    assert not any(later)


@pytest.mark.parametrize("change", [flip, cut])
def test_weights_that_arrive_damaged_are_not_kept(local, tmp_path, change):
    path, answers = local("full-best", KEEPING["full-best"])
    damage, changes = damage_once("score_and_keep", change)
    outcome, pool, _ = run_in_process(path, tmp_path / "s", 2, damage=damage)
    assert len(changes) == len(pool.gone) == 1
    assert not outcome.failed
    assert parts(tmp_path / "s") == answers
    assert kept(tmp_path / "s") == kept(path.parent / "full-best")


@pytest.mark.parametrize("status", [b"", b'{"workers": 2, "fin', b"\x00\xff", b"[" * 100_000, b'{"time": "x"}'])
def test_a_status_file_that_is_none_stops_nobody(local, tmp_path, status):
    """It is torn or foreign: it says how a study is doing and holds no result."""
    path, whole = local("full", FULL)

    def stop(number, worker, method):
        if number > 3:
            raise StopError

    with pytest.raises(StopError):
        run_in_process(path, tmp_path / "s", 2, stop)
    file = tmp_path / "s" / "cluster.json"
    file.unlink(missing_ok=True)
    file.write_bytes(status)
    outcome, _, _ = run_in_process(path, tmp_path / "s", 2)
    assert not outcome.failed
    assert parts(tmp_path / "s") == whole


def test_a_directory_in_place_of_the_status_file_is_one_message(local, tmp_path):
    path, whole = local("full", FULL)
    (tmp_path / "s" / "cluster.json").mkdir(parents=True)
    (tmp_path / "s" / ".lock").touch()
    with pytest.raises(InputError, match=r"cluster\.json: cannot be written"):
        run_in_process(path, tmp_path / "s", 2)
    (tmp_path / "s" / "cluster.json").rmdir()
    run_in_process(path, tmp_path / "s", 2)
    assert parts(tmp_path / "s") == whole
