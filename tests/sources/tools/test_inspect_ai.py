import copy
import importlib.util
import json
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import breadth
from breadth.errors import InputError
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.logs.log_files import read_file
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools import inspect_ai
from breadth.sources.tools.inspect_ai import (
    CUT,
    Inspect,
    InspectLog,
    agreed_answer,
    collect_numbers,
    describe_samples,
    group_epochs,
    identify_samples,
    mean_scores,
    read_sample,
    read_sample_list,
    summaries_have_choices,
    text_columns,
    to_number,
)
from breadth.sources.zip_archives import open_archive
from import_inspect import DEFLATED, ZSTANDARD, log_members, make_header, make_sample, write_archive

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)

CHOICE = Metric("choice", "choice")
MATCH = Metric("match", "match")
INCLUDES = Metric("includes", "includes")
GRADED = Metric("model_graded_fact", "model_graded_fact")

#: Every real log: what it gives by metric (samples with a score, mean) and its notes, or why it is left out.
REAL = {
    "every_eval_ever/data_arc_qwen.json": ({CHOICE: (3, 1 / 3)}, []),
    "every_eval_ever/data_cvebench_empty_choices.json": "its sample ended in an error",
    "every_eval_ever/data_intercode_ctf_local_path.json": (
        {INCLUDES: (1, 0)},
        ["partial: 1 of 79", "count 79 samples"],
    ),
    "every_eval_ever/data_pubmedqa_gpt4o_mini.json": ({CHOICE: (2, 1)}, []),
    "every_eval_ever/data_with_llm_scoring.json": "no samples, only a header and results (status success)",
    "inspect_ai/analysis__test_logs__2025-05-12T20-27-36-04-00_browser.json": ({INCLUDES: (1, 1)}, []),
    "inspect_ai/analysis__test_logs__2025-05-12T20-28-13-04-00_no-samples.json": "(status cancelled)",
    "inspect_ai/analysis__test_logs__2025-05-12T20-28-13-04-00_popularity.json": (
        {MATCH: (3, 2 / 3)},
        ["did not finish: status cancelled"],
    ),
    "inspect_ai/analysis__test_logs__2025-05-12T20-28-26-04-00_security-guide.json": ({GRADED: (3, 1)}, []),
    "inspect_ai/analysis__test_logs_choices__mmlu-no-summary-choices.eval": ({CHOICE: (1, 0)}, []),
    "inspect_ai/analysis__test_logs_choices__mmlu-summary-choices.eval": ({CHOICE: (1, 0)}, []),
    "inspect_ai/log__test_eval_log__log_formats.eval": ({MATCH: (1, 0)}, []),
    "inspect_ai/log__test_eval_log__log_formats.json": ({MATCH: (1, 0)}, []),
    "inspect_ai/log__test_eval_log__log_images.json": ({MATCH: (1, 0)}, []),
    "inspect_ai/log__test_eval_log__log_images_tc.json": ({MATCH: (1, 0)}, []),
    "inspect_ai/log__test_eval_log__log_read_sample.eval": ({MATCH: (1, 1)}, []),
    "inspect_ai/log__test_eval_log__log_read_sample.json": ({MATCH: (1, 1)}, []),
    "inspect_ai/log__test_eval_log__log_tool_call_error.json": "its samples have no scores, only its results do",
    "inspect_ai/log__test_list_logs__2024-11-05T13-31-45-05-00_input-task_8zXjbRzCWrL9GXiXo2vus9.json": (
        {GRADED: (1, 1)},
        [],
    ),
    "inspect_ai/log__test_list_logs__2024-11-05T13-32-37-05-00_input-task_hxs4q9azL3ySGkjJirypKZ.eval": (
        {GRADED: (1, 1)},
        [],
    ),
    "inspect_ai/log__test_list_logs__custom.eval": ({GRADED: (1, 1)}, []),
    "inspect_ai/scorer__logs__2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval": "not scored",
    "made_with_tool/2026-11-16T07-34-08-00-00_arc-mcq_56c9bDFEuW3qVQRE6VkACo.eval": ({CHOICE: (12, 0.25)}, []),
    "made_with_tool/2026-11-16T07-34-09-00-00_arc-mcq_CnByAGmkKLW9PSB2KiHdLF.eval": ({CHOICE: (12, 1 / 3)}, []),
    "made_with_tool/2026-11-16T07-34-10-00-00_arc-mcq_Ggp3GsBZp2gu55ZzGR5H3R.eval": ({CHOICE: (12, 1 / 9)}, []),
    "made_with_tool/2026-11-16T07-34-11-00-00_open-multi_CawCWbQ2dKrrdcfjhtoMoz.json": (
        {
            INCLUDES: (6, 7 / 12),
            Metric("fluency", "rubric"): (6, 0.5535833333333334),
            Metric("grade", "rubric"): (6, 2 / 3),
            Metric("graded", "graded"): (6, 0.5416666666666666),
        },
        [],
    ),
    "made_with_tool/2026-11-16T07-34-12-00-00_arc-mcq_cHTAwHEj6DfYQtKjHYBJmQ.eval": (
        {CHOICE: (7, 2 / 7)},
        ["5 of 12 samples ended in an error: missing"],
    ),
    "made_with_tool/crashed_journal_only/2026-11-16T07-34-08-00-00_arc-mcq_56c9bDFEuW3qVQRE6VkACo.eval": (
        {CHOICE: (12, 0.25)},
        ["did not finish: status started"],
    ),
    "made_with_tool/failed/2026-11-16T07-32-50-00-00_arc-mcq_T7okqz5b24WAbhgeLjUixS.eval": "all 12 samples ended in",
}
UNFINISHED = ("crashed_journal_only", "intercode")  # their logs state no mean, or that of other samples
EPOCHS = "made_with_tool/2026-11-16T07-34-10-00-00_arc-mcq_Ggp3GsBZp2gu55ZzGR5H3R.eval"


