"""The public sets: eight of inference (arXiv 2512.07832) and six of questions (arXiv 2511.21692).

Each is one `Entry`: Hub id, splits, columns, labels, task. The functions read options and final answers.
"""

from __future__ import annotations

import ast
import json
import string
from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl

from breadth.datasets.canonical import Entry, Labels, check_columns, label_text
from breadth.datasets.kinds import BOXED, NLI_PATTERN, Choice, Generate, extract
from breadth.errors import InputError, listed, unknown_column
from breadth.records import Table

ENTAILMENT, NOT_ENTAILMENT = "entailment", "not_entailment"

#: Strings that every file may use for the two canonical labels.
_WORDS: Labels = {ENTAILMENT: ENTAILMENT, NOT_ENTAILMENT: NOT_ENTAILMENT, "non-entailment": NOT_ENTAILMENT}

#: Three classes: neutral items and items without a gold label (-1, "-") are dropped.
_THREE: Labels = {
    **_WORDS,
    **{"contradiction": NOT_ENTAILMENT, "neutral": None, "-": None},
    **{0: ENTAILMENT, 1: None, 2: NOT_ENTAILMENT, -1: None},
}
#: Two classes where 0 is entailment (RTE, HANS), and two where 1 is (WNLI, and paraphrases in PAWS).
_ZERO_ENTAILS: Labels = {**_WORDS, 0: ENTAILMENT, 1: NOT_ENTAILMENT, -1: None}
_ONE_ENTAILS: Labels = {**_WORDS, 1: ENTAILMENT, 0: NOT_ENTAILMENT, -1: None}
#: SciTail has no contradictions: its neutral items are the second class.
_SCITAIL: Labels = {**_WORDS, "entails": ENTAILMENT, "neutral": NOT_ENTAILMENT}

_GLUE_PAIRS = {"premise": "sentence1", "hypothesis": "sentence2", "id": "idx"}

_nli = partial(Entry, kind="nli", task=NLI_PATTERN)

#: WNLI and RTE are tested on their train split, which is larger, and trained on their validation split.
NLI = (
    _nli(
        name="snli", description="captions of photographs", shift="domain", licence="CC BY-SA 4.0", items=6605,
        hub="stanfordnlp/snli", test_split="test", train_split="train", labels=_THREE,
    ),
    _nli(
        name="mnli", description="ten genres of speech and writing", shift="in-domain", licence="OANC and others",
        items=6692, hub="nyu-mll/glue", configs=("mnli",), test_split="validation_matched", train_split="train",
        labels=_THREE, columns={"id": "idx"},
    ),
    _nli(
        name="scitail", description="science questions against sentences from the web", shift="domain",
        licence="Apache-2.0", items=2126, hub="allenai/scitail", configs=("dgem_format",), test_split="test",
        train_split="train", labels=_SCITAIL,
    ),
    _nli(
        name="wnli", description="pronouns of the Winograd schemas", shift="adversarial", licence="as in GLUE",
        items=635, hub="nyu-mll/glue", configs=("wnli",), test_split="train", train_split="validation",
        labels=_ONE_ENTAILS, columns=_GLUE_PAIRS,
    ),
    _nli(
        name="rte", description="news and encyclopaedia, from the first RTE challenges", shift="domain",
        licence="as in GLUE", items=2490, hub="nyu-mll/glue", configs=("rte",), test_split="train",
        train_split="validation", labels=_ZERO_ENTAILS, columns=_GLUE_PAIRS,
    ),
    _nli(
        name="paws", description="paraphrases and sentences with words swapped", shift="adversarial",
        licence="free, see PAWS", items=8000, hub="google-research-datasets/paws", configs=("labeled_final",),
        test_split="test", train_split="train", labels=_ONE_ENTAILS,
        columns={"premise": "sentence1", "hypothesis": "sentence2"},
    ),
    _nli(
        name="hans", description="misleading word overlap, from templates", shift="adversarial", licence="MIT",
        items=30000, hub="jhu-cogsci/hans", test_split="validation", train_split="train", labels=_ZERO_ENTAILS,
    ),
    _nli(
        name="anli", description="written to mislead models, third round", shift="adversarial",
        licence="CC BY-NC 4.0", items=798, hub="facebook/anli", test_split="test_r3", train_split="train_r3",
        labels=_THREE, columns={"id": "uid"},
    ),
)  # fmt: skip

LETTERS = string.ascii_uppercase

_NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
#: The number after the last ####; without one, the last number of the text (a minus after a digit is not a sign).
NUMBER = rf"(?s)\A(?:.*####\s*\$?|(?!.*####\s*\$?-?\d).*(?<![\d.,])(?<![\s=($]-))({_NUMBER})"

_LETTER = r"(?i:answer is):?\s*\(?([A-J])\b"
_AFTER_ANSWER = r"(?i:answer is):?[ \t]*(\S[^\n]*?)\.?[ \t]*(?:\n|\Z)"


