from breadth.execute import Pace, TimeLeft, plan_study
from breadth.study import read_study_file

from .conftest import LORA, START


def estimate(path, folder, **pace):
    plan = plan_study(read_study_file(path), folder)
    zero = {"load": 0, "trunk": 0, "answers": 0, "step": 0, "example": 0}
    return TimeLeft(plan, {plan.units[0].run.model: Pace(**zero | pace)}).seconds()


def test_a_start_counts_once_per_model(study, tmp_path):
    assert estimate(study(START), tmp_path / "s", step=1) == 2 * 4 + 6


def test_step_0_that_is_copied_costs_nothing(study, tmp_path):
    assert estimate(study(LORA), tmp_path / "s", answers=1) == 5 + 4
    assert estimate(study(LORA), tmp_path / "s", trunk=1, load=10) == 1 + 2 * 10
    assert estimate(study(LORA), tmp_path / "s", example=1) == 2 * 16


def test_no_model_was_timed(study, tmp_path):
    rest = TimeLeft(plan_study(read_study_file(study()), tmp_path / "s"))
    assert rest.seconds() is None
    assert (rest.known, len(rest.unknown)) == (set(), 1)


def test_nothing_is_left(study, tmp_path):
    plan = plan_study(read_study_file(study()), tmp_path / "s")
    rest = TimeLeft(plan)
    assert not rest.done
    for unit in plan.units:
        rest.passed(unit.run.name)
    assert rest.done
    assert rest.seconds() == 0
