"""What a name means: the role of a column, and stage, test set and metric in the name of a score.

The words are data (``vocabulary.toml``); here is how they are put together. Tables and trackers ask the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from breadth.sources.vocabulary_data import VOCABULARY, plain


class Role(StrEnum):
    """What a column is; the value is what messages call it."""

    RUN = "run"
    MODEL = "model"
    CONDITION = "setting"
    ORDER = "step"
    TESTSET = "test set"
    METRIC = "metric"
    ITEM = "item"
    CORRECT = "answer"
    SCORE = "score"
    LOSS = "loss"
    TRAINING = "training"
    AVERAGE = "average"
    SPREAD = "spread"
    TIME = "time"
    SIZE = "size"
    ROW = "row number"
    OTHER = "not a score"


class NameParts(NamedTuple):
    """The parts of the name of a score, spelled as in the name; the filter is one of lm-evaluation-harness."""

    stage: str
    testset: str
    metric: str
    filter: str = ""


class ScoreName(NamedTuple):
    """The parts of the name of a score, in plain words: ``eval/hans_acc`` is stage eval, test set hans, metric acc.

    A filter is part of the metric: ``arc/acc,none`` has the metric acc_none.
    """

    stage: str
    testset: str
    metric: str


_SCORES: dict[str, list[str]] = VOCABULARY["scores"]

#: Losses, and metrics, those of which less is better and those without a name of their own last.
LOSSES: tuple[str, ...] = tuple(_SCORES["losses"])
METRICS: tuple[str, ...] = (*_SCORES["metrics"], *_SCORES["errors"], *_SCORES["unnamed"])

#: Validation parts, which come from where the training data come from.
VALIDATION = frozenset(_SCORES["validation"])

#: Scores of everything, where a table has others as well.
OVERALL = frozenset(_SCORES["overall"])

#: How scores on data like those trained on are called.
IN_DOMAIN = frozenset(_SCORES["in_domain"])

#: Well-known training sets, with test sets that are shifts of them.
TRAINING_SETS: dict[str, frozenset[str]] = {
    name: frozenset(shifts) for name, shifts in VOCABULARY["training_sets"].items()
}

#: Items of the split of well-known test sets that is usually reported, by the name in plain words.
USUAL_ITEMS: dict[str, int] = VOCABULARY["items"]

#: Longer names are not taken apart; MLflow allows 250 characters.
LONGEST_NAME = 250

_STAGES = frozenset(_SCORES["stages"])
_TRAINING = frozenset(_SCORES["training"])
_AVERAGE = frozenset(_SCORES["average"])
_SECTIONS = frozenset(_SCORES["sections"])
_FOLDERS = frozenset(_SCORES["folders"])
_SETTINGS = frozenset(_SCORES["settings"])
_LEADING = frozenset(_SCORES["leading"])
_AFTER_SHOTS = frozenset(_SCORES["after_shots"])
_BESIDE_EACH_OTHER = frozenset(_SCORES["beside_each_other"])
_UNNAMED = frozenset(_SCORES["unnamed"])
_MEANS = _UNNAMED & _AVERAGE
_WEAK = _UNNAMED | _AFTER_SHOTS
_LOWER_ANYWHERE = frozenset(_SCORES["lower_is_better"])
_LOWER_AT_THE_END = frozenset((*_SCORES["errors"], *LOSSES))

_LOSSES = frozenset(LOSSES)
_METRIC_RANKS = {name: rank for rank, name in enumerate((*METRICS, *LOSSES))}
_MOST_METRIC_WORDS = 1 + max(name.count("_") for name in _METRIC_RANKS)
_FILTERS = [name.split("_") for name in _SCORES["filters"]]
_BOOKKEEPING = re.compile("|".join(_SCORES["bookkeeping"]))
_PATTERNS = [(Role[key.upper()], re.compile("|".join(words))) for key, words in VOCABULARY["patterns"].items()]

_ROLES: dict[str, Role] = {}
_PLACES: dict[str, int] = {}
for _key, _names in VOCABULARY["columns"].items():
    for _place, _name in enumerate(_names):
        _ROLES[_name] = Role[_key.upper()]
        _PLACES[_name] = _place

_SAME_SET: dict[str, str] = {}
for _name, _spellings in VOCABULARY["spellings"].items():
    _SAME_SET |= dict.fromkeys(_spellings, _name)

# A word of letters and digits; it ends where a word of camelCase begins.
_WORD = re.compile(r"(?:[^\W_](?!(?<=[a-z])[A-Z][a-z]))*[^\W_]")
_FILTER = re.compile(r"(.*[^,\s]),([\w-]+)", re.DOTALL)

#: What separates the name of a test set from what stands around it; brackets that were opened around a metric as well.
_BEFORE, _AFTER = "/_.:-, )]}", "/_.:-, ([{"


class _Word(NamedTuple):
    """A word of a name, in lower case, and where it stands."""

    text: str
    start: int
    end: int


class _Rest:
    """What is left of a name while words are taken off its two ends."""

    def __init__(self, name: str) -> None:
        self.name, self.start, self.end = name, 0, len(name)
        self.words = [_Word(match[0].lower(), match.start(), match.end()) for match in _WORD.finditer(name)]

    @property
    def text(self) -> str:
        """What is left, spelled as in the name."""
        return self.name[self.start : self.end].lstrip(_BEFORE).rstrip(_AFTER) if self.words else ""

    def last_is_in(self, known: Collection[str]) -> bool:
        """Whether the last word is one of those known."""
        return bool(self.words) and self.words[-1].text in known

    def take_first(self, count: int) -> str:
        """Take words off the beginning, as they are spelled."""
        taken, self.words = self.words[:count], self.words[count:]
        if not taken:
            return ""
        self.start = taken[-1].end
        return self.name[taken[0].start : self.start]

    def take_last(self, count: int) -> str:
        """Take words off the end, and what follows them."""
        kept = max(0, len(self.words) - count)
        taken, self.words = self.words[kept:], self.words[:kept]
        if not taken:
            return ""
        self.end = taken[0].start
        return self.name[self.end : taken[-1].end]


@lru_cache(maxsize=4096)
def parse_name(name: str) -> NameParts:
    """Take the name of a score apart: stage (eval, test, val, ...), test set, metric and filter.

    The stage comes first or last, the metric last or, in ``acc_hans`` and ``recall/hans``, first. What is left is the
    test set.

    >>> parse_name("eval/hans_acc,none")
    NameParts(stage='eval', testset='hans', metric='acc', filter='none')
    """
    name = name.strip()
    if len(name) > LONGEST_NAME:
        return NameParts("", name, "")
    stage = metric_filter = loader = ""
    match = _FILTER.fullmatch(name)
    if match is not None and _metric_at_end(_Rest(match[1]).words):
        name, metric_filter = match[1], match[2]
    rest = _Rest(name)

    # Lightning numbers the test sets of one validation: val_acc/dataloader_idx_1.
    ending = [word.text for word in rest.words[-3:]]
    if len(rest.words) > 3 and ending[:2] == ["dataloader", "idx"] and ending[2].isdecimal():
        loader = rest.take_last(3)
    # Its mean over an epoch is val_acc_epoch.
    if rest.last_is_in({"epoch"}) and _metric_at_end(rest.words[:-1]):
        rest.take_last(1)

    if rest.words and rest.words[0].text in _STAGES:
        stage = rest.take_first(1).lower()
    elif rest.last_is_in(_STAGES):
        # A habit of TensorBoard's users: Accuracy/train.
        stage = rest.take_last(1).lower()
    rest.take_first(_words_of_section(rest))

    metric_filter = rest.take_last(_words_of_filter(rest)) or metric_filter
    metric = rest.take_last(_metric_at_end(rest.words))
    if not metric:
        metric = rest.take_first(_metric_at_start(rest))
    if not stage and rest.last_is_in(_STAGES):
        # MNLI dev acc
        stage = rest.take_last(1).lower()

    testset = rest.text
    if metric and testset == "epoch":
        # Keras: epoch_accuracy.
        testset = ""
    if loader:
        testset = f"{testset}/{loader}".lstrip("/")
    return NameParts(stage, testset, metric, metric_filter)


def _metric_at_end(words: Sequence[_Word]) -> int:
    """How many of the last words are a metric: the longest that is known."""
    texts = [word.text for word in words[-_MOST_METRIC_WORDS - 1 :]]
    for size in range(min(_MOST_METRIC_WORDS, len(texts)), 0, -1):
        metric = "_".join(texts[-size:])
        before = texts[-size - 1] if size < len(texts) else ""
        if metric in _METRIC_RANKS and (metric not in _AFTER_SHOTS or before.endswith("shot")):
            return size
    return 0


def _metric_at_start(rest: _Rest) -> int:
    """How many of the first words are a metric of the test set after it: a leading one, or any before a slash."""
    words = rest.words
    for size in range(min(_MOST_METRIC_WORDS, len(words) - 1), 0, -1):
        metric = "_".join(word.text for word in words[:size])
        folder = "/" in rest.name[words[size - 1].end : words[size].start]
        if metric in _LEADING or (folder and metric in _METRIC_RANKS and metric not in _WEAK):
            return size
    return 0


def _words_of_section(rest: _Rest) -> int:
    """How many of the first words name a section of a tracker, as OLMo's ``downstream/`` does."""
    head, slash, _ = rest.text.partition("/")
    section = plain(head)
    return section.count("_") + 1 if slash and section in _SECTIONS else 0


