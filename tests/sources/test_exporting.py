import hashlib
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import breadth
from breadth.errors import InputError
from breadth.records.study import Study
from breadth.sources import open_study
from breadth.sources.exporting import LONG_COLUMNS, Exported, export
from breadth.sources.logs.importing import import_logs, read_logs

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)


def study_of(matrix, subjects=None, testsets=None, margin=None, **items):
    """A study in memory with its items' texts."""
    rows, columns = matrix.shape
    described = {
        "testset": testsets or ["t"] * columns, "item": [f"i{k}" for k in range(columns)], **items,
    }  # fmt: skip
    names = subjects if isinstance(subjects, dict) else {"subject": subjects or [f"s{k}" for k in range(rows)]}
    return Study("study", pl.DataFrame(names), pl.DataFrame(described), matrix, margin)


@pytest.fixture
def texts():
    """Two checkpoints of a model, two test sets, a missing answer, options, margins."""
    subjects = {"subject": ["r/1", "r/2"], "run": ["r", "r"], "model": ["org/m"] * 2, "step": [1, 2], "seed": [7, 7]}
    return study_of(
        np.array([[1, 0, -1], [1, 1, 0]], np.int8), subjects, ["one", "one", "two"],
        np.array([[0.5, -1.25, np.nan], [1, 2, -3]], np.float32),
        text=["What?", "Où ça?", None], options=[["x", "y"], ["u", "v"], None],
        option_labels=[["A", "B"], ["A", "B"], None], label=["A", "B", "Yes"], shift=["domain"] * 3,
    )  # fmt: skip


def answers(study):
    """What a study says, apart from the names of its subjects."""
    frame = study.responses.collect().select("subject", "testset", "item", "correct", "margin")
    order = {name: k for k, name in enumerate(study.subject_names)}
    return sorted((order[row[0]], *row[1:]) for row in frame.iter_rows())


class TestTables:
    @pytest.mark.parametrize("to", ["parquet", "csv"])
    def test_one_file(self, tmp_path, texts, to):
        result = export(texts, to=to, out=tmp_path / f"long.{to}")
        assert result.paths == (tmp_path / f"long.{to}",)
        assert any("text" in note and "name a directory" in note for note in result.notes)
        frame = (pl.read_csv if to == "csv" else pl.read_parquet)(result.paths[0])
        assert tuple(frame.columns) == LONG_COLUMNS
        assert frame.row(1, named=True) == {
            "subject": "r/1", "run": "r", "step": 1, "model": "org/m", "testset": "one", "item": "i1", "correct": 0.0,
            "margin": -1.25, "answer": None, "label": "B",
        }  # fmt: skip
        assert frame.height == 5
        assert answers(open_study(result.paths[0])) == answers(texts)
        assert answers(read_logs(result.paths[0])) == answers(texts)

    @pytest.mark.parametrize("to", ["parquet", "csv"])
    def test_a_directory_keeps_everything(self, tmp_path, texts, to):
        out = tmp_path / "tables"
        result = export(texts, to=to, out=out)
        assert sorted(path.name for path in out.iterdir()) == [f"items.{to}", f"responses.{to}", f"subjects.{to}"]
        assert result.notes == ()
        assert answers(open_study(out)) == answers(texts)
        again = read_logs(out)
        assert answers(again) == answers(texts)
        assert again.items["text"].to_list() == ["What?", "Où ça?", None]
        assert again.items["options"].to_list() == [["x", "y"], ["u", "v"], None]
        assert again.subjects["step"].to_list() == [1, 2]

    def test_answers_of_a_run_are_kept(self, tmp_path, simulated_study):
        study = open_study(simulated_study.folder)
        export(study, to="parquet", out=tmp_path / "long.parquet")
        frame = pl.read_parquet(tmp_path / "long.parquet")
        stored = study.responses.collect()
        assert frame["answer"].to_list() == stored["answer"].to_list()
        assert frame["margin"].to_list() == stored["margin"].cast(pl.Float64).to_list()
        assert frame["step"].n_unique() > 1
        again = open_study(tmp_path / "long.parquet")
        assert again.subject_names == study.subject_names
        assert np.array_equal(again.matrix, study.matrix)

    def test_answers_of_an_import_are_kept(self, tmp_path):
        row = {
            "subject": ["s", "s"],
            "testset": ["t", "t"],
            "item": ["a", "b"],
            "correct": [1, 0],
            "answer": ["Yes", "No"],
        }
        pl.DataFrame(row).write_parquet(tmp_path / "in.parquet")
        import_logs(tmp_path / "in.parquet", into=tmp_path / "study")
        export(tmp_path / "study", to="parquet", out=tmp_path / "out.parquet")
        assert pl.read_parquet(tmp_path / "out.parquet")["answer"].to_list() == ["Yes", "No"]

    def test_names_that_csv_readers_change_are_noted(self, tmp_path):
        study = study_of(np.array([[1, 0]], np.int8), ["007"])
        assert any(
            "subject" in note and "Parquet" in note for note in export(study, to="csv", out=tmp_path / "a.csv").notes
        )
        assert export(study, to="parquet", out=tmp_path / "a.parquet").notes == ()
        plain = study_of(np.array([[1, 0]], np.int8), ["7"])
        assert export(plain, to="csv", out=tmp_path / "b.csv").notes == ()


