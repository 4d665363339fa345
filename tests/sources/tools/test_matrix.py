import importlib.util
import io
import json
import random
import sys
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

MATRIX = Matrix()
CORRECT = Metric("correct")

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)


def part(path):
    return MATRIX.part(SourceFile.look(path))


def logs(path, **options):
    return list(MATRIX.read_answers(SourceFile.look(path), Options(**options)))


def table(path, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


@pytest.fixture
def long(tmp_path):
    frame = pl.DataFrame(
        {
            "subject": ["r/1", "r/1", "r/2", "r/2"], "run": ["r"] * 4, "step": [1, 1, 2, 2], "model": ["m"] * 4,
            "testset": ["t"] * 4, "item": ["a", "b"] * 2, "correct": [1.0, 0.0, 0.5, 1.0], "margin": [0.5, -1, 0, 2],
            "answer": ["Yes", "No", None, "Yes"], "label": ["Yes", "Yes"] * 2,
        }
    )  # fmt: skip
    path = tmp_path / "responses.parquet"
    frame.write_parquet(path)
    return path


class TestRegistry:
    def test_it_comes_last(self):
        assert BUILT_IN[-1] == ("matrix", "Matrix")
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

    def test_a_wide_table(self, tmp_path):
        path = table(tmp_path / "exam.csv", [["model", "q1", "q2"], ["one", 1, ""], ["two", 0, 1]])
        study = read_logs(path)
        assert study.testsets == ["exam"]
        assert study.subject_names == ("one", "two")
        assert study.matrix.tolist() == [[1, -1], [0, 1]]

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

    def test_tabulated_patterns_become_subjects(self, tmp_path):
        rows = [["Item_1", "Item_2", "Item_3", "Freq"], [0, 0, 0, 3], [1, 0, 1, 2], [1, 1, 1, 0]]
        study = read_logs(table(tmp_path / "LSAT.csv", rows))
        assert study.matrix.shape == (5, 3)
        assert study.matrix.sum(axis=0).tolist() == [2, 0, 2]
        assert any("became 5 subjects" in warning for warning in study.warnings)


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
        assert part(path) is Part.ANSWERS
        with pytest.raises(SkipFile, match=r"^not scored: column 'Item\.1' holds 5, which looks like a chosen option"):
            logs(path)
        letters = table(tmp_path / "letters.csv", [["q1", "q2"], ["A", "B"], ["C", "D"]])
        with pytest.raises(SkipFile, match="not scored: column 'q1' holds A"):
            logs(letters)

    def test_a_wide_table_with_a_subject_twice_is_left_out(self, tmp_path):
        path = table(tmp_path / "t.csv", [["model", "a", "b"], ["one", 1, 0], ["one", 0, 1]])
        with pytest.raises(SkipFile, match=r"^cannot be read as answers: subject 'one' occurs more than once"):
            logs(path)

    def test_a_wide_table_of_fractions_is_left_out(self, tmp_path):
        path = tmp_path / "scores.parquet"
        pl.DataFrame(
            {"model": [f"model {k}" for k in range(40)], "t": [1.0, 0.0] * 19 + [0.25, 1.0], "u": [1.0] * 40}
        ).write_parquet(path)
        with pytest.raises(SkipFile, match="look like scores of whole test sets"):
            logs(path)

    def test_a_matrix_of_other_numbers_is_left_out(self, tmp_path):
        np.savez(tmp_path / "embeddings.npz", vectors=np.array([[0.3, -7.0]]))
        with pytest.raises(SkipFile, match=r"cannot be read as answers: subject '0' .* -7.0 is not an answer"):
            logs(tmp_path / "embeddings.npz")

    @pytest.mark.parametrize("content", ["", "x", "a,b\n", "a,b\n1\n", "a,b\n1,2,3\n", '"a\n1,0\n', "a\n1\n0\n"])
    def test_odd_csv_is_not_claimed(self, tmp_path, content):
        path = tmp_path / "odd.csv"
        path.write_text(content)
        assert part(path) is None

    def test_huge_frequencies_are_left_out(self, tmp_path):
        path = table(tmp_path / "t.csv", [["a", "b", "Freq"], [1, 0, 10**9]])
        with pytest.raises(SkipFile, match="at most 1,000,000"):
            logs(path)


class TestR:
    @pytest.fixture
    def pyreadr(self):
        return pytest.importorskip("pyreadr", reason="needs the extra r")

    @pytest.fixture
    def patterns(self):
        import pandas as pd

        return pd.DataFrame({"Item_1": [0, 1], "Item_2": [1, 0], "Freq": [3, 4]})

    def test_tabulated_patterns(self, pyreadr, patterns, tmp_path):
        pyreadr.write_rdata(str(tmp_path / "mirt.RData"), patterns, df_name="LSAT6", compress="gzip")
        pyreadr.write_rds(str(tmp_path / "own.rds"), patterns.drop(columns="Freq"))
        study = read_logs(tmp_path)
        assert study.testsets == ["LSAT6", "own"]
        assert study.select(testset="LSAT6").matrix.sum(axis=0).tolist() == [4, 3]

    def test_row_names_are_subjects(self, pyreadr, tmp_path):
        import pandas as pd

        frame = pd.DataFrame({"subject": ["gpt", "pythia"], "a": [1, 0], "b": [0, 1]})
        pyreadr.write_rds(str(tmp_path / "x.rds"), frame)
        assert read_logs(tmp_path).subject_names == ("gpt", "pythia")

    def test_answers_that_are_not_scored(self, pyreadr, tmp_path):
        import pandas as pd

        pyreadr.write_rds(str(tmp_path / "SAT12.rds"), pd.DataFrame({"i1": [1, 4], "i2": [5, 2]}))
        with pytest.raises(SkipFile, match="not scored: column 'i1' holds 4"):
            logs(tmp_path / "SAT12.rds")

    def test_mutations_give_a_result_or_one_message(self, pyreadr, patterns, tmp_path):
        read = 0
        path, chance = tmp_path / "m.RData", random.Random(4)
        pyreadr.write_rdata(str(path), patterns, df_name="m", compress="gzip")
        packed = path.read_bytes()
        pyreadr.write_rdata(str(path), patterns, df_name="m")
        for content in (packed, path.read_bytes()):
            for _ in range(100):
                path.write_bytes(chance.choice([fuzzing.flip, fuzzing.truncate, fuzzing.repeat])(content, chance))
                with suppress(InputError):
                    read_logs(tmp_path)
                    read += 1
        assert read, "not every mutation is refused"

    @pytest.mark.parametrize("content", [b"X\n\x00\x00\x00\x02\x00\x02\x03\x00", b"RDX3\nX\n\x00\x00"])
    def test_without_pyreadr_the_extra_is_named(self, tmp_path, monkeypatch, content):
        monkeypatch.setitem(sys.modules, "pyreadr", None)
        path = tmp_path / "data.rds"
        path.write_bytes(content)
        assert part(path) is Part.ANSWERS
        with pytest.raises(InputError, match=r"data\.rds: reading R data needs pyreadr: pip install 'breadth\[r\]'"):
            read_logs(path)


class TestDamage:
    def test_a_long_table_with_a_wrong_cell_is_refused(self, tmp_path):
        path = table(tmp_path / "t.csv", [["subject", "item", "correct"], ["s", "a", 1], ["s", "b", 7]])
        with pytest.raises(InputError, match=r"t\.csv, row 2: subject 's', item 'b': 7 is not"):
            read_logs(path)

    def test_a_long_table_must_say_who_answered(self, tmp_path):
        path = table(tmp_path / "t.csv", [["item", "correct"], ["a", 1]])
        with pytest.raises(InputError, match="who answered"):
            read_logs(path)

    def test_python_objects_are_never_unpickled(self, tmp_path):
        mark = tmp_path / "mark"
        path = tmp_path / "evil.npz"
        names = np.array([fuzzing.Touch(mark)], dtype=object)
        np.savez(path, R=np.array([[1, 0]], np.int8), models=names)
        with pytest.raises(InputError, match="Python objects"):
            read_logs(path)
        assert not mark.exists()

    def test_a_header_that_promises_too_much(self, tmp_path):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|i1", "fortran_order": False, "shape": (10**6, 10**6)})
        path = tmp_path / "bomb.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("R.npy", header.getvalue())
        with pytest.raises(InputError, match=r"bomb\.npz, R\.npy: states"):
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
