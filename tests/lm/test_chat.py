"""Prompts in chat form: what the model reads, what is scored and what is trained on."""

import polars as pl
import pytest

from breadth.datasets import Choice, Generate, Loaded, Pattern
from breadth.errors import InputError
from breadth.lm import ChatSettings, encode_testset, encode_train_set, has_chat_template, read_chat_template, with_chat
from breadth.lm.chat import start_chat
from breadth.lm.tiny import make_tokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Refuses a system prompt, trims what is said, and puts BOS in front.
STRICT = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] | trim }}[end]{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
ITEMS = pl.DataFrame(
    {
        "item": ["q-0", "q-1"],
        "testset": ["q", "q"],
        "label": ["A", "B"],
        "question": ["The cat sat on the mat.", "Two women are in the park. " * 20],
        "options": [["one", "two"], ["three", "four"]],
        "option_labels": [["A", "B"], ["A", "B"]],
    }
)


def chatting(tiny, template=CHATML, system=None, special=("<|im_start|>", "<|im_end|>")):
    loaded = tiny()
    loaded.tokenizer.chat_template = template
    if special:
        loaded.tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
        loaded.model.resize_token_embeddings(len(loaded.tokenizer))
    return with_chat(loaded, ChatSettings("auto", system))


def text_of(model, ids):
    return model.tokenizer.decode(ids)


def test_a_prompt_is_the_users_turn(tiny):
    model = chatting(tiny, system="Be brief.")
    encoded = encode_testset(
        model, Loaded("q", "domain", Choice("{question}\n{choices}", "label"), ITEMS, ""), context=512
    )
    assert text_of(model, encoded.prompts[0]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nThe cat sat on the mat.\nA. one\nB. two<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert "Be brief" in model.notes[-1]


def test_options_begin_the_assistants_turn_without_a_space(tiny):
    model = chatting(tiny)
    for continuation, texts in (("label", ["A", "B"]), ("bracketed", ["(A)", "(B)"]), ("text", ["one", "two"])):
        task = Choice("{question}\n{choices}", continuation)
        encoded = encode_testset(model, Loaded("q", "domain", task, ITEMS, ""), context=512)
        assert [text_of(model, ids) for ids in encoded.requests.targets[:2]] == texts


def test_answer_words_have_no_space_either(tiny):
    model = chatting(tiny)
    task = Pattern("{question} Yes or No?", (("A", " Yes"), ("B", " No")))
    encoded = encode_testset(model, Loaded("q", "domain", task, ITEMS, ""), context=512)
    assert [text_of(model, ids) for ids in encoded.scorer.answers] == ["Yes", "No"]


def test_training_is_on_the_whole_turn_of_the_assistant_and_on_nothing_else(tiny):
    model = chatting(tiny)
    task = Generate("{question}", "(.*)", train_template="Train: {question}", completion="So {label}")
    train = encode_train_set(model, Loaded("q", "in-domain", task, ITEMS, ""), "completion", context=512)
    assert text_of(model, train.requests.targets[0]) == "So A<|im_end|>\n"
    prompt = train.requests.sequences[0][: -len(train.requests.targets[0]) + 1]
    assert text_of(model, prompt).endswith("Train: The cat sat on the mat.<|im_end|>\n<|im_start|>assistant\n")


def test_long_prompts_are_shortened_inside_the_users_turn(tiny):
    model = chatting(tiny)
    task = Choice("{question} Well?", shorten="question")
    encoded = encode_testset(model, Loaded("q", "domain", task, ITEMS, ""), context=100)
    assert encoded.shortened == 1
    assert len(encoded.prompts[1]) <= 100
    assert text_of(model, encoded.prompts[1]).endswith(" Well?<|im_end|>\n<|im_start|>assistant\n")


def test_what_ends_a_turn_ends_what_a_model_writes(tiny):
    model = chatting(tiny)
    assert model.chat.end == "<|im_end|>\n"
    assert model.chat.end_tokens() == [model.tokenizer.convert_tokens_to_ids("<|im_end|>")]
    assert chatting(tiny, STRICT, special=()).chat.end_tokens() == []


def test_bos_stands_once_in_front(tiny_folders):
    from breadth.lm import load_model

    loaded = load_model(str(tiny_folders["opt"]), dtype="float32", device="cpu")
    for template in (CHATML, STRICT):
        loaded.tokenizer.chat_template = template
        model = with_chat(loaded, ChatSettings("auto"))
        task = Choice("{question}", "label")
        encoded = encode_testset(model, Loaded("q", "domain", task, ITEMS, ""), context=512)
        assert encoded.prompts[0].count(model.tokenizer.bos_token_id) == 1
        assert encoded.prompts[0][0] == model.tokenizer.bos_token_id


def test_a_template_of_ones_own(tiny):
    model = with_chat(tiny(), ChatSettings(STRICT))
    assert model.chat.prompt(" Hello ") == "<bos>[user]Hello[end][assistant]"
    assert model.chat.turn(" Yes") == "Yes[end]"


def test_a_system_prompt_that_the_template_refuses(tiny):
    with pytest.raises(InputError, match=r"System role not supported.*remove system"):
        with_chat(tiny(), ChatSettings(STRICT, "Be brief."))


def test_without_a_template_prompts_are_plain_text_and_a_system_prompt_is_refused(tiny):
    model = with_chat(tiny(), ChatSettings("auto"))
    assert model.chat is None
    assert "no chat template" in model.notes[-1]
    with pytest.raises(InputError, match=r"no chat template.*remove system"):
        with_chat(tiny(), ChatSettings("auto", "Be brief."))


def test_prompts_do_not_depend_on_the_day_nor_on_thinking():
    template = (
        "{{ strftime_now('%d %b %Y') }} {% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}"
        "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    )
    chat, _ = start_chat(make_tokenizer(bos=False), ChatSettings(template), "m")
    assert chat.prompt("Hello") == "26 Jul 2024 Hello"


def test_a_template_that_loses_the_answer_is_refused():
    chat, _ = start_chat(make_tokenizer(bos=False), ChatSettings("{{ messages[0]['content'] }}"), "m")
    with pytest.raises(InputError, match="leaves out"):
        chat.turn("Yes")


def test_template_files(tmp_path):
    good, bad, other = tmp_path / "good.jinja", tmp_path / "bad.jinja", tmp_path / "other.jinja"
    good.write_text("{% generation %}{{ messages }}{% endgeneration %}{% for a in messages %}{% break %}{% endfor %}")
    assert read_chat_template(good) == good.read_text()
    bad.write_text("line\n{% for m in messages %}")
    with pytest.raises(InputError, match=r"bad.jinja: line 2: is not a Jinja template"):
        read_chat_template(bad)
    other.write_text("just text")
    with pytest.raises(InputError, match="does not use messages"):
        read_chat_template(other)
    other.write_bytes(b"\xff\xfe{{ messages }}")
    with pytest.raises(InputError, match="UTF-8"):
        read_chat_template(other)
    with pytest.raises(InputError, match="there is no file"):
        read_chat_template(tmp_path / "no.jinja")


def test_templates_are_found_in_a_models_files(tiny_model_dir, tmp_path):
    assert not has_chat_template(tiny_model_dir)
    tokenizer = make_tokenizer(bos=False)
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(str(tmp_path))
    assert has_chat_template(tmp_path)
    older = tmp_path / "older"
    older.mkdir()
    (older / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert has_chat_template(older)
    (older / "tokenizer_config.json").write_text("[")
    assert not has_chat_template(older)
