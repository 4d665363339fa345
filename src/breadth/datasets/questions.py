"""The six question sets of the study of difficulty (arXiv 2511.21692): prompts, final answers, options."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from breadth.datasets.entry import Entry
from breadth.datasets.options import letters, lined_up, read_options, right_letter
from breadth.datasets.tasks import Choice, Generate, extract
from breadth.errors import InputError, unknown_column
from breadth.records import Table

_NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
#: The number after the last ####; in a text without one, the last number (a minus after a digit is not a sign).
NUMBER = rf"(?s)\A(?:.*####\s*\$?|(?!.*####\s*\$?-?\d).*(?<![\d.,])(?<![\s=($]-))({_NUMBER})"

# Braces may nest four deep, which is more than the answers of MATH need; \boxed 5$ without braces is allowed. The
# length is bounded because a model may write anything, and the search must not take long on it.
_INNER = r"\{(?:\\.|[^{}\\])*\}"
for _ in range(3):
    _INNER = rf"\{{(?:\\.|[^{{}}\\]|{_INNER})*\}}"
BOXED = rf"(?s)\\(?:boxed|fbox)\s*\{{?((?:\\.|[^{{}}$\\]|{_INNER}){{1,400}})(?=[}}$])"
_LETTER = r"(?i:answer is):?\s*\(?([A-J])\b"
_AFTER_ANSWER = r"(?i:answer is):?[ \t]*(\S[^\n]*?)\.?[ \t]*(?:\n|\Z)"


def _first(table: Table, names: Sequence[str], role: str) -> str:
    """Whichever of the names is a column."""
    for name in names:
        if name in table.frame.columns:
            return name
    raise unknown_column(names[0], table.frame.columns, table.name, role)


def _final_answers(table: Table, column: str, pattern: str, wanted: str) -> list[str]:
    found = [extract(pattern, str(text)) for text in table.frame[column].to_list()]
    if None in found:
        raise InputError(f"{table.place(found.index(None), column)}: has no final answer ({wanted})")
    return [str(answer).strip() for answer in found]


def _grade_school(table: Table) -> pl.DataFrame:
    solution = _first(table, ("solution", "answer"), "worked solution that ends in #### and a number")
    answers = _final_answers(table, solution, NUMBER, "#### and a number at its end")
    return table.frame.rename({solution: "solution"}).with_columns(
        pl.Series("label", [answer.replace(",", "") for answer in answers])
    )


def _competition(table: Table) -> pl.DataFrame:
    solution = _first(table, ("solution", "answer"), "worked solution with a boxed answer")
    answers = _final_answers(table, solution, BOXED, "\\boxed{...}")
    return table.frame.rename({solution: "solution"}).with_columns(pl.Series("label", answers))


def _big_bench(table: Table) -> pl.DataFrame:
    target = _first(table, ("label", "target"), "right answer")
    return table.frame.rename({target: "label"}).with_columns(
        pl.format("The answer is {}.", pl.col("label")).alias("solution")
    )


def _lettered(table: Table, options: str, answer: str, names: str | None) -> pl.DataFrame:
    """Options with letters in order, and the letter of the right one, whatever the file calls them."""
    texts = read_options(table, options)
    named = table.frame[names].to_list() if names else [letters(len(row)) for row in texts]
    right = [
        right_letter(said, row, [str(name) for name in called], table.place(number, answer))
        for number, (said, row, called) in enumerate(zip(table.frame[answer].to_list(), texts, named, strict=True))
    ]
    used = [name for name in (options, answer, names) if name is not None]
    return table.frame.drop(used).with_columns(
        pl.Series("options", texts, dtype=pl.List(pl.String)),
        pl.Series("option_labels", [letters(len(row)) for row in texts], dtype=pl.List(pl.String)),
        pl.Series("label", right, dtype=pl.String),
    )


def _challenge(table: Table) -> pl.DataFrame:
    frame = table.frame
    if isinstance(frame.schema.get("choices"), pl.Struct):
        frame = frame.unnest("choices").rename({"text": "options", "label": "option_labels"})
    table = Table(frame, table.name, table.header_lines)
    named = [name for name in ("option_labels", "labels") if name in frame.columns]
    options = _first(table, ("options", "choices"), "the options of an item")
    answer = _first(table, ("answer", "answerKey", "label"), "the right option")
    return _lettered(table, options, answer, named[0] if named else None)


def _professional(table: Table) -> pl.DataFrame:
    answer = _first(table, ("answer", "label"), "the right option")
    frame = _lettered(table, _first(table, ("options",), "the options of an item"), answer, None)
    return frame.with_columns(
        pl.Series("choices", [lined_up(row) for row in frame["options"].to_list()], dtype=pl.String),
        pl.format("The answer is ({}).", pl.col("label")).alias("solution"),
    )


def _soft_reasoning(table: Table) -> pl.DataFrame:
    answer = _first(table, ("answer_index", "label"), "the right option")
    return _lettered(table, _first(table, ("options", "choices"), "the options of an item"), answer, None)


#: The subtasks of BIG-Bench Hard that have 250 items each, without the three that are pure generation: 5,250 in all.
_BBH = (
    *("boolean_expressions", "date_understanding", "disambiguation_qa", "formal_fallacies", "geometric_shapes"),
    *("hyperbaton", "logical_deduction_five_objects", "logical_deduction_seven_objects"),
    *("logical_deduction_three_objects", "movie_recommendation", "navigate", "object_counting"),
    *("reasoning_about_colored_objects", "ruin_names", "salient_translation_error_detection", "sports_understanding"),
    *("temporal_sequences", "tracking_shuffled_objects_five_objects", "tracking_shuffled_objects_seven_objects"),
    *("tracking_shuffled_objects_three_objects", "web_of_lies"),
)

QUESTIONS = (
    Entry(
        "arc", "qa", "school science, the harder part (ARC-Challenge)", "difficulty",
        Choice("Question: {question}\n{choices}\nAnswer:", continuation="label", shorten="question"),
        "CC BY-SA 4.0", 1170, "allenai/ai2_arc", ("ARC-Challenge",), "test", "train", prepare=_challenge,
    ),
    Entry(
        "gsm8k", "qa", "sums told as stories, with worked solutions", "difficulty",
        Generate(
            "Solve the problem step by step. End with #### and the number.\n\nProblem: {question}\nSolution:\n",
            extract=NUMBER, metric="number", most_tokens=320, stop=("\n\nProblem:",), shorten="question",
            completion="solution",
        ),
        "MIT", 1319, "openai/gsm8k", ("main",), "test", "train", prepare=_grade_school,
    ),
    Entry(
        "bbh", "qa", "BIG-Bench Hard, 21 subtasks", "difficulty",
        Generate(
            'Answer the question. End with "The answer is" and the answer.\n\nQuestion: {question}\nAnswer:\n',
            extract=_AFTER_ANSWER, metric="exact", stop=("\n\nQuestion:",), shorten="question", completion="solution",
        ),
        "MIT", 5250, "SaylorTwift/bbh", _BBH, columns={"question": "input"}, prepare=_big_bench,
    ),
    Entry(
        "mmlu_pro", "qa", "questions of fourteen subjects, up to ten options", "difficulty",
        Generate(
            'Choose the right option. End with "The answer is" and its letter.\n\n'
            "Question: {question}\n{choices}\nAnswer:\n",
            extract=_LETTER, metric="exact", stop=("\n\nQuestion:",), shorten="question", completion="solution",
        ),
        "MIT", 12032, "TIGER-Lab/MMLU-Pro", columns={"id": "question_id"}, prepare=_professional,
    ),
    Entry(
        "math", "qa", "competition mathematics, level 5", "difficulty",
        Generate(
            "Solve the problem. Put the final answer in \\boxed{{}}.\n\nProblem: {question}\nSolution:\n",
            extract=BOXED, metric="math", most_tokens=1024, stop=("\n\nProblem:",), shorten="question",
            completion="solution",
        ),
        "MIT", 1324, "DigitalLearningGmbH/MATH-lighteval", (None,), "test", "train",
        columns={"question": "problem"}, keep=("level", "Level 5"), prepare=_competition,
    ),
    Entry(
        "musr", "qa", "long stories, several steps of reasoning", "difficulty",
        Choice(
            "{narrative}\n\nQuestion: {question}\n{choices}\nAnswer:",
            continuation="text", normalise=True, shorten="narrative",
        ),
        "as on the Hub", 756, "TAUR-Lab/MuSR", test_split="murder_mysteries+object_placements+team_allocation",
        prepare=_soft_reasoning,
    ),
)  # fmt: skip
