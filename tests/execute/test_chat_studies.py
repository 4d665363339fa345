"""Studies in chat form: keys of the study file, names of runs, training and evaluation on a tiny model."""

import polars as pl
import pytest

from breadth.errors import InputError
from breadth.execute import run
from breadth.lm import load_model
from breadth.lm.tiny import write_tiny_model
from breadth.study import expand, parse_study, start_key

from .conftest import refused

CHATML = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
STUDY = """\
name: s
models: {models}
train: {{set: plain, examples: 8, seeds: 0}}
recipe: {{method: lora, layers: 2, lr: 1.0e-2, batch: 8, steps: 2}}
evaluate: {{on: [plain, negation], items: 8}}
"""


@pytest.fixture(scope="module")
def instruct(tmp_path_factory):
    """A tiny model whose tokenizer has a chat template."""
    folder = write_tiny_model(tmp_path_factory.mktemp("model") / "instruct")
    (folder / "chat_template.jinja").write_text(CHATML)
    return folder


@pytest.fixture
def read(tmp_path):
    return lambda text: parse_study(text, tmp_path / "s.yaml", tmp_path)


def study(*entries, more=""):
    return STUDY.format(models=f"[{', '.join(map(str, entries))}]") + more


def answers(folder):
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob("runs/*/step-*.parquet"))])


def test_chat_form_changes_prompts_answers_and_the_name_of_the_run(instruct, tmp_path, read):
    plain = read(study(instruct))
    chat = read(study(instruct, more="chat_template: auto\n"))
    system = read(study(f"{{name: {instruct}, system: Be brief.}}", more="chat_template: auto\n"))
    names = [expand(file)[0].name for file in (plain, chat, system)]
    assert len(set(names)) == 3
    margins = []
    for k, file in enumerate((plain, chat, system)):
        path = tmp_path / f"{k}.yaml"
        path.write_text(file.text)
        run(str(path), into=tmp_path / str(k))
        margins.append(answers(tmp_path / str(k))["margin"].to_list())
    assert margins[0] != margins[1] != margins[2]


def test_the_same_model_in_plain_and_in_chat_form(instruct, tmp_path, read):
    """Step 0 is the same model, but not the same prompts, so it must not be copied from one run to the other."""
    entries = (f"{{name: {instruct}, chat_template: auto}}", f"{{name: {instruct}, recipe: {{rank: 4}}}}")
    one, two = (expand(read(study(entry)))[0] for entry in entries)
    assert start_key(one) != start_key(two)


def test_plain_text_stays_the_default_for_models_with_a_template(instruct, read):
    (spec,) = expand(read(study(instruct)))
    assert spec.chat is None
    assert "chat" not in spec.record().recipe
    assert load_model(str(instruct)).tokenizer.chat_template


def test_a_template_file_is_known_by_its_content(instruct, read, tmp_path):
    (tmp_path / "own.jinja").write_text(CHATML)
    text = study(instruct, more="chat_template: own.jinja\n")
    before = expand(read(text))[0].name
    (tmp_path / "own.jinja").write_text(CHATML + " ")
    assert expand(read(text))[0].name != before


@pytest.mark.parametrize(
    ("entry", "more", "place"),
    [
        ("{tiny}", "system: Be brief.\n", "line 6, system: needs chat form"),
        ("{tiny}", "chat_template: no.jinja\n", "line 6, chat_template: there is no file"),
        ("{{name: {tiny}, chat_template: s.csv}}", "", "line 2, models.chat_template: there is no file"),
        ("{{name: {tiny}, system: Hi}}", "chat_template: auto\n", "line 2, models.system: {tiny} has no chat template"),
        (
            "{{endpoint: 'http://localhost:1/v1', model: m, chat_template: auto, recipe: {{method: zero-shot}}}}",
            "",
            "line 2, models.chat_template: a server applies its own chat template",
        ),
    ],
)
def test_wrong_keys_are_named_with_their_line(entry, more, place, tmp_path_factory, read, tiny):
    with pytest.raises(InputError) as caught:
        read(study(entry.format(tiny=tiny), more=more))
    assert place.format(tiny=tiny) in str(caught.value)


def test_auto_without_a_template_is_plain_text_and_says_so(tiny, tmp_path, command):
    path = tmp_path / "s.yaml"
    path.write_text(study(tiny, more="chat_template: auto\n"))
    out = command("run", path, "--into", tmp_path / "out")
    assert out.returncode == 0, out.stderr
    assert "line 6, chat_template" in out.stderr + out.stdout


def test_a_template_that_refuses_is_one_message(instruct, tmp_path, command):
    (tmp_path / "own.jinja").write_text("{{ raise_exception('never') }}{{ messages }}")
    path = tmp_path / "s.yaml"
    path.write_text(study(instruct, more="chat_template: own.jinja\n"))
    out = command("run", path, "--into", tmp_path / "out")
    assert out.returncode in (1, 2)
    assert "never" in out.stderr + out.stdout
    assert "Traceback" not in out.stderr


def test_checkpoints_are_evaluated_in_chat_form_too(instruct, tmp_path, command):
    copy = tmp_path / "checkpoint-1"
    load_model(str(instruct)).model.save_pretrained(copy)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (copy / name).write_bytes((instruct / name).read_bytes())
    margins = []
    for folder, options in (("plain", ()), ("chat", ("--chat-template", "auto"))):
        out = command("evaluate", copy, "--on", "plain", "--items", 8, "--into", tmp_path / folder, *options)
        assert out.returncode == 0, out.stderr
        margins.append(answers(tmp_path / folder)["margin"].to_list())
    assert margins[0] != margins[1]
    out = command("evaluate", copy, "--on", "plain", "--into", tmp_path / "x", "--system", "Hi")
    assert "--system: needs chat form" in refused(out)