def read(path, **options) -> list[Log]:
    file = SourceFile.look(Path(path))
    assert Inspect().detect(file).part is Part.ANSWERS
    return list(Inspect().read_answers(file, Options(**options)))


@pytest.fixture(scope="session")
def real(shared_data):
    return shared_data / "logs" / "inspect"


@pytest.fixture
def small() -> dict:
    """A JSON log of four samples, half of them right."""
    generator = random.Random(1)
    samples = [make_sample(generator, number) for number in range(4)]
    for k, sample in enumerate(samples):
        sample["scores"]["choice"]["value"] = "CI"[k % 2]
    return {**make_header(4, 0.5), "samples": samples}


@pytest.fixture
def write(tmp_path):
    def write(log, archived=False, method=ZSTANDARD, keep=lambda name: True, name="log"):
        path = tmp_path / f"{name}.{'eval' if archived else 'json'}"
        if not archived:
            path.write_text(json.dumps(log, indent=2))
            return path
        header = {key: value for key, value in log.items() if key != "samples"}
        summaries = [{k: v for k, v in s.items() if k not in ("events", "messages", "output")} for s in log["samples"]]
        journal = [("_journal/start.json", {key: log[key] for key in ("version", "eval", "plan")})]
        members = [(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample) for sample in log["samples"]]
        members += [(f"_journal/summaries/{k}.json", [one]) for k, one in enumerate(summaries, 1)]
        members += [("summaries.json", summaries), ("header.json", header)]
        encoded = [(name, json.dumps(content).encode()) for name, content in journal + members if keep(name)]
        write_archive(path, encoded, method, frames=3)
        return path

    return write


class TestRealLogs:
    def test_the_list_names_every_one(self, real):
        assert {str(path.relative_to(real)) for path in real.rglob("*") if path.is_file()} == set(REAL)

    @pytest.mark.parametrize("name", REAL)
    def test_it_is_imported_with_its_own_mean_or_left_out(self, real, name):
        expected = REAL[name]
        if isinstance(expected, str):
            with pytest.raises(SkipFile) as left_out:
                read(real / name)
            assert expected in str(left_out.value)
            return
        (log,) = read(real / name)
        values, notes = expected
        scored = {metric: log.scores(metric)[~np.isnan(log.scores(metric))] for metric in log.values}
        assert {metric: (len(some), some.mean()) for metric, some in scored.items()} == {
            metric: (count, pytest.approx(mean, abs=1e-12)) for metric, (count, mean) in values.items()
        }
        stated = (
            {} if any(word in name for word in UNFINISHED) else {metric: mean for metric, (_, mean) in values.items()}
        )
        assert dict(log.stated) == pytest.approx(stated, abs=1e-12)
        assert len(log.notes) == len(notes)
        assert all(part in note for part, note in zip(notes, log.notes, strict=True))
        assert all(log.texts["text"])
        assert not log.margins

    def test_epochs_each(self, real):
        logs = read(real / EPOCHS, epochs="each")
        assert [log.subject["epoch"] for log in logs] == [1, 2, 3]
        assert [log.scores(CHOICE).mean() for log in logs] == pytest.approx([0.25, 0, 1 / 12])
        assert all(log.items == logs[0].items for log in logs)
        assert not any(log.stated for log in logs)

    def test_one_item_in_archives_and_json_with_and_without_choices_in_summaries(self, real):
        folder = real / "inspect_ai"
        for pair in ("log__test_eval_log__log_formats.*", "log__test_eval_log__log_read_sample.*", "*summary-choices*"):
            first, second = (read(path)[0] for path in sorted(folder.glob(pair)))
            assert first.items == second.items
            assert first.texts == second.texts
        (log,) = read(folder / "analysis__test_logs_choices__mmlu-no-summary-choices.eval")
        assert log.texts["options"] == [["6.0 e", "6.8 eV", "12.2 eV", "13.6 eV"]]
        assert log.texts["label"] == ["A"]

    def test_subjects_and_test_sets(self, real):
        (log,) = read(real / "every_eval_ever/data_arc_qwen.json")
        assert (log.testset, log.model, log.tool, log.stamp) == (
            "arc_easy",
            "ollama/qwen2.5:0.5b",
            "inspect",
            "2025-10-20T23:12:03+00:00",
        )
        assert log.version.startswith("0.3.138")

    def test_a_study_of_two_models(self, real):
        logs = sorted((real / "made_with_tool").glob("*arc-mcq*"))
        study = breadth.read_logs([logs[0], logs[1], logs[3]])
        assert sorted(study.subjects["subject"]) == ["alpha", "beta", "short"]
        assert study.answered.sum(axis=1).tolist() == [12, 12, 7]
        assert study.correct[study.answered].sum() == 3 + 4 + 2


