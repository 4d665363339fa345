"""What a table is about: which columns are runs, steps, the in-domain score and test sets, and which are none of these.

Names decide first (:mod:`breadth.sources.vocabulary`), content next. What the user says always counts, what cannot be
told is asked, and what was recognised is said.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records import Reading, first_names
from breadth.sources.reshaping import IDENTITY, Reshaped, Roles, numbers_of, reshape_table, roles_in
from breadth.sources.row_identity import identify_rows, subject_columns
from breadth.sources.score_columns import (
    FLAG,
    NUMBERED,
    TEXT,
    choose_distinct_scores,
    in_domain_column,
    score_columns,
    short_names,
)
from breadth.sources.tables import Table
from breadth.sources.vocabulary import Role, is_bare, parse_score, role_of
from breadth.sources.vocabulary_data import plain

Names = str | Sequence[str] | None

#: Written for an option where nothing is meant, so that nothing is recognised either.
NONE = "none"

#: Names of the items of wide tables of answers.
ITEM_NAME = re.compile(r"(?:q|item|question|problem|task|prob|v|x)[ _.-]?\d+", re.IGNORECASE)

#: Share of columns with such names from which fractions are answers with partial credit.
MOSTLY_ITEMS = 0.8

#: Reasons that are not listed, and those that are listed only beside others: nobody takes such columns for test sets.
UNSAID = frozenset({TEXT, *map(str, (Role.RUN, Role.MODEL, Role.CONDITION, Role.ROW))})
PLAIN = UNSAID | {NUMBERED, FLAG, *map(str, (Role.ORDER, Role.TIME, Role.OTHER))}

#: How what was recognised can be overruled.
CORRECT_SCORES = "--by, --order, --control, --testsets"
CORRECT_ANSWERS = "rename columns to model, step, testset, item, correct"


class Kind(Enum):
    """What a table holds."""

    SCORES = "scores"
    ANSWERS = "answers"


@dataclass(frozen=True)
class ColumnRoles:
    """What a table is about.

    ``table`` is the table in shape: of scores a row per checkpoint and a column per test set; of answers with the
    column names that breadth uses (``renamed`` maps the old to them). ``reading`` says what columns were taken for.
    """

    kind: Kind
    table: Table
    by: tuple[str, ...] = ()
    order: str | None = None
    controls: tuple[str, ...] = ()
    testsets: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)

    def lines(self) -> tuple[str, ...]:
        """What was recognised, in at most two lines."""
        return self.reading.lines()


def infer_columns(
    table: Table,
    by: Names = None,
    order: str | None = None,
    control: Names = None,
    testsets: Names = None,
    *,
    also: Names = None,
    known: Sequence[str] | None = None,
    in_domain: str | None = None,
) -> ColumnRoles:
    """Recognise what a table is about. Options that are None are recognised; ``none`` and () mean none.

    ``also`` are losses to count among the test sets, by name or wildcard. ``known`` are the test sets of a study, whose
    subjects the table lists, and ``in_domain`` the one marked so.
    """
    columns = table.frame.columns
    groups, places = names_in(by, columns), names_in(order, columns)
    named = {*names_in(control, columns), *names_in(testsets, columns)}
    reshaped = Reshaped(table) if known is not None else reshape_table(table, {*groups, *places}, named)
    if reshaped.answers:
        return infer_answer_columns(table, reshaped)
    table = reshaped.table
    columns = table.frame.columns
    _check_keys(table, groups, places)
    nothing_given = by is order is control is testsets is known is None
    if nothing_given and _are_wide_answers(table):
        return infer_answer_columns(table)
    keys = {*groups, *places}
    roles = roles_in(table.frame, keys)
    chosen = _choose_scores(table, roles, keys, control, testsets, also, known, in_domain)
    scores = []
    for name in dict.fromkeys((*chosen.controls, *chosen.testsets)):
        if name in columns and name not in keys:
            scores.append(name)
    identity = identify_rows(
        replace(table, frame=table.frame.with_columns(table.numbers(name) for name in scores)),
        roles,
        scores,
        None if by is None else groups,
        places[0] if places else None,
        ordered=order is None or bool(places),
        whole=known is not None,
    )
    ignored = {**reshaped.ignored, **chosen.left_out}
    ignored |= _unused_columns(table, roles, {*identity.by, identity.order, *chosen.names, *ignored})
    taken = dict(reshaped.taken)
    for name, role in roles.items():
        if role in IDENTITY and name not in ignored:
            taken[name] = role
    taken |= dict.fromkeys(chosen.names, Role.SCORE)
    was_guessed = (
        control is None
        or (by is None and bool(identity.by))
        or (order is None and identity.order is not None)
        or (testsets is None and not PLAIN.issuperset(ignored.values()))
    )
    short: dict[str, str] = {}
    if known is None and control is None and testsets is None:
        others = [name for name in columns if name not in scores]
        short = short_names(chosen.names, [*others, *identity.by, str(identity.order)])
    controls = tuple(short.get(name, name) for name in chosen.controls)
    sets = tuple(short.get(name, name) for name in chosen.testsets)
    notes = chosen.notes
    if short:
        example = next(iter(short))
        notes = (*notes, f"names are shortened ({example} is {short[example]})")
    in_domain_words = listed(controls) or "not recognised (--control)"
    reading = Reading(
        f"{identity.size}; in-domain: {in_domain_words}; test sets: {len(sets)} ({first_names(sets)})",
        roles={name: str(role) for name, role in taken.items()},
        reasons=_reasons(taken, groups, places, control, testsets),
        left_out=ignored,
        unsaid=UNSAID,
        notes=notes,
        correction=CORRECT_SCORES,
        quiet=not was_guessed,
    )
    return ColumnRoles(
        Kind.SCORES,
        replace(table, frame=identity.frame.rename(short)),
        identity.by,
        identity.order,
        controls,
        sets,
        renamed=short,
        reading=reading,
    )


class ChosenScores(NamedTuple):
    """The in-domain scores and the test sets among the columns of a table, and the scores that were left out."""

    controls: tuple[str, ...]
    testsets: tuple[str, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Both together."""
        return (*self.controls, *self.testsets)