def _words_of_filter(rest: _Rest) -> int:
    """How many of the last words are a filter after a metric: some write acc_none for acc,none."""
    for filter_words in _FILTERS:
        size = len(filter_words)
        if [word.text for word in rest.words[-size:]] == filter_words and _metric_at_end(rest.words[:-size]):
            return size
    return 0


@lru_cache(maxsize=4096)
def parse_score(name: str) -> ScoreName:
    """Take the name of a score apart, in plain words."""
    parts = parse_name(name)
    return ScoreName(parts.stage, plain(parts.testset), plain(f"{parts.metric} {parts.filter}"))


def parse_scores(names: Collection[str]) -> dict[str, ScoreName]:
    """Take the names of scores apart that stand in one table, in plain words.

    ``snli_hard`` is a test set. But where a table has ``arc_soft`` or ``arc_len_norm`` beside ``arc_hard``, these are
    scores of one test set, as OLMo's trainers write them.

    >>> parse_scores(["arc_hard", "arc_soft", "snli_hard"])["arc_hard"]
    ScoreName(stage='', testset='arc', metric='hard')
    """
    parsed = {name: parse_score(name) for name in names}
    metrics: dict[tuple[str, str], set[str]] = {}
    for parts in parsed.values():
        set_alone, _, last = parts.testset.rpartition("_")
        if parts.metric:
            metrics.setdefault((parts.stage, parts.testset), set()).add(parts.metric)
        elif set_alone and last in _AFTER_SHOTS:
            metrics.setdefault((parts.stage, set_alone), set()).add(last)
    for name, parts in parsed.items():
        set_alone, _, last = parts.testset.rpartition("_")
        beside = metrics.get((parts.stage, set_alone), set()) & _BESIDE_EACH_OTHER
        if not parts.metric and last in beside and len(beside) > 1:
            parsed[name] = ScoreName(parts.stage, set_alone, last)
    return parsed