class TestArchives:
    @pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
    def test_an_archive_and_json_hold_the_same(self, small, write, method):
        (whole,), (archived,) = read(write(small)), read(write(small, archived=True, method=method))
        assert whole.items == archived.items == ["q00000", "q00001", "q00002", "q00003"]
        assert whole.texts == archived.texts
        assert whole.answers == archived.answers
        assert whole.stated == archived.stated == {CHOICE: 0.5}
        assert archived.scores(CHOICE).tolist() == [1, 0, 1, 0]

    def test_without_header_and_summaries_the_journal_is_read(self, small, write):
        (log,) = read(write(small, True, keep=lambda name: name not in ("header.json", "summaries.json")))
        assert log.scores(CHOICE).tolist() == [1, 0, 1, 0]
        assert log.notes == ["the run did not finish: status started"]

    def test_samples_that_the_journal_lacks_are_read_themselves(self, small, write):
        lost = ("header.json", "summaries.json", "_journal/summaries/2.json")
        (log,) = read(write(small, True, keep=lambda name: name not in lost))
        assert sorted(log.items) == ["q00000", "q00001", "q00002", "q00003"]

    def test_the_last_entry_of_the_journal_counts(self, small, write):
        again = copy.deepcopy(small["samples"][1])
        small["samples"][1]["error"] = {"message": "Boom"}
        again["scores"]["choice"]["value"] = "C"
        small["samples"].append(again)
        (log,) = read(write(small, True, keep=lambda name: name not in ("header.json", "summaries.json")))
        assert log.scores(CHOICE).tolist() == [1, 1, 1, 0]

    def test_cut_texts_are_read_from_the_sample(self, small, write, tmp_path):
        question = "Why? " * 2000
        small["samples"][2] |= {"id": 3, "input": question}
        path = write(small, archived=True)
        with open_archive(path) as archive:
            members = [(name, archive.read(name)) for name in archive.members]
        summaries = json.loads(dict(members)["summaries.json"])
        summaries[2]["input"] = question[:5120] + "...\n(content truncated)"
        write_archive(path, [(n, json.dumps(summaries).encode() if n == "summaries.json" else c) for n, c in members])
        (log,), (whole,) = read(path), read(write(small))
        assert question in log.texts["text"]
        assert sorted(log.items) == sorted(whole.items)

    def test_the_summary_suffices_where_the_sample_is_gone(self, small, write):
        small["eval"]["packages"]["inspect_ai"] = "0.3.100"
        for sample in small["samples"]:
            del sample["choices"]
        (log,) = read(write(small, True, keep=lambda name: not name.startswith("samples/")))
        assert len(log.items) == 4

    def test_of_two_samples_with_one_id_each_keeps_its_own_question(self, small, write):
        small["eval"]["packages"]["inspect_ai"] = "0.3.40"
        small["samples"][1]["id"] = small["samples"][0]["id"] = 1
        (log,) = read(write(small, archived=True))
        assert {sample["input"] for sample in small["samples"]} == set(log.texts["text"])
        assert not log.stated
        assert "1 samples share their id" in log.notes[-1]

    def test_other_archives_and_json_are_not_inspects(self, tmp_path):
        path = tmp_path / "file"
        write_archive(path, [("word/document.xml", b"<x/>")])
        assert Inspect().detect(SourceFile.look(path)) is None
        for content in (b"[]", b'{"eval": {}, "date": 1}', b'[{"eval": {"task": 1}, "status": 1}]', b"", b"\x00"):
            path.write_bytes(content)
            assert Inspect().detect(SourceFile.look(path)) is None

    def test_a_truncated_archive_is_recognised_and_refused(self, small, write):
        path = write(small, archived=True)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(InputError, match="cannot be read as zip archive; it is truncated"):
            read(path)


