"""A short description of every column of a frame, which changes when a number or a name in it does."""

import json
import math

import numpy as np
import polars as pl
import xxhash

#: Columns of sentences, of which only the nulls are kept: a better sentence must not look like a changed number.
SENTENCES = {"reason", "notes", "note", "message", "finding", "description", "doubt", "about", "where"}

#: How far a number may move: a solver may stop a step earlier on another machine.
RELATIVE, ABSOLUTE = 1e-6, 1e-9

#: What is written about a column of numbers, in this order.
NUMBERS = ("type", "nulls", "not finite", "sum", "min", "max", "sum of value x row")


def digest_tables(tables, roots):
    """Describe every table; ``roots`` maps directories of this machine to what is written in their place."""
    return {name: digest_frame(frame, roots) for name, frame in tables.items()}


def digest_frame(frame, roots):
    """Number of rows, and a list per column: type, nulls, then numbers or a hash."""
    columns = {}
    for column in frame.iter_columns():
        if column.name in SENTENCES:
            columns[column.name] = [str(column.dtype), column.null_count()]
        else:
            columns[column.name] = digest_column(column, roots)
    return {"rows": frame.height, "columns": columns}


def digest_column(column, roots):
    dtype = str(column.dtype)
    if len(dtype) > 60:  # a struct or an enumeration
        dtype = hash_texts([dtype])
    start = [dtype, column.null_count()]
    if column.null_count() == len(column):
        return start
    if column.dtype.is_numeric():
        return start + digest_numbers(column)
    return [*start, hash_texts(cell_text(value, roots) for value in column)]


def digest_numbers(column):
    values = column.cast(pl.Float64).fill_null(math.nan).to_numpy()
    finite = np.isfinite(values)
    not_finite = int((~finite).sum()) - column.null_count()
    known = values[finite]
    if not len(known):
        return [not_finite, None, None, None, None]
    places = np.flatnonzero(finite) + 1
    numbers = (math.fsum(known), known.min(), known.max(), math.fsum(known * places))
    return [not_finite, *(float(f"{number:.10g}") for number in numbers)]


def hash_texts(texts):
    return xxhash.xxh64("\x1f".join(texts).encode()).hexdigest()


def cell_text(value, roots):
    """A cell as text, with directories of this machine replaced, and real numbers rounded."""
    if isinstance(value, str):
        for root, name in roots.items():
            value = value.replace(root, name)
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | pl.Series):
        return "[" + ", ".join(cell_text(one, roots) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {cell_text(one, roots)}" for key, one in value.items()) + "}"
    return str(value)


def differences(old, new):
    """What differs between two descriptions of the same tables, a line per table or column."""
    lines = []
    for table in [*old, *(name for name in new if name not in old)]:
        if table not in new:
            lines.append(f"{table}: the table is gone")
        elif table not in old:
            lines.append(f"{table}: is a new table")
        else:
            lines += [f"{table}{line}" for line in table_differences(old[table], new[table])]
    return lines


def table_differences(old, new):
    lines = []
    if old["rows"] != new["rows"]:
        lines.append(f": {old['rows']} rows became {new['rows']}")
    before, after = old["columns"], new["columns"]
    for column in [*before, *(name for name in after if name not in before)]:
        if column not in after:
            lines.append(f".{column}: the column is gone")
        elif column not in before:
            lines.append(f".{column}: is a new column")
        else:
            lines += [f".{column}: {line}" for line in column_differences(before[column], after[column])]
    if not lines and list(before) != list(after):
        lines.append(f": columns {', '.join(before)} are now in the order {', '.join(after)}")
    return lines


def column_differences(old, new):
    if len(old) != len(new):
        return [f"{old} became {new}"]
    words = NUMBERS if len(old) == len(NUMBERS) else ("type", "nulls", "hash of the values")
    lines = []
    for word, before, after in zip(words, old, new, strict=False):
        if not same(before, after):
            lines.append(f"{word} {before} became {after}")
    return lines


def same(before, after):
    if isinstance(before, int | float) and isinstance(after, int | float):
        return math.isclose(before, after, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return before == after


def as_json(digests):
    """JSON with a line per column, so that a change of one column is one changed line."""
    tables = []
    for table, digest in digests.items():
        columns = [f"{json.dumps(name)}:{compact(column)}" for name, column in digest["columns"].items()]
        body = ",\n".join(columns)
        tables.append(f'{json.dumps(table)}:{{"rows":{digest["rows"]},"columns":{{\n{body}}}}}')
    return "{" + ",\n".join(tables) + "}\n"


def compact(value):
    return json.dumps(value, separators=(",", ":"))
