"""`breadth evaluate` as a user types it: what it prints, and one message with exit code 2 for each mistake."""

import json
import shutil

import pytest

from breadth.records import open_study


@pytest.fixture
def command(breadth, tmp_path, tiny_base):
    def call(*arguments, ok=True, base=tiny_base):
        given = [*arguments, "--on", "plain,negation", "--items", 8, "--into", tmp_path / "study"]
        return breadth("evaluate", *given, *([] if base is None else ["--base", base]), ok=ok)

    return call


@pytest.fixture
def own(tmp_path, adapters):
    return shutil.copytree(adapters, tmp_path / "lora")


def refused(out):
    assert out.returncode == 2, out.stderr
    assert "Traceback" not in out.stderr
    assert sum(line.startswith("breadth: ") for line in out.stderr.splitlines()) == 1, out.stderr
    return out.stderr


def test_a_shells_glob_is_evaluated_and_reported(command, breadth, own, tmp_path):
    out = command(*sorted(own.glob("checkpoint-*")), "--trained-on", "plain")
    assert "Checkpoints: 3, 0 of them done" in out.stdout.replace("\n", " ")
    assert "runs: 1 done now" in out.stdout
    assert open_study(tmp_path / "study").subjects["step"].to_list() == [10, 20, 30]
    again = command(own, "--trained-on", "plain")
    assert "runs: 1 done before" in again.stdout
    page = tmp_path / "page.html"
    breadth("report", tmp_path / "study", "--out", page)
    assert "lora" in page.read_text()


def test_a_dry_run_writes_nothing(command, own, tmp_path):
    out = command(own, "--dry-run")
    assert "Nothing was run" in out.stdout
    assert "It should take about" in out.stdout
    assert not (tmp_path / "study").exists()


def test_following_ends_at_a_step(command, own, tmp_path):
    out = command(own / "checkpoint-10", "--follow", "--until", 30)
    assert "runs: 1 done now" in out.stdout
    assert "checkpoints: [../lora/checkpoint-*]" in (tmp_path / "study" / "study.yaml").read_text()


def test_a_glob_that_matches_nothing(command, tmp_path):
    assert "matches no directory" in refused(command(tmp_path / "nothing-*", ok=False))


def test_checkpoints_of_different_shapes(command, own, tiny_base, write_adapters):
    write_adapters(tiny_base, own, steps=(40,), rank=8)
    assert "have different shapes" in refused(command(own, ok=False))


def test_an_adapter_without_its_base(command, own):
    for path in own.glob("*/adapter_config.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": "someone/gone"}))
    assert "adapter of 'someone/gone', which is not here; give its base model" in refused(
        command(own, ok=False, base=None)
    )


def test_an_adapter_of_another_base(command, own, tmp_path):
    from breadth.lm import write_tiny_model

    other = write_tiny_model(tmp_path / "opt", "opt")
    assert "is not an adapter of" in refused(command(own, ok=False, base=other))


def test_pickled_weights(command, own):
    (own / "checkpoint-20" / "adapter_model.safetensors").rename(own / "checkpoint-20" / "adapter_model.bin")
    assert "its weights are pickled" in refused(command(own, ok=False))


def test_two_checkpoints_with_the_same_step(command, own):
    shutil.copytree(own / "checkpoint-10", own / "step-10")
    assert "are both step 10" in refused(command(own, ok=False))


def test_a_path_whose_step_cannot_be_told(command, own):
    (own / "checkpoint-10").rename(own / "final")
    (own / "final" / "trainer_state.json").unlink()
    assert "final: its step is unknown" in refused(command(own / "final", ok=False))


def test_options_of_following_without_it(command, own):
    assert "--until is for --follow" in refused(command(own, "--until", 5, ok=False))
