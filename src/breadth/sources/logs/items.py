"""Which items of different logs are the same item: one name and one question, in one test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import polars as pl

from breadth.errors import listed
from breadth.records import Imported
from breadth.results.words import count
from breadth.sources.logs.log import MOST_LOGS, Log
from breadth.sources.logs.subjects import SubjectLog
from breadth.sources.source_files import text_hash

#: Columns of items that hold lists.
LIST_COLUMNS = ("options", "option_labels")

#: The columns that describe items.
TextColumns = Mapping[str, Sequence[Any]]


class QuestionHash(str):
    """The hash of a question whose text was not read."""

    __slots__ = ()


@dataclass
class ItemIndex:
    """All items: places by test set and name; questions; and where texts are, as columns with a row in them.

    ``renamed`` has, by test set, the places of items whose name another question has: a place for each answer.
    """

    places: dict[tuple[str, str], int] = field(default_factory=dict)
    questions: list[str | None] = field(default_factory=list)
    texts: list[tuple[TextColumns, int]] = field(default_factory=list)
    renamed: dict[str, list[int]] = field(default_factory=dict)

    def add(self, key: tuple[str, str], question: str | None, columns: TextColumns, row: int) -> int:
        """Add an item; returns its place."""
        place = self.places[key] = len(self.places)
        self.questions.append(question)
        self.texts.append((columns, row))
        return place

    def find_or_add(self, log: Log, name: str, question: str | None, row: int) -> int:
        """The place of an item of a log, which is added if it is new.

        Items of one name with different texts are different items: the later ones get a name of their own.
        """
        place = self.places.get((log.testset, name))
        if place is None:
            return self.add((log.testset, name), question, log.texts, row)
        known = self.questions[place]
        if question and known and _differ(question, known):
            own_name = f"{name}~{_hash_of(question)[:6]}"
            place = self.places.get((log.testset, own_name))
            if place is None:
                place = self.add((log.testset, own_name), question, log.texts, row)
            self.renamed.setdefault(log.testset, []).append(place)
            known = self.questions[place]
        if log.texts and (not known or isinstance(known, QuestionHash)):
            self._describe(place, question, log.texts, row)
        return place

    def _describe(self, place: int, question: str | None, columns: TextColumns, row: int) -> None:
        """Give texts to an item that has none."""
        known, known_row = self.texts[place]
        for name, column in known.items():
            if name != "text_hash" and column[known_row] is not None:
                return
        self.questions[place] = question
        self.texts[place] = columns, row

    def table(self, places: Sequence[int]) -> pl.DataFrame:
        """The items at some places, with their texts."""
        keys = list(self.places)
        testsets, items, texts = [], [], []
        distinct: dict[int, TextColumns] = {}
        for place in places:
            testset, item = keys[place]
            testsets.append(testset)
            items.append(item)
            columns, _ = self.texts[place]
            texts.append(self.texts[place])
            distinct[id(columns)] = columns
        table = {"testset": pl.Series(testsets, dtype=pl.String), "item": pl.Series(items, dtype=pl.String)}
        for name in dict.fromkeys(chain.from_iterable(distinct.values())):
            values = [columns[name][row] if name in columns else None for columns, row in texts]
            if all(value is None for value in values):
                continue
            if name in LIST_COLUMNS:
                table[name] = _list_series(values)
            else:
                table[name] = pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
        return pl.DataFrame(table)


def index_items(logs: Sequence[SubjectLog], before: Imported | None) -> tuple[ItemIndex, list[str]]:
    """Every item with its texts, and notes; logs learn the places of their items."""
    index = ItemIndex()
    if before is not None:
        _add_stored_items(index, before)
    # Most logs of a test set hold the same items in the same order.
    last: dict[str, tuple[Log, list[str | None] | None, Sequence[int]]] = {}
    for subject_log in logs:
        log = subject_log.content
        questions = _questions(log.texts)
        if log.testset in last:
            same, same_questions, subject_log.places = last[log.testset]
            if same.items == log.items and questions in (None, same_questions):
                continue
        places = []
        for row, name in enumerate(log.items):
            question = None if questions is None else questions[row]
            places.append(index.find_or_add(log, name, question, row))
        subject_log.places = places
        last[log.testset] = log, questions, places
    notes = []
    for testset, renamed in index.renamed.items():
        odd = _name_odd_logs([log for log in logs if log.testset == testset], set(renamed))
        notes.append(
            f"{testset}: {count(len(renamed), 'answer')} to items of the same name but another text (it differs in "
            f"{odd}); these items are kept apart"
        )
    return index, notes


def same_question_notes(logs: Sequence[SubjectLog], index: ItemIndex) -> list[str]:
    """Say where logs have the same questions under other names, as lm-eval's hashes where choices are shuffled."""
    testsets: dict[str, list[SubjectLog]] = {}
    for log in logs:
        testsets.setdefault(log.testset, []).append(log)
    notes: list[str] = []
    for testset, group in testsets.items():
        # Most logs of a test set share one list of places.
        lists = {id(log.places): log.places for log in group}
        if len(lists) == 1:
            continue
        texts, places = _questions_with_several_names(list(lists.values()), index)
        if texts:
            odd = _name_odd_logs(group, places)
            notes.append(
                f"{testset}: {count(len(texts), 'question')} with the same text but different documents in different "
                f"logs (in {odd}; shuffled choices, for instance); they count as different items"
            )
    return notes


