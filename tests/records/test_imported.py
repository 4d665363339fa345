import json

import numpy as np
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.records.files import LocalStore
from breadth.records.imported import (
    LOGS,
    Imported,
    foreign_files,
    imported_responses,
    imported_study,
    is_imported,
    read_imported,
    write_imported,
)
from breadth.sources import open_study


def log(subject, testset="t", **described):
    row = dict.fromkeys(LOGS) | {
        "subject": subject, "run": subject, "model": subject, "testset": testset, "metric": "acc", "variant": "",
        "rows": 2, "answered": 2, "tool": "tool", "version": "1", "path": f"{subject}.json", "checksum": "0",
        "stamp": "", "identity": "{}", "attributes": "{}", "settings": "{}", "notes": [],
    }  # fmt: skip
    return row | described


def make(logs, answers, items=(("t", "x"), ("t", "y")), margins=None):
    """Tables with ``answers``: rows of log, item, correct."""
    frame = pl.DataFrame(answers, schema=["log", "item", "correct"], orient="row").with_columns(
        margin=pl.Series(margins or [None] * len(answers), dtype=pl.Float64), answer=pl.lit(None, dtype=pl.String)
    )
    names = pl.DataFrame(items, schema={"testset": pl.String, "item": pl.String}, orient="row")
    return Imported(pl.DataFrame(logs, schema=LOGS), names, imported_responses(frame))


@pytest.fixture
def tables():
    return make([log("a"), log("b")], [(0, 0, 1.0), (0, 1, 0.0), (1, 1, 1.0)], margins=[0.5, None, float("nan")])


@pytest.fixture
def folder(tables, tmp_path):
    write_imported(LocalStore(tmp_path / "answers"), tables)
    return tmp_path / "answers"


def test_what_is_written_is_read(folder, tables):
    assert is_imported(folder)
    for frame, same in zip(tables, read_imported(folder), strict=True):
        assert frame.equals(same)
        assert frame.schema == same.schema


def test_the_study_is_that_of_the_tables(folder, tables):
    study = open_study(folder)
    assert study.subject_names == ("a", "b")
    assert study.matrix.tolist() == [[1, 0], [-1, 1]]
    np.testing.assert_array_equal(study.margin, np.array([[0.5, np.nan], [np.nan, np.nan]], dtype=np.float32))
    assert study.folder == folder
    assert imported_study(tables, "name").name == "name"


def test_shares_are_not_rounded():
    study = imported_study(make([log("a")], [(0, 0, 0.25), (0, 1, 1.0)]), "s")
    assert study.correct.tolist() == [[0.25, 1.0]]
    assert study.margin is None


def test_writing_the_same_again_changes_nothing(folder, tables):
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert not write_imported(LocalStore(folder), tables)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_tables_of_an_earlier_import_and_unfinished_ones_are_removed(folder, tables):
    (folder / ".items.0.parquet.partial-abc").write_text("torn")
    (folder / f"items.{'0' * 16}.parquet").write_text("of an interrupted import")
    assert foreign_files(folder) == ["import.json"]
    assert write_imported(LocalStore(folder), tables._replace(logs=tables.logs.with_columns(version=pl.lit("2"))))
    assert len(list(folder.iterdir())) == 4
    assert read_imported(folder).logs["version"].to_list() == ["2", "2"]


@pytest.mark.parametrize("name", Imported._fields)
def test_a_table_that_is_missing_or_damaged_is_refused_by_name(folder, name):
    path = next(folder.glob(f"{name}.*.parquet"))
    content = bytearray(path.read_bytes())
    path.unlink()
    with pytest.raises(InputError, match=rf"{path.name}: is missing; delete the directory and run `breadth import`"):
        open_study(folder)
    for damaged in (content[:-1], b"", content[:20] + bytes([content[20] ^ 1]) + content[21:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{path.name}: is damaged \(its checksum is wrong\); delete"):
            open_study(folder)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"layout": 1}', b'{"layout": 1, "tables": []}',
        b'{"layout": 1, "tables": {"logs": 1}}', b"\xff\xfe", b'{"tables": {"logs": "", "items": "", "responses": ""}}',
    ],
)  # fmt: skip
def test_a_damaged_manifest_is_refused(folder, content):
    (folder / "import.json").write_bytes(content)
    with pytest.raises(
        InputError, match=r"import.json: is damaged; delete the directory and run `breadth import` again"
    ):
        open_study(folder)


