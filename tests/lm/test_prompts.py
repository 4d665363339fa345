import time

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breadth.datasets import Choice, Pattern
from breadth.errors import InputError
from breadth.lm.prompts import encode_continuations, encode_prompts, encode_text, few_shot_text
from breadth.lm.tiny import make_tokenizer

TASK = Pattern(
    "{premise} Question: {hypothesis} Yes or No?", (("entailment", " Yes"), ("contradiction", " No")), shorten="premise"
)
CHOICE = Choice("{question}\n{choices}\nAnswer:", "label")
TOKENIZER = make_tokenizer(bos=True)


def nli(*pairs):
    rows = [
        {"item": f"s-{i}", "testset": "s", "label": "entailment", "premise": premise, "hypothesis": hypothesis}
        for i, (premise, hypothesis) in enumerate(pairs)
    ]
    return pl.DataFrame(rows)


def choices(**values):
    row = {"item": "q-1", "testset": "q", "question": "Which?", "options": ["one", "two"], "option_labels": ["A", "B"]}
    return pl.DataFrame([{**row, "label": "B", **values}])


def text_of(ids):
    return TOKENIZER.decode(ids)


def test_the_template_is_filled():
    encoded = encode_prompts(TOKENIZER, TASK, nli(("A cat. ", " It {is} a cat.")), context=200)
    assert text_of(encoded.ids[0]) == "A cat. Question: It {is} a cat. Yes or No?"
    assert encoded.shortened == 0


def test_bos_is_in_front_once():
    plain, begun = (encode_prompts(TOKENIZER, TASK, nli(("A", "B")), context=99, bos=bos).ids[0] for bos in (0, 1))
    assert begun == [TOKENIZER.bos_token_id, *plain]
    again = encode_prompts(TOKENIZER, TASK, nli(("A", "B")), context=99, bos=True, before="<bos>").ids[0]
    assert again == begun


def test_choices_are_listed():
    encoded = encode_prompts(TOKENIZER, CHOICE, choices(), context=200).ids[0]
    assert text_of(encoded) == "Which?\nA. one\nB. two\nAnswer:"
    ready = choices().drop("options", "option_labels").with_columns(choices=pl.lit("A. x\nB. y"))
    assert text_of(encode_prompts(TOKENIZER, CHOICE, ready, context=200).ids[0]) == "Which?\nA. x\nB. y\nAnswer:"


def test_a_column_that_is_not_there():
    with pytest.raises(InputError, match=r"test set 's': the pattern uses \{hypothesis\}, which is not a column"):
        encode_prompts(TOKENIZER, TASK, nli(("A", "B")).drop("hypothesis"), context=99)
    with pytest.raises(InputError, match=r"\{choices\}"):
        encode_prompts(TOKENIZER, CHOICE, choices().drop("options"), context=99)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
    st.text("abc déß漢🙂 .", max_size=10),
    st.integers(60, 90),
)
def test_only_the_premise_is_cut(premise, hypothesis, context):
    item = nli((premise, hypothesis))
    encoded = encode_prompts(TOKENIZER, TASK, item, context=context)
    text = text_of(encoded.ids[0])
    end = f" Question: {hypothesis.strip()} Yes or No?"
    assert text.endswith(end)
    assert len(encoded.ids[0]) <= context - 8
    kept = text.removesuffix(end)
    assert premise.strip().startswith(kept)
    assert encoded.shortened == (kept != premise.strip())


def test_as_much_is_kept_as_fits():
    encoded = encode_prompts(TOKENIZER, TASK, nli(("The cat sat on the mat. " * 50, "A cat.")), context=100)
    assert 85 <= len(encoded.ids[0]) <= 92


@pytest.mark.parametrize("premise", ["word " * 20_000, "x" * 100_000, "漢字" * 17_000])
def test_a_premise_of_100_kilobytes(premise):
    start = time.process_time()
    encoded = encode_prompts(TOKENIZER, TASK, nli((premise, "B.")), context=128)
    assert time.process_time() - start < 5
    assert len(encoded.ids[0]) <= 120
    assert text_of(encoded.ids[0]).endswith(" Question: B. Yes or No?")


def test_an_item_that_cannot_fit_is_named():
    with pytest.raises(
        InputError, match=r"item 's-1': its prompt has \d+ tokens, but at most 32 fit, even without its pr"
    ):
        encode_prompts(TOKENIZER, TASK, nli(("A", "B"), ("A cat.", "z" * 100)), context=40)
    rigid = Pattern(TASK.template, TASK.answers)
    with pytest.raises(InputError, match=r"item 's-0'.*no field may be cut \(set `shorten`\)"):
        encode_prompts(TOKENIZER, rigid, nli(("z" * 100, "B")), context=40)


def test_every_item_may_reserve_its_own():
    long = "cat " * 40
    encoded = encode_prompts(TOKENIZER, TASK, nli((long, "B"), (long, "B")), context=100, reserve=[8, 60])
    assert len(encoded.ids[1]) <= 40 < len(encoded.ids[0]) <= 92


def test_an_empty_prompt_is_refused():
    with pytest.raises(InputError, match="item 's-0': its prompt is empty"):
        encode_prompts(TOKENIZER, Pattern("{premise}", TASK.answers), nli((" ", "B")), context=40)


def test_few_shot_examples_come_first():
    before = few_shot_text(TASK, nli(("A", "B"), ("C", "D")))
    assert before == "A Question: B Yes or No? Yes\n\nC Question: D Yes or No? Yes\n\n"
    encoded = encode_prompts(TOKENIZER, TASK, nli(("E" * 99, "F")), context=120, before=before)
    text = text_of(encoded.ids[0])
    assert text.startswith(before + "EEE")
    assert text.endswith("E Question: F Yes or No?")


def test_continuations_are_encoded_as_after_a_word():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    assert encode_continuations(TOKENIZER, [" Yes", "Yes"]) == [
        encode_text(TOKENIZER, text) for text in (" Yes", "Yes")
    ]
    # Like Llama 2's tokenizer, it puts a space in front of every text.
    tokens = Tokenizer(models.WordLevel({"▁a": 0, "▁Yes": 1, "▁": 2, "?": 3}, unk_token="?"))
    tokens.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    prefixing = PreTrainedTokenizerFast(tokenizer_object=tokens)
    assert encode_continuations(prefixing, [" Yes"]) == [[1]]