def _choose_scores(
    table: Table,
    roles: dict[str, Role | None],
    keys: set[str],
    control: Names,
    testsets: Names,
    also: Names,
    known: Sequence[str] | None,
    in_domain: str | None,
) -> ChosenScores:
    """Find the scores of a table, and which of them are in-domain. Columns that the user names become scores."""
    columns = table.frame.columns
    controls = tuple(_column_named(name, columns) for name in names_in(control, columns))
    chosen = () if testsets is None else _match_names(testsets, table)
    for name in (*controls, *chosen):
        if name in columns and roles[name] in IDENTITY:
            roles[name] = Role.SCORE
    left_out: dict[str, str] = {}
    if known is None:
        losses = names_in(also, columns)
        # A loss as control is compared with losses.
        if not losses and any(roles.get(name) is Role.LOSS for name in controls):
            losses = ("*",)
        pool = score_columns(table, roles, {*keys, *controls, *chosen}, losses, left_out)
    else:
        pool = list(known)
    if control is None:
        controls = (in_domain,) if in_domain in pool else in_domain_column([*pool, *chosen], table.frame)
        if testsets is not None:
            controls = tuple(name for name in controls if name not in chosen)
    if testsets is not None:
        return ChosenScores(controls, chosen, left_out, ())
    chosen = tuple(name for name in pool if name in columns and name not in {*controls, *keys})
    if known is not None:
        return ChosenScores(controls, chosen, left_out, ())
    distinct = choose_distinct_scores(
        table, chosen, [name for name in controls if name in columns and name not in keys]
    )
    return ChosenScores(controls, distinct.names, left_out | distinct.left_out, distinct.notes)


def _unused_columns(table: Table, roles: Roles, used: Collection[str | None]) -> dict[str, str]:
    """The columns that are not used, and what they seem to be instead."""
    unused = {}
    for values in table.frame.iter_columns():
        # What names a row is its name, also where every row has another and none need be told apart.
        if values.name not in used and roles[values.name] not in (Role.RUN, Role.MODEL):
            is_number = numbers_of(values) is not None
            unused[values.name] = str(roles[values.name] or TEXT) if is_number else TEXT
    return unused


def names_in(given: Names, columns: Sequence[str]) -> tuple[str, ...]:
    """Take names one by one or joined by commas; a column that holds a comma itself is named as it is."""
    entries = [given] if isinstance(given, str) else list(given or ())
    names: list[str] = []
    for entry in entries:
        if entry in columns:
            names.append(entry)
        else:
            names += [part.strip() for part in entry.split(",") if part.strip()]
    if names == [NONE] and NONE not in columns:
        return ()
    return tuple(dict.fromkeys(names))


