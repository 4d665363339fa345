"""The file that `breadth init` writes: valid, the same study, and a comment for every key."""

import re

import pytest

from breadth.errors import InputError
from breadth.study import StudySpec, expand, init_study, key_tables, read_study_file, resolved_study, shipped_studies
from breadth.study.document import read_document
from breadth.study.sections import sections
from breadth.study.template import meaning


@pytest.mark.parametrize("source", shipped_studies())
def test_the_same_study_under_another_name(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    init_study(tmp_path / "my-study.yaml", source)
    file, shipped = read_study_file("my-study.yaml"), read_study_file(source)
    assert file.name == "my-study"
    assert resolved_study(file.study) == resolved_study(shipped.study) | {"name": "my-study"}
    assert [run.name for run in expand(file)] == [run.name for run in expand(shipped)]


@pytest.mark.parametrize("source", shipped_studies())
def test_every_key_is_there_with_its_description(tmp_path, source):
    init_study(tmp_path / "s.yaml", source)
    text = (tmp_path / "s.yaml").read_text()
    comments = " ".join(re.findall(r"# ([^#\n]*)$", text, re.MULTILINE))
    for prefix, section in sections(StudySpec):
        for key, field in section.all_fields().items():
            if prefix != "models[].":  # models may be names alone
                assert re.search(rf"^[ #-]*{key}:", text, re.MULTILINE), f"{prefix}{key}"
                assert " ".join(meaning(field).split()) in comments, f"{prefix}{key}"
    assert max(map(len, text.splitlines())) <= 120
    for comment in re.findall(r"# (.*)$", shipped_studies()[source].read_text(), re.MULTILINE):
        if source not in comment:  # commands in comments name the new file
            assert comment[:40] in text


def test_comments_name_the_new_file(tmp_path):
    init_study(tmp_path / "mine.yaml", "mnli-levels")
    text = (tmp_path / "mine.yaml").read_text()
    assert "breadth run mine.yaml --data DIR" in text
    assert str(tmp_path) not in text
    assert "breadth transfer mine\n" in text


def test_what_is_behind_a_hash_is_the_default(tmp_path):
    """Without the # before its keys, the file is still the same study."""
    file = init_study(tmp_path / "s.yaml", "small")
    lines = (tmp_path / "s.yaml").read_text().splitlines()
    keys = [line for line in lines if re.match(r" {2}# \w+: [^.]", line)]
    assert len(keys) > 15
    text = "\n".join(line.replace("# ", "", 1) if line in keys else line for line in lines)
    assert StudySpec.model_validate(read_document(text, "s.yaml").value) == file.study
    assert "dropout: 0.0" in text
    assert "\n  dropout: 0.0" in text


def test_what_an_interrupted_call_wrote_is_kept(tmp_path):
    path = tmp_path / "s.yaml"
    init_study(path, "small")
    written = path.stat()
    assert init_study(path, "small").name == "s"
    assert path.stat() == written


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("precious")
    with pytest.raises(InputError, match=r"s\.yaml: exists already and is not overwritten; choose another file"):
        init_study(path, "small")
    assert path.read_text() == "precious"
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        init_study(tmp_path / "nowhere" / "s.yaml", "small")
    with pytest.raises(InputError, match=r'source="smal": is not a study .* Did you mean small\? Studies: gen'):
        init_study(tmp_path / "t.yaml", "smal")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.yaml"]


@pytest.mark.parametrize(("file", "name"), [("my study.yaml", "my-study"), ("_.yaml", "study"), ("a.b.yaml", "a.b")])
def test_the_name_is_that_of_the_file(tmp_path, file, name):
    assert init_study(tmp_path / file, "small").name == name


def test_every_key_is_in_the_tables():
    text = key_tables()
    for prefix, section in sections(StudySpec):
        assert all(f"| `{prefix}{name}` |" in text for name in section.all_fields())
    assert "| `train.examples` | `[128]` |" in text
    assert "| `evaluate.on` | required |" in text
    assert "one of `lora`, `ia3`, `bitfit`, `full`, `zero-shot`, `few-shot`" in text