class TestJson:
    @pytest.mark.parametrize("change", [lambda log: None, lambda log: log.update(more=[1])])
    def test_large_logs_are_read_sample_by_sample(self, small, write, monkeypatch, change):
        change(small)
        (whole,) = read(write(small))
        monkeypatch.setattr(inspect_ai, "LARGE_JSON", 100)
        monkeypatch.setattr(SourceFile, "json", None)
        (streamed,) = read(write(small))
        assert streamed.items == whole.items
        assert streamed.texts == whole.texts
        assert streamed.stated == whole.stated == {CHOICE: 0.5}

    def test_damage_in_a_large_log_is_named_with_its_line(self, small, write, monkeypatch):
        monkeypatch.setattr(inspect_ai, "LARGE_JSON", 100)
        path = write(small)
        lines = path.read_text().split("\n")
        broken = next(k for k, line in enumerate(lines) if "q00002" in line)
        path.write_text("\n".join([*lines[:broken], '      "id": ,', *lines[broken + 1 :]]))
        with pytest.raises(InputError, match=rf"samples, line {broken}: is not JSON"):
            read(path)
        path.write_text("\n".join(lines[:broken]))
        with pytest.raises(InputError, match="the file ends inside a list"):
            read(path)

    def test_nan_is_unscored(self, small, write):
        small["samples"][0]["scores"]["choice"]["value"] = math.nan
        small["results"]["scores"][0] |= {"scored_samples": 3, "unscored_samples": 1}
        small["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 1 / 3
        (log,) = read(write(small, archived=True))
        assert np.isnan(log.scores(CHOICE)).tolist() == [True, False, False, False]
        assert log.stated[CHOICE] == pytest.approx(np.nanmean(log.scores(CHOICE)))

    def test_the_oldest_logs(self, small, write):
        for sample in small["samples"]:
            sample["score"] = sample.pop("scores")["choice"]
        metrics = small["results"].pop("scores")[0]["metrics"]
        small["results"] |= {"scorer": {"name": "match", "params": {}}, "metrics": metrics}
        del small["eval"]["scorers"]
        (log,) = read(write(small))
        assert log.scores(MATCH).tolist() == [1, 0, 1, 0]
        assert log.stated == {MATCH: 0.5}
        assert log.answers == [sample["score"]["answer"] for sample in small["samples"]]

    def test_without_texts_items_stay_the_same(self, small, write):
        for k, sample in enumerate(small["samples"]):
            sample["id"] = k
        path = write(small)
        assert read(path, texts=False)[0].items == read(path)[0].items
        assert not read(path, texts=False)[0].texts

    def test_subsets_that_use_the_same_ids_stay_apart_without_texts(self, small, write, tmp_path):
        for k, sample in enumerate(small["samples"]):
            sample["id"] = f"row_{k}"
        one = write(small, name="one")
        for sample in small["samples"]:
            sample["input"] = "Another question"
        two = write({**small, "eval": {**small["eval"], "model": "other"}}, name="two")
        names = breadth.read_logs([one, two]).items["item"].to_list()
        assert len(names) == 8
        assert breadth.read_logs([one, two], texts=False).items["item"].to_list() == names
        for path in (one, two):
            breadth.import_logs(path, into=tmp_path / "answers", texts=False)
        assert breadth.open(tmp_path / "answers").items["item"].to_list() == names
        with_texts = breadth.import_logs([one, two], into=tmp_path / "answers").study.items
        assert with_texts["item"].to_list() == names
        assert with_texts["text"].null_count() == 0


class TestMeans:
    def test_the_headline_comes_first(self, small, write):
        for sample in small["samples"]:
            sample["scores"] = {"a": {"value": 1}, "rubric": {"value": {"x": 0, "y": 1}}}
        small["results"]["scores"] = [{"name": "a", "scorer": "a", "metrics": {}}]
        assert read(write(small))[0].prefer == ["a", "x", "y"]
        small["results"]["headline"] = {"scorer": "rubric", "score": "y", "metric": "mean"}
        assert read(write(small))[0].prefer == ["y", "a", "x"]

    def test_only_the_mean_over_epochs_is_compared(self, small, write):
        entry = small["results"]["scores"][0]
        other = {**entry, "reducer": "max", "metrics": {"accuracy": {"value": 0.75}}}
        small["results"]["scores"] = [other, {**entry, "reducer": "mean"}]
        assert read(write(small))[0].stated == {CHOICE: 0.5}
        small["results"]["scores"] = [other]
        assert not read(write(small))[0].stated

    def test_metrics_with_parameters_are_not_plain_means(self, small, write):
        small["results"]["scores"][0]["metrics"]["accuracy"]["params"] = {"to_float": "other"}
        assert not read(write(small))[0].stated

    def test_a_mean_of_other_samples_is_not_compared(self, small, write):
        small["samples"].pop()
        (log,) = read(write(small))
        assert not log.stated
        assert log.notes == [
            "partial: 3 of 4 samples",
            "its results count 4 samples, but it holds 3 with a score; means not checked",
        ]

    def test_a_mean_that_differs_is_said_with_both_numbers(self, small, write):
        small["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.75
        study = breadth.read_logs(write(small))
        assert any("is 0.5, but the log states 0.75" in warning for warning in study.warnings)


class TestSubjects:
    def test_what_makes_a_subject(self, small, write):
        small["eval"] |= {
            "model": "hf/local", "model_args": {"model_path": "out/checkpoint-800", "device": "cuda", "dtype": "bf16"},
            "solver": "my/agent", "solver_args_passed": {"tries": 3}, "solver_args": {"tries": 3, "tool": "bash"},
            "task": "suite/exam", "task_args_passed": {"level": 2}, "task_args": {"level": 2, "hint": True},
            "model_generate_config": {"temperature": 0.5, "max_connections": 9},
            "model_roles": {"grader": {"model": "openai/o3"}, "panel": [{"model": "a"}, {"model": "b"}]},
        }  # fmt: skip
        small["eval"]["config"]["message_limit"] = 30
        (log,) = read(write(small))
        assert log.model == "out/checkpoint-800"
        assert log.testset == "exam"
        assert log.subject == {"dtype": "bf16", "solver": "my/agent", "solver.tries": 3}
        assert log.settings == {
            "role.grader": "openai/o3", "role.panel": "a, b", "message_limit": 30, "temperature": 0.5, "level": 2,
        }  # fmt: skip

    @pytest.mark.parametrize("key", ["api_key", "OPENAI_API_KEY", "hf_token", "client_secret", "password"])
    def test_secrets_are_not_kept(self, small, write, key):
        small["eval"] |= {"model_args": {key: "s3cret"}, "task_args": {key: "s3cret"}}
        (log,) = read(write(small))
        assert not log.subject
        assert not log.settings

    @pytest.mark.parametrize(
        ("created", "stamp"),
        [
            ("2024-11-05T13:31:45-05:00", "2024-11-05T18:31:45+00:00"),
            ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00+00:00"),
            ("soon", "soon"),
            (5, ""),
            ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
        ],
    )
    def test_stamps_sort(self, small, write, created, stamp):
        small["eval"]["created"] = created
        assert read(write(small))[0].stamp == stamp


class TestLeftOut:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"scores": {}, "error": {"message": "x"}}, "all 4 samples ended in an error"),
            ({"scores": {"f1": {"value": [1, 2]}}}, r"not single numbers or grades \(f1 \(f1\)\)"),
            ({"scores": None}, "have no scores, only its results do"),
            ({"invalidation": {"author": "me"}}, "marked as invalid"),
        ],
    )
    def test_reasons(self, small, write, fields, reason):
        for sample in small["samples"]:
            sample.update(fields)
        with pytest.raises(SkipFile, match=reason):
            read(write(small))

    def test_failed_and_invalid_samples_are_missing_and_said(self, small, write):
        small["samples"][0]["error"] = {"message": "x"}
        small["samples"][1]["invalidation"] = {"author": "me"}
        small["invalidated"] = True
        (log,) = read(write(small, archived=True))
        assert np.isnan(log.scores(CHOICE)).tolist() == [True, True, False, False]
        assert "1 of 4 samples were marked as invalid: missing" in log.notes
        assert "1 of 4 samples ended in an error: missing" in log.notes

    def test_failed_samples_count_where_the_run_asked_for_it(self, small, write):
        small["samples"][0]["error"] = {"message": "x"}
        small["eval"]["config"]["score_on_error"] = True
        (log,) = read(write(small))
        assert log.scores(CHOICE).tolist() == [1, 0, 1, 0]
        assert log.stated == {CHOICE: 0.5}

    def test_unknown_versions_are_read_with_a_note(self, small, write):
        small["version"] = 9
        assert read(write(small))[0].notes == ["log schema 9 is not known; read by its keys"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda log: log["eval"].pop("model"), "has no eval.model"),
            (lambda log: log["eval"].update(task="/"), "eval.task is '/'"),
            (lambda log: log.update(eval=[]), "has no eval.task"),
            (lambda log: log["results"].update(scores=[1]), "results.scores, entry 1: expected a JSON object"),
            (lambda log: log.update(samples={"a": 1}), "samples: expected a list"),
            (lambda log: log["samples"][1].pop("id"), "samples, sample 2: has no id"),
            (lambda log: log["samples"][1].update(epoch="1"), "samples, sample 2: epoch is '1'"),
            (lambda log: log["samples"][2].update(scores=[1]), r"samples, sample 3: scores is \[1\]"),
            (lambda log: log["samples"][2]["scores"].update(choice=1), "samples, sample 3: the score of choice is not"),
        ],
    )
    def test_damaged_logs_are_refused(self, small, write, change, message):
        change(small)
        path = write(small)
        with pytest.raises(InputError, match=message) as refused:
            list(Inspect().read_answers(SourceFile.look(path), Options()))
        assert str(path) in str(refused.value)

    @pytest.mark.parametrize(("depth", "message"), [(1020, "recursion"), (100_000, "is not JSON")])
    def test_deep_nesting_is_refused(self, small, write, depth, message):
        path = write(small)
        deep = "[" * depth + "]" * depth
        path.write_text(path.read_text().replace('"model_args": {}', f'"model_args": {{"a": {deep}}}'))
        assert message in read_file(Inspect(), path, Options(), frozenset()).problem