def _column_named(name: str, columns: Sequence[str]) -> str:
    """The column that a name means: itself, or the only one with a score of the test set of that name."""
    if name in columns:
        return name
    own = [column for column in columns if parse_score(column).testset == plain(name)]
    return own[0] if len(own) == 1 else name


def _match_names(given: Names, table: Table) -> tuple[str, ...]:
    """Test sets by name or wildcard."""
    columns = table.frame.columns
    chosen: list[str] = []
    for pattern in names_in(given, columns):
        matches = [pattern] if pattern in columns else fnmatch.filter(columns, pattern)
        if not matches:
            matches = [name for name in [_column_named(pattern, columns)] if name in columns]
        if not matches:
            raise unknown_column(pattern, columns, table.name, "test set")
        chosen += matches
    return tuple(dict.fromkeys(chosen))


def _check_keys(table: Table, groups: Sequence[str], places: Sequence[str]) -> None:
    """Refuse columns of groups and order that are not there, or that are given for both."""
    columns = table.frame.columns
    for name in (*groups, *places):
        if name not in columns:
            raise unknown_column(name, columns, table.name, "by" if name in groups else "order")
    both = set(groups) & set(places)
    if both:
        raise InputError(f"{table.name}: {listed(both)} is given for both --by and --order; choose one")


def _reasons(
    taken: Mapping[str, Role], groups: Sequence[str], places: Sequence[str], control: Names, testsets: Names
) -> dict[str, str]:
    """Why columns were taken for what they are, where it is not their name that says it."""
    reasons = {}
    for name, role in taken.items():
        if name in groups:
            reasons[name] = "--by"
        elif name in places:
            reasons[name] = "--order"
        elif role is Role.SCORE and (control is not None or testsets is not None):
            reasons[name] = "--control or --testsets"
        elif role_of(name) is not role:
            reasons[name] = "its values"
    return reasons


def _are_wide_answers(table: Table) -> bool:
    """Whether a wide table holds answers, right or wrong, rather than scores."""
    frame = table.frame
    roles = roles_in(frame)
    known = {}
    for name, role in roles.items():
        if role is Role.SCORE and not is_bare(name) and numbers_of(frame[name]) is not None:
            return False
        numbers = numbers_of(frame[name]) if role is None else None
        if numbers is not None:
            known[name] = numbers.drop_nulls()
    if len(known) < 2:
        return False
    if all(numbers.is_in([0.0, 1.0]).all() for numbers in known.values()):
        return True
    items = sum(bool(ITEM_NAME.fullmatch(name)) for name in known)
    if items <= MOSTLY_ITEMS * len(known):
        return False
    return all(numbers.is_between(0, 1).all() for numbers in known.values())


def infer_answer_columns(table: Table, reshaped: Reshaped | None = None) -> ColumnRoles:
    """Recognise what a table of answers is about: long as reshaped, or wide with a row per subject."""
    named = {role_of(name) for name in table.frame.columns}
    if reshaped is None and Role.CORRECT in named and not named & {Role.ITEM, Role.ROW}:
        raise unknown_column("item", table.frame.columns, table.name, "which item a row is about")
    if reshaped is None:
        reshaped = reshape_table(table)
    if reshaped.answers and "correct" in reshaped.table.frame.columns:
        return _long_answers(reshaped)
    return _wide_answers(reshaped)


def _long_answers(reshaped: Reshaped) -> ColumnRoles:
    """A long table: a row per answer."""
    table, frame = reshaped.table, reshaped.table.frame
    roles = roles_in(frame)
    old_names = {new: old for old, new in reshaped.renamed.items()}
    size = ""
    subjects = [name for role in (Role.RUN, Role.MODEL) for name in frame.columns if roles[name] is role]
    if subjects:
        name = subjects[0]
        size = f"{_counted(frame[name].n_unique(), roles[name])} ({old_names.get(name, name)}) x "
    keys = [name for name in frame.columns if name in ("testset", "item")]
    size += f"{_counted(frame.select(keys).n_unique(), Role.ITEM)} ({old_names.get('item', 'item')})"
    if "testset" in keys:
        sets = _counted(frame["testset"].n_unique(), Role.TESTSET)
        size += f" of {sets} ({old_names.get('testset', 'testset')})"
    size += f"; right or wrong: {old_names.get('correct', 'correct')}"
    reading = Reading(
        size,
        roles={name: str(role) for name, role in reshaped.taken.items()},
        left_out=reshaped.ignored,
        unsaid=UNSAID,
        correction=CORRECT_ANSWERS,
        quiet=not (reshaped.renamed or reshaped.ignored),
    )
    return ColumnRoles(Kind.ANSWERS, table, renamed=reshaped.renamed, reading=reading)