class TestNpz:
    def test_a_matrix_with_its_names(self, tmp_path, texts):
        result = export(texts, to="npz", out=tmp_path / "m.npz")
        with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
            assert arrays["R"].dtype == np.int8
            assert arrays["R"].tolist() == [[1, 0, -1], [1, 1, 0]]
            assert arrays["models"].tolist() == ["r/1", "r/2"]
            assert arrays["testset"].tolist() == ["one", "one", "two"]
            assert arrays["label"].tolist() == ["A", "B", "Yes"]
        assert result.notes[0].startswith("a matrix does not hold margin, text")
        again = open_study(tmp_path / "m.npz")
        assert np.array_equal(again.matrix, texts.matrix)
        assert again.testsets == texts.testsets

    def test_shares_are_real_numbers(self, tmp_path):
        study = study_of(np.array([[0.5, np.nan], [1, 0]]))
        export(study, to="npz", out=tmp_path / "m.npz")
        assert np.array_equal(open_study(tmp_path / "m.npz").matrix, study.matrix, equal_nan=True)

    def test_the_same_study_gives_the_same_file(self, tmp_path, texts):
        for name in ("a", "b"):
            export(texts, to="npz", out=tmp_path / f"{name}.npz")
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()

    def test_real_matrices_come_back(self, tmp_path, shared_data):
        study = open_study(shared_data / "responses" / "bigcodebench.npz")
        export(study, to="npz", out=tmp_path / "m.npz")
        again = open_study(tmp_path / "m.npz")
        assert np.array_equal(again.matrix, study.matrix)
        assert again.subject_names == study.subject_names
        assert again.item_names == study.item_names

    @given(
        st.lists(st.lists(st.sampled_from([-1, 0, 1]), min_size=3, max_size=3), min_size=1, max_size=4),
        st.lists(NAMES, min_size=4, max_size=4, unique=True),
        st.lists(NAMES, min_size=3, max_size=3, unique=True),
    )
    @settings(max_examples=30)
    def test_any_names_come_back(self, tmp_path_factory, rows, subjects, items):
        matrix = np.array(rows, np.int8)
        study = study_of(matrix, subjects[: len(rows)], item=items)
        folder = tmp_path_factory.mktemp("npz")
        export(study, to="npz", out=folder / "m.npz")
        again = open_study(folder / "m.npz")
        assert (again.subject_names, again.item_names) == (study.subject_names, study.item_names)
        assert np.array_equal(again.matrix, study.matrix)
        export(study, to="parquet", out=folder / "t.parquet")
        if (matrix >= 0).any():
            assert answers(open_study(folder / "t.parquet")) == answers(study.select(list((matrix >= 0).any(axis=1))))


