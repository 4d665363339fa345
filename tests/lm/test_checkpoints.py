import json
import os
import shutil
import subprocess
import sys

import pytest

from breadth.errors import InputError, NothingFoundError
from breadth.lm.checkpoints import (
    Checkpoint,
    base_of,
    expand_braces,
    find_checkpoints,
    find_revisions,
    is_settled,
    pattern_of,
    readable,
    step_of,
    weight_paths,
)


def folders(root, *names):
    for name in names:
        (root / name).mkdir(parents=True)
    return root


def steps(patterns, base):
    return [each.step for each in find_checkpoints(patterns, base)]


def test_a_glob_a_list_and_a_directory_give_the_same_checkpoints_in_order(tmp_path):
    folders(tmp_path, "a/checkpoint-1000", "a/checkpoint-500", "a/logs")
    names = ["a/checkpoint-500", "a/checkpoint-1000"]
    assert steps(["a/checkpoint-*"], tmp_path) == steps(names, tmp_path) == steps(["a"], tmp_path) == [500, 1000]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500), ("step_500", 500), ("step500", 500), ("global_step7", 7), ("step1000-tokens2B", 1000),
        ("iter-20", 20), ("epoch=1-step=30", 30), ("0500", 500), ("final", None), ("v2", None), ("footstep", None),
        ("qwen-checkpoint-1.5b-step-100", 100), ("checkpoint-7b", None), ("step-5-checkpoint-2", 5), ("ckpt1-iter9", 9),
    ],
)  # fmt: skip
def test_steps_are_read_from_names(tmp_path, name, step):
    assert step_of(tmp_path / name) == step


def test_a_name_without_a_step_takes_it_from_the_trainers_state(tmp_path):
    folders(tmp_path, "final")
    (tmp_path / "final" / "trainer_state.json").write_text(json.dumps({"global_step": 1500}))
    assert steps(["final"], tmp_path) == [1500]


def test_a_path_whose_step_cannot_be_told(tmp_path, adapters):
    shutil.copytree(adapters / "checkpoint-10", tmp_path / "runs" / "final")
    (tmp_path / "runs" / "final" / "trainer_state.json").unlink()
    with pytest.raises(InputError, match=r"final: its step is unknown; name the directory as checkpoint-500"):
        find_checkpoints(["runs/final"], tmp_path)
    with pytest.raises(InputError, match=r"runs: its directories do not say their steps \(final\); name them as"):
        find_checkpoints(["runs"], tmp_path)


def test_a_directory_of_checkpoints_whose_steps_are_not_in_checkpoint_names(tmp_path, adapters):
    for name, step in (("a", 7), ("b", 9)):
        folder = shutil.copytree(adapters / "checkpoint-10", tmp_path / "states" / name)
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
        (shutil.copytree(folder, tmp_path / "numbers" / f"{step}00") / "trainer_state.json").unlink()
    assert steps(["states"], tmp_path) == [7, 9]
    assert steps(["numbers"], tmp_path) == [700, 900]


def test_files_that_are_missing_are_named(tmp_path, adapters, whole):
    for name, source, gone in (("a", adapters, "adapter_config.json"), ("b", whole, "config.json")):
        folder = shutil.copytree(source, tmp_path / name)
        (folder / "checkpoint-20" / gone).unlink()
        kept, left_out = readable(find_checkpoints([name], tmp_path))
        assert [each.step for each in kept] == [10, 30]
        assert len(left_out) == 1
        assert f"no {gone}, so it is left out" in left_out[0]
    mixed = shutil.copytree(adapters, tmp_path / "c")
    shutil.copy(whole / "checkpoint-20" / "config.json", mixed / "checkpoint-20")
    assert "a config.json without weights; delete config.json" in readable(find_checkpoints(["c"], tmp_path))[1][0]


def test_a_directory_that_a_trainer_has_not_written_to_yet(tmp_path):
    with pytest.raises(NothingFoundError, match=r"out: holds no checkpoints; give the directory that a trainer"):
        find_checkpoints(["out"], folders(tmp_path, "out"))


def test_two_checkpoints_with_the_same_step(tmp_path):
    folders(tmp_path, "a/checkpoint-5", "b/checkpoint-5")
    with pytest.raises(InputError, match="are both step 5; leave one out"):
        find_checkpoints(["*/checkpoint-*"], tmp_path)


def test_one_directory_given_twice_is_one_checkpoint(tmp_path):
    folders(tmp_path, "a/checkpoint-5")
    assert steps(["a/checkpoint-5", "a/checkpoint-*", "a"], tmp_path) == [5]


@pytest.mark.parametrize("pattern", ["a/checkpoint-*", "nowhere"])
def test_nothing_that_matches(tmp_path, pattern):
    with pytest.raises(NothingFoundError, match=r"matches no directory|there is no such directory"):
        find_checkpoints([pattern], tmp_path)


def test_braces_are_expanded_as_a_shell_does_it():
    assert expand_braces("step{1000..3000..1000}") == ["step1000", "step2000", "step3000"]
    assert expand_braces("a{0,5}-b{1..2}") == ["a0-b1", "a0-b2", "a5-b1", "a5-b2"]
    assert expand_braces("step{3..1}") == ["step3", "step2", "step1"]
    assert len(find_revisions(["EleutherAI/pythia-160m@step{1000..143000..1000}"])) == 143
    for hostile in ("step{0..999999999999}", "{1..99999}{1..99999}"):
        with pytest.raises(InputError, match="revisions"):
            expand_braces(hostile)