def read_options(table: Table, column: str) -> list[list[str]]:
    """The options of every row: a list, or a list written as text (JSON or Python).

    >>> import polars as pl
    >>> read_options(Table(pl.DataFrame({"o": ['["yes", "no"]']}), "t"), "o")
    [['yes', 'no']]
    """
    check_columns(table, [column], "the options of an item")
    return [_options(value, table.place(row, column)) for row, value in enumerate(table.frame[column].to_list())]


def _options(value: Any, place: str) -> list[str]:
    if isinstance(value, str):
        value = _from_text(value, place)
    if not isinstance(value, list) or len(value) < 2 or any(option is None for option in value):
        raise InputError(f"{place}: needs a list of at least two options, not {str(value)[:60]!r}")
    if len(value) > len(LETTERS):
        raise InputError(f"{place}: has {len(value)} options; at most {len(LETTERS)} can be named by letters")
    texts = [str(option) for option in value]
    if any(not text.strip() for text in texts):
        raise InputError(f"{place}: an option is empty")
    if any("\0" in text for text in texts):
        raise InputError(f"{place}: an option contains a NUL character; remove it from the file")
    return texts


def _from_text(text: str, place: str) -> Any:
    for read in (json.loads, ast.literal_eval):  # literal_eval reads literals and runs no code
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise InputError(f'{place}: {text[:60]!r} is not a list of options; write it as ["first", "second"]')


def right_letter(answer: Any, options: list[str], names: list[str], place: str) -> str:
    """The letter of the correct option, given by its name, its text, or its position counted from 0.

    >>> right_letter("2", ["liquid", "gas"], ["1", "2"], "row 1"), right_letter(0, ["x", "y"], ["A", "B"], "row 1")
    ('B', 'A')
    """
    value = str(answer).strip()
    if value in names:
        return LETTERS[names.index(value)]
    if options.count(value) == 1:
        return LETTERS[options.index(value)]
    if value.isdecimal() and int(value) < len(options):
        return LETTERS[int(value)]
    raise InputError(
        f"{place}: {value[:60]!r} is not an option; give the letter ({listed(names)}), the text, or the position "
        "counted from 0"
    )


def lined_up(options: list[str]) -> str:
    """The options one per line with their letters, for a prompt."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def _first(table: Table, names: Sequence[str], role: str) -> str:
    """The first of the names that is a column."""
    for name in names:
        if name in table.frame.columns:
            return name
    raise unknown_column(names[0], table.frame.columns, table.name, role)


def _solved(table: Table, pattern: str, ending: str) -> pl.DataFrame:
    """Label every item with the final answer of its worked solution."""
    column = _first(table, ("solution", "answer"), f"worked solution with {ending}")
    answers = [extract(pattern, str(text)) for text in table.frame[column].to_list()]
    if None in answers:
        raise InputError(f"{table.place(answers.index(None), column)}: no final answer; write {ending}")
    labels = pl.Series("label", [str(answer).strip() for answer in answers], dtype=pl.String)
    return table.frame.rename({column: "solution"}).with_columns(labels)


def _grade_school(table: Table) -> pl.DataFrame:
    return _solved(table, NUMBER, "#### and a number at the end").with_columns(pl.col("label").str.replace_all(",", ""))


def _competition(table: Table) -> pl.DataFrame:
    return _solved(table, BOXED, "\\boxed{...}")


def _big_bench(table: Table) -> pl.DataFrame:
    target = _first(table, ("label", "target"), "the correct answer")
    return table.frame.rename({target: "label"}).with_columns(
        pl.format("The answer is {}.", pl.col("label")).alias("solution")
    )


def with_options(table: Table, options: str, answer: str, names: str | None = None) -> pl.DataFrame:
    """Replace the column ``options`` by options and option_labels (letters), and ``answer`` by the correct letter.

    ``names`` is the column with the file's own names of the options, if it has one.
    """
    texts = read_options(table, options)
    check_columns(table, [answer], "the correct option")
    letters = [list(LETTERS[: len(row)]) for row in texts]
    named = table.frame[names].to_list() if names else letters
    correct = [
        right_letter(label_text(value), row, [str(name) for name in called], table.place(number, answer))
        for number, (value, row, called) in enumerate(zip(table.frame[answer].to_list(), texts, named, strict=True))
    ]
    return table.frame.drop([name for name in (options, names) if name is not None]).with_columns(
        pl.Series("options", texts, dtype=pl.List(pl.String)),
        pl.Series("option_labels", letters, dtype=pl.List(pl.String)),
        pl.Series(answer, correct, dtype=pl.String),
    )


def with_choices(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the options as one text, for the prompts of tasks that generate."""
    return frame.with_columns(pl.Series("choices", [lined_up(row) for row in frame["options"].to_list()], pl.String))


