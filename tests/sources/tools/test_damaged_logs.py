"""Damaged logs: whatever is missing or wrong in a file, a source reads it, leaves it out, or says what is wrong.

The logs are the tiny ones of the golden frames. Every value of every file is removed once and replaced by others, and
bytes are changed; a source must raise nothing but its two exceptions, and an error must name a file.
"""

import importlib.util
import json
import random
from pathlib import Path

import polars as pl
import pytest

import breadth
from breadth.boundary import reading
from breadth.sources.logs.log import Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.alpaca_eval import AlpacaEval
from breadth.sources.tools.eee import EveryEvalEver
from breadth.sources.tools.evalplus import EvalPlus
from breadth.sources.tools.lighteval import Lighteval
from breadth.sources.tools.olmes import Olmes
from breadth.sources.tools.openai_evals import OpenAIEvals
from breadth.sources.tools.opencompass import OpenCompass
from breadth.sources.tools.swe_bench import SweBench

from ...golden.tiny_logs import WRITERS, lighteval_row

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)

SOURCES = {
    "lighteval": Lighteval(), "evalplus": EvalPlus(), "swe_bench": SweBench(), "olmes": Olmes(), "olmo_eval": Olmes(),
    "opencompass": OpenCompass(), "eee": EveryEvalEver(), "alpaca_eval": AlpacaEval(), "openai_evals": OpenAIEvals(),
}  # fmt: skip

#: What stands in a place instead of what belongs there; ``...`` is nothing.
WRONG = (..., None, True, -1, 1.5, 10**400, "", "x", [], {}, [[]], {"a": 1}, ["a"], "9" * 400)


def outcome(source, folder, chance):
    """What became of all files of a folder; everything else that is raised fails the test."""
    logs, messages = 0, []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            with reading(path):
                file = SourceFile.look(path)
                detection = source.detect(file)
                if detection is not None and detection.part is Part.ANSWERS:
                    logs += len(list(source.read_answers(file, Options(epochs=chance.choice(["mean", "each"])))))
        except SkipFile as left_out:
            logs += bool(str(left_out).strip())
        except breadth.InputError as refused:
            messages.append(str(refused))
    assert all(str(folder) in message and "\n" not in message for message in messages)
    return logs, messages


def documents(path):
    """The rows of a file of JSON lines, or the one value of a file."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


def write(path, content):
    lines = content if path.suffix == ".jsonl" else [content]
    path.write_text("\n".join(json.dumps(line) for line in lines))


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "lighteval"])
def test_every_value_may_be_missing_or_wrong(tmp_path, name):
    chance = random.Random(name)
    WRITERS[name](tmp_path)
    refused = 0
    for path in sorted(tmp_path.rglob("*.json*")):
        whole = path.read_bytes()
        content = documents(path)
        places = list(fuzzing.every_place(content))
        for place in chance.sample(places, min(len(places), 40)):
            for value in (..., *chance.sample(WRONG, 2)):
                write(path, fuzzing.replace_at(content, place, value))
                logs, messages = outcome(SOURCES[name], tmp_path, chance)
                assert logs or messages
                refused += len(messages)
        path.write_bytes(whole)
    assert refused or name == "opencompass"  # where an answer that says nothing usable is missing


@pytest.mark.parametrize("old", [False, True])
def test_every_cell_of_details_may_be_missing_or_wrong(tmp_path, old):
    chance = random.Random(old)
    path = tmp_path / "details" / "m" / "details_leaderboard|arc|25_2026-01-01T00-00-00.000000.parquet"
    path.parent.mkdir(parents=True)
    row = lighteval_row("Question", [-1.0, -3.0], 1.0, old)
    read = refused = 0
    for place in fuzzing.every_place(row):
        for value in WRONG:
            changed = fuzzing.replace_at(row, place, value)
            try:
                pl.DataFrame([changed] * 2, strict=False).write_parquet(path)
            except (pl.exceptions.PolarsError, OverflowError, TypeError):
                continue  # Parquet cannot hold such a row
            logs, messages = outcome(Lighteval(), tmp_path, chance)
            read += logs
            refused += len(messages)
    assert read
    assert refused


@pytest.mark.parametrize("name", SOURCES)
def test_changed_bytes(tmp_path, capfd, name):
    chance = random.Random(name)
    WRITERS[name](tmp_path)
    sound = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    total, refused = 0, 0
    for number in range(60):
        path = [*sound][number % len(sound)]
        path.write_bytes(fuzzing.mutate(sound[path], chance))
        logs, messages = outcome(SOURCES[name], tmp_path, chance)
        total += logs
        refused += len(messages)
        path.write_bytes(sound[path])
    assert total
    assert refused
    assert "panicked" not in capfd.readouterr().err
