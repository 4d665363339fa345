import copy
import json
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import breadth
from breadth.errors import InputError
from breadth.importers import inspect_logs
from breadth.importers.archives import open_archive
from breadth.importers.inspect_logs import Inspect
from breadth.importers.logs import LeftOut, Log, Metric, Options, Part
from breadth.importers.reading import LogFile
from import_inspect import DEFLATED, ZSTANDARD, log_members, make_header, make_sample, write_archive

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
    file = LogFile.look(Path(path))
    assert Inspect().part(file) is Part.ANSWERS
    return list(Inspect().read(file, Options(**options)))


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
            with pytest.raises(LeftOut) as left_out:
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
            members = [(name, archive.read(name)) for name in archive.places]
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
        assert Inspect().part(LogFile.look(path)) is None
        for content in (b"[]", b'{"eval": {}, "date": 1}', b'[{"eval": {"task": 1}, "status": 1}]', b"", b"\x00"):
            path.write_bytes(content)
            assert Inspect().part(LogFile.look(path)) is None

    def test_a_truncated_archive_is_recognised_and_refused(self, small, write):
        path = write(small, archived=True)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(InputError, match="is not a whole zip archive"):
            read(path)


class TestJson:
    @pytest.mark.parametrize("change", [lambda log: None, lambda log: log.update(more=[1])])
    def test_large_logs_are_read_sample_by_sample(self, small, write, monkeypatch, change):
        change(small)
        (whole,) = read(write(small))
        monkeypatch.setattr(inspect_logs, "LARGE", 100)
        monkeypatch.setattr(LogFile, "json", None)
        (streamed,) = read(write(small))
        assert streamed.items == whole.items
        assert streamed.texts == whole.texts
        assert streamed.stated == whole.stated == {CHOICE: 0.5}

    def test_damage_in_a_large_log_is_named_with_its_line(self, small, write, monkeypatch):
        monkeypatch.setattr(inspect_logs, "LARGE", 100)
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
        with pytest.raises(LeftOut, match=reason):
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
            (lambda log: log["eval"].pop("model"), "eval: has no model or no task"),
            (lambda log: log.update(eval=[]), "eval: expected a JSON object"),
            (lambda log: log.update(samples={"a": 1}), "samples: expected a list"),
            (lambda log: log["samples"][1].pop("id"), "samples, sample 2: has no id"),
        ],
    )
    def test_damaged_logs_are_refused(self, small, write, change, message):
        change(small)
        path = write(small)
        with pytest.raises(InputError, match=message) as refused:
            list(Inspect().read(LogFile.look(path), Options()))
        assert str(path) in str(refused.value)

    @pytest.mark.parametrize(("depth", "message"), [(1020, "is nested too deep"), (100_000, "is not JSON")])
    def test_deep_nesting_is_refused(self, small, write, depth, message):
        path = write(small)
        deep = "[" * depth + "]" * depth
        path.write_text(path.read_text().replace('"model_args": {}', f'"model_args": {{"a": {deep}}}'))
        with pytest.raises(InputError, match=message):
            read(path)


STRANGE = (
    *(None, True, -1, 10**400, 1e308, math.nan, math.inf, "", "x", "\ud800", "NaN", "9" * 5000, -(2**63)),
    *([], {}, [[]], {"a": 1}, ["a"], [None, 7, {"type": "image"}], {"": {"": None}}),
)


def strange(value, generator):
    """Replace or remove something deep in a JSON value."""
    place, parent, key = value, None, None
    while isinstance(place, dict | list) and place and (parent is None or generator.random() < 0.85):
        parent, key = place, generator.choice(list(place) if isinstance(place, dict) else range(len(place)))
        place = place[key]
    if parent is not None and generator.random() < 0.3:
        del parent[key]
    elif parent is not None:
        parent[key] = copy.deepcopy(generator.choice(STRANGE))


def mutate(source, target, generator):
    """Write a mutation of a log: bytes changed, cut off or repeated, or JSON values changed."""
    content = bytearray(source.read_bytes())
    kind = generator.choice(["bytes", "cut", "repeat", "json", "json", "json"])
    at = generator.randrange(len(content))
    if kind == "bytes":
        for _ in range(generator.randint(1, 8)):
            content[generator.randrange(len(content))] = generator.randrange(256)
    elif kind == "cut":
        del content[at:]
    elif kind == "repeat":
        content[at:at] = content[at : at + generator.randint(1, 3000)]
    elif source.suffix == ".json":
        log = json.loads(content)
        for _ in range(generator.randint(1, 4)):
            strange(log, generator)
        content = json.dumps(log, indent=generator.choice([None, 2])).encode()
    else:
        with open_archive(source) as archive:
            members = [(name, json.loads(archive.read(name))) for name in archive.places]
        chosen = [part for part in members if part[0].endswith(("header.json", "summaries.json", "start.json"))]
        for _ in range(generator.randint(1, 4)):
            strange(generator.choice(chosen or members)[1], generator)
        kept = [(name, json.dumps(value).encode()) for name, value in members if generator.random() < 0.95]
        write_archive(target, kept, generator.choice([DEFLATED, ZSTANDARD]))
        return
    target.write_bytes(content)


def outcome(path, options):
    """What reading a file gives: logs, a reason, or a message that begins with the file."""
    file = LogFile.look(path)
    try:
        Inspect().part(file)
        return "logs" if list(Inspect().read(file, options)) else "nothing"
    except LeftOut as reason:
        return "left out" if str(reason) else "no reason"
    except InputError as error:
        return "refused" if str(error).startswith(str(path)) else str(error)


def test_mutated_logs_give_logs_or_one_message(real, tmp_path):
    sources = [path for path in (real / name for name in REAL) if path.stat().st_size < 100_000]
    generator = random.Random(7)
    outcomes = Counter()
    for number in range(300):
        mutate(sources[number % len(sources)], tmp_path / "log", generator)
        options = Options(epochs=generator.choice(["mean", "each"]), texts=generator.random() < 0.8)
        outcomes[outcome(tmp_path / "log", options)] += 1
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
    assert loaded >= {"polars", "breadth.importers.inspect_logs"}
    assert not loaded & {"rich", "numpy.ma", "breadth.importers.helm", "breadth.importers.matrix"}
