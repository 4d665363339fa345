import subprocess
import sys

import pytest

from breadth.errors import InputError
from breadth.lm.models import BUILT_IN, built_in_model, cache_root, describe_models, fault_of, model_folder


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "own"
    monkeypatch.delenv("BREADTH_CACHE")
    assert cache_root() == tmp_path / "xdg" / "breadth"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_folder("smollm2-135m") == tmp_path / ".cache" / "breadth" / "models" / "smollm2-135m"


def test_the_table_says_how_to_get_what_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path))
    frame = describe_models()
    assert frame.columns == ["name", "parameters", "licence", "source", "available"]
    assert frame["name"].to_list() == list(BUILT_IN)
    assert frame["available"].to_list() == [f"breadth get {name}" for name in BUILT_IN]


def test_the_table_says_what_is_there(smollm2):
    ready = dict(describe_models().select("name", "available").iter_rows())
    assert ready["smollm2-135m"] == "yes"
    assert fault_of(smollm2) is None


def test_every_requirement_is_pinned_and_summed():
    for model in BUILT_IN.values():
        assert all("==" in package for package in model.packages)
        assert all(len(wheel.sha256) == 64 for wheel in model.wheels)
        assert any(wheel.chunk for wheel in model.wheels)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"no built-in model 'smolm2'\. Did you mean smollm2-135m\?.*gemma3-270m"):
        built_in_model("smolm2")


def test_the_list_needs_no_torch():
    code = (
        "import sys; from breadth.lm.models import describe_models; describe_models(); "
        "print(*({'torch', 'transformers'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""
