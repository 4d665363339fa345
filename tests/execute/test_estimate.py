from breadth.execute import Events, estimate, measurable, measure_pace, plan_study
from breadth.study import read_study_file

from .conftest import LORA


def test_a_model_is_timed_on_the_studys_own_items(study, tmp_path):
    plan = plan_study(read_study_file(study(LORA)), tmp_path / "s")
    pace = measure_pace(plan.units[0], plan.study_data, Events())
    assert all(seconds > 0 for seconds in vars(pace).values())
    assert not (tmp_path / "s").exists()


def test_why_a_model_is_not_timed(tiny, tmp_path, monkeypatch):
    assert measurable(str(tiny)) is None
    assert measurable("owner/model") == "on the Hugging Face Hub"
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path))
    assert measurable("smollm2-135m") == "not fetched yet"
    monkeypatch.setattr(estimate, "LARGE", 0)
    assert measurable(str(tiny)) == "too large to load for an estimate"