def _labelled(table: Table, answers: Sequence[str], names: str | None = None) -> pl.DataFrame:
    options = _first(table, ("options", "choices"), "the options of an item")
    answer = _first(table, answers, "the correct option")
    frame = with_options(table, options, answer, names)
    return frame if answer == "label" else frame.with_columns(pl.col(answer).alias("label")).drop(answer)


def _challenge(table: Table) -> pl.DataFrame:
    frame = table.frame
    if isinstance(frame.schema.get("choices"), pl.Struct):
        frame = frame.unnest("choices").rename({"text": "options", "label": "option_labels"})
    names = next((name for name in ("option_labels", "labels") if name in frame.columns), None)
    return _labelled(Table(frame, table.name, table.header_lines), ("answer", "answerKey", "label"), names)


def _professional(table: Table) -> pl.DataFrame:
    return with_choices(_labelled(table, ("answer", "label"))).with_columns(
        pl.format("The answer is ({}).", pl.col("label")).alias("solution")
    )


def _soft_reasoning(table: Table) -> pl.DataFrame:
    return _labelled(table, ("answer_index", "label"))


#: The 21 subtasks of BIG-Bench Hard with 250 items each, without the three of pure generation: 5,250 items in all.
_BBH = (
    *("boolean_expressions", "date_understanding", "disambiguation_qa", "formal_fallacies", "geometric_shapes"),
    *("hyperbaton", "logical_deduction_five_objects", "logical_deduction_seven_objects"),
    *("logical_deduction_three_objects", "movie_recommendation", "navigate", "object_counting"),
    *("reasoning_about_colored_objects", "ruin_names", "salient_translation_error_detection", "sports_understanding"),
    *("temporal_sequences", "tracking_shuffled_objects_five_objects", "tracking_shuffled_objects_seven_objects"),
    *("tracking_shuffled_objects_three_objects", "web_of_lies"),
)

_qa = partial(Entry, kind="qa", shift="difficulty")

QUESTIONS = (
    _qa(
        name="arc", description="school science, the harder part (ARC-Challenge)", licence="CC BY-SA 4.0", items=1170,
        hub="allenai/ai2_arc", configs=("ARC-Challenge",), train_split="train", prepare=_challenge,
        task=Choice("Question: {question}\n{choices}\nAnswer:", continuation="label", shorten="question"),
    ),
    _qa(
        name="gsm8k", description="grade-school word problems with worked solutions", licence="MIT", items=1319,
        hub="openai/gsm8k", configs=("main",), train_split="train", prepare=_grade_school,
        task=Generate(
            "Solve the problem step by step. End with #### and the number.\n\nProblem: {question}\nSolution:\n",
            extract=NUMBER, metric="number", max_tokens=320, stop=("\n\nProblem:",), shorten="question",
            completion="solution",
        ),
    ),
    _qa(
        name="bbh", description="BIG-Bench Hard, 21 subtasks", licence="MIT", items=5250, hub="SaylorTwift/bbh",
        configs=_BBH, columns={"question": "input"}, prepare=_big_bench,
        task=Generate(
            'Answer the question. End with "The answer is" and the answer.\n\nQuestion: {question}\nAnswer:\n',
            extract=_AFTER_ANSWER, metric="exact", stop=("\n\nQuestion:",), shorten="question", completion="solution",
        ),
    ),
    _qa(
        name="mmlu_pro", description="questions in fourteen subjects, up to ten options", licence="MIT", items=12032,
        hub="TIGER-Lab/MMLU-Pro", columns={"id": "question_id"}, prepare=_professional,
        task=Generate(
            'Choose the right option. End with "The answer is" and its letter.\n\n'
            "Question: {question}\n{choices}\nAnswer:\n",
            extract=_LETTER, metric="exact", stop=("\n\nQuestion:",), shorten="question", completion="solution",
        ),
    ),
    _qa(
        name="math", description="competition mathematics, level 5", licence="MIT", items=1324,
        hub="DigitalLearningGmbH/MATH-lighteval", train_split="train", columns={"question": "problem"},
        keep=("level", "Level 5"), prepare=_competition,
        task=Generate(
            "Solve the problem. Put the final answer in \\boxed{{}}.\n\nProblem: {question}\nSolution:\n",
            extract=BOXED, metric="math", max_tokens=1024, stop=("\n\nProblem:",), shorten="question",
            completion="solution",
        ),
    ),
    _qa(
        name="musr", description="long stories, several steps of reasoning", licence="as on the Hub", items=756,
        hub="TAUR-Lab/MuSR", test_split="murder_mysteries+object_placements+team_allocation", prepare=_soft_reasoning,
        task=Choice(
            "{narrative}\n\nQuestion: {question}\n{choices}\nAnswer:",
            continuation="text", normalise=True, shorten="narrative",
        ),
    ),
)  # fmt: skip