class TestEveryEvalEver:
    def schemas(self, shared_data):
        folder = shared_data / "logs" / "every_eval_ever" / "schemas"
        names = ("eval.schema.json", "instance_level_eval.schema.json")
        return [jsonschema.Draft7Validator(json.loads((folder / name).read_text())) for name in names]

    def validate(self, out, shared_data):
        """Check all records against the schemas, and what the schemas cannot say."""
        aggregate_schema, sample_schema = self.schemas(shared_data)
        aggregates = sorted(out.rglob("*.json"))
        assert len(aggregates) == len(list(out.rglob("*_samples.jsonl"))) > 0
        for path in aggregates:
            aggregate = json.loads(path.read_text())
            aggregate_schema.validate(aggregate)
            details = aggregate["detailed_evaluation_results"]
            samples = out / details["file_path"]
            assert samples.parent == path.parent
            assert samples.name == f"{path.stem}_samples.jsonl"
            assert hashlib.sha256(samples.read_bytes()).hexdigest() == details["checksum"]
            lines = [json.loads(line) for line in samples.read_text().splitlines()]
            assert len(lines) == details["total_rows"]
            for line in lines:
                sample_schema.validate(line)
                assert line["evaluation_id"] == aggregate["evaluation_id"]
                assert line["model_id"] == aggregate["model_info"]["id"]
            (result,) = aggregate["evaluation_results"]
            mean = np.mean([line["evaluation"]["score"] for line in lines])
            assert result["score_details"]["score"] == pytest.approx(mean)

    def test_records_are_valid_and_come_back(self, tmp_path, texts, shared_data):
        out = tmp_path / "eee"
        result = export(texts, to="eee", out=out)
        assert isinstance(result, Exported)
        self.validate(out, shared_data)
        # Three pairs of subject and test set have answers; the missing answer has no line.
        assert len(result.paths) == 6
        again = read_logs(out)
        assert answers(again) == answers(texts)
        assert again.subjects["step"].to_list() == [1, 2]
        assert again.subjects["model"].to_list() == ["org/m"] * 2
        assert again.items["label"].to_list() == ["A", "B", "Yes"]
        assert again.items["options"].to_list() == [["x", "y"], ["u", "v"], None]
        assert again.warnings == ()

    def test_what_is_lost_is_said(self, tmp_path, texts):
        notes = " ".join(export(texts, to="eee", out=tmp_path / "eee").notes)
        for words in ("margins are in metadata", "5 of 5 answers have no text", "1 of 3 items have no text", "shift"):
            assert words in notes

    def test_shares(self, tmp_path, shared_data):
        study = study_of(np.array([[0.25, 1.0, np.nan]]))
        result = export(study, to="eee", out=tmp_path / "eee")
        self.validate(tmp_path / "eee", shared_data)
        assert any("is_correct" in note for note in result.notes)
        assert answers(read_logs(tmp_path / "eee")) == answers(study)

    def test_exporting_again_changes_no_sample(self, tmp_path, texts):
        out = tmp_path / "eee"
        export(texts, to="eee", out=out)
        before = {path: path.read_bytes() for path in out.rglob("*_samples.jsonl")}
        export(texts, to="eee", out=out)
        assert {path: path.read_bytes() for path in out.rglob("*_samples.jsonl")} == before

    def test_a_run_and_its_import(self, tmp_path, simulated_study, shared_data):
        study = open_study(simulated_study.folder)
        part = study.select(pl.col("step") <= study.subjects["step"].sort()[4])
        export(part, to="eee", out=tmp_path / "eee")
        self.validate(tmp_path / "eee", shared_data)
        again = read_logs(tmp_path / "eee")
        assert len(again.subject_names) == len(part.subject_names)
        assert np.nansum(again.correct) == np.nansum(part.correct)
        assert again.matrix.shape == part.matrix.shape

    def test_names_cannot_leave_the_directory(self, tmp_path, shared_data):
        names = ["../../etc/passwd", "a/../../b", "con", "/root", "..", "x" * 300]
        study = study_of(np.ones((6, 1), np.int8), names, ["../up"])
        result = export(study, to="eee", out=tmp_path / "eee")
        self.validate(tmp_path / "eee", shared_data)
        inside = (tmp_path / "eee").resolve()
        assert all(path.resolve().is_relative_to(inside) for path in result.paths)
        assert {path.name for path in tmp_path.iterdir()} == {"eee"}

    def test_identifiers_are_of_version_4_and_differ(self, tmp_path):
        study = study_of(np.ones((30, 2), np.int8), testsets=["a", "b"])
        paths = export(study, to="eee", out=tmp_path / "eee").paths
        stems = {path.stem for path in paths if path.suffix == ".json"}
        assert len(stems) == 60
        assert all(
            re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", stem) for stem in stems
        )

    def test_settings_and_metric_of_an_import_are_kept(self, tmp_path, shared_data):
        source = shared_data / "logs" / "every_eval_ever" / "skill_reference_conversion"
        import_logs(source, into=tmp_path / "study")
        export(tmp_path / "study", to="eee", out=tmp_path / "eee")
        self.validate(tmp_path / "eee", shared_data)
        aggregate = json.loads(next((tmp_path / "eee").rglob("*[0-9a-f].json")).read_text())
        assert aggregate["evaluation_results"][0]["metric_config"]["metric_name"] == "accuracy"
        assert aggregate["eval_library"] == {"name": "eee", "version": "0.3.0"}
        assert aggregate["model_info"]["developer"] == "demo-org"
        line = json.loads(next((tmp_path / "eee").rglob("*.jsonl")).read_text())
        assert line["input"] == {"raw": "What is 2 + 2?", "reference": ["4"], "choices": None}
        assert line["output"] == {"raw": ["4"]}