def _add_stored_items(index: ItemIndex, before: Imported) -> None:
    columns = before.items.to_dict(as_series=False)
    testsets, items = columns.pop("testset"), columns.pop("item")
    questions = _questions(columns) or [None] * len(items)
    for row, (testset, item, question) in enumerate(zip(testsets, items, questions, strict=True)):
        index.add((testset, item), question, columns, row)


def _questions(columns: TextColumns) -> list[str | None] | None:
    """The question of every row, or its hash; None where columns have neither."""
    texts, hashes = columns.get("text"), columns.get("text_hash")
    if hashes is None:
        return None if texts is None else list(texts)
    questions: list[str | None] = [None if one is None else QuestionHash(one) for one in hashes]
    if texts is not None:
        for row, text in enumerate(texts):
            questions[row] = text or questions[row]
    return questions


def _questions_with_several_names(lists: Sequence[Sequence[int]], index: ItemIndex) -> tuple[set[str | None], set[int]]:
    """Questions that logs have under several names, and the places of the later ones.

    Different questions may share a text, so most of what a log does not share with the others must be such questions.
    """
    found: set[str | None] = set()
    places_found: set[int] = set()
    known: dict[str | None, int] = {}
    for places in lists:
        own, former = set(places), set(known.values())
        texts: dict[str | None, int] = {}
        for place in places:
            if place not in former:
                texts[index.questions[place]] = place
        same = {text for text in texts if text and text in known and known[text] not in own}
        if 2 * len(same) > len(own - former):
            found |= same
            places_found.update(texts[text] for text in same)
        for text, place in texts.items():
            if text:
                known.setdefault(text, place)
    return found, places_found


def _name_odd_logs(group: Sequence[SubjectLog], places: set[int]) -> str:
    """Name the logs of a test set that have some items, or those that do not, whichever are fewer."""
    having: list[str] = []
    lacking: list[str] = []
    has_place: dict[int, bool] = {}  # most logs share one list of places
    for log in group:
        if id(log.places) not in has_place:
            has_place[id(log.places)] = not places.isdisjoint(log.places)
        side = having if has_place[id(log.places)] else lacking
        side.append(log.path)
    odd = lacking if 0 < len(lacking) < len(having) else having
    return listed(odd, MOST_LOGS)


def _differ(question: str, known: str) -> bool:
    """Whether two questions differ, in more than spaces."""
    return question != known and _hash_of(question) != _hash_of(known)


def _hash_of(question: str) -> str:
    return question if isinstance(question, QuestionHash) else text_hash(question)


def _list_series(values: Sequence[Sequence[Any] | None]) -> pl.Series:
    """A column of lists of texts; polars takes twenty times as long for a list of lists."""
    rows_by_length: dict[int | None, list[int]] = {}
    for row, value in enumerate(values):
        length = None if value is None else len(value)
        rows_by_length.setdefault(length, []).append(row)
    parts: list[pl.Series] = []
    order: list[int] = []
    for length, rows in rows_by_length.items():
        order.extend(rows)
        if length:
            texts = map(str, chain.from_iterable(values[row] or () for row in rows))
            parts.append(pl.Series(list(texts), dtype=pl.String).reshape((len(rows), length)).arr.to_list())
        else:
            empty: list[str] | None = None if length is None else []
            parts.append(pl.Series([empty] * len(rows), dtype=pl.List(pl.String)))
    return pl.concat(parts)[pl.Series(order).arg_sort()]
