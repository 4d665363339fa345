"""What a page carries for its script: tables by column, the texts of items, and every single answer, packed small."""

from __future__ import annotations

import base64
import string
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.records import Study
from breadth.reporting.data import ReportData

#: Digits that numbers keep in a page and its downloads.
DIGITS = 7

#: Texts with fewer different values than this share of the rows are written once and numbered.
FEW_VALUES = 0.5

#: Columns of tables with more rows than this are deflated.
MANY_ROWS = 2_000

#: Most answers (subjects x items) that a page carries. Beyond that it carries evenly spaced checkpoints of every run;
#: if not even the last ones fit, none.
MOST_ANSWERS = 12_000_000

#: Items whose answers are deflated together. Opening an item inflates one such chunk.
CHUNK = 64

#: Steps per unit of asinh(margin): margins near 0 are kept to an eighth, large ones to an eighth of their size.
FINENESS = 4

#: Characters of each text field that a page carries, and of all texts together; a small study keeps longer texts.
MOST_CHARACTERS, MOST_TEXT = 600, 8_000_000

#: Most characters of an answer that a model wrote, and of all different answers together.
ANSWER_CHARACTERS, MOST_ANSWER_TEXT = 80, 2_000_000

#: Columns of items that are not texts to show.
NOT_TEXT = ("item", "testset", "shift", "label", "template", "pair", "id", "answer", "source", "split")

Bytes = npt.NDArray[np.uint8]


def deflated(values: npt.NDArray[Any]) -> str:
    """The bytes of an array, deflated, as base64 text; the page inflates them when it needs them."""
    return base64.b64encode(zlib.compress(values.tobytes())).decode()


def table_columns(frame: pl.DataFrame) -> dict[str, Any]:
    """A frame by column: lists, repeated texts as numbers into a list of names, long columns deflated."""
    long = frame.height > MANY_ROWS
    columns: dict[str, Any] = {}
    for name, values in frame.to_dict().items():
        if values.dtype.is_float():
            rounded = values.fill_nan(None).round_sig_figs(DIGITS)
            columns[name] = _packed(rounded.cast(pl.Float32), np.nan) if long else rounded.to_list()
        elif values.dtype == pl.String and values.n_unique() < FEW_VALUES * values.len():
            names = values.unique(maintain_order=True).drop_nulls()
            codes = values.replace_strict(names, range(names.len()), default=None, return_dtype=pl.Int32)
            columns[name] = {"names": names.to_list(), "codes": _packed(codes, -1) if long else codes.to_list()}
        elif long and values.dtype.is_integer() and _fits(values):
            columns[name] = _packed(values.cast(pl.Int32), int(np.iinfo(np.int32).min))
        else:
            columns[name] = values.to_list()
    return columns


def _packed(values: pl.Series, missing: float) -> dict[str, Any]:
    """A column of numbers, deflated; nulls are ``missing`` (for real numbers NaN, which JSON could not name)."""
    kind = "f4" if values.dtype.is_float() else "i4"
    packed = {"packed": deflated(values.fill_null(missing).to_numpy().astype(f"<{kind}")), "type": kind}
    return packed | ({"null": missing} if kind == "i4" else {})


def _fits(values: pl.Series) -> bool:
    bound = np.iinfo(np.int32).max
    return bool(values.is_null().all() or (values.min() > -bound and values.max() < bound))  # type: ignore[operator]


def text_fields(items: pl.DataFrame) -> list[str]:
    """Columns of items that hold their texts."""
    return [name for name in items.columns if items[name].dtype == pl.String and name not in NOT_TEXT]


def shown_items(data: ReportData) -> npt.NDArray[np.intp]:
    """Places in the study of the rows of the table ``items``."""
    keys = data.study.items.select("testset", "item").with_row_index("place")
    shown = data.table("items").select("testset", "item")
    places = shown.join(keys, on=["testset", "item"], how="left", maintain_order="left")["place"]
    return places.to_numpy().astype(np.intp)