@pytest.mark.parametrize("pattern", ["pythia-160m@step1", "a/b", "a/b@main", "a/b@../step1 x"])
def test_revisions_that_cannot_be_told(pattern):
    with pytest.raises(InputError, match=r"OWNER/REPO@REVISION|its step is unknown"):
        find_revisions([pattern])


def test_a_followed_checkpoint_stands_for_those_after_it():
    assert pattern_of("runs/a/checkpoint-500/") == "runs/a/checkpoint-*"
    assert pattern_of("runs/a") == "runs/a"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "adapter_model.bin", "model.pt"])
def test_pickled_weights_are_refused(tmp_path, name):
    folder = folders(tmp_path, "checkpoint-5") / "checkpoint-5"
    config = "adapter_config.json" if name.startswith("adapter") else "config.json"
    (folder / config).write_text("{}")
    (folder / name).write_bytes(b"x")
    with pytest.raises(InputError, match=r"pickled, which can run code"):
        weight_paths(folder)


def test_a_trainers_own_pickles_do_not_matter(tmp_path, adapters):
    folder = shutil.copytree(adapters / "checkpoint-10", tmp_path / "checkpoint-10")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        (folder / name).write_bytes(b"x")
    assert [path.name for path in weight_paths(folder)] == ["adapter_model.safetensors"]


def test_a_checkpoint_that_is_being_written_is_left_out_until_it_is_whole(tmp_path, adapters):
    content = (adapters / "checkpoint-10" / "adapter_model.safetensors").read_bytes()
    folder = folders(tmp_path, "checkpoint-10") / "checkpoint-10"
    config = (adapters / "checkpoint-10" / "adapter_config.json").read_text()
    (folder / "adapter_config.json").write_text(config)
    there = find_checkpoints(["checkpoint-*"], tmp_path)
    with pytest.raises(NothingFoundError, match=r"has no weights"):
        readable(there)
    (folder / "adapter_model.safetensors").write_bytes(content[:-1])
    with pytest.raises(NothingFoundError, match=r"incomplete weights"):
        readable(there)
    (folder / "adapter_model.safetensors").write_bytes(content)
    assert readable(there) == ([there[0]], [])
    assert not is_settled(folder)  # it may still change
    (folder / "trainer_state.json").write_text("{}")
    assert is_settled(folder)
    (folder / "trainer_state.json").unlink()
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    assert is_settled(folder)


def test_shards_that_are_not_all_there(tmp_path):
    folder = folders(tmp_path, "checkpoint-10") / "checkpoint-10"
    (folder / "config.json").write_text("{}")
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(NothingFoundError, match=r"lacks model-1-of-2.safetensors, model-2-of-2.safetensors"):
        readable([Checkpoint(10, str(folder))])


def test_the_base_of_an_adapter(tmp_path, tiny_base):
    folder = folders(tmp_path, "checkpoint-5") / "checkpoint-5"
    checkpoint, config = Checkpoint(5, str(folder)), folder / "adapter_config.json"
    config.write_text(json.dumps({"base_model_name_or_path": str(tiny_base)}))
    assert base_of(checkpoint, None, tmp_path) == str(tiny_base)
    assert base_of(checkpoint, "smollm2-135m", tmp_path) == "smollm2-135m"
    config.write_text(json.dumps({"base_model_name_or_path": "someone/model-that-is-not-here"}))
    with pytest.raises(InputError, match=r"someone/model-that-is-not-here', which is not here; give its base model"):
        base_of(checkpoint, None, tmp_path)
    config.write_text("{}")
    with pytest.raises(InputError, match="does not name its base model"):
        base_of(checkpoint, None, tmp_path)


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "[]", "{" + " " * 1_000_001 + "}"])
def test_a_hostile_configuration_is_one_message(tmp_path, content):
    folder = folders(tmp_path, "checkpoint-5") / "checkpoint-5"
    (folder / "adapter_config.json").write_text(content)
    with pytest.raises(InputError, match=r"adapter_config\.json"):
        base_of(Checkpoint(5, str(folder)), None, tmp_path)


def test_a_revision_comes_from_the_hubs_cache(tmp_path, tiny_base):
    """The real code against a cache as the Hub's library lays it out: there is no network here."""
    commit, root = "a" * 40, tmp_path / "hub" / "models--org--tiny"
    (root / "snapshots").mkdir(parents=True)
    (root / "snapshots" / commit).symlink_to(tiny_base, target_is_directory=True)
    (root / "refs").mkdir()
    (root / "refs" / "step10").write_text(commit)
    code = (
        "from breadth.lm.checkpoints import find_revisions\n"
        "from breadth.errors import InputError\n"
        "there, absent = find_revisions(['org/tiny@step{10..20..10}'])\n"
        "print((there.folder() / 'model.safetensors').is_file(), there.is_local)\n"
        "try: absent.folder()\n"
        "except InputError as error: print(error)\n"
    )
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert out.stdout.startswith("True False\norg/tiny@step20: "), out.stderr
    assert "cannot be reached" in out.stdout
