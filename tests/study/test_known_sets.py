"""Sets that breadth knows, asked and scored as a study file says."""

import pytest

from breadth.datasets import REGISTRY, Choice, Generate
from breadth.errors import InputError
from breadth.study import expand, parse_study, resolve_task, resolved_yaml, show_study

HEAD = """\
name: t
models: smollm2-135m
recipe: {method: zero-shot}
evaluate: {on: [mnli, arc, gsm8k]}
"""
HEAD_QA = HEAD.replace("mnli, ", "")


@pytest.fixture
def read(tmp_path):
    return lambda text: parse_study(text, tmp_path / "s.yaml", tmp_path)


def task(file, name):
    return resolve_task(name, file.study, REGISTRY)


def problems(read, text):
    with pytest.raises(InputError) as caught:
        read(text)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_every_key_changes_its_part_of_the_task(read):
    file = read(
        HEAD + "sets:\n"
        "  mnli: {prompt: '{premise} So {hypothesis}?', answers: {entailment: ' yes', not_entailment: ' no'}}\n"
        "  arc: {choices: texts, normalise: true, choice_format: '{letter}) {text}', completion: '{label}!'}\n"
        "  gsm8k:\n"
        "    train_prompt: 'T {question}'\n"
        "    completion: '{solution}'\n"
        "    extract: last-number\n"
        "    metric: exact\n"
        "    stop: 'Q:'\n"
        "    max_tokens: 7\n"
    )
    mnli = task(file, "mnli")
    assert mnli.template == "{premise} So {hypothesis}?"
    assert mnli.answers == (("entailment", " yes"), ("not_entailment", " no"))
    assert mnli.shorten == "premise"
    arc = task(file, "arc")
    assert isinstance(arc, Choice)
    assert (arc.continuation, arc.normalise, arc.choice_format) == ("text", True, "{letter}) {text}")
    assert (arc.template, arc.completion) == (REGISTRY["arc"].task.template, "{label}!")
    gsm8k = task(file, "gsm8k")
    assert isinstance(gsm8k, Generate)
    assert (gsm8k.train_template, gsm8k.completion) == ("T {question}", "{solution}")
    assert (gsm8k.extract, gsm8k.metric, gsm8k.stop, gsm8k.max_tokens) == ("last-number", "exact", ("Q:",), 7)


def test_a_resolved_study_makes_the_same_runs_and_lists_only_what_is_changed(read):
    file = read(HEAD_QA + "protocol: level-transfer\nsets:\n  arc: {choices: bracketed}\n")
    again = resolved_yaml(file.study)
    assert "arc: {choices: bracketed}" in again
    assert [run.name for run in expand(read(again))] == [run.name for run in expand(file)]


def test_a_set_has_the_last_word_over_the_protocol(read):
    file = read(HEAD_QA + "protocol: level-transfer\nsets:\n  gsm8k: {extract: so-the-answer-is}\n")
    assert task(file, "gsm8k").extract == "so-the-answer-is"
    assert task(file, "gsm8k").template == "Q: {question}\nA:\n"
    assert task(file, "arc").choice_format == "{letter}) {text}"


def test_without_changes_names_of_runs_stay_as_they_were(read):
    (plain,) = expand(read(HEAD))
    (changed,) = expand(read(HEAD + "sets: {arc: {choices: bracketed}}\n"))
    assert plain.record().tasks["arc"] == {**REGISTRY["arc"].task.spec()}
    assert plain.name != changed.name