def outcome(path, **options):
    """What reading a file gives: logs, a reason, or a message that begins with the file."""
    Inspect().detect(SourceFile.look(path))
    file = read_file(Inspect(), path, Options(**options), frozenset())
    if file.problem:
        return "refused" if file.problem.startswith(str(path)) and "\n" not in file.problem else file.problem
    return "left out" if file.left_out else "logs"


def make_varied_log(small):
    """A log with something in every place that is read."""
    parts = [{"type": "text", "text": "Why?"}, {"type": "image", "image": "attachment://7"}]
    asked = {"input": [{"role": "user", "content": parts}], "attachments": {"7": PICTURE}}
    small["samples"][1] |= {"id": 2, "target": ["a", "b"], **asked}
    small["samples"] = small["samples"][:2]
    for sample in small["samples"]:
        for key in ("events", "messages", "output"):
            del sample[key]
    roles = {"grader": [{"model": "b"}]}
    small["eval"] |= {"model_args": {"dtype": "x"}, "solver": "agent", "solver_args": {"a": 1}, "model_roles": roles}
    small["results"]["headline"] = {"score": "choice"}
    return small


@pytest.mark.parametrize("archived", [False, True])
def test_any_value_may_stand_anywhere(small, tmp_path, archived):
    log = make_varied_log(small)
    if archived:
        samples = log.pop("samples")
        members = {f"samples/{sample['id']}_epoch_1.json": sample for sample in samples}
        log = {"header.json": log, "summaries.json": samples, **members}
    path = tmp_path / "log"
    generator = random.Random(3)
    outcomes = Counter()
    for place in fuzzing.every_place(log):
        for value in (..., *generator.sample(fuzzing.VALUES, 2)):
            other = fuzzing.replace_at(log, place, value)
            if archived:
                write_archive(path, [(name, json.dumps(member).encode()) for name, member in other.items()])
            else:
                path.write_text(json.dumps(other))
            outcomes[outcome(path, epochs=generator.choice(["mean", "each"]))] += 1
    assert {"logs", "refused"} <= set(outcomes) <= {"logs", "left out", "refused"}


