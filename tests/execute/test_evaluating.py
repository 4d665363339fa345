"""Checkpoints that are there already, from directories to stored answers; followed, changed, deleted and wrong ones."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

import breadth
from breadth.correlation import carry_over
from breadth.errors import InputError
from breadth.execute import Events, evaluating, run
from breadth.lm import write_tiny_model
from breadth.results import Question
from breadth.sources import open_study

from .conftest import parts

ON, ITEMS = ("plain", "negation"), 8


@pytest.fixture
def own(tmp_path, adapters):
    """Adapters that a test may change."""
    return shutil.copytree(adapters, tmp_path / "runs" / "lora")


@pytest.fixture
def evaluate(tmp_path, tiny_base):
    def call(checkpoints, **options):
        given = {"on": ON, "into": tmp_path / "study", "items": ITEMS, "base": tiny_base, **options}
        return breadth.evaluate(checkpoints, **given)

    return call


class Notes(Events):
    """Keeps what is said, and the steps that are evaluated."""

    def __init__(self):
        self.notes, self.warnings, self.steps = [], [], []

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)

    def checkpoint(self, run, step, answers):
        self.steps.append(step)


def margins(study, step):
    answers = study.responses.filter(pl.col("subject").str.ends_with(f"/{step}")).sort("testset", "item").collect()
    return answers["margin"].to_list()


def test_every_checkpoint_is_evaluated_with_its_step_and_control(evaluate, own, tmp_path):
    assert len(evaluate(own, trained_on="plain").complete) == 1
    study = open_study(tmp_path / "study")
    assert study.subjects["step"].to_list() == [10, 20, 30]
    assert study.subjects["method"].unique().to_list() == ["evaluate"]
    assert study.subjects["model"].unique().to_list() == ["lora"]
    assert study.in_domain(study.subjects["train_set"][0]) == ("plain",)
    assert study.shifts["plain"] == "in-domain"
    assert len({tuple(margins(study, step)) for step in (10, 20, 30)}) == 3


def test_each_answers_as_it_does_alone(evaluate, own, whole, tmp_path):
    """Whether a checkpoint is swapped in after others or evaluated by itself changes nothing, to the last bit."""
    for name, folder in (("lora", own), ("whole", whole)):
        evaluate(folder, name=name, into=tmp_path / name)
        for step in (10, 20, 30):
            evaluate(folder / f"checkpoint-{step}", name=name, into=tmp_path / f"{name}-{step}")
            together = [path.read_bytes() for path in (tmp_path / name).glob(f"runs/*/step-{step:06d}.*")]
            assert together == [path.read_bytes() for path in (tmp_path / f"{name}-{step}").glob("runs/*/step-*")]


@pytest.mark.parametrize("kind", ["adapters", "whole"])
def test_shared_layers_are_computed_once_with_the_same_answers(
    evaluate, tiny_base, tmp_path, write_adapters, write_whole, kind, monkeypatch
):
    if kind == "adapters":
        folder = write_adapters(tiny_base, tmp_path / "top", layers=2)
    else:
        folder = write_whole(tiny_base, tmp_path / "top", pick=lambda name: "layers.2." in name or "layers.3." in name)
    events = Notes()
    evaluate(folder, events=events, into=tmp_path / "split")
    assert any("differ in the top 2 of 4 layers" in note for note in events.notes)
    monkeypatch.setattr("breadth.execute.swapped.changed_top", lambda model, sums: None)
    evaluate(folder, into=tmp_path / "unsplit")
    split, unsplit = open_study(tmp_path / "split"), open_study(tmp_path / "unsplit")
    for step in (10, 20, 30):
        assert margins(split, step) == pytest.approx(margins(unsplit, step), abs=1e-3)


def test_what_is_done_is_not_done_again_and_more_can_be_added(evaluate, own, tmp_path):
    later = shutil.move(own / "checkpoint-30", tmp_path / "later")
    evaluate([own / "checkpoint-10", own / "checkpoint-20"])
    before = parts(tmp_path / "study")
    shutil.move(later, own / "checkpoint-30")
    events = Notes()
    outcome = evaluate(own, events=events)
    assert (events.steps, outcome.warnings) == ([30], [])
    after = parts(tmp_path / "study")
    assert len(after) == 3
    assert before.items() <= after.items()
    assert open_study(tmp_path / "study").runs[outcome.complete[0]].checkpoints == (10, 20, 30)


def test_deleted_checkpoints_still_belong_to_the_run(evaluate, own, tmp_path):
    name = evaluate(own).complete[0]
    shutil.rmtree(own / "checkpoint-10")
    assert evaluate(own).done_before == [name]
    assert open_study(tmp_path / "study").runs[name].checkpoints == (10, 20, 30)


def test_another_name_adds_a_model(evaluate, own, whole, tmp_path):
    first = evaluate(own).complete
    shutil.rmtree(own)  # which is fine: it was evaluated
    second = evaluate(whole, base=None)
    assert second.done_before == first
    assert set(open_study(tmp_path / "study").subjects["model"]) == {"lora", "full"}


def test_the_study_that_is_written_can_be_run(evaluate, own, tmp_path, monkeypatch):
    name = evaluate(own / "checkpoint-10").complete[0]
    monkeypatch.chdir(tmp_path / "study")
    text = Path("study.yaml").read_text()
    assert "checkpoints: [../runs/lora/checkpoint-10]" in text
    assert run("study.yaml", into=".").done_before == [name]


def test_a_study_file_names_checkpoints_relative_to_itself(tmp_path, own, tiny_base):
    shutil.copytree(tiny_base, tmp_path / "base")
    entry = {"checkpoints": "runs/lora/checkpoint-*", "base": "base", "trained_on": "plain"}
    study = {"name": "s", "models": [entry], "recipe": {"method": "evaluate"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({**study, "evaluate": {"on": list(ON), "items": ITEMS}}))
    (name,) = run(tmp_path / "s.yaml", into=tmp_path / "study").complete
    assert name.startswith("lora-plain-evaluate-")
    assert open_study(tmp_path / "study").subjects["step"].to_list() == [10, 20, 30]


def test_a_checkpoint_that_was_replaced_is_noticed(evaluate, own, adapters, tmp_path):
    evaluate(own)
    before = parts(tmp_path / "study")
    target = own / "checkpoint-20" / "adapter_model.safetensors"
    shutil.copy2(adapters / "checkpoint-20" / "adapter_model.safetensors", target)  # the same weights
    evaluate(own)
    shutil.copy(adapters / "checkpoint-30" / "adapter_model.safetensors", target)
    with pytest.raises(InputError, match=r"checkpoint-20: its weights are not those that were evaluated as step 20"):
        evaluate(own)
    assert parts(tmp_path / "study") == before


def test_a_base_model_that_was_replaced_is_noticed(evaluate, own, tiny_base, tmp_path):
    base = shutil.copytree(tiny_base, tmp_path / "base")
    evaluate([own / "checkpoint-10"], base=base)
    write_tiny_model(base, seed=9)
    with pytest.raises(InputError, match=r"base: its weights are not those that were evaluated as step 10"):
        evaluate(own, base=base)


def test_a_model_whose_settings_were_changed_is_noticed(evaluate, whole, tmp_path):
    own = shutil.copytree(whole, tmp_path / "whole")
    evaluate(own / "checkpoint-10")
    path = own / "checkpoint-10" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rms_norm_eps": 0.5}))
    with pytest.raises(InputError, match=r"checkpoint-10: its weights are not those that were evaluated as step 10"):
        evaluate(own / "checkpoint-10")


def test_a_damaged_record_of_weights_loses_nothing(evaluate, own, tmp_path):
    evaluate([own / "checkpoint-10", own / "checkpoint-20"])
    (path,) = (tmp_path / "study").glob("runs/*/weights.json")
    path.write_text("{")
    assert len(evaluate(own).complete) == 1
    assert set(json.loads(path.read_text())) == {"10", "20", "30", "checksum"}


def test_a_half_written_checkpoint_is_left_out_and_named(evaluate, own, tmp_path):
    weights = own / "checkpoint-30" / "adapter_model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    evaluate(own)
    assert open_study(tmp_path / "study").subjects["step"].to_list() == [10, 20]
    weights.write_bytes(content)
    evaluate(own)
    assert open_study(tmp_path / "study").subjects["step"].to_list() == [10, 20, 30]


def test_following_picks_up_what_a_trainer_writes(evaluate, own, tmp_path, monkeypatch):
    """The second checkpoint is half there first; the third is written once the second was evaluated."""
    monkeypatch.setattr(evaluating, "POLL", 0.02)
    later = {step: Path(shutil.move(own / f"checkpoint-{step}", tmp_path / f"later-{step}")) for step in (20, 30)}
    target, looks = own / "checkpoint-20", []

    class Trainer(Notes):
        def note(self, text):
            """Goes on whenever nothing is new."""
            if "waiting" not in text:
                return
            looks.append(list(self.steps))
            if len(looks) == 1:
                target.mkdir()
                shutil.copy(later[20] / "adapter_config.json", target)
                content = (later[20] / "adapter_model.safetensors").read_bytes()
                (target / "adapter_model.safetensors").write_bytes(content[:-8])
            elif len(looks) == 3:
                shutil.rmtree(target)
                shutil.move(later[20], target)
            elif self.steps == [10, 20] and later[30].exists():
                shutil.move(later[30], own / "checkpoint-30")

    trainer = Trainer()
    outcome = evaluate(own / "checkpoint-10", follow=True, until=30, events=trainer)
    assert looks[:3] == [[10]] * 3
    assert trainer.steps == [10, 20, 30]
    assert open_study(tmp_path / "study").runs[outcome.complete[0]].checkpoints == (10, 20, 30)


def test_a_later_checkpoint_that_differs_further_down_lowers_the_split(
    evaluate, tiny_base, tmp_path, write_adapters, write_whole, monkeypatch
):
    upper = write_whole(tiny_base, tmp_path / "full", steps=(10, 20), pick=lambda name: "layers.3." in name)
    lower = write_whole(upper / "checkpoint-20", tmp_path / "more", steps=(30,), pick=lambda name: "layers.1." in name)
    monkeypatch.setattr(evaluating, "POLL", 0.02)
    events = Notes()

    class Trainer(Notes):
        def checkpoint(self, run, step, answers):
            events.steps.append(step)
            if step == 20:
                shutil.move(lower / "checkpoint-30", upper / "checkpoint-30")

        def note(self, text):
            events.notes.append(text)

    evaluate(upper, follow=True, until=30, events=Trainer(), base=None)
    assert events.steps == [10, 20, 30]
    tops = [note.split(" of ")[0][-1] for note in events.notes if "differ in the top" in note]
    assert tops == ["1", "3"]
    evaluate(upper / "checkpoint-30", into=tmp_path / "alone", base=None, name="full")
    alone, followed = open_study(tmp_path / "alone"), open_study(tmp_path / "study")
    assert margins(followed, 30) == pytest.approx(margins(alone, 30), abs=1e-3)


def test_following_waits_for_the_first_and_gives_up(evaluate, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluating, "POLL", 0.01)
    with pytest.raises(InputError, match="no checkpoint was written within"):
        evaluate(tmp_path / "nothing" / "checkpoint-*", follow=True, patience=0.0005)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no checkpoint was written within"):
        evaluate(tmp_path / "empty", follow=True, patience=0.0005)


def test_following_ends_when_nothing_new_comes(evaluate, own, monkeypatch):
    monkeypatch.setattr(evaluating, "POLL", 0.01)
    assert len(evaluate(own, follow=True, patience=0.0005).complete) == 1


def test_options_that_are_wrong_are_named_as_options(evaluate, own, tmp_path):
    for options, message in (
        ({"on": "plian"}, r"on=: unknown data set 'plian'. Did you mean plain"),
        ({"base": "smolm2-135m"}, r"base=: unknown model 'smolm2-135m'. Did you mean smollm2-135m"),
        ({"trained_on": "mnli"}, r"trained_on=: 'mnli' is not evaluated"),
        ({"items": 1}, r"items=: 1 is too small"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(own, **options)
    assert not (tmp_path / "study").exists()


def test_other_test_sets_in_the_same_directory_are_refused(evaluate, own, tmp_path):
    evaluate(own)
    before = parts(tmp_path / "study")
    with pytest.raises(InputError, match=r"would orphan 1 of its runs. Changed: evaluate.on") as error:
        evaluate(own, on=("plain", "science"))
    assert str(error.value).endswith("models and checkpoints can be added at any time")
    assert parts(tmp_path / "study") == before


def test_a_tokenizer_that_was_replaced_after_evaluation(evaluate, whole, tmp_path):
    own = shutil.copytree(whole, tmp_path / "runs" / "whole")
    evaluate(own, base=None)
    before = parts(tmp_path / "study")
    path = own / "checkpoint-20" / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "normalizer": {"type": "Lowercase"}}))
    with pytest.raises(InputError, match="have different tokenizers"):
        evaluate(own, base=None)
    for step in (10, 30):
        shutil.copy(path, own / f"checkpoint-{step}" / "tokenizer.json")
    with pytest.raises(InputError, match="checkpoint-10: its tokenizer is not the one that was evaluated as step 10"):
        evaluate(own, base=None)
    assert parts(tmp_path / "study") == before


def test_a_tokenizer_with_more_tokens_than_the_model(evaluate, whole, tmp_path):
    own = shutil.copytree(whole, tmp_path / "runs" / "whole")
    for folder in own.iterdir():
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["model"]["vocab"] = {token: 9000 + k for token, k in tokenizer["model"]["vocab"].items()}
        path.write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match=r"plain: the tokenizer of .* gives token 9,\d+, and the model has only"):
        evaluate(own, base=None)


def test_checkpoints_of_unknown_training_are_correlated_with_a_control(evaluate, own, tmp_path):
    evaluate(own, on=("plain", "negation", "science"))
    with pytest.raises(InputError, match=r"what its runs were trained on is unknown, .* name it with control="):
        breadth.correlate(tmp_path / "study")
    assert breadth.correlate(tmp_path / "study", control="plain").pairs.height == 1
    assert breadth.correlate(tmp_path / "study", adjust="none").pairs.height == 3
    raw = carry_over(open_study(tmp_path / "study"))
    assert "the in-domain score is not known, so nothing is taken into account; name it with --control" in raw.reasons
    assert raw.verdict.question == Question.SPEAKS_FOR
    assert raw.verdict.facts["pairs with too_few_rows"] == 3, "it was tried with all three"


def test_mixed_precision_gives_the_answers_of_float32(evaluate, own, tmp_path, monkeypatch):
    monkeypatch.setattr("breadth.lm.placement.has_bfloat16", lambda: True)
    notes = Notes()
    for dtype in ("float32", "mixed"):
        evaluate(own, dtype=dtype, into=tmp_path / dtype, events=notes)
    assert "mixed: as requested" in notes.notes
    exact, mixed = (
        open_study(tmp_path / dtype).responses.sort("subject", "item").collect() for dtype in ("float32", "mixed")
    )
    assert mixed.drop("subject", "margin").equals(exact.drop("subject", "margin"))
    before = parts(tmp_path / "mixed")
    assert len(evaluate(own, dtype="mixed", into=tmp_path / "mixed").done_before) == 1
    assert parts(tmp_path / "mixed") == before
    with pytest.raises(InputError, match=r"^dtype=: 'half' is not one of auto, float32, mixed, bfloat16, float16"):
        evaluate(own, dtype="half", into=tmp_path / "half")


def test_a_cluster_refuses_mixed_precision(tmp_path):
    from breadth.execute import plan_study
    from breadth.execute.cluster.executor import RayExecutor
    from breadth.study import read_study_file

    study = {
        "name": "mixed", "models": ["tiny"], "train": {"set": "plain", "examples": 8},
        "recipe": {"method": "lora", "steps": 1, "dtype": "mixed"}, "evaluate": {"on": ["plain"], "items": 4},
    }  # fmt: skip
    write_tiny_model(tmp_path / "tiny")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    plan = plan_study(read_study_file(tmp_path / "study.yaml"), tmp_path / "study", dry=True)
    with pytest.raises(InputError, match=r'on="ray" does not compute with dtype: mixed; set recipe.dtype to float32'):
        RayExecutor().check_plan(plan)


def test_a_cluster_refuses_checkpoints(tmp_path, own, tiny_base):
    from breadth.execute import plan_study
    from breadth.execute.cluster.executor import RayExecutor

    file = evaluating.checkpoint_study([str(own)], on=ON, into=tmp_path / "study", base=str(tiny_base), items=ITEMS)
    with pytest.raises(InputError, match='on="ray" is for runs that train'):
        RayExecutor().check_plan(plan_study(file, tmp_path / "study"))