class TestRefusals:
    @pytest.mark.parametrize(
        ("to", "name", "message"),
        [
            ("xlsx", "a.xlsx", "to= is 'xlsx'; choose parquet, csv, npz, eee"),
            ("csv", "a.parquet", "ends in .parquet, but to= is csv"),
            ("npz", "a", "cannot tell the format from ''; use .npz"),
            ("npz", "none/a.npz", "there is no directory"),
        ],
    )
    def test_bad_targets(self, tmp_path, texts, to, name, message):
        with pytest.raises(InputError, match=re.escape(message)):
            export(texts, to=to, out=tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("to", ["csv", "parquet", "eee"])
    def test_a_directory_with_other_files_is_left_alone(self, tmp_path, texts, to):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "mine.txt").write_text("mine")
        with pytest.raises(InputError, match=r"already holds data.mine\.txt"):
            export(texts, to=to, out=tmp_path)
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["mine.txt"]

    @pytest.mark.parametrize("to", ["csv", "parquet", "eee"])
    def test_what_an_interrupted_export_left_is_removed(self, tmp_path, texts, to):
        paths = export(texts, to=to, out=tmp_path).paths
        whole = {path: path.read_bytes() for path in paths if to != "eee" or path.suffix == ".jsonl"}
        for path in paths[:2]:
            path.unlink()
            path.with_name(f".{path.name}.partial-x7{path.suffix}").write_text("half of")
        assert export(texts, to=to, out=tmp_path).paths == paths
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(paths)
        assert {path: path.read_bytes() for path in whole} == whole

    def test_an_unfinished_file_of_somebody_else_is_left_alone(self, tmp_path, texts):
        own = export(texts, to="csv", out=tmp_path).paths[0]
        unfinished = own.with_name(f".{own.name}.partial-x7.csv")
        other = tmp_path / ".mine.csv.partial-x7.csv"
        for path in (unfinished, other):
            path.write_text("half of")
        with pytest.raises(InputError, match=re.escape(other.name)):
            export(texts, to="csv", out=tmp_path)
        assert unfinished.exists()
        assert other.exists()

    @pytest.mark.parametrize("to", ["csv", "eee"])
    def test_a_file_is_not_a_directory(self, tmp_path, texts, to):
        (tmp_path / "out").write_text("mine")
        with pytest.raises(InputError, match="is a file"):
            export(texts, to=to, out=tmp_path / "out")

    def test_a_study_is_not_exported_into_itself(self, simulated_study):
        folder = Path(simulated_study.folder)
        before = sorted(path for path in folder.rglob("*"))
        with pytest.raises(InputError, match="choose an empty directory"):
            export(folder, to="parquet", out=folder)
        assert sorted(path for path in folder.rglob("*")) == before

    def test_nothing_to_open(self, tmp_path):
        with pytest.raises(InputError):
            export(tmp_path / "none", to="csv", out=tmp_path / "a.csv")


def test_the_version_in_records_is_that_of_breadth(tmp_path, simulated_study):
    study = open_study(simulated_study.folder).select(pl.col("step") == 0)
    path = next(path for path in export(study, to="eee", out=tmp_path / "eee").paths if path.suffix == ".json")
    assert json.loads(path.read_text())["eval_library"] == {"name": "breadth", "version": breadth.__version__}