@lru_cache(maxsize=4096)
def role_of(name: str) -> Role | None:
    """What a column is by its name; None if the name says nothing."""
    if not name.strip():
        return Role.ROW
    if name.endswith(("__MIN", "__MAX")):
        # The ends of a W&B chart's ranges.
        return Role.SPREAD
    words = plain(name)
    if words in _ROLES:
        return _ROLES[words]
    parts = parse_name(name)
    # acc_stderr,none is an error, whatever the filter.
    match = _FILTER.fullmatch(name.strip())
    rest = plain(match[1]) if match is not None else words
    if parts.stage:
        # samples_per_second_test is a speed, whatever it is the speed of.
        rest = rest.removeprefix(f"{parts.stage}_").removesuffix(f"_{parts.stage}")
    for role, pattern in _PATTERNS:
        if pattern.fullmatch(words) or pattern.fullmatch(rest):
            return role
    if _is_bookkeeping(name, rest, parts):
        return Role.OTHER
    return _role_of_score(parts)


def _is_bookkeeping(name: str, rest: str, parts: NameParts) -> bool:
    """Whether this is a setting or what a trainer logs beside scores, though a stage or a metric is in its name.

    ``rest`` is the name in plain words without its stage.
    """
    folder, slash, _ = name.partition("/")
    if slash and plain(folder) in _FOLDERS:
        return True
    if parts.metric:
        # Lightning's mean over an epoch is a score; its value at a step is that of a batch.
        return _BOOKKEEPING.fullmatch(rest.removesuffix("_epoch")) is not None
    first, _, others = rest.partition("_")
    if others and first in _SETTINGS:
        return True
    return bool(parts.stage) and _BOOKKEEPING.fullmatch(rest) is not None