def test_a_manifest_cannot_point_elsewhere(folder):
    manifest = json.loads((folder / "import.json").read_text())
    outside = folder.parent / "items.parquet"
    outside.write_bytes(next(folder.glob("items.*")).read_bytes())
    manifest["tables"]["items"] = "../items.parquet"
    (folder / "import.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"items.parquet: is missing"):
        read_imported(folder)


def test_another_layout_is_refused(folder):
    manifest = json.loads((folder / "import.json").read_text())
    (folder / "import.json").write_text(json.dumps(manifest | {"layout": 99}))
    with pytest.raises(
        InputError, match=r"was written by another version of breadth \(layout 99\); import the logs again"
    ):
        open_study(folder)


def test_subjects_have_what_their_logs_say():
    logs = [
        log("a/5", run="a", step=5, attributes='{"adapter": "x", "chat": true}'),
        log("a/5", "u", run="a", step=5, attributes='{"adapter": "x", "chat": true}', version="2", tool="other"),
        log("b", version=None),
    ]
    study = imported_study(
        make(logs, [(0, 0, 1.0), (1, 2, 0.0), (2, 1, 1.0)], (("t", "x"), ("t", "y"), ("u", "x"))), "s"
    )
    assert study.subjects.rows(named=True) == [
        {
            "subject": "a/5", "run": "a", "step": 5, "model": "a/5", "tool": "tool, other", "version": "1, 2",
            "adapter": "x", "chat": "True",
        },
        {
            "subject": "b", "run": "b", "step": None, "model": "b", "tool": "tool", "version": None, "adapter": None,
            "chat": None,
        },
    ]  # fmt: skip
    assert study.matrix.tolist() == [[1, -1, 0], [-1, 1, -1]]


def test_a_model_that_answered_in_several_ways_is_several_models():
    logs = [log(f"a {k}-shot", model="lab/a", attributes=f'{{"num_fewshot": {k}}}') for k in (0, 5)]
    subjects = imported_study(make([*logs, log("b")], [(0, 0, 1.0)]), "s").subjects
    assert subjects["model"].to_list() == ["a 0-shot", "a 5-shot", "b"]
    checkpoints = [log(f"a/{k}", model="lab/a", run="a", step=k) for k in (1, 2)]
    assert imported_study(make(checkpoints, [(0, 0, 1.0)]), "s").subjects["model"].to_list() == ["lab/a"] * 2


def test_without_steps_there_are_no_runs(tables):
    assert imported_study(tables, "s").subjects.columns == ["subject", "model", "tool", "version"]


def test_attributes_never_replace_columns():
    named = log("a", attributes='{"model": "other", "tool": "x", "run": "r", "seed": 3}')
    subjects = imported_study(make([named], [(0, 0, 1.0)]), "s").subjects
    assert subjects.rows(named=True) == [{"subject": "a", "model": "a", "tool": "tool", "version": "1", "seed": "3"}]


def test_notes_name_their_file_and_are_counted():
    logs = [log(f"m{k}", notes=[f"m{k}.json: partial" if k else "partial"]) for k in range(12)]
    warnings = imported_study(make(logs, [(0, 0, 1.0)]), "s", notes=["first"]).warnings
    assert warnings[:3] == ("first", "m0.json: partial", "m1.json: partial")
    assert warnings[-1] == "4 more notes on single logs, in the column notes of the table of logs"
    assert len(warnings) == 10