def _wide_answers(reshaped: Reshaped) -> ColumnRoles:
    """A wide table: a row per subject and a column per item."""
    table, frame = reshaped.table, reshaped.table.frame
    roles = roles_in(frame)
    items, binary = _item_columns(table, roles)
    keys = _subject_keys(frame, roles)
    if keys and frame[keys[0]].is_duplicated().any() and Role.ORDER in roles.values():
        # Several rows per name, with steps: answers of checkpoints are 0 and 1 throughout and have distinct keys.
        if len(binary) < len(items) or frame.select(keys).is_duplicated().any():
            raise InputError(
                f"{table.name}: has several rows per {keys[0]}, so it looks like scores of checkpoints; answers have a "
                "row per subject and a column per item, or columns subject, item, correct. `breadth correlate` reads "
                "scores"
            )
    if keys:
        parts = [pl.col(name).cast(pl.String).fill_null("") for name in keys]
        subject = pl.concat_str(parts, separator=" / ")
    else:
        subject = pl.int_range(frame.height).cast(pl.String)
    if "subject" in items:
        raise InputError(f"{table.name}: an item is called 'subject', which is kept for subjects; rename it")
    left_out = dict(reshaped.ignored)
    for name in frame.columns:
        if name not in items and name not in keys:
            left_out[name] = str(roles[name] or TEXT)
    size = f"{frame.height:,} subjects ({', '.join(keys) or 'rows'}) x {_counted(len(items), Role.ITEM)}"
    if reshaped.answers:
        size += ", transposed"
    taken = {**reshaped.taken, **dict.fromkeys(keys, Role.MODEL), **dict.fromkeys(items, Role.ITEM)}
    reading = Reading(
        size,
        roles={name: str(role) for name, role in taken.items()},
        left_out=left_out,
        unsaid=UNSAID,
        correction=CORRECT_ANSWERS if set(left_out.values()) - UNSAID else "",
    )
    return ColumnRoles(
        Kind.ANSWERS, replace(table, frame=frame.select(subject.alias("subject"), *items)), reading=reading
    )


def _item_columns(table: Table, roles: Mapping[str, Role | None]) -> tuple[list[str], set[str]]:
    """The columns of items of a wide table, and those of them that hold 0 and 1 only."""
    frame = table.frame
    numeric = {}
    binary = set()
    for name, role in roles.items():
        if role in (*IDENTITY, Role.ROW, Role.OTHER):
            continue
        numbers = numbers_of(frame[name], fewest=0)
        if numbers is None:
            continue
        numeric[name] = numbers
        if numbers.drop_nulls().is_in([0.0, 1.0]).all():
            binary.add(name)
    items = [name for name in numeric if name in binary or roles[name] in (None, Role.SCORE)]
    if binary:  # beside answers, a bare score is the sum of points
        items = [name for name in items if name in binary or not is_bare(name)]
    if not items:
        raise InputError(f"{table.name}: no column holds answers. Columns: {listed(frame.columns, 40)}")
    return items, binary


def _subject_keys(frame: pl.DataFrame, roles: Mapping[str, Role | None]) -> list[str]:
    """Columns that together name the subject of a row of a wide table."""
    names = sorted(subject_columns(frame, roles), key=lambda name: roles[name] is not Role.MODEL)
    for name in names:
        if frame[name].n_unique() == frame.height:
            return [name]
    keys = names[:1]
    if not keys:
        return []
    for role in IDENTITY:
        for name in frame.columns:
            if roles[name] is role and name not in keys and frame.select(keys).is_duplicated().any():
                keys.append(name)
    return keys


def _counted(number: int, role: Role | None) -> str:
    noun = str(role)
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"