def test_damaged_logs_give_logs_or_one_message(real, tmp_path):
    sources = [path for path in (real / name for name in REAL) if path.stat().st_size < 100_000]
    generator = random.Random(7)
    outcomes = Counter()
    for number in range(200):
        damage = generator.choice([fuzzing.flip, fuzzing.truncate, fuzzing.repeat, fuzzing.nest])
        (tmp_path / "log").write_bytes(damage(sources[number % len(sources)].read_bytes(), generator))
        outcomes[outcome(tmp_path / "log")] += 1
    assert set(outcomes) == {"logs", "left out", "refused"}


def test_the_log_of_the_benchmark_is_one_of_inspect(tmp_path):
    write_archive(tmp_path / "log.eval", log_members(20))
    (log,) = read(tmp_path / "log.eval")
    assert len(log.items) == 20
    assert log.scores(CHOICE).mean() == pytest.approx(log.stated[CHOICE])


def test_reading_loads_only_what_it_needs(small, write):
    script = "import sys, breadth; breadth.read_logs(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-c", script, str(write(small, archived=True))]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert loaded >= {"polars", "breadth.sources.tools.inspect_ai"}
    assert not loaded & {"rich", "numpy.ma", "breadth.sources.tools.helm", "breadth.sources.tools.matrix"}


# Samples


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries({"role": ANY, "content": ANY | st.lists(st.fixed_dictionaries({"type": ANY}))})
SCORE = st.fixed_dictionaries({"value": ANY, "answer": ANY})
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def sample(id=1, **fields):
    return {"id": id, "epoch": 1, "input": "Why?", "target": "because", **fields}


def rows_of(*samples):
    return read_sample_list(list(samples), "log")


def items(*samples):
    grouped = group_epochs(rows_of(*samples))
    return identify_samples(grouped, [one[0] for one in grouped])


