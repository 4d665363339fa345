import importlib.util
import io
import json
import random
import re
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.sources.logs.importing import read_logs
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.registry import BUILT_IN, Part, all_sources
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.matrix import Matrix

from .reading import part_of, read

MATRIX = Matrix()
CORRECT = Metric("correct")

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)


def part(path):
    return part_of(MATRIX, path)


def logs(path, **options):
    return read(MATRIX, path, **options)


def reason_to_skip(path):
    with pytest.raises(SkipFile) as raised:
        logs(path)
    return str(raised.value)


def table(path, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


@pytest.fixture
def long(tmp_path):
    frame = pl.DataFrame(
        {
            "subject": ["r/1", "r/1", "r/2", "r/2"],
            "run": ["r"] * 4,
            "step": [1, 1, 2, 2],
            "model": ["m"] * 4,
            "testset": ["t"] * 4,
            "item": ["a", "b"] * 2,
            "correct": [1.0, 0.0, 0.5, 1.0],
            "margin": [0.5, -1, 0, 2],
            "answer": ["Yes", "No", None, "Yes"],
            "label": ["Yes", "Yes"] * 2,
        }
    )
    path = tmp_path / "responses.parquet"
    frame.write_parquet(path)
    return path


class TestRegistry:
    def test_it_comes_last(self):
        assert BUILT_IN[-1] == "matrix:Matrix"
        assert all_sources()[-1].name == "matrix"


class TestReading:
    def test_a_long_table(self, long):
        study = read_logs(long)
        assert study.subject_names == ("m/1", "m/2")
        assert study.subjects["step"].to_list() == [1, 2]
        assert study.matrix.tolist() == [[1, 0], [0.5, 1]]
        assert study.margin.tolist() == [[0.5, -1], [0, 2]]
        first, second = logs(long)
        assert first.answers == ["Yes", "No"]
        assert second.answers == [None, "Yes"]
        assert first.texts == {"label": ["Yes", "Yes"]}
        assert logs(long, texts=False)[0].texts == {}

    def test_texts_come_from_the_items_beside(self, long):
        items = pl.DataFrame(
            {"testset": ["t", "t"], "item": ["b", "a"], "text": ["B?", "A?"], "options": [["x", "y"], ["z"]]}
        )
        items.write_parquet(long.with_name("items.parquet"))
        pl.DataFrame({"subject": ["r/1"], "seed": [3]}).write_parquet(long.with_name("subjects.parquet"))
        assert [part(path) for path in sorted(long.parent.iterdir())] == [Part.COMPANION, Part.ANSWERS, Part.COMPANION]
        log = logs(long)[0]
        assert log.texts["text"] == ["A?", "B?"]
        assert log.texts["options"] == [["z"], ["x", "y"]]

    @pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
    def test_long_tables_of_every_kind(self, tmp_path, ending):
        frame = pl.DataFrame({"model": ["x", "y"], "item": ["a", "a"], "correct": [1, 0]})
        path = tmp_path / f"bench{ending}"
        write = {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}
        write.get(ending, lambda file: frame.write_csv(file, separator="\t"))(path)
        study = read_logs(path)
        assert study.subject_names == ("x", "y")
        assert study.testsets == ["bench"]
        assert study.matrix.tolist() == [[1], [0]]

    def test_a_long_table_that_names_no_subject_is_about_one(self, tmp_path):
        study = read_logs(table(tmp_path / "bench.csv", [["item", "correct"], ["a", 1], ["b", 0]]))
        assert study.subject_names == ("bench",)
        assert study.matrix.tolist() == [[1, 0]]

    def test_a_wide_table(self, tmp_path):
        path = table(tmp_path / "exam.csv", [["model", "q1", "q2"], ["one", 1, ""], ["two", 0, 1]])
        study = read_logs(path)
        assert study.testsets == ["exam"]
        assert study.subject_names == ("one", "two")
        assert study.matrix.tolist() == [[1, -1], [0, 1]]

    @pytest.mark.parametrize("separator", [",", ";", "|"])
    def test_wide_tables_with_any_separator(self, tmp_path, separator):
        path = tmp_path / "exam.csv"
        pl.DataFrame({"model": ["one", "two"], "q1": [1, 0], "q2": [0, 1]}).write_csv(path, separator=separator)
        assert read_logs(path).matrix.tolist() == [[1, 0], [0, 1]]

    def test_settings_of_a_wide_table_are_no_items(self, tmp_path):
        rows = [["model", "temperature", "q1", "q2"], ["one", 2, 1, 0], ["two", 3, 0, 1]]
        study = read_logs(table(tmp_path / "exam.csv", rows))
        assert study.item_names == ("q1", "q2")
        assert study.matrix.tolist() == [[1, 0], [0, 1]]

    def test_a_wide_table_whose_header_is_longer_than_the_head(self, tmp_path):
        names = [f"a rather long name of an item, number {k}" for k in range(3000)]
        path = tmp_path / "wide.csv"
        pl.DataFrame({"subject": ["s1", "s2"], **{name: [0, 1] for name in names}}).write_csv(path)
        assert len(SourceFile.look(path).head) < path.stat().st_size
        assert read_logs(path).matrix.shape == (2, 3000)

    def test_numbered_subjects_of_two_files_stay_apart(self, tmp_path):
        np.savez(tmp_path / "first.npz", R=np.array([[1, 0], [0, 1]], np.int8))
        np.savez(tmp_path / "second.npz", R=np.array([[1, 1], [0, -1]], np.int8))
        study = read_logs(tmp_path)
        assert study.subject_names == ("first/0", "first/1", "second/0", "second/1")
        assert study.matrix.tolist() == [[1, 0, -1, -1], [0, 1, -1, -1], [-1, -1, 1, 1], [-1, -1, 0, -1]]

    def test_subjects_of_one_model_stay_apart(self, tmp_path):
        frame = pl.DataFrame({"subject": ["a", "b"], "model": ["m", "m"], "item": ["i", "i"], "correct": [0, 1]})
        frame.write_parquet(tmp_path / "t.parquet")
        assert len(read_logs(tmp_path).subject_names) == 2

    def test_checkpoints_between_steps_stay_apart(self, tmp_path):
        frame = pl.DataFrame(
            {"subject": ["a", "b"], "model": ["m", "m"], "step": [0.5, 1.5], "item": ["i", "i"], "correct": [0, 1]}
        )
        frame.write_parquet(tmp_path / "t.parquet")
        assert [(log.step, log.subject["subject"]) for log in logs(tmp_path / "t.parquet")] == [
            (None, "a"),
            (None, "b"),
        ]

    def test_numbered_subjects_have_steps(self, tmp_path):
        frame = pl.DataFrame({"subject": ["0", "1"], "step": [10.0, 20.0], "item": ["i", "i"], "correct": [0, 1]})
        frame.write_parquet(tmp_path / "t.parquet")
        assert [(log.model, log.step) for log in logs(tmp_path / "t.parquet")] == [("t/0", 10), ("t/1", 20)]

    def test_tabulated_patterns_become_subjects(self, tmp_path):
        rows = [["Item_1", "Item_2", "Item_3", "Freq"], [0, 0, 0, 3], [1, 0, 1, 2], [1, 1, 1, 0]]
        study = read_logs(table(tmp_path / "LSAT.csv", rows))
        assert study.matrix.shape == (5, 3)
        assert study.matrix.sum(axis=0).tolist() == [2, 0, 2]
        assert any("'Freq'" in warning for warning in study.warnings)

    def test_patterns_without_items_are_left_out(self, tmp_path):
        path = tmp_path / "t.csv"
        table(path, [["id", "seed", "Freq"], [1, 1, 2]])
        assert part(path) is None
        with pytest.raises(SkipFile):
            list(MATRIX.read_answers(SourceFile.look(path), Options()))


class TestRealMatrices:
    @pytest.mark.parametrize(
        ("name", "shape"),
        [("arc_challenge", (218, 1172)), ("bigcodebench", (153, 1140)), ("legalbench", (79, 2047)), ("rte", (87, 277))],
    )
    def test_response_matrices(self, shared_data, name, shape):
        path = shared_data / "responses" / f"{name}.npz"
        found = logs(path)
        assert (len(found), len(found[0].items)) == shape
        with np.load(path) as arrays:
            expected = np.where(arrays["R"] < 0, np.nan, arrays["R"])
        assert np.array_equal([log.scores(CORRECT) for log in found], expected, equal_nan=True)
        assert {log.testset for log in found} == {name}

    @pytest.mark.parametrize(("name", "shape"), [("LSAT6", (1000, 5)), ("SAT12_scored_key5", (600, 32))])
    def test_classic_tables(self, shared_data, name, shape):
        study = read_logs(shared_data / "classic" / f"{name}.csv")
        assert study.matrix.shape == shape
        frame = pl.read_csv(shared_data / "classic" / f"{name}.csv")
        assert study.matrix.sum(axis=0).tolist() == list(frame.sum().row(0))


class TestOtherTables:
    def test_tables_of_scores_and_texts_are_not_claimed(self, shared_data):
        folders = [shared_data / name for name in ("logs", "scores", "trajectories", "nli", "qa")]
        paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
        paths.append(shared_data / "responses" / "gsm8k_leaderboard_models.csv")
        assert len(paths) > 100
        assert [str(path) for path in paths if part(path) is not None] == []

    def test_files_of_breadth_itself_are_not_claimed(self, simulated_study):
        paths = [path for path in Path(simulated_study.folder).rglob("*") if path.is_file()]
        assert any(path.suffix == ".parquet" for path in paths)
        assert [path for path in paths if part(path) is not None] == []

    def test_answers_that_are_not_scored_are_left_out(self, tmp_path):
        path = table(tmp_path / "SAT12.csv", [["Item.1", "Item.2"], [1, 4], [5, 2], [3, 8]])
        assert "'Item.1' holds 5" in reason_to_skip(path)
        letters = table(tmp_path / "letters.csv", [["q1", "q2"], ["A", "B"], ["C", "D"]])
        assert "'q1' holds A" in reason_to_skip(letters)

    def test_a_wide_table_with_a_subject_twice_is_left_out(self, tmp_path):
        path = table(tmp_path / "t.csv", [["model", "a", "b"], ["one", 1, 0], ["one", 0, 1]])
        assert "'one'" in reason_to_skip(path)

    def test_a_wide_table_of_fractions_is_left_out(self, tmp_path):
        path = tmp_path / "scores.parquet"
        pl.DataFrame(
            {"model": [f"model {k}" for k in range(40)], "t": [1.0, 0.0] * 19 + [0.25, 1.0], "u": [1.0] * 40}
        ).write_parquet(path)
        assert "fractions" in reason_to_skip(path)

    def test_a_matrix_of_other_numbers_is_left_out(self, tmp_path):
        np.savez(tmp_path / "embeddings.npz", vectors=np.array([[0.3, -7.0]]))
        reason = reason_to_skip(tmp_path / "embeddings.npz")
        assert "embeddings.npz" not in reason
        assert "-7.0" in reason

    def test_a_matrix_that_is_packed_too_well_is_left_out(self, tmp_path):
        np.savez_compressed(tmp_path / "masks.npz", mask=np.zeros((1000, 10_000)))
        assert "80,000,000 bytes" in reason_to_skip(tmp_path / "masks.npz")

    @pytest.mark.parametrize(
        "arrays",
        [
            {"vector": np.arange(3)},
            {"one": np.eye(2), "two": np.eye(2)},
            {"image": np.zeros((2, 2, 3))},
            {"amplitudes": np.eye(2, dtype=complex)},
            {"texts": np.array([["a", "b"]])},
        ],
    )
    def test_other_arrays_are_not_claimed(self, tmp_path, arrays):
        np.savez(tmp_path / "other.npz", **arrays)
        assert part(tmp_path / "other.npz") is None

    @pytest.mark.parametrize("content", ["", "x", "a,b\n", "a,b\n1\n", "a,b\n1,2,3\n", '"a\n1,0\n', "a\n1\n0\n"])
    def test_odd_csv_is_not_claimed(self, tmp_path, content):
        path = tmp_path / "odd.csv"
        path.write_text(content)
        assert part(path) is None

    def test_huge_frequencies_are_left_out(self, tmp_path):
        path = table(tmp_path / "t.csv", [["a", "b", "Freq"], [1, 0, 10**9]])
        assert "1,000,000,000 subjects" in reason_to_skip(path)


class TestDamage:
    def test_a_long_table_with_a_wrong_cell_is_refused(self, tmp_path):
        path = table(tmp_path / "t.csv", [["subject", "item", "correct"], ["s", "a", 1], ["s", "b", 7]])
        with pytest.raises(InputError, match=r"t\.csv, row 2: subject 's', item 'b': 7"):
            read_logs(path)

    def test_python_objects_are_never_unpickled(self, tmp_path):
        mark = tmp_path / "mark"
        path = tmp_path / "evil.npz"
        names = np.array([fuzzing.Touch(mark)], dtype=object)
        np.savez(path, R=np.array([[1, 0]], np.int8), models=names)
        with pytest.raises(InputError, match=r"evil\.npz: array 'models'"):
            read_logs(path)
        assert not mark.exists()

    def test_a_header_that_promises_too_much(self, tmp_path):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|i1", "fortran_order": False, "shape": (10**6, 10**6)})
        path = tmp_path / "bomb.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("R.npy", header.getvalue())
        with pytest.raises(InputError, match=r"bomb\.npz: array 'R' declares 1,000,000,000,000 bytes"):
            read_logs(path)

    @pytest.mark.parametrize("name", ["t.npz", "t.csv"])
    def test_what_is_too_large_is_refused_before_it_is_read(self, tmp_path, monkeypatch, name):
        if name == "t.npz":
            np.savez(tmp_path / name, R=np.zeros((100, 100), np.int8))
        else:
            table(tmp_path / name, [["a", "b"]] + [[1, 0]] * 100)
        monkeypatch.setattr("breadth.sources.limits.MOST_BYTES", 100)
        with pytest.raises(InputError, match=re.escape(name)):
            logs(tmp_path / name)

    @pytest.mark.parametrize(("names", "expected"), [("models", Part.ANSWERS), ("weights", None)])
    def test_a_damaged_matrix_is_refused_if_it_names_subjects(self, tmp_path, names, expected):
        path = tmp_path / "m.npz"
        np.savez(path, R=np.eye(2, dtype=np.int8), **{names: np.array(["first", "second"])})
        content = path.read_bytes()
        path.write_bytes(content.replace(b"NUMPY", b"NUMPX"))
        assert part(path) is expected
        with pytest.raises(InputError, match=r"m\.npz"):
            read_logs(path)

    def test_a_damaged_cell_of_a_matrix_is_refused(self, tmp_path):
        path = tmp_path / "m.npz"
        np.savez(path, R=np.ones((200, 100), dtype=np.int8))
        content = path.read_bytes()
        end = content.rindex(b"\x01" * 50)
        path.write_bytes(content[:end] + b"\x00" + content[end + 1 :])
        with pytest.raises(InputError, match=r"m\.npz: .*R\.npy"):
            read_logs(path)

    @pytest.mark.parametrize("ending", [".parquet", ".csv", ".npz", ".jsonl"])
    def test_mutations_give_a_result_or_one_message(self, tmp_path, ending):
        read = 0
        chance, path = random.Random(5), tmp_path / f"t{ending}"
        frame = pl.DataFrame({"subject": ["s", "s", "u"], "item": ["a", "b", "a"], "correct": [1.0, 0.5, 0.0]})
        if ending == ".npz":
            np.savez(path, R=np.array([[1, 0], [0, -1]], np.int8), models=np.array(["a", "b"]))
        else:
            {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}[ending](path)
        sound = path.read_bytes()
        kinds = [fuzzing.flip, fuzzing.truncate, fuzzing.repeat]
        for _ in range(120):
            path.write_bytes(chance.choice(kinds)(sound, chance))
            with suppress(InputError):
                read_logs(path)
                read += 1
        assert read or ending == ".npz", "not every mutation is refused, except by the checksums of a zip"

    def test_list_columns_of_csv_may_hold_anything(self, tmp_path):
        table(tmp_path / "responses.csv", [["subject", "testset", "item", "correct"], ["s", "t", "a", 1]])
        for options in ('["x"]', "[1", "3", json.dumps({"a": 1})):
            pl.DataFrame({"testset": ["t"], "item": ["a"], "options": [options]}).write_csv(tmp_path / "items.csv")
            log = logs(tmp_path / "responses.csv")[0]
            assert log.texts.get("options") == ([["x"]] if options == '["x"]' else None)
