import pytest

from breadth import InputError
from breadth.sources.checkpoint_scores.scores import ScoreOptions
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.wandb import WandbChart


def wandb(path, notes=None):
    file = SourceFile.look(path)
    assert WandbChart().detect(file).has_scores
    return list(WandbChart().read_scores(file, ScoreOptions([] if notes is None else notes)))


def test_real_wandb_export(shared_data):
    notes = []
    scores = wandb(shared_data / "logs/trajectories/wandb/nanoGPT_wandb_export.csv", notes)
    assert len({score.run for score in scores}) == 8
    assert {score.name for score in scores} == {"train/loss"}
    first = next(score for score in scores if score.run.name == "gpt2_last_char_to_char1729642919.4054031")
    assert (first.step, first.value) == (0, 25.48284149169922)
    assert notes == []


@pytest.fixture
def export(tmp_path):
    def write(*lines):
        path = tmp_path / "wandb_export.csv"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_names_of_runs_may_hold_a_dash(export):
    path = export('"Step","a - b - eval/acc","a - b - eval/acc__MIN","a - b - eval/acc__MAX"', '"1","0.5","0.5","0.5"')
    (score,) = wandb(path)
    assert (score.run.name, score.name, score.step, score.value) == ("a - b", "eval/acc", 1, 0.5)


def test_exports_that_were_saved_again_have_no_quotes(export):
    assert [score.value for score in wandb(export("Step,a - acc,b - acc", "0,0.25,0.5"))] == [0.25, 0.5]


def test_grouped_and_thinned_charts_are_said_to_be_so(export):
    notes = []
    wandb(export('"epoch","lr: 1 - acc","lr: 1 - acc__MIN","lr: 1 - acc__MAX"', '"0.5","0.5","0.4","0.6"'), notes)
    assert "is the x axis of the chart, 'epoch'" in notes[0]
    assert "minima and maxima differ from the values" in notes[1]


def test_steps_of_a_chart_over_epochs_are_not_its_spread(export):
    head = '"epoch","a - _step","a - _step__MIN","a - _step__MAX","a - acc","a - acc__MIN","a - acc__MAX"'
    notes = []
    wandb(export(head, '"1","5","1","9","0.5","0.5","0.5"'), notes)
    assert len(notes) == 1
    assert "is the x axis" in notes[0]


def test_runs_of_one_name_are_numbered(export):
    notes = []
    scores = wandb(export('"Step","a - acc","a - acc","b - acc"', '"0","0.1","0.2","0.3"'), notes)
    assert [score.run[:2] for score in scores] == [("a", ()), ("a", ("(2)",)), ("b", ())]
    assert "several runs are called 'a'; they are numbered" in notes[0]


def test_empty_cells_are_missing(export):
    assert [score.value for score in wandb(export('"Step","a - acc","b - acc"', '"0","","0.3"', '"1","NaN",""'))] == [
        0.3
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"1","0.5"', "line 3: has 2 of 3 fields"),
        ('"Monday","1","2"', "line 3: 'Monday' in column 'Step' is not a number"),
    ],
)
def test_damaged_exports(export, line, message):
    with pytest.raises(InputError, match=message):
        wandb(export('"Step","a - acc","b - acc"', '"0","0.2","0.3"', line))


def test_exports_that_are_no_text(tmp_path):
    path = tmp_path / "w.csv"
    path.write_bytes(b'"Step","a - acc"\n"0","\xff"\n')
    with pytest.raises(InputError, match="cannot be read as CSV"):
        wandb(path)


@pytest.mark.parametrize(
    "content", ["", "Step,acc\n1,2\n", '{"a - b": 1}', "a - b", "model - x\n", "Text, with - a dash\nand more\n"]
)
def test_other_tables_are_not_exports(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_text(content)
    assert WandbChart().detect(SourceFile.look(path)) is None