class TestRecord:
    @settings(max_examples=50)
    @given(
        st.one_of(st.integers(), st.text()),
        st.dictionaries(
            st.sampled_from(["epoch", "input", "choices", "target", "scores", "score", "error", "attachments"]),
            ANY | st.lists(MESSAGE) | st.dictionaries(st.text(), SCORE),
        ),
    )
    def test_fields_have_any_type_or_are_refused_with_their_place(self, id, fields):
        try:
            rows = rows_of({**fields, "id": id})
        except InputError as error:
            assert "log, sample 1: " in str(error)  # noqa: PT017
            return
        samples = group_epochs(rows)
        numbers, _ = collect_numbers(samples, ["a"], False)
        assert all(math.isfinite(mean_scores(placed, None)[0]) for placed in numbers.values())
        assert len(identify_samples(samples, rows)) == 1
        assert all(len(column) == 1 for column in text_columns(rows).values())

    @pytest.mark.parametrize("content", [None, [], "x", {"id": None}, {"id": True}, {"id": 1.5}, {}])
    def test_a_sample_without_id_is_refused_by_its_number(self, content):
        with pytest.raises(InputError, match="log, sample 2: "):
            rows_of(sample(), content)

    def test_what_is_not_a_list_is_refused(self):
        with pytest.raises(InputError, match="log: expected a list of samples"):
            read_sample_list({}, "log")

    def test_messages_are_shown_with_their_roles_where_there_are_several(self):
        one = [{"role": "user", "content": "Why?"}]
        two = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
        ]
        assert read_sample(sample(input=one), "log").text == "Why?"
        assert read_sample(sample(input=two), "log").text == "system: Be brief.\n\nuser: Why?"

    def test_images_are_named_in_the_text_and_tell_items_apart(self):
        def asked(image, **fields):
            content = [{"type": "text", "text": "What is it?"}, {"type": "image", "image": image}]
            return sample(input=[{"role": "user", "content": content}], **fields)

        attached = asked("attachment://7f", attachments={"7f": PICTURE})
        assert read_sample(asked(PICTURE), "log").text == "What is it?\n[image]"
        assert items(asked(PICTURE)) == items(attached)
        assert items(asked(PICTURE)) != items(asked(PICTURE + "A"))
        assert read_sample(sample(input=f"![]({PICTURE})"), "log").text == "![]([data])"

    def test_a_text_kept_as_attachment_is_found(self):
        assert read_sample(sample(input="attachment://a", attachments={"a": "Why?"}), "log").text == "Why?"
        assert read_sample(sample(input="attachment://b", attachments={"a": "Why?"}), "log").text == "attachment://b"

    @pytest.mark.parametrize(
        ("fields", "cut"),
        [
            ({"input": "x" * 5120 + CUT}, True),
            ({"target": ["a", "b" + CUT]}, True),
            ({"input": [{"role": "user", "content": "x" + CUT}]}, True),
            ({"input": [{"role": "user", "content": [{"type": "text", "text": "(Image)"}]}]}, True),
            ({"input": "What is (Image)?", "target": "(c)"}, False),
        ],
    )
    def test_summaries_that_were_cut(self, fields, cut):
        assert read_sample(sample(**fields), "log").cut is cut


class TestDescribe:
    def test_a_sample_is_opened_only_where_its_summary_does_not_suffice(self):
        opened = []

        class Opening(InspectLog):
            def open_sample(self, row):
                opened.append(row.id)
                return row

        def describe(version, texts):
            rows = rows_of(sample("told", choices=["a"]), sample("untold"), sample("cut", input="x" + CUT), sample(3))
            describe_samples(Opening("log", {"inspect_version": version}, rows), group_epochs(rows), texts)
            return [opened.pop(0) for _ in range(len(opened))]

        assert describe("0.3.155", texts=True) == ["untold", "cut", 3]
        assert describe("0.3.155", texts=False) == ["cut", 3]
        assert describe("0.3.156", texts=True) == ["cut"]

    @pytest.mark.parametrize(
        ("version", "told"),
        [
            ("0.3.156", True),
            ("0.3.155", False),
            ("0.3.154.dev4+g32", False),
            ("1.0.0rc1", True),
            (None, False),
            ("x", False),
        ],
    )
    def test_versions_whose_summaries_hold_choices(self, version, told):
        assert summaries_have_choices(version) is told


class TestIdentify:
    def test_ids_that_are_text_are_kept(self):
        assert items(sample("q7"), sample("q8", input="What?")) == ["q7", "q8"]

    @given(st.permutations(range(6)))
    def test_numbered_samples_are_the_same_items_in_any_order(self, order):
        questions = [{"input": f"Why {k}?", "choices": ["yes", f"no {k}"]} for k in range(6)]
        shuffled = items(*(sample(place, **questions[k]) for place, k in enumerate(order)))
        assert shuffled == [items(sample(1, **questions[k]))[0] for k in order]

    def test_choices_in_another_order_are_the_same_item(self):
        assert items(sample(choices=["a", "b"])) == items(sample(choices=["b", "a"]))
        assert items(sample(choices=["a", "b"])) != items(sample(choices=["a", "c"]))

    def test_repeated_questions_are_told_apart(self):
        first, second = items(sample(1), sample(2))
        assert second == f"{first}#2"

    def test_an_id_with_two_texts_is_two_items(self):
        assert items(sample("a"), sample("a", input="What?")) == ["a", "a#2"]

    def test_epochs_of_one_sample_are_one_item_even_if_its_input_varies(self):
        assert items(sample("a"), sample("a", epoch=2), sample("a", epoch=3, input="Why (seed 3)?")) == ["a"]

    @given(st.permutations([(text, epoch) for text in "AB" for epoch in (1, 2)]))
    def test_epochs_of_two_samples_with_one_id(self, order):
        samples = group_epochs(rows_of(*(sample("a", input=text, epoch=epoch) for text, epoch in order)))
        assert sorted("".join(sorted(row.text for row in one)) for one in samples) == ["AA", "BB"]

    def test_a_sample_that_was_run_again_is_one_item(self):
        (one,) = group_epochs(rows_of(sample("a", error={"message": "no"}), sample("a", scores={"s": {"value": 1}})))
        values, _ = collect_numbers([one], [], False)
        assert mean_scores(values[Metric("s", "s")], None) == {0: 1}


