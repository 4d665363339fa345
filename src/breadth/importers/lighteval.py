"""lighteval: the Parquet files of details that it writes per task. lighteval is not needed.

Since version 0.10 a row has the columns ``doc``, ``model_response`` and ``metric``. Up to 0.9, and in the details of
the first Open LLM Leaderboard, a row is flat (``example``, ``choices``, ``gold_index``, ``predictions``, ``metrics``),
and where Arrow refused the types every cell is text; these are written from lighteval's source code, not tried on a
real log. Types differ between tasks, so every file is read by its own schema.

- **Item**: a hash of the query, with the choices where the model chose among them, and ``#2`` for the second one of the
  same text; ``doc.id`` is only a position.
- **Test set**: the task without its suite and its number of examples; these two are settings.
- **Metric**: an exact match, else ``acc``, else as the log lists them.
- **Margin**: from the log-probabilities of the choices, divided by their length for ``acc_norm``. A rule is accepted
  only if its likeliest choice gives the log's own value on every row.
- **Subject**: the model, its revision, weights and precision, as ``results_*.json`` of the same run states them; that
  file states the means, too. Without it, the model is named by the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from breadth.importers.lighteval_rows import NEW, OLD, Question, margins_of, questions
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part
from breadth.importers.reading import LogFile, mapping, number, numbered, plain, words

#: Names of metrics, the preferred first.
PREFERRED = tuple(
    map(re.compile, (r"(?:exact|extractive)_match.*|em", r".*pass@(?:k:k=)?1(?!\d).*", r"acc", r"mc1", r"acc.*"))
)

_NAME = re.compile(r"details_(.+)_(\d{4}-\d\d-\d\dT\d\d[-:_]\d\d[-:_]\d\d(?:\.\d+)?)\.parquet")
_RESULTS = re.compile(r"results_(.+)\.json")

Row = Mapping[str, Any]


class Lighteval(Importer):
    """Reads details of lighteval."""

    name: ClassVar[str] = "lighteval"

    def part(self, file: LogFile) -> Part | None:
        """Parquet files by their columns; results are companions where the details of their run are there."""
        if columns := file.columns:
            return Part.ANSWERS if columns >= NEW or columns >= OLD else None
        if file.is_list or not {"config_general", "results"} <= file.keys:
            return None
        stamp = _RESULTS.fullmatch(file.path.name)
        folders = [file.path.parent, *_swapped(file.path.parent, "results", "details")]
        return Part.COMPANION if stamp and any((folder / stamp[1]).is_dir() for folder in folders) else Part.SCORES

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read the details of one task."""
        named = _NAME.fullmatch(unquote(file.path.name))
        rows = list(questions(file))
        if not rows:
            raise LeftOut("no rows")
        key = named[1] if named else rows[0].task or file.path.stem
        stamp = named[2] if named else ""
        results = _results(file.path, stamp)
        general = mapping(results.get("config_general"))
        names = _ranked(list(dict.fromkeys(name for row in rows for name in row.metrics)))
        if not names:
            raise LeftOut("no metric of a single answer is a number")
        suite, task, shots = _task(key)
        margins, answers = margins_of(rows, names, options.metric)
        stated = mapping(mapping(results.get("results")).get(key))
        yield Log(
            path=str(file.path),
            tool=self.name,
            version=_known(general.get("lighteval_sha")),
            testset=task,
            model=_model(file.path, general),
            items=numbered(row.item for row in rows),
            values={Metric(name): [row.metrics.get(name) for row in rows] for name in names},
            prefer=names,
            margins=margins,
            answers=answers,
            texts=_texts(rows) if options.texts else {},
            subject=_subject(general),
            settings={"num_fewshot": shots, "suite": suite, **_generation(general)},
            stamp=stamp,
            stated={Metric(name): mean for name in names if (mean := number(stated.get(name))) is not None},
            notes=[] if results else ["no results of this run were found; the model is named by the path"],
        )


def _ranked(names: Sequence[str]) -> list[str]:
    def rank(name: str) -> int:
        return next((k for k, pattern in enumerate(PREFERRED) if pattern.fullmatch(name)), len(PREFERRED))

    return sorted(names, key=rank)


def _task(key: str) -> tuple[str | None, str, int | None]:
    """Suite, task and number of examples: leaderboard|arc:challenge|25, arc:challenge|25, or a bare task."""
    parts = key.split("|")
    cut = next((k for k, part in enumerate(parts) if k and part.isdecimal()), len(parts))
    names, shots = parts[:cut], parts[cut] if cut < len(parts) else ""
    suite = names[0] if len(names) > 1 else None
    return suite or None, "|".join(names[1:] if suite else names) or key, int(shots) if 0 < len(shots) < 10 else None


def _texts(rows: Sequence[Question]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"text": [], "options": [], "option_labels": [], "label": [], "target": []}
    for row in rows:
        labels = row.labels if row.logprobs else []
        gold = [row.choices[k] for k in row.gold]
        columns["text"].append(row.query)
        columns["options"].append([choice.strip() for choice in row.choices] if labels else None)
        columns["option_labels"].append(labels or None)
        columns["label"].append(labels[row.gold[0]] if labels and len(row.gold) == 1 else None)
        columns["target"].append(" | ".join(gold) if gold and not labels else None)
    return {name: column for name, column in columns.items() if any(column)}


def _swapped(folder: Path, old: str, new: str) -> list[Path]:
    """The folder with its last part ``old`` replaced by ``new``: details and results lie in parallel directories."""
    parts = list(folder.parts)
    places = [k for k, part in enumerate(parts) if part == old]
    return [Path(*parts[: places[-1]], new, *parts[places[-1] + 1 :])] if places else []


def _results(path: Path, stamp: str) -> Row:
    """The results of the run that wrote a file of details; nothing where they are not there."""
    folder = path.parent.parent
    for candidate in (*_swapped(folder, "details", "results"), folder, path.parent):
        results = candidate / f"results_{stamp}.json"
        if stamp and results.is_file():
            return mapping(LogFile.look(results).json())
    return {}


def _model(path: Path, general: Row) -> str:
    stated = words(general.get("model_name")) or words(mapping(general.get("model_config")).get("model_name"))
    if stated:
        return stated
    folder = path.parent.parent
    if "details" in folder.parts[:-1]:
        last = len(folder.parts) - 1 - folder.parts[::-1].index("details")
        return "/".join(folder.parts[last + 1 :]) or path.parent.name
    # The hub has a repository per model: details_org__model.
    hub = re.fullmatch(r"details_(.+?)(?:_private|_public)?", folder.name)
    return hub[1].replace("__", "/", 1) if hub else path.parent.name


def _known(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip(" ?") else None


def _subject(general: Row) -> dict[str, str | float | bool | None]:
    config = mapping(general.get("model_config"))
    revision = _known(config.get("revision"))
    return {
        "revision": None if revision == "main" else revision,
        "model_sha": _known(general.get("model_sha")),
        "dtype": _known(general.get("model_dtype")) or _known(config.get("dtype")),
        "adapter": plain(config.get("adapter_weights")) or None,
        "system_prompt": _known(config.get("system_prompt")),
        "chat_template": plain(config.get("override_chat_template")),
    }


def _generation(general: Row) -> dict[str, str | float | bool | None]:
    """Generation options that are set."""
    config = mapping(mapping(general.get("model_config")).get("generation_parameters"))
    options = config or mapping(general.get("generation_parameters"))
    return {key: value for key, one in options.items() if (value := plain(one)) is not None}
