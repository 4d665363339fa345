"""Every set that has a name, and which sets are available on this machine; nothing is read or downloaded.

Public are eight sets of inference (arXiv 2512.07832) and seven of questions (arXiv 2511.21692), each one `Entry`: Hub
id, splits, columns, labels, task. Generated ones are listed in ``suite``. To make a set of your own available by name,
add its entry to ``REGISTRY``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import polars as pl

from breadth.datasets.canonical import LETTERS, Entry, Labels, with_choices, with_options
from breadth.datasets.examples import hash_items
from breadth.datasets.extraction import BOXED, extract
from breadth.datasets.kinds import NLI_PATTERN, Choice, Generate
from breadth.datasets.suite import MAX_ITEMS, SETS
from breadth.errors import InputError, did_you_mean, listed, unknown_column
from breadth.sources import Table

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
        extra_columns=("heuristic", "subcase"),
    ),
    _nli(
        name="anli", description="written to mislead models, third round", shift="adversarial",
        licence="CC BY-NC 4.0", items=798, hub="facebook/anli", test_split="test_r3", train_split="train_r3",
        labels=_THREE, columns={"id": "uid"},
    ),
)  # fmt: skip

_NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
#: The number after the last ####; without one, the last number of the text (a minus after a digit is not a sign).
NUMBER = rf"(?s)\A(?:.*####\s*\$?|(?!.*####\s*\$?-?\d).*(?<![\d.,])(?<![\s=($]-))({_NUMBER})"

_LETTER = r"(?i:answer is):?\s*\(?([A-J])\b"
_AFTER_ANSWER = r"(?i:answer is):?[ \t]*(\S[^\n]*?)\.?[ \t]*(?:\n|\Z)"


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
    solved = _solved(table, NUMBER, "#### and a number at the end")
    # The solution in words alone: without the calculator's annotations <<48/2=24>> and without the line #### 24.
    words = pl.col("solution").str.replace_all(r"<<[^>]*>>", "").str.replace(r"(?s)\s*####.*$", "").str.strip_chars()
    return solved.with_columns(pl.col("label").str.replace_all(",", ""), words.alias("reasoning"))


def _big_bench(table: Table) -> pl.DataFrame:
    target = _first(table, ("label", "target"), "the correct answer")
    return table.frame.rename({target: "label"}).with_columns(
        pl.format("The answer is {}.", pl.col("label")).alias("solution")
    )


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


#: What the writers of GPQA say about a question's difficulty, from the easiest on; the texts on the Hub go on.
_GPQA_RATINGS = ("easy undergraduate", "hard undergraduate", "hard graduate", "post-graduate")
_GPQA_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def _graduate(table: Table) -> pl.DataFrame:
    """Put the right answer of every question at a place among the wrong ones that depends on the question alone."""
    frame = table.frame
    if "Correct Answer" not in frame.columns:  # a local file in the form of the other sets
        return _labelled(table, ("answer", "label"))
    options, labels = [], []
    for row in frame.select("question", "Correct Answer", *_GPQA_WRONG).iter_rows():
        question, right, *wrong = (str(text).strip() for text in row)
        place = hash_items([question], "gpqa")[0] % (len(wrong) + 1)
        options.append([*wrong[:place], right, *wrong[place:]])
        labels.append(LETTERS[place])
    letters = list(LETTERS[: len(_GPQA_WRONG) + 1])
    frame = frame.with_columns(
        pl.Series("options", options, dtype=pl.List(pl.String)),
        pl.Series("option_labels", [letters] * len(options), dtype=pl.List(pl.String)),
        pl.Series("label", labels, dtype=pl.String),
    )
    if "Writer's Difficulty Estimate" in frame.columns:
        said = pl.col("Writer's Difficulty Estimate").str.strip_chars().str.to_lowercase()
        rating = pl.lit(None, dtype=pl.Int64)
        for number, words in enumerate(_GPQA_RATINGS):
            rating = pl.when(said.str.starts_with(words)).then(number).otherwise(rating)
        frame = frame.with_columns(rating.alias("expert_rating"))
    return frame


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
        extra_columns=("solution", "reasoning"),
        task=Generate(
            "Solve the problem step by step. End with #### and the number.\n\nProblem: {question}\nSolution:\n",
            extract=NUMBER, metric="number", max_tokens=320, stop=("\n\nProblem:",), shorten="question",
            completion="solution",
        ),
    ),
    _qa(
        name="bbh", description="BIG-Bench Hard, 21 subtasks", licence="MIT", items=5250, hub="SaylorTwift/bbh",
        configs=_BBH, columns={"question": "input"}, prepare=_big_bench, extra_columns=("solution",),
        task=Generate(
            'Answer the question. End with "The answer is" and the answer.\n\nQuestion: {question}\nAnswer:\n',
            extract=_AFTER_ANSWER, metric="exact", stop=("\n\nQuestion:",), shorten="question", completion="solution",
        ),
    ),
    _qa(
        name="mmlu_pro", description="questions in fourteen subjects, up to ten options", licence="MIT", items=12032,
        hub="TIGER-Lab/MMLU-Pro", columns={"id": "question_id"}, prepare=_professional, extra_columns=("solution",),
        task=Generate(
            'Choose the right option. End with "The answer is" and its letter.\n\n'
            "Question: {question}\n{choices}\nAnswer:\n",
            extract=_LETTER, metric="exact", stop=("\n\nQuestion:",), shorten="question", completion="solution",
        ),
    ),
    _qa(
        name="math", description="competition mathematics, level 5", licence="MIT", items=1324,
        hub="DigitalLearningGmbH/MATH-lighteval", train_split="train", columns={"question": "problem"},
        keep=("level", "Level 5"), prepare=partial(_solved, pattern=BOXED, ending="\\boxed{...}"),
        extra_columns=("solution",),
        task=Generate(
            "Solve the problem. Put the final answer in \\boxed{{}}.\n\nProblem: {question}\nSolution:\n",
            extract=BOXED, metric="math", max_tokens=1024, stop=("\n\nProblem:",), shorten="question",
            completion="solution",
        ),
    ),
    _qa(
        name="musr", description="long stories, several steps of reasoning", licence="as on the Hub", items=756,
        hub="TAUR-Lab/MuSR", test_split="murder_mysteries+object_placements+team_allocation",
        prepare=partial(_labelled, answers=("answer_index", "label")),
        task=Choice(
            "{narrative}\n\nQuestion: {question}\n{choices}\nAnswer:",
            continuation="text", normalise=True, shorten="narrative",
        ),
    ),
    _qa(
        name="gpqa", description="graduate-level science (GPQA-extended), access on request", licence="CC BY 4.0",
        items=546, hub="Idavidrein/gpqa", configs=("gpqa_extended",), test_split="train",
        columns={"question": "Question", "id": "Record ID"}, prepare=_graduate,
        task=Choice("Question: {question}\n{choices}\nAnswer:", continuation="label", shorten="question"),
    ),
)  # fmt: skip

_generated = partial(
    Entry, kind="generated", task=NLI_PATTERN, licence="Apache-2.0", items=MAX_ITEMS, train_split="train"
)
_GENERATED = tuple(
    _generated(name=name, description=testset.description, shift=testset.shift) for name, testset in SETS.items()
)

#: Name to entry: inference sets, question sets, generated sets.
REGISTRY: dict[str, Entry] = {entry.name: entry for entry in (*NLI, *QUESTIONS, *_GENERATED)}

#: File formats in a data directory, in order of preference.
ENDINGS = (".parquet", ".jsonl", ".csv", ".tsv")

#: How to use a local copy, for messages.
LOCAL_COPY = "put {name}.parquet (or .jsonl, .csv, .tsv) into a directory and pass it with --data or BREADTH_DATA"


def find(name: str) -> Entry:
    """The entry of a name; an unknown name gives a hint.

    >>> find("hans").items
    30000
    """
    if name not in REGISTRY:
        hint = did_you_mean([name.replace("-", "_")], REGISTRY, most=1)
        raise InputError(
            f"unknown data set {name!r}.{hint} Available: {listed(REGISTRY, most=30)} (see `breadth ls datasets`). "
            "To use a file of your own, add it under `sets` in the study file"
        )
    return REGISTRY[name]


def find_file(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """The file of a set in ``data`` (or BREADTH_DATA), or None."""
    where = data if data is not None else os.environ.get("BREADTH_DATA") or None
    if where is None:
        return None
    folder = Path(os.path.expanduser(where))
    if not folder.is_dir():
        option = "--data" if data is not None else "BREADTH_DATA"
        raise InputError(f"{folder}: not a directory; {option} must name a directory with files such as mnli.parquet")
    paths = [folder / subfolder / f"{name}{ending}" for subfolder in ("", "nli", "qa") for ending in ENDINGS]
    return next((path for path in paths if path.is_file()), None)


def cache_directory() -> Path:
    """Where the `datasets` library caches downloads, worked out without importing it."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    return Path(os.environ.get("HF_DATASETS_CACHE") or Path(home, "datasets")).expanduser()