@pytest.mark.parametrize(
    ("sets", "place"),
    [
        ("arc: {max_tokens: 3}", "line 6, sets.arc.max_tokens: is for kind generate"),
        ("arc: {choices: letter}", "line 6, sets.arc.choices: 'letter' is not one of"),
        ("arc: {choice_format: '{leter}) {text}'}", "line 6, sets.arc.choice_format: has the field 'leter'"),
        ("arc: {choice_format: '{letter})'}", "line 6, sets.arc.choice_format: lacks the field 'text'"),
        ("arc: {kind: generate}", "line 6, sets.arc.kind: is for a set of your own"),
        ("arc: {normalize: true}", "line 6, sets.arc.normalize: unknown key. Did you mean normalise?"),
        ("arc: {prompt: 'Well?'}", "line 6, sets.arc.prompt: has no field in braces"),
        ("arc: {prompt: '{question'}", "line 6, sets.arc.prompt: pattern '{question'"),
        ("arc: {pattern: '{questin}'}", "line 6, sets.arc.pattern: arc has no column 'questin'. Did you mean question"),
        ("arc: {}", "line 6, sets.arc: changes nothing"),
        ("mnli: {answers: {entailment: ' yes', other: ' no'}}", "line 6, sets.mnli.answers: no answer for 'not_ent"),
        ("mnli: {extract: '(.)'}", "line 6, sets.mnli.extract: is for kind generate"),
        ("gsm8k: {extract: 'abc'}", "line 6, sets.gsm8k.extract: has no group"),
        ("gsm8k: {metric: maths}", "line 6, sets.gsm8k.metric: 'maths' is not one of"),
        ("gsm8k: {stop: ['']}", "line 6, sets.gsm8k.stop: a text to stop at is empty"),
        ("gsm8k: {completion: solution}", "line 6, sets.gsm8k.completion: has no field in braces"),
        ("gsm8k: {completion: '{solutin}'}", "line 6, sets.gsm8k.completion: gsm8k has no column 'solutin'"),
        ("gsm8k: {prompt: '{question}', pattern: '{question}'}", "line 6, sets.gsm8k: prompt and pattern are two"),
        ("gsm8k: {file: x.csv, kind: generate, metric: number}", "line 6, sets.gsm8k: is the name of a data set"),
    ],
)
def test_wrong_changes_are_one_message_with_their_line(read, sets, place):
    assert any(line.startswith(place) for line in problems(read, f"{HEAD}sets:\n  {sets}\n"))


def test_other_columns_may_be_in_the_users_own_copy(read):
    file = read(HEAD + "sets:\n  gsm8k: {completion: '{model_solution}'}\n")
    assert file.warnings[0].startswith("line 6, sets.gsm8k.completion: gsm8k usually has no column 'model_solution'")


def test_protocols_are_checked(read):
    (line,) = problems(read, HEAD_QA + "protocol: level-transfr\n")
    assert line.startswith("line 5, protocol: unknown protocol 'level-transfr'. Did you mean level-transfer?")
    (line,) = problems(read, HEAD + "protocol: level-transfer\n")
    assert line.startswith("line 5, protocol: has no wording for mnli")


def test_show_says_which_protocol_is_which():
    facts = {name: dict(show_study(name).facts)["protocol"] for name in ("level-transfer", "level-transfer-matched")}
    assert facts["level-transfer"].endswith("the same prompts in training and evaluation")  # gsm8k has no mismatch
    assert facts["level-transfer-matched"].endswith("evaluated with the prompts of training")


def test_show_names_the_sets_with_two_prompts(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(HEAD_QA.replace("arc, gsm8k", "bbh, gsm8k") + "protocol: level-transfer\n")
    assert "bbh: trained with one prompt and evaluated with another" in dict(show_study(str(path)).facts)["protocol"]


OWN = HEAD.replace("[mnli, arc, gsm8k]", "[mine]") + "sets:\n  mine: {file: mine.csv, "


def test_own_sets_take_the_same_keys(read, tmp_path):
    (tmp_path / "mine.csv").write_text(
        "question,options,label,why\nQ1,\"['a', 'b']\",A,since\nQ2,\"['a', 'b']\",B,so\n"
    )
    file = read(OWN + "kind: choice, prompt: '{question} {choices}', choices: bracketed, choice_format: '{text}'}\n")
    own = task(file, "mine")
    assert (own.continuation, own.choice_format) == ("bracketed", "{text}")
    keys = "kind: generate, prompt: '{question}', completion: '{why}', train_prompt: 'T {question}', stop: ['Q:'], "
    file = read(OWN + keys + "extract: first-letter}\n")
    own = task(file, "mine")
    assert (own.completion, own.train_template, own.stop, own.extract) == (
        *("{why}", "T {question}"),
        *(("Q:",), "first-letter"),
    )
    lines = problems(read, OWN + keys.replace("{why}", "{wy}") + "extract: first-letter}\n")
    assert lines == ["line 6, sets.mine.completion: mine.csv has no column 'wy'. Did you mean why? "
                     "Columns: question, options, label, why"]  # fmt: skip
