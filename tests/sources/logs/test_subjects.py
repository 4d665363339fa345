import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.sources.logs.subjects import (
    SubjectLog,
    fill_unknown_sha,
    name_subjects,
    short_model_names,
    split_by_settings,
)

from ..conftest import make_log, subject_log


def test_the_revision_comes_before_the_model_and_the_path():
    one = subject_log([1], model="out/checkpoint-5", path="logs/step9/a.json", subject={"revision": "step7"})
    assert (one.step, one.model, one.own) == (7, "out/checkpoint-5", {})
    one = subject_log([1], model="out/checkpoint-5", path="logs/step9/a.json")
    assert (one.step, one.model) == (5, "out")
    assert subject_log([1], path="logs/step9/a.json").step == 9
    assert subject_log([1], path="logs/samples_step9.json").step is None  # a file may be called after its task
    assert subject_log([1], step=3, subject={"revision": "step7"}).step == 3


def test_a_model_that_is_nothing_but_its_step_keeps_its_name():
    one = subject_log([1], model="checkpoint-5")
    assert (one.step, one.model) == (5, "checkpoint-5")


@pytest.mark.parametrize(
    "model", ["step3", "stepfun-ai/step3", "openrouter/stepfun-ai/Step-3", "stepfun-ai/Step3-VL-10B", "step-2-16k"]
)
def test_models_that_are_called_step(model):
    sanitized = model.replace("/", "__")
    one = subject_log([1], model=model, path=f"logs/{sanitized}/samples.jsonl")
    assert (one.step, one.model) == (None, model)
    one = subject_log([1], model=model, path=f"logs/step40/{sanitized}/samples.jsonl")
    assert (one.step, one.model) == (40, model)
    one = subject_log([1], model=model, subject={"revision": "step3"})
    assert (one.step, one.model, one.own) == (3, model, {})
    one = subject_log([1], model=f"{model}/checkpoint-3")
    assert (one.step, one.model) == (3, model)


@pytest.mark.parametrize(
    ("model", "step"),
    [("m/step3", 3), ("./step3", 3), ("runs/m/step3", 3), ("m-step3", 3), ("step30", 30), ("m/step0-unsharded", 0)],
)
def test_paths_and_names_that_end_in_a_step(model, step):
    assert subject_log([1], model=model).step == step


def test_the_rest_of_a_revision_tells_runs_apart():
    one = subject_log([1], subject={"revision": "stage2-step7-tokens1B"})
    assert (one.step, one.own) == (7, {"revision": "stage2"})


def test_attributes_without_a_value_are_dropped():
    assert subject_log([1], subject={"revision": None, "adapter": "", "chat": False, "epoch": 0}).own == {
        "chat": False,
        "epoch": 0,
    }


def test_steps_of_a_model_in_a_directory(tmp_path):
    state = tmp_path / "final" / "trainer_state.json"
    state.parent.mkdir()
    state.write_text(json.dumps({"global_step": 1234}))
    assert subject_log([1], model=str(state.parent)).step == 1234
    for damaged in ('{"global_step": "x"}', "{}", "[]", "{", "null"):
        state.write_text(damaged)
        assert subject_log([1], model=str(state.parent)).step is None


def test_steps_by_a_pattern_of_the_user():
    pattern = re.compile(r"it(\d+)k")
    one = subject_log([1], model="lab/m-it20k", subject={"revision": "x"}, pattern=pattern)
    assert (one.step, one.model, one.own) == (20, "lab/m", {"revision": "x"})
    one = subject_log([1], model="m", subject={"revision": "seed1-it30k"}, step=5, pattern=pattern)
    assert (one.step, one.own) == (30, {"revision": "seed1"})
    assert subject_log([1], path="logs/it40k/a.json", pattern=pattern).step == 40
    assert (
        subject_log([1], model="step70", pattern=pattern).step == 70
    )  # the usual words where the pattern finds nothing
    assert subject_log([1], pattern=re.compile("x(y)?")).step is None
    assert subject_log([1], model="xab", pattern=re.compile("x(.*)")).step is None
    assert subject_log([1], model="s" + "1" * 50, pattern=re.compile(r"s(\d+)")).step is None


def test_names_that_the_user_gives():
    names = {"logs/a": "base", "logs/b/one.json": "tuned"}
    assert subject_log([1], path="logs/a/deep/x.json", names=names).model == "base"
    assert subject_log([1], path="logs/b/one.json", subject={"revision": "x"}, names=names).own == {}
    assert subject_log([1], path="logs/ab/x.json", names=names).model == "m"
    one = subject_log([1], path="logs/a/step30/x.json", names=names)
    assert (one.model, one.step) == ("base", 30)


def test_settings_tell_subjects_apart_only_where_items_overlap():
    five, twenty = subject_log([1, 0], settings={"num_fewshot": 5}), subject_log([1, 1], settings={"num_fewshot": 25})
    other = subject_log([1, 0], testset="other", settings={"num_fewshot": 0})
    split_by_settings([five, other])
    assert five.attributes == other.attributes == {}
    parts = [subject_log([1], items=[name], settings={"fewshot_seed": seed}) for seed, name in enumerate("ab")]
    split_by_settings(parts)
    assert parts[0].identity == parts[1].identity
    split_by_settings([five, twenty, other])
    assert [one.attributes for one in (five, twenty, other)] == [
        {"num_fewshot": 5},
        {"num_fewshot": 25},
        {"num_fewshot": 0},
    ]


