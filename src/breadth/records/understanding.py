"""What a table is about: which columns are runs, steps, the in-domain score and test sets, and which are none of these.

Names decide first (:mod:`breadth.records.roles`), content next. What the user says always counts, what cannot be told
is asked, and what was recognised is said in two lines.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records.arranging import IDENTITY, Arranged, arrange, numbers_of, roles_in
from breadth.records.identity import identify, subject_columns
from breadth.records.roles import Role, is_bare, role_of
from breadth.records.score_columns import FLAG, NUMBERED, TEXT, distinct_scores, in_domain_column, score_columns
from breadth.records.tables import Table

Names = str | Sequence[str] | None

#: Written for an option where nothing is meant, so that nothing is recognised either.
NONE = "none"

#: Names of the items of wide tables of answers.
ITEM_NAME = re.compile(r"(?:q|item|question|problem|task|prob|v|x)[ _.-]?\d+", re.IGNORECASE)

#: Names that a line lists of each kind.
SHOWN = 4


class Kind(Enum):
    """What a table holds."""

    SCORES = "scores"
    ANSWERS = "answers"


@dataclass(frozen=True)
class Understanding:
    """What a table is about.

    ``table`` is the table as arranged: of scores a row per checkpoint and a column per test set; of answers with the
    column names that breadth uses (``renamed`` maps the old to them). ``roles`` says what columns were taken for,
    ``ignored`` why the others were left out, ``size`` how much there is; ``guessed`` is whether anything of this was
    recognised rather than given.
    """

    kind: Kind
    table: Table
    by: tuple[str, ...] = ()
    order: str | None = None
    controls: tuple[str, ...] = ()
    testsets: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    size: str = ""
    guessed: bool = True

    def lines(self) -> tuple[str, ...]:
        """What was recognised, and what was left out, in at most two lines; none if the user said it all."""
        if not self.guessed:
            return ()
        reasons: dict[str, list[str]] = {}
        for name, reason in self.ignored.items():
            if reason not in UNSAID and name.strip():
                reasons.setdefault(reason, []).append(name)
        shown = ", ".join(f"{_first(names)} ({reason})" for reason, names in reasons.items())
        ignored = f"ignored: {shown}; " if shown else ""
        if self.kind is Kind.ANSWERS:
            remedy = f"{ignored}wrong? rename columns to model, step, testset, item, correct"
            return (self.size, remedy) if shown or self.renamed else (self.size,)
        control = listed(self.controls) or "not recognised (--control)"
        sets = f"test sets: {len(self.testsets)} ({_first(self.testsets)})"
        return f"{self.size}; in-domain: {control}; {sets}", f"{ignored}wrong? --by, --order, --control, --testsets"


#: Reasons that are not listed, and those that are listed only beside others: nobody takes such columns for test sets.
UNSAID = frozenset({TEXT, *map(str, (Role.RUN, Role.MODEL, Role.CONDITION, Role.ROW))})
PLAIN = UNSAID | {NUMBERED, FLAG, *map(str, (Role.ORDER, Role.TIME, Role.OTHER))}


def understand(
    table: Table,
    by: Names = None,
    order: str | None = None,
    control: Names = None,
    testsets: Names = None,
    *,
    also: Names = None,
    known: Sequence[str] | None = None,
    in_domain: str | None = None,
) -> Understanding:
    """Recognise what a table is about. Options that are None are recognised; ``none`` and () mean none.

    ``also`` are losses to count among the test sets, by name or wildcard. ``known`` are the test sets of a study, whose
    subjects the table lists, and ``in_domain`` the one marked so.
    """
    columns = table.frame.columns
    groups, places = names_in(by, columns), names_in(order, columns)
    named = {*names_in(control, columns), *names_in(testsets, columns)}
    arranged = Arranged(table) if known is not None else arrange(table, {*groups, *places}, named)
    if arranged.answers:
        return understand_answers(table, arranged)
    table, columns = arranged.table, arranged.table.frame.columns
    for name in (*groups, *places):
        if name not in columns:
            raise unknown_column(name, columns, table.name, "by" if name in groups else "order")
    if both := set(groups) & set(places):
        raise InputError(f"{table.name}: {listed(both)} is given for both --by and --order; choose one")
    if by is order is control is testsets is known is None and _are_answers(table):
        return understand_answers(table)
    keys, ignored = {*groups, *places}, dict(arranged.ignored)
    roles = roles_in(table.frame, keys)
    controls = names_in(control, columns)
    chosen = () if testsets is None else _matching(testsets, table)
    roles |= {name: Role.SCORE for name in (*controls, *chosen) if name in columns and roles[name] in IDENTITY}
    if known is None:
        losses = names_in(also, columns) or ("*",) * any(roles.get(name) is Role.LOSS for name in controls)
        pool = score_columns(table, roles, {*keys, *controls, *chosen}, losses, ignored)
    else:
        pool = list(known)
    if control is None:
        controls = (in_domain,) if in_domain in pool else in_domain_column([*pool, *chosen], table.frame)
        controls = tuple(name for name in controls if testsets is None or name not in chosen)
    if testsets is None:
        chosen = tuple(name for name in pool if name in columns and name not in {*controls, *keys})
        scores = [name for name in controls if name in columns and name not in keys]
        chosen = distinct_scores(table, chosen, scores, ignored) if known is None else chosen
    scores = [name for name in dict.fromkeys((*controls, *chosen)) if name in columns and name not in keys]
    identity = identify(
        replace(table, frame=table.frame.with_columns(table.numbers(name) for name in scores)),
        roles, scores, None if by is None else groups, places[0] if places else None,
        ordered=order is None or bool(places), whole=known is not None,
    )  # fmt: skip
    taken = {name: role for name, role in roles.items() if role in IDENTITY and name not in ignored}
    used = {*identity.by, identity.order, *controls, *chosen}
    for values in table.frame.iter_columns():
        if values.name not in {*used, *ignored}:
            ignored[values.name] = str(roles[values.name] or TEXT) if numbers_of(values) is not None else TEXT
    return Understanding(
        Kind.SCORES,
        replace(table, frame=identity.frame),
        identity.by,
        identity.order,
        controls,
        chosen,
        dict(arranged.taken) | taken | dict.fromkeys((*controls, *chosen), Role.SCORE),
        ignored,
        size=identity.size,
        guessed=control is None
        or (by is None and bool(identity.by))
        or (order is None and identity.order is not None)
        or (testsets is None and not PLAIN.issuperset(ignored.values())),
    )


def names_in(given: Names, columns: Sequence[str]) -> tuple[str, ...]:
    """Take names one by one or joined by commas; a column that holds a comma itself is named as it is."""
    names: list[str] = []
    for entry in [given] if isinstance(given, str) else given or ():
        names += [entry] if entry in columns else [part.strip() for part in entry.split(",") if part.strip()]
    return () if names == [NONE] and NONE not in columns else tuple(dict.fromkeys(names))


def _matching(given: Names, table: Table) -> tuple[str, ...]:
    """Test sets by name or wildcard."""
    columns, chosen = table.frame.columns, list[str]()
    for pattern in names_in(given, columns):
        matches = [pattern] if pattern in columns else fnmatch.filter(columns, pattern)
        if not matches:
            raise unknown_column(pattern, columns, table.name, "test set")
        chosen += matches
    return tuple(dict.fromkeys(chosen))


def _are_answers(table: Table) -> bool:
    """Whether a wide table holds answers, right or wrong, rather than scores."""
    frame, roles = table.frame, roles_in(table.frame)
    scores = [name for name, role in roles.items() if role is Role.SCORE and not is_bare(name)]
    if any(numbers_of(frame[name]) is not None for name in scores):
        return False
    columns = {name: numbers_of(frame[name]) for name, role in roles.items() if role is None}
    known = {name: numbers.drop_nulls() for name, numbers in columns.items() if numbers is not None}
    items = sum(bool(ITEM_NAME.fullmatch(name)) for name in known) > 0.8 * len(known)
    right = all(numbers.is_in([0.0, 1.0]).all() for numbers in known.values())
    return len(known) > 1 and (right or (items and all(each.is_between(0, 1).all() for each in known.values())))


def understand_answers(table: Table, arranged: Arranged | None = None) -> Understanding:
    """Recognise what a table of answers is about: long as arranged, or wide with a row per subject."""
    named = {role_of(name) for name in table.frame.columns}
    if arranged is None and Role.CORRECT in named and not named & {Role.ITEM, Role.ROW}:
        raise unknown_column("item", table.frame.columns, table.name, "which item a row is about")
    arranged = arranged or arrange(table)
    table, frame = arranged.table, arranged.table.frame
    roles = roles_in(frame)
    if arranged.answers and "correct" in frame.columns:
        old = {new: name for name, new in arranged.renamed.items()}
        names = [name for role in (Role.RUN, Role.MODEL) for name in frame.columns if roles[name] is role][:1]
        size = "".join(f"{_counted(frame[name].n_unique(), roles[name])} ({old.get(name, name)}) x " for name in names)
        items = [name for name in frame.columns if name in ("testset", "item")]
        size += f"{_counted(frame.select(items).n_unique(), Role.ITEM)} ({old.get('item', 'item')})"
        if len(items) > 1:
            size += f" of {_counted(frame['testset'].n_unique(), Role.TESTSET)} ({old.get('testset', 'testset')})"
        size += f"; right or wrong: {old.get('correct', 'correct')}"
        ignored, changed = arranged.ignored, arranged.renamed
        return Understanding(
            Kind.ANSWERS, table, roles=arranged.taken, ignored=ignored, renamed=changed, size=size,
            guessed=bool(changed or ignored),
        )  # fmt: skip
    left_out = (*IDENTITY, Role.ROW, Role.OTHER)
    columns = {name: numbers_of(frame[name], fewest=0) for name, role in roles.items() if role not in left_out}
    numeric = {name: numbers.drop_nulls() for name, numbers in columns.items() if numbers is not None}
    binary = {name for name, numbers in numeric.items() if numbers.is_in([0.0, 1.0]).all()}
    items = [name for name in numeric if name in binary or roles[name] in (None, Role.SCORE)]
    if binary:  # the sum of points, say
        items = [name for name in items if name in binary or not is_bare(name)]
    if not items:
        raise InputError(f"{table.name}: no column holds answers. Columns: {listed(frame.columns, 40)}")
    keys = sorted(subject_columns(frame, roles), key=lambda name: roles[name] is not Role.MODEL)
    keys = [name for name in keys if frame[name].n_unique() == frame.height][:1] or keys[:1]
    for name in (name for role in IDENTITY for name in frame.columns if roles[name] is role and keys):
        if frame.select(keys).is_duplicated().any() and name not in keys:
            keys.append(name)
    repeated = keys and frame[keys[0]].is_duplicated().any()
    if (
        repeated
        and Role.ORDER in roles.values()
        and (len(binary) < len(items) or frame.select(keys).is_duplicated().any())
    ):
        raise InputError(
            f"{table.name}: has several rows per {keys[0]}, so it looks like scores of checkpoints; answers have a row "
            "per subject and a column per item, or columns subject, item, correct. `breadth correlate` reads scores"
        )
    parts = [pl.col(name).cast(pl.String).fill_null("") for name in keys]
    subject = pl.concat_str(parts, separator=" / ") if keys else pl.int_range(frame.height).cast(pl.String)
    left = {name: str(roles[name] or TEXT) for name in frame.columns if name not in {*items, *keys}}
    rows = f"{frame.height:,} subjects ({', '.join(keys) or 'rows'})"
    return Understanding(
        Kind.ANSWERS,
        replace(table, frame=frame.select(subject.alias("subject"), *items)),
        roles={**arranged.taken, **dict.fromkeys(keys, Role.MODEL), **dict.fromkeys(items, Role.ITEM)},
        ignored={**arranged.ignored, **left},
        size=f"{rows} x {_counted(len(items), Role.ITEM)}{', transposed' * arranged.answers}",
    )


def _first(names: Sequence[str]) -> str:
    return ", ".join([*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])])


def _counted(number: int, role: Role | None) -> str:
    return f"{number:,} {role}{'s' * (number != 1)}"