class TestScores:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("C", 1), ("I", 0), ("P", 0.5), ("N", 0), ("c", None), ("yes", 1), ("True", 1), ("NO", 0), ("false", 0),
            (True, 1), (False, 0), (0.25, 0.25), (7, 7), ("0.5", 0.5), ("nan", None), ("inf", None), ("good", None),
            (math.nan, None), (None, None), ([1], None), ({}, None), (10**400, None), ("", None),
        ],
    )  # fmt: skip
    def test_values_count_as_in_inspect(self, value, expected):
        assert to_number(value) == expected

    def collect(self, *samples, scorers=(), failed_count=False):
        grouped = group_epochs(rows_of(*samples))
        values, others = collect_numbers(grouped, scorers, failed_count)
        means = {metric: mean_scores(numbers, None) for metric, numbers in values.items()}
        return {metric: [mean.get(k) for k in range(len(grouped))] for metric, mean in means.items()}, others

    def test_a_score_per_scorer_and_per_key(self):
        scores = {"match": {"value": "C"}, "rubric": {"value": {"style": 0.5, "facts": "I", "note": "fine"}}}
        values, others = self.collect(sample(1, scores=scores), sample(2, scores={"match": {"value": "I"}}))
        assert values == {
            Metric("match", "match"): [1, 0],
            Metric("style", "rubric"): [0.5, None],
            Metric("facts", "rubric"): [0, None],
        }
        assert others == {Metric("note", "rubric"): 1}

    def test_lists_are_not_single_numbers(self):
        assert self.collect(sample(scores={"f1": {"value": [1, 0]}})) == ({}, {Metric("f1", "f1"): 1})

    def test_the_score_of_the_oldest_logs_belongs_to_their_scorer(self):
        old = sample(score={"value": "C", "answer": "4"})
        assert self.collect(old, scorers=["match"])[0] == {Metric("match", "match"): [1]}
        assert self.collect(old)[0] == {Metric("score", "score"): [1]}

    def test_errors_and_invalid_samples_are_missing(self):
        scores = {"match": {"value": "I"}}
        samples = (
            sample(1, scores=scores), sample(2, input="2", scores=scores, error="Boom"),
            sample(3, input="3", scores=scores, invalidation={"author": "me"}),
        )  # fmt: skip
        assert self.collect(*samples)[0] == {Metric("match", "match"): [0, None, None]}
        assert self.collect(*samples, failed_count=True)[0] == {Metric("match", "match"): [0, 0, None]}

    def test_the_current_value_of_an_edited_score_counts(self):
        edited = {"value": "C", "history": [{"value": "I"}, {"value": "C", "provenance": {"author": "me"}}]}
        assert self.collect(sample(scores={"match": edited}))[0] == {Metric("match", "match"): [1]}

    def test_epochs_are_averaged_over_those_that_are_scored(self):
        values = ["C", "I", math.nan, "C"]
        rows = (sample("a", epoch=k, scores={"s": {"value": value}}) for k, value in enumerate(values, 1))
        assert self.collect(*rows)[0] == {Metric("s", "s"): [2 / 3]}
        assert mean_scores([(0, 1, 1.0), (0, 2, 0.0), (1, 1, 1.0)], 2) == {0: 0}
        assert mean_scores([(0, 1, 1e308), (0, 2, 1e308)], None) == {0: math.inf}

    def test_the_answer_is_that_of_the_first_scorer_that_tells(self):
        scores = {"b": {"value": 1, "answer": "B"}, "a": {"value": 1}, "c": {"value": 1, "answer": "C"}}
        rows = rows_of(sample(scores=scores))
        assert agreed_answer(rows, ["a", "c"]) == "C"
        assert agreed_answer(rows, []) == "B"
        assert agreed_answer(rows_of(sample(), *[sample(epoch=2, scores={"a": {"answer": "A"}})]), []) is None


def test_columns_of_texts():
    rows = rows_of(
        sample(choices=["x", "y"], target="B"),
        sample(choices=[], target=["a", "b"]),
        sample(choices=[str(k) for k in range(28)], target="2"),
        sample(target=None),
    )
    columns = text_columns(rows)
    assert columns["text"] == ["Why?"] * 4
    assert columns["options"][:2] == [["x", "y"], None]
    assert columns["option_labels"][0] == ["A", "B"]
    assert columns["option_labels"][2][-3:] == ["Z", "1", "2"]
    assert columns["label"] == ["B", None, "2", None]
    assert columns["target"] == [None, "a | b", None, None]
    assert set(text_columns(rows[3:])) == {"text"}
