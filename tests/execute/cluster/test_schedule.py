"""The schedule without a cluster: whatever workers do, every checkpoint is written once, from what was published."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadth.execute.cluster.schedule import TRIES, Schedule
from breadth.execute.cluster.scheduling_policy import PUBLISHED
from breadth.execute.cluster.tasks import Cell, Chain, Measured, Rates, TaskKind, WorkerTask, cut

CELLS = cut({"a": 40, "b": 9})


def chains(runs=2, groups=1, checkpoints=4, start=False, siblings=True, shapes=1, keep=False):
    names = {g: [f"r{g}{k}" for k in range(runs)] for g in range(groups)}
    return [
        Chain(
            name, f"g{g}", f"s{g % shapes}", CELLS, tuple(2 * k for k in range(checkpoints)),
            start=f"start{g}" if start else None, start_steps=3 if start else 0,
            siblings=tuple(other for other in names[g] if other != name) if siblings else (),
            kept=tuple(2 * k for k in range(1, checkpoints)) if keep else (),
        )
        for g in range(groups)
        for name in names[g]
    ]  # fmt: skip


class Cluster:
    """Carries tasks out in any order, and checks that each may be."""

    def __init__(self, every, workers, broken=()):
        self.chains = {chain.run: chain for chain in every}
        self.schedule, self.broken = Schedule(every), set(broken)
        self.written, self.evaluated, self.count = Counter(), Counter(), 0
        self.published = {(chain.run, 0) for chain in every if chain.start is None}
        self.flying, self.failures = {}, Counter()
        shapes = sorted({chain.shape for chain in every})
        for k in range(workers):
            self.add(shapes[k % len(shapes)])

    def add(self, shape):
        self.schedule.add_worker(f"w{self.count}", shape)
        self.count += 1

    def assign(self):
        for worker, state in list(self.schedule.workers.items()):
            while state.task is None and (task := self.schedule.next_task(worker)):
                if task.kind is TaskKind.OPEN:
                    self.schedule.opened(task.run, self.chains[task.run].steps)
                    continue
                self.check(task)
                self.flying[worker] = task

    def check(self, task):
        if task.kind is TaskKind.EVALUATE:
            assert (task.run, task.step) in self.published
            assert task.cells
            others = [
                each
                for each in self.flying.values()
                if (each.kind, each.run, each.step) == (task.kind, task.run, task.step)
            ]
            assert not {cell for each in others for cell in each.cells} & set(task.cells)
        if task.kind is TaskKind.SCORE:
            assert all(self.evaluated[task.run, task.step, cell] for cell in CELLS)
            # Weights that are kept are written with the scores.
            assert task.step not in self.chains[task.run].kept or (task.run, task.step) in self.published
        if task.kind is TaskKind.TRAIN:
            assert not any((each.kind, each.run) == (task.kind, task.run) for each in self.flying.values())
            ahead = [step for run, step in self.published if run == task.run and not self.written[run, step]]
            assert len(ahead) <= PUBLISHED + 1

    def finish(self, worker, seconds=1.0):
        task = self.flying.pop(worker)
        if (task.kind, task.run, task.step) in self.broken:
            self.failures[task.kind, task.run, task.step] += 1
            self.schedule.failed(worker, "it is broken")
            return
        if task.kind is TaskKind.EVALUATE:
            self.evaluated.update((task.run, task.step, cell) for cell in task.cells)
            measured = Measured(answers=seconds, items=task.items)
        else:
            measured = Measured(train=seconds, steps=2 if task.kind is TaskKind.TRAIN else 0)
        if task.kind is TaskKind.TRAIN:
            self.published.add((task.run, task.step))
        if task.kind is TaskKind.START:
            start = self.chains[task.run].start
            self.published |= {(chain.run, 0) for chain in self.chains.values() if chain.start == start}
        self.schedule.done(worker, measured)
        if task.kind is TaskKind.SCORE:
            self.write(task.run, task.step)

    def write(self, run, step):
        self.written[run, step] += 1
        for copy in self.schedule.written(run, step):
            self.write(copy, step)

    def kill(self, worker, blame):
        self.flying.pop(worker, None)
        shape = self.schedule.workers[worker].shape
        self.schedule.remove_worker(worker, "killed" if blame else None)
        self.add(shape)

    def lose(self, run, step):
        self.published.discard((run, step))
        self.schedule.weights_lost(run, step)

    def run(self, most=5000):
        for _ in range(most):
            self.assign()
            if self.schedule.finished:
                return
            self.finish(next(iter(self.flying)))
        raise AssertionError(f"not finished: {self.schedule.open}")


EVERY = st.builds(
    chains, st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.booleans(), st.booleans(), st.integers(1, 2),
    st.booleans(),
)  # fmt: skip


@given(EVERY, st.integers(2, 5), st.data())
@settings(max_examples=150)
def test_every_checkpoint_is_written_once_whatever_happens(every, workers, data):
    cluster = Cluster(every, workers)
    for _ in range(data.draw(st.integers(0, 60))):
        cluster.assign()
        if cluster.schedule.finished:
            break
        worker = data.draw(st.sampled_from(sorted(cluster.flying)))
        event = data.draw(st.sampled_from(["finish", "finish", "finish", "kill", "lose"]))
        task = cluster.flying[worker]
        if event == "finish":
            cluster.finish(worker, data.draw(st.floats(0.01, 100)))
        elif event == "kill":
            cluster.kill(worker, blame=False)
        elif task.step > 0 and (task.kind is TaskKind.EVALUATE or (task.kind is TaskKind.SCORE and every[0].kept)):
            # Whoever evaluates weights that are lost, or makes files of them, learns it first.
            cluster.flying.pop(worker)
            cluster.schedule.failed(worker, None)
            cluster.lose(task.run, task.step)
    for worker, task in list(cluster.flying.items()):
        if task.kind is TaskKind.EVALUATE and (task.run, task.step) not in cluster.published:
            cluster.flying.pop(worker)
            cluster.schedule.failed(worker, None)
    cluster.run()
    assert cluster.written == Counter({(chain.run, step): 1 for chain in every for step in chain.steps})
    assert not cluster.schedule.aside
    assert cluster.schedule.waiting_items == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("kind", [TaskKind.TRAIN, TaskKind.EVALUATE, TaskKind.SCORE])
def test_what_fails_again_and_again_is_set_aside_and_the_rest_goes_on(kind):
    cluster = Cluster(chains(siblings=False), 3, broken={(kind, "r00", 4)})
    cluster.run()
    lost = {4, 6} if kind is TaskKind.TRAIN else {4}
    assert cluster.schedule.aside == {("r00", step): "it is broken" for step in lost}
    assert set(cluster.written) == {
        (run, step) for run in ("r00", "r01") for step in (0, 2, 4, 6) if run == "r01" or step not in lost
    }
    assert cluster.failures[kind, "r00", 4] >= TRIES


def test_a_start_that_cannot_be_trained_takes_only_its_own_runs_along():
    cluster = Cluster(chains(groups=2, start=True), 2, broken={(TaskKind.START, "r00", 0), (TaskKind.START, "r01", 0)})
    cluster.run()
    assert {run for run, _ in cluster.schedule.aside} == {"r00", "r01"}
    assert {run for run, _ in cluster.written} == {"r10", "r11"}


def test_step_0_is_evaluated_by_one_run_and_copied_by_the_others():
    cluster = Cluster(chains(runs=4), 3)
    cluster.run()
    assert {run for run, step, _ in cluster.evaluated if step == 0} == {"r00"}


def test_if_step_0_is_set_aside_those_who_would_copy_it_evaluate_their_own():
    cluster = Cluster(chains(runs=2), 2, broken={(TaskKind.EVALUATE, "r00", 0)})
    cluster.run()
    assert set(cluster.schedule.aside) == {("r00", 0)}
    assert cluster.written["r01", 0] == 1


def test_a_killed_worker_counts_against_its_unit_only_if_it_is_to_blame():
    for blame, aside in ((True, True), (False, False)):
        cluster = Cluster(chains(runs=1, checkpoints=1), 1)
        for _ in range(3 * TRIES):
            cluster.assign()
            if cluster.flying:
                cluster.kill(next(iter(cluster.flying)), blame)
        assert bool(cluster.schedule.aside) is aside


def test_one_worker_trains_only_when_nothing_waits():
    cluster = Cluster(chains(runs=1), 1)
    kinds = []
    while True:
        cluster.assign()
        if cluster.schedule.finished:
            break
        (worker,) = cluster.flying
        kinds.append((cluster.flying[worker].kind, cluster.flying[worker].step))
        cluster.finish(worker)
    assert [step for kind, step in kinds if kind is TaskKind.SCORE] == [0, 2, 4, 6]
    for k, (kind, step) in enumerate(kinds):
        if kind is TaskKind.TRAIN:
            assert (TaskKind.SCORE, step - 2) in kinds[:k]


def test_a_second_worker_evaluates_while_the_first_trains():
    cluster = Cluster(chains(runs=1), 2)
    cluster.assign()
    assert {task.kind for task in cluster.flying.values()} == {TaskKind.TRAIN, TaskKind.EVALUATE}


def test_a_trainer_does_not_run_away_from_its_evaluators():
    chain = Chain("r", "g", "s", CELLS, tuple(range(100)))
    schedule = Schedule([chain], rates={"g": Rates(answer=10.0, step=0.01)})
    for worker in ("trainer", "evaluator"):
        schedule.add_worker(worker, "s")
    schedule.opened("r", chain.steps)
    published = 0
    while schedule.next_task("trainer").kind is TaskKind.TRAIN:
        schedule.done("trainer", Measured(train=0.01, steps=1))
        published += 1
    assert published < PUBLISHED


def test_units_are_large_while_much_waits_and_small_at_the_end():
    many = cut({"a": 100_000})
    chain = Chain("r", "g", "s", many, (0,), trained=False)
    schedule = Schedule([chain], rates={"g": Rates(answer=0.01)})
    for k in range(4):
        schedule.add_worker(f"w{k}", "s")
    schedule.opened("r", (0,))
    sizes = []
    while task := schedule.next_task("w0"):
        if task.kind is TaskKind.SCORE:
            break
        sizes.append(0.01 * task.items)
        schedule.done("w0", Measured(answers=0.01 * task.items, items=task.items))
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) <= 120 + 0.01 * many[0].items
    assert sizes[-1] < sizes[0] / 4


def test_cells_whose_frozen_layers_are_known_come_first():
    chain = Chain("r", "g", "s", CELLS, (0, 2), trained=False)
    schedule = Schedule([chain], rates={"g": Rates(answer=0.001, trunk=10.0)})
    for worker in ("one", "two"):
        schedule.add_worker(worker, "s")
    schedule.opened("r", (0, 2))
    first = {worker: schedule.next_task(worker) for worker in ("one", "two")}
    for worker in first:
        schedule.done(worker, Measured())
    for worker, task in first.items():
        again = schedule.next_task(worker)
        assert set(again.cells) <= set(task.cells) or again.step == 0


@pytest.mark.parametrize(("step", "stays"), [(1.0, True), (100.0, False)])
def test_a_worker_waits_for_weights_only_if_that_is_cheaper_than_to_leave(step, stays):
    every = chains(groups=2, runs=1, checkpoints=9)
    schedule = Schedule(every, rates={"g0": Rates(load=5.0, trunk=0.1, answer=0.1, step=step)})
    for worker in ("trainer", "evaluator"):
        schedule.add_worker(worker, "s0")
        schedule.workers[worker].group = "g0"
    schedule.opened("r00", every[0].steps[1:])
    assert schedule.next_task("trainer").kind is TaskKind.TRAIN
    task = schedule.next_task("evaluator")
    assert task is None if stays else (task.kind, task.run) == (TaskKind.OPEN, "r10")
    schedule.done("trainer", Measured(train=2 * step, steps=2))
    task = schedule.next_task("evaluator")
    assert (task.kind, task.step) == (TaskKind.EVALUATE, 2)


def test_cells_cover_their_test_sets():
    cells = cut({"large": 30_000, "small": 3, "middle": 700})
    assert sum(cell.items for cell in cells) == pytest.approx(30_703)
    for name in ("large", "small", "middle"):
        own = [cell for cell in cells if cell.testset == name]
        assert [cell.index for cell in own] == list(range(len(own)))
        assert {cell.of for cell in own} == {len(own)}
    assert 100 < len(cells) < 160


def test_seconds_left_need_a_pace():
    schedule = Schedule(chains(runs=1))
    schedule.add_worker("w", "s0")
    assert schedule.seconds_left() is None
    schedule.rates["g0"] = Rates(answer=1.0, step=1.0)
    assert schedule.seconds_left() == pytest.approx(4 * 49 + 6)


def test_a_task_says_what_it_holds():
    assert WorkerTask(TaskKind.EVALUATE, "r", 2, (Cell("a", 0, 2, 20.0), Cell("a", 1, 2, 20.0))).items == 40