def is_cached(entry: Entry) -> bool:
    """Whether every configuration of a set is in the cache, judged by directory names."""
    if entry.hub is None:
        return False
    folder = cache_directory() / entry.hub.replace("/", "___")
    return all(
        next(folder.glob(f"{config or '*'}/*/*/*.arrow"), None) or next(folder.glob(f"{config or '*'}/*/*.arrow"), None)
        for config in entry.configs
    )


def describe_datasets(data: str | os.PathLike[str] | None = None) -> pl.DataFrame:
    """One row per set: name, kind, shift, items, licence, source, available, where, description.

    ``available`` is true if the set can be loaded without a download; ``where`` says where it is, or how to get it.
    """
    rows = []
    for entry in REGISTRY.values():
        available, where = _availability(entry, data)
        rows.append(
            {
                "name": entry.name,
                "kind": entry.kind,
                "shift": entry.shift,
                "items": entry.items,
                "licence": entry.licence,
                "source": entry.source,
                "available": available,
                "where": where,
                "description": entry.description,
            }
        )
    return pl.DataFrame(rows)


def _availability(entry: Entry, data: str | os.PathLike[str] | None) -> tuple[bool, str]:
    if entry.kind == "generated":
        return True, "generated"
    path = find_file(entry.name, data)
    if path is not None:
        return True, str(path.parent)
    if is_cached(entry):
        return True, "cached"
    return False, f"{LOCAL_COPY.format(name=entry.name)}, or install breadth[lm] to download {entry.source}"