def _role_of_score(parts: NameParts) -> Role | None:
    """What a score is: of training, a loss, an average, or one of a test set; None if it is not known to be one."""
    metric, testset = plain(parts.metric), plain(parts.testset)
    if parts.stage in _TRAINING:
        return Role.TRAINING
    if metric in _LOSSES:
        return Role.LOSS
    if testset and _AVERAGE.issuperset(testset.split("_")):
        return Role.AVERAGE
    if parts.stage and not testset and metric in _MEANS:
        return Role.AVERAGE
    if metric or parts.stage:
        return Role.SCORE
    return None


def place_of(name: str) -> tuple[int, bool, str]:
    """Sorts the columns of a role: preferred names first, those with an underscore in front after the same without."""
    return _PLACES.get(plain(name), len(_PLACES)), name.startswith("_"), name


def is_bare(name: str) -> bool:
    """Whether a name is that of a score or loss alone, with no test set: the column of values of a long table."""
    stage, testset, metric = parse_score(name)
    return role_of(name) is Role.CORRECT or bool(metric and not stage and not testset)


def metric_rank(metric: str) -> int:
    """The place of a metric in the order of defaults; unknown ones come last."""
    return _METRIC_RANKS.get(plain(metric), len(_METRIC_RANKS))


def is_loss(metric: str) -> bool:
    """Whether a metric is a loss."""
    return plain(metric) in _LOSSES


def is_metric(metric: str) -> bool:
    """Whether a metric is known, as a score or as a loss."""
    return plain(metric) in _METRIC_RANKS


def is_unnamed(metric: str) -> bool:
    """Whether this is what a column of values is called, not a metric: value, mean."""
    return plain(metric) in _UNNAMED


def is_lower_better(name: str) -> bool:
    """Whether less is better, judged by the words in the name of a score.

    >>> [is_lower_better(name) for name in ("eval/loss", "c4 perplexity", "librispeech_wer", "error_detection_acc")]
    [True, True, True, False]
    """
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    if _LOWER_ANYWHERE.intersection(words):
        return True
    for size in range(1, _MOST_METRIC_WORDS + 1):
        if "_".join(words[-size:]) in _LOWER_AT_THE_END:
            return True
    return False


def dataset_of(name: str) -> str:
    """The data set that a score is on, with one spelling for each well-known one."""
    squeezed = parse_score(name).testset.replace("_", "")
    return _SAME_SET.get(squeezed, squeezed)