def item_texts(data: ReportData) -> dict[str, Any]:
    """Text fields and options of the items in the table, and the prompt of every test set whose runs recorded it.

    A prompt is a list of [text, field that follows it], so that the page can fill it in.
    """
    study = data.study
    prompts, used = _prompts(study)
    items = study.items[shown_items(data)]
    fields = text_fields(items)
    fields += [name for name in items.columns if name in used and name not in (*fields, "options", "option_labels")]
    limit = max(MOST_CHARACTERS, MOST_TEXT // max(1, items.height * len(fields)))
    columns: dict[str, Any] = {}
    for name in fields:
        text = items[name].cast(pl.String, strict=False).str.strip_chars()
        cut = pl.select(pl.when(text.str.len_chars() > limit).then(text.str.head(limit) + " …").otherwise(text))
        columns[name] = cut.to_series()
    lists = [name for name in ("options", "option_labels") if name in items.columns]
    kept = [name for name in lists if isinstance(items.schema[name], pl.List)]
    examples = [record.examples for record in study.runs.values() if record.method == "few-shot" and record.examples]
    return {
        "fields": fields,
        "columns": table_columns(pl.DataFrame(columns)) if columns else {},
        "options": {name: items[name].to_list() for name in kept},
        "prompts": prompts,
        "examples": max(examples, default=0),
    }


def _prompts(study: Study) -> tuple[dict[str, Any], set[str]]:
    """Prompts by test set as the runs recorded them, and the fields that they use."""
    tasks: dict[str, Mapping[str, Any]] = {}
    for record in study.runs.values():
        tasks = {name: task for name, task in record.tasks.items() if isinstance(task, Mapping)} | tasks
    prompts, used = {}, set()
    for name, task in tasks.items():
        try:
            parts = [(text, field) for text, field, _, _ in string.Formatter().parse(str(task.get("template", "")))]
        except ValueError:
            continue
        answers = task.get("answers")
        prompts[name] = {"parts": parts, "answers": answers if isinstance(answers, Mapping) else {}}
        used |= {field for _, field in parts if field}
    return prompts, used


def single_answers(data: ReportData) -> dict[str, Any]:
    """Every answer to the items in the table: right or wrong, and its margin; or the ``reason`` why there are none.

    ``chunks`` holds the answers item by item (:func:`coded`). ``ends`` has the last answers of every run [runs x
    items], and ``said`` what they were, as numbers into ``names`` (0: unknown), where the study stored it.
    """
    study, items = data.described, shown_items(data)
    rows = kept_checkpoints(study.subjects, len(items))
    ends = study.ends
    if not len(rows):
        return {"reason": f"{ends.height:,} x {len(items):,} answers are more than a page can carry"}
    chunks = []
    for start in range(0, len(items), CHUNK):
        cut = np.ix_(rows, items[start : start + CHUNK])
        codes = coded(study.matrix[cut], None if study.margin is None else study.margin[cut]).T
        chunks.append(deflated(codes))
    last = ends["last"].to_numpy()
    kept = study.subjects[rows]
    return {
        "subjects": table_columns(kept.select("run", "step")),
        "runs": table_columns(ends.select("run", "model", "last_step")),
        "checkpoints": [len(rows), study.subjects.height],
        "shares": study.matrix.dtype != np.int8,
        "fineness": FINENESS,
        "chunk": CHUNK,
        "chunks": chunks,
        "ends": deflated(coded(study.matrix[np.ix_(last, items)], None)),
        **_said(data, last, items),
    }


def kept_checkpoints(subjects: pl.DataFrame, items: int) -> npt.NDArray[np.intp]:
    """Rows of the subjects whose answers fit on a page, by run and step; the last of every run is among them."""
    runs = subjects.with_row_index("row").sort("run", "step").group_by("run", maintain_order=True).agg("row")
    most = MOST_ANSWERS // max(1, items * runs.height)
    kept = [np.empty(0, dtype=np.intp)]
    for rows in runs["row"] if most else ():
        places = np.linspace(rows.len() - 1, 0, min(most, rows.len())).round().astype(np.intp)[::-1]
        kept.append(rows.to_numpy()[places].astype(np.intp))
    return np.concatenate(kept)


def coded(matrix: npt.NDArray[Any], margin: npt.NDArray[Any] | None) -> Bytes:
    """Answers as bytes. 0: none. Shares: 1 + percent. Right and wrong: 1 + 2 m + right, where m is 0 if unknown.

    m is 32 plus the margin on the scale of asinh, rounded to 1 / ``FINENESS`` and cut at 31.
    """
    if matrix.dtype != np.int8:
        return np.where(np.isnan(matrix), 0, 1 + np.nan_to_num(100 * matrix).round()).astype(np.uint8)
    code = 1 + matrix.astype(np.int16)
    if margin is not None:
        size = np.clip(np.nan_to_num(FINENESS * np.arcsinh(margin)).round(), -31, 31).astype(np.int16)
        code += np.where(np.isnan(margin), 0, 2 * (32 + size)).astype(np.int16)
    return np.where(matrix < 0, 0, code).astype(np.uint8)


def _said(data: ReportData, last: npt.NDArray[Any], items: npt.NDArray[np.intp]) -> dict[str, Any]:
    """What runs answered at the end, where that was stored and is short enough."""
    study = data.study
    ends = study.select(np.isin(np.arange(study.subjects.height), last).tolist())
    if "answer" not in ends.responses.collect_schema().names():
        return {}
    column = study.items[items].select("testset", "item").with_row_index("column")
    row = pl.DataFrame({"subject": study.subjects["subject"].gather(last)}).with_row_index("row")
    answer = pl.col("answer").cast(pl.String).str.strip_chars().str.head(ANSWER_CHARACTERS)
    found = ends.responses.select("subject", "testset", "item", answer).drop_nulls().collect()
    found = found.join(column, on=["testset", "item"]).join(row, on="subject")
    names = found["answer"].unique().sort()
    if not names.len() or names.len() > np.iinfo(np.uint16).max - 1 or names.str.len_chars().sum() > MOST_ANSWER_TEXT:
        return {}
    codes = np.zeros((len(last), len(items)), dtype="<u2")
    number = found["answer"].replace_strict(names, range(1, names.len() + 1), return_dtype=pl.UInt16)
    codes[found["row"].to_numpy(), found["column"].to_numpy()] = number.to_numpy()
    return {"said": deflated(codes), "names": names.to_list()}
