"""Studies with loss and answers over the whole vocabulary: on this machine, on workers, and of checkpoints."""

import json

import pytest
from safetensors.torch import load_file, save_file

from breadth.execute import Events, run
from breadth.execute import evaluate as evaluate_checkpoints
from breadth.lm.tiny import write_tiny_model
from breadth.reporting import scores
from breadth.sources import open_study
from breadth.study import expand, read_study_file

from .cluster.in_process import run_in_process
from .conftest import LORA, parts

VOCABULARY = [("steps: 8", "steps: 4, loss: vocabulary"), ("items: 24", "items: 24, predict: vocabulary")]


class Notes(Events):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def log_of(folder, name):
    lines = (folder / "runs" / name / "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_a_study_reports_how_many_answers_are_neither(study, tmp_path):
    path, events = study(changes=VOCABULARY), Notes()
    run(path, into=tmp_path / "local", events=events)
    first = expand(read_study_file(path))[0]
    answers = open_study(tmp_path / "local").responses.collect()
    neither = answers.filter(answer="neither")
    assert neither.height
    assert (neither["correct"] == 0).all()
    last = answers.filter(subject=f"{first.name}/4", testset="plain")
    shares = log_of(tmp_path / "local", first.name)[-1]["neither"]
    assert list(shares) == ["plain", "negation"]
    assert shares["plain"] == pytest.approx(last.filter(answer="neither").height / last.height, abs=1e-6)
    assert sum("neither" in note for note in events.notes) == 2  # one for each run

    # Two answers do not tell what was said where it may be neither; scores know all three.
    found = scores(str(tmp_path / "local")).answers.filter(run=first.name, step=4, testset="plain")
    assert dict(found.select("answer", "share").iter_rows())["neither"] == pytest.approx(shares["plain"])
    assert found["share"].sum() == pytest.approx(1)

    # The pieces of a worker hold one column more; put together they are the same bytes.
    on_workers = Notes()
    outcome, _, _ = run_in_process(path, tmp_path / "workers", workers=3, events=on_workers)
    assert not outcome.failed
    assert parts(tmp_path / "workers") == parts(tmp_path / "local")
    assert log_of(tmp_path / "workers", first.name)[-1]["neither"] == shares
    assert sum("neither" in note for note in on_workers.notes) == 2

    # A checkpoint that is lost is computed again.
    whole = parts(tmp_path / "local")
    (tmp_path / "local" / next(name for name in whole if "step-000002" in name)).unlink()
    run(path, into=tmp_path / "local")
    assert parts(tmp_path / "local") == whole


def test_training_depends_on_the_loss(study, tmp_path):
    margins = {}
    for loss in ("answers", "vocabulary"):
        path = study(changes=[("steps: 8", f"steps: 4, loss: {loss}"), ("seeds: [0, 1]", "seeds: 0")])
        run(path, into=tmp_path / loss)
        margins[loss] = open_study(tmp_path / loss).responses.collect()["margin"].to_list()
    half = len(margins["answers"]) // 3
    assert margins["answers"][:half] == margins["vocabulary"][:half]  # step 0
    assert margins["answers"] != margins["vocabulary"]


def test_names_of_runs_from_before_there_was_a_choice_stay(study):
    names = [run.name for run in expand(read_study_file(study()))]
    said = [("items: 24", "items: 24, predict: answers"), ("steps: 8", "steps: 8, loss: answers")]
    assert [run.name for run in expand(read_study_file(study(changes=said)))] == names
    chosen = expand(read_study_file(study(changes=VOCABULARY[1:])))
    assert not {run.name for run in chosen} & set(names)
    assert "predict" not in expand(read_study_file(study(LORA)))[0].record().evaluate


def test_checkpoints_that_are_there(tmp_path):
    model = write_tiny_model(tmp_path / "m" / "checkpoint-1")
    other = write_tiny_model(tmp_path / "m" / "checkpoint-2")
    tensors = load_file(other / "model.safetensors")
    save_file({name: tensor * 1.1 for name, tensor in tensors.items()}, other / "model.safetensors")
    options = {"on": "plain", "items": 12, "dtype": "float32"}
    events = Notes()
    evaluate_checkpoints([model, other], into=tmp_path / "s", predict="vocabulary", events=events, **options)
    answers = open_study(tmp_path / "s").responses.collect()
    assert answers.height == 24
    assert set(answers["answer"]) & {"neither"}
    assert sum("step 2: answers that are neither" in note for note in events.notes) == 1