def test_settings_of_different_models_do_not_matter():
    pair = [subject_log([1], model=model, settings={"num_fewshot": k}) for k, model in enumerate("ab")]
    split_by_settings(pair)
    assert all(one.attributes == {} for one in pair)


def with_sha(sha, **described):
    return subject_log([1], subject={"model_sha": sha, **described})


def test_a_hash_that_a_log_does_not_state_is_that_of_the_other_logs():
    logs = [with_sha("a"), with_sha(None), with_sha(None, revision="v2"), with_sha(None, chat="x")]
    fill_unknown_sha(logs)
    assert [one.attributes.get("model_sha") for one in logs] == ["a", "a", None, "a"]
    assert logs[1].own == {}
    assert names_of(*logs[:2], logs[3]) == ["m", "m", "m chat=x"]


def test_a_hash_that_is_ambiguous_stays_unknown():
    logs = [with_sha("a"), with_sha("b"), with_sha(None)]
    fill_unknown_sha(logs)
    assert len(set(names_of(*logs))) == 3


def names_of(*entries):
    name_subjects(entries)
    return [one.subject for one in entries]


def test_the_shortest_names_are_shown():
    assert names_of(subject_log([1], model="lab/a"), subject_log([1], model="lab/b")) == ["a", "b"]
    assert names_of(subject_log([1], model="x/a"), subject_log([1], model="y/a")) == ["x/a", "y/a"]
    revisions = [subject_log([1], model="lab/a", subject={"revision": name, "dtype": "half"}) for name in ("v1", "v2")]
    assert names_of(*revisions) == ["a revision=v1", "a revision=v2"]
    shots = [subject_log([1], settings={"num_fewshot": k}) for k in (0, 5)]
    split_by_settings(shots)
    assert names_of(*shots) == ["m 0-shot", "m 5-shot"]
    chat = [subject_log([1], subject={"chat": True}), subject_log([1])]
    assert names_of(*chat) == ["m chat", "m"]
    assert names_of(
        subject_log([1], subject={"revision": "v1"}), subject_log([1], testset="b", subject={"revision": "v1"})
    ) == [
        "m",
        "m",
    ]


def test_long_values_are_shortened_where_that_tells_them_apart():
    long = "x" * 60
    one, other = names_of(
        subject_log([1], subject={"system": f"a{long}"}), subject_log([1], subject={"system": f"b{long}"})
    )
    assert len(one) < 40
    assert one.endswith("…")
    one, other = names_of(
        subject_log([1], subject={"system": f"{long}a"}), subject_log([1], subject={"system": f"{long}b"})
    )
    assert (one, other) == (f"m system={long}a", f"m system={long}b")


def test_checkpoints_of_one_run_share_its_name():
    shas = [subject_log([1], subject={"revision": f"step{k}", "model_sha": f"{k:012d}"}) for k in (1, 2, 3)]
    assert names_of(*shas) == ["m/1", "m/2", "m/3"]
    assert {one.run for one in shas} == {"m"}


def test_runs_differ_even_where_their_steps_do():
    seeds = [
        subject_log([1], subject={"revision": f"{seed}-step{k}"})
        for seed, k in (("s1", 1), ("s1", 2), ("s2", 3), ("s2", 4))
    ]
    assert names_of(*seeds) == ["m revision=s1/1", "m revision=s1/2", "m revision=s2/3", "m revision=s2/4"]
    assert [one.run for one in seeds] == ["m revision=s1"] * 2 + ["m revision=s2"] * 2


TEXT = st.text(st.sampled_from("ab/ \\=5(2)"), max_size=6)
SUBJECTS = st.lists(
    st.tuples(
        TEXT,
        st.none() | st.integers(0, 5),
        st.dictionaries(
            st.sampled_from(["k", "a", "num_fewshot"]), TEXT | st.integers(0, 5) | st.booleans(), max_size=2
        ),
    ),
    min_size=1,
    max_size=8,
)


@given(SUBJECTS)
def test_names_of_subjects_and_runs_are_distinct(subjects):
    entries = [SubjectLog(make_log([1]), "", model, step, own) for model, step, own in subjects]
    name_subjects(entries)
    subjects_of: dict[str, set] = {}
    models_of: dict[str, set] = {}
    for one in entries:
        subjects_of.setdefault(one.subject, set()).add(one.identity)
        models_of.setdefault(one.run, set()).add(one.model)
    assert len(subjects_of) == len({one.identity for one in entries})
    assert all(len(identities) == 1 for identities in subjects_of.values())
    assert all(len(models) == 1 for models in models_of.values())


@given(SUBJECTS)
def test_names_do_not_depend_on_repeated_logs(subjects):
    entries = [SubjectLog(make_log([1]), "", model, step, own) for model, step, own in subjects]
    twice = [SubjectLog(make_log([1]), "", model, step, own) for model, step, own in subjects * 2]
    assert names_of(*twice) == names_of(*entries) * 2


@given(st.sets(TEXT, min_size=1, max_size=8))
def test_short_names_are_distinct_ends(models):
    short = short_model_names(models)
    assert len(set(short.values())) == len(models)
    for model, name in short.items():
        parts = [part for part in re.split(r"[/\\]", model) if part]
        assert name == model or parts[len(parts) - len(name.split("/")) :] == name.split("/")
