"""Studies of models behind an endpoint, against a server on loopback."""

import json
import random
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from breadth.endpoints import client as http
from breadth.errors import InputError
from breadth.execute import Events, estimate_requests, plan_study, run
from breadth.study import expand, read_study_file

from ..serving import RealModel, Server, fault, text_reply, writes
from .conftest import refused

MODEL = "{{endpoint: {url}, model: stub, concurrency: 4{more}}}"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits between tries are short."""
    monkeypatch.setattr(http, "FIRST_WAIT", 0.01)


@pytest.fixture
def study(tmp_path):
    """Write a study of a generate, a choice and a pattern set; ``model`` is an entry of models."""
    rows = [
        (f"What is {k} plus {k + 1}?", str(2 * k + 1), [str(2 * k + 1), f"about {k}", "nine hundred"])
        for k in range(12)
    ]
    frame = pl.DataFrame(rows, schema=["question", "sum", "options"], orient="row")
    frame.select("question", "sum").write_csv(tmp_path / "sums.csv")
    frame.with_columns(answer=pl.lit("A")).write_parquet(tmp_path / "quiz.parquet")

    def write(model, on="sums, quiz, plain", recipe="{method: zero-shot}", more="", name="study.yaml"):
        path = tmp_path / name
        path.write_text(
            f"name: s\nmodels: {model}\nrecipe: {recipe}\nevaluate: {{on: [{on}], items: 10}}\n{more}"
            "sets:\n"
            "  sums: {file: sums.csv, kind: generate, label: sum, metric: number, max_tokens: 12,\n"
            "         pattern: '{question}'}\n"
            "  quiz: {file: quiz.parquet, kind: choice, label: answer, options: options, normalise: true,\n"
            "         pattern: 'Question: {question} Answer:'}\n"
        )
        return path

    return write


def entry(server, more=""):
    return MODEL.format(url=server.url, more=more)


def answers_of(folder):
    """All answers of a study, without the name of the run."""
    parts = [pl.read_parquet(path) for path in sorted(folder.glob("runs/*/step-*.parquet"))]
    return pl.concat(parts).sort("testset", "item")


@pytest.fixture(scope="module")
def real(tiny):
    return RealModel(tiny)


@pytest.mark.parametrize("method", ["{method: zero-shot}", "{method: few-shot, num_fewshot: 1}"])
def test_answers_equal_those_of_the_model_on_this_machine(study, tiny, real, tmp_path, method):
    """A server with the same weights that gives log-probabilities: text, options and answer words, item by item."""
    train = "train: {set: plain}\n" if "few" in method else ""
    with Server(real) as server:
        run(study(entry(server), recipe=method, more=train), into=tmp_path / "asked")
    run(study(tiny, recipe=method, more=train, name="here.yaml"), into=tmp_path / "here")
    asked, here = answers_of(tmp_path / "asked"), answers_of(tmp_path / "here")
    assert asked.drop("margin").equals(here.drop("margin"))
    assert asked["margin"].is_null().to_list() == here["margin"].is_null().to_list()
    assert (asked["margin"] - here["margin"]).abs().max() < 1e-4
    assert here.filter(testset="sums")["answer"].n_unique() > 1
    assert not list(tmp_path.glob("asked/runs/*/answers.jsonl"))


def test_lists_of_likeliest_tokens_give_the_same_answers(study, tiny, tmp_path):
    """Where both answer words are listed, as in a list of the whole vocabulary, margins are those of the model here."""
    with Server(RealModel(tiny, gives=("top",), times=16)) as server:
        run(study(entry(server), on="plain"), into=tmp_path / "asked")
    run(study(tiny, on="plain", name="here.yaml"), into=tmp_path / "here")
    both = answers_of(tmp_path / "asked").join(answers_of(tmp_path / "here"), on="item").drop_nulls("margin")
    assert both.height == 10
    assert both["correct"].equals(both["correct_right"].alias("correct"))
    assert (both["margin"] - both["margin_right"]).abs().max() < 1e-4


def seen():
    """Events that are remembered."""

    class Seen(Events):
        notes, items, warnings = [], 0, []

        def note(self, text):
            self.notes.append(text)

        def warn(self, text):
            self.warnings.append(text)

        def answered(self, items):
            self.items += items

        def begun(self, run, work, number, runs):
            self.work = work

    Seen.notes, Seen.warnings = [], []
    return Seen()


def sums(prompt):
    """The right answer to every sum."""
    words = prompt.split()
    return str(int(words[2]) + int(words[4].rstrip("?")))


def test_a_run_is_like_any_other(study, tmp_path):
    with Server(writes(sums)) as server:
        events = seen()
        outcome = run(study(entry(server), on="sums"), into=tmp_path / "s", events=events)
        again = run(study(entry(server), on="sums"), into=tmp_path / "s")
    assert (len(outcome.complete), len(again.done_before)) == (1, 1)
    assert len(server.asked) == 10
    frame = answers_of(tmp_path / "s")
    assert frame["correct"].to_list() == [1.0] * 10
    assert events.items == events.work.items == 10
    assert (events.work.items_done, events.work.resumed) == (0, False)
    (folder,) = (tmp_path / "s" / "runs").iterdir()
    log = json.loads((folder / "log.jsonl").read_text())
    assert (log["requests"], log["prompt_tokens"], log["completion_tokens"]) == (9, 70, 30)
    assert json.loads((folder / "run.json").read_text())["endpoint"] == {
        "url": server.url, "model": "stub", "api": "auto",
    }  # fmt: skip
    assert json.loads((folder / "environment.json").read_text())["packages"]["urllib3"] != "absent"
    assert any("prompts are sent whole" in note for note in events.notes)


def test_no_library_of_the_lm_extra_is_loaded(study, tmp_path):
    code = (
        "import sys, breadth; breadth.run(sys.argv[1], into=sys.argv[2]);"
        "print(*sorted({'torch', 'transformers', 'peft', 'datasets'} & set(sys.modules)))"
    )
    with Server(writes(sums)) as server:
        words = [sys.executable, "-c", code, str(study(entry(server), on="sums")), str(tmp_path / "s")]
        out = subprocess.run(words, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


def test_what_determines_a_run(study, tmp_path):
    def names(model):
        return [each.name for each in expand(read_study_file(study(model, on="sums")))]

    url, other = "http://localhost:1/v1", "http://localhost:2/v1"
    plain = names(f"{{endpoint: {url}, model: m}}")
    assert plain == names(f"{{endpoint: {url}/, model: m, key_env: K, concurrency: 3, timeout: 5}}")
    assert plain[0].startswith("m-zero-shot-")
    others = [f"{{endpoint: {other}, model: m}}", f"{{endpoint: {url}, model: m2, name: m}}",
              f"{{endpoint: {url}, model: m, api: chat}}", f"{{endpoint: {url}, model: m, name: mine}}"]  # fmt: skip
    assert len({*plain, *(name for model in others for name in names(model))}) == 5
    # How a model would be loaded here does not matter.
    assert plain == [
        each.name
        for each in expand(
            read_study_file(
                study(f"{{endpoint: {url}, model: m}}", on="sums", recipe="{method: zero-shot, context: 99}")
            )
        )
    ]


def test_a_budget_stops_it_and_the_same_call_goes_on(study, tmp_path):
    calls, outcomes = 0, []
    with Server(writes(sums), faults=[fault(500)] * 2) as server:
        while calls < 20:
            calls += 1
            outcomes.append(run(study(entry(server), on="sums"), into=tmp_path / "s", max_requests=4))
            if outcomes[-1].complete:
                break
            assert not list(tmp_path.glob("s/runs/*/step-*"))
        assert len(server.asked) == 12  # ten items and two faults: nothing is asked twice
    assert calls == 3
    kept = [next(iter(outcome.stopped.values())) for outcome in outcomes[:-1]]
    assert kept == [f"{count} of 10 answers are kept" for count in (2, 6)]
    assert answers_of(tmp_path / "s")["correct"].sum() == 10


def test_a_budget_that_ends_with_the_first_questions(study, tmp_path, real):
    """Three sets, so three first questions: each call keeps what it asked, though no run begins to ask."""
    calls, stopped = 0, []
    with Server(real) as server:
        while calls < 100:
            calls += 1
            outcome = run(study(entry(server)), into=tmp_path / "s", max_requests=1)
            if outcome.complete:
                break
            stopped += outcome.stopped.values()
        assert len(server.asked) == len({str(body) for body in server.asked}) == calls
    assert stopped[:3] == ["answers kept so far: 1", "answers kept so far: 2", "3 of 60 answers are kept"]


def ignores_echo(real, honoured):
    """A server that honours echo for so many requests only, and lists likeliest tokens."""
    left = [honoured]

    def answer(path, body):
        if body.get("echo") and left[0] <= 0:
            written = {"tokens": [" Yes"], "token_logprobs": [-0.5], "top_logprobs": [{" Yes": -0.5}]}
            return {"choices": [{"text": " Yes", "logprobs": written}], "usage": {"prompt_tokens": 30}}
        left[0] -= bool(body.get("echo"))
        return real(path, body)

    return answer


@pytest.mark.parametrize("honoured", [0, 1, 7])
def test_answers_that_contradict_the_chosen_form(study, tiny, tmp_path, honoured):
    """Echo works for some questions only: all of them are asked in the other form, and none is scored by its echo."""
    real = RealModel(tiny, times=16)
    with Server(RealModel(tiny, gives=("top",), times=16)) as server:
        run(study(entry(server), on="plain"), into=tmp_path / "top")
    with Server(ignores_echo(real, honoured)) as server:
        events = seen()
        outcome = run(study(entry(server), on="plain"), into=tmp_path / "s", events=events)
    assert len(outcome.complete) == 1
    assert events.items == 10
    assert any("compared by the 20 likeliest first tokens" in note for note in events.notes)
    assert answers_of(tmp_path / "s").equals(answers_of(tmp_path / "top"))


def test_a_first_answer_of_an_earlier_call_that_others_contradict(study, tiny, tmp_path):
    """It does not make every later call fail."""
    real = RealModel(tiny, times=16)
    with Server(ignores_echo(real, 1)) as server:
        path = study(entry(server), on="plain")
        run(path, into=tmp_path / "s", max_requests=1)
        assert len(list(tmp_path.glob("s/runs/*/answers.jsonl"))) == 1
        assert len(run(path, into=tmp_path / "s").complete) == 1
    with Server(RealModel(tiny, gives=("top",), times=16)) as server:
        run(study(entry(server), on="plain"), into=tmp_path / "top")
    assert answers_of(tmp_path / "s").equals(answers_of(tmp_path / "top"))


def test_answers_are_kept_if_there_is_no_other_form(study, real, tmp_path):
    with Server(ignores_echo(real, 7)) as server:
        path = study(entry(server), on="quiz")
        with pytest.raises(InputError, match=r"quiz is of kind choice.*does not repeat the prompt"):
            run(path, into=tmp_path / "s")
        assert len(next(tmp_path.glob("s/runs/*/answers.jsonl")).read_bytes().splitlines()) == 7
        asked, server.answer = len(server.asked), real
        assert len(run(path, into=tmp_path / "s").complete) == 1
        assert len(server.asked) == asked + 30 - 7


def test_killed_at_any_instant_nothing_is_paid_for_twice(study, tmp_path):
    """kill -9 loses what is in flight at most: 4 requests at a time, four kills."""
    kills, chance = 0, random.Random(5)
    code = "import sys, breadth; breadth.run(sys.argv[1], into=sys.argv[2])"

    def slow(path, body):
        time.sleep(0.02)
        return text_reply(sums(body["prompt"]))

    with Server(slow) as server:
        path = study(entry(server), on="sums")
        path.write_text(path.read_text().replace("items: 10", "items: 12"))
        words = [sys.executable, "-c", code, str(path), str(tmp_path / "s")]
        before = 0
        while kills < 4:
            process = subprocess.Popen(words)
            while process.poll() is None and len(server.asked) <= before:
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.05))
            process.kill()
            process.wait()
            before, kills = len(server.asked), kills + 1
            if list(tmp_path.glob("s/runs/*/step-*")):
                break
        run(path, into=tmp_path / "s")
    prompts = [body["prompt"] for body in server.asked]
    assert len(set(prompts)) == 12
    assert len(prompts) <= 12 + 4 * kills
    assert answers_of(tmp_path / "s")["correct"].sum() == 12


def test_ctrl_c_keeps_what_came(study, tmp_path, command):
    def slow(path, body):
        time.sleep(0.0 if len(server.asked) <= 6 else 30.0)
        return text_reply(sums(body["prompt"]))

    with Server(slow) as server:
        path = study(entry(server), on="sums")
        process = command("run", path, "--into", tmp_path / "s", wait=False)
        until = time.monotonic() + 120
        while len(server.asked) < 10 and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - started < 20
        assert process.returncode == 130, err
        assert out.splitlines()[-1] == "Stopped. The same command resumes where it stopped."
    with Server(writes(sums)) as other:
        # The address is another one, so the study is told so; the answers are still there.
        lines = next(tmp_path.glob("s/runs/*/answers.jsonl")).read_bytes().splitlines()
        assert len(lines) == 6
        assert other.asked == []


def test_a_torn_journal_is_reported(study, tmp_path):
    with Server(writes(sums)) as server:
        path = study(entry(server), on="sums")
        run(path, into=tmp_path / "s", max_requests=6)
        journal = next(tmp_path.glob("s/runs/*/answers.jsonl"))
        journal.write_bytes(journal.read_bytes()[:-5])
        outcome = run(path, into=tmp_path / "s")
    assert "1 damaged or torn lines; their questions are asked again" in outcome.warnings[0]
    assert len(server.asked) == 11


def test_an_item_that_the_server_refuses(study, tmp_path):
    def answer(path, body):
        return fault(400, {"detail": "too long"}) if "What is 7" in body["prompt"] else text_reply(sums(body["prompt"]))

    with Server(answer) as server:
        with pytest.raises(InputError, match=r"stub-zero-shot-\w+: http://.*: too long \(status 400\)"):
            run(study(entry(server), on="sums"), into=tmp_path / "s")
        asked = len(server.asked)
        server.answer = writes(sums)
        run(study(entry(server), on="sums"), into=tmp_path / "s")
        assert len(server.asked) <= asked + 10 - (asked - 1)


def test_estimate(study, tmp_path):
    model = "{endpoint: http://localhost:1/v1, model: m}"
    plan = plan_study(read_study_file(study(model)), tmp_path / "s")
    (estimate,) = estimate_requests(plan)
    assert estimate.requests == 10 + 3 * 10 + 2 * 10
    assert estimate.max_written == 12 * 10 + 3 * 10 + 2 * 10
    assert estimate.prompt_tokens > 500


REFUSED = {
    "no server": ("{{endpoint: 'http://127.0.0.1:9/v1', model: stub}}", "no server answers there"),
    "no variable": ("{{endpoint: {url}, model: stub, key_env: NOT_SET_HERE}}", "NOT_SET_HERE, which key_env names"),
    "a refused key": (
        "{{endpoint: {url}, model: stub, key_env: BREADTH_TEST_KEY}}",
        "refuses the key in BREADTH_TEST_KEY",
    ),
    "no key": ("{{endpoint: {url}, model: stub}}", "refuses a request without a key"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_endpoints(study, tmp_path, command, name):
    """One message, exit code 2, and no trace of the key."""
    model, words = REFUSED[name]
    with Server(writes(sums), key="the-right-key-1") as server:
        path = study(model.format(url=server.url), on="sums")
        out = command("run", path, "--into", tmp_path / "s", env={"BREADTH_TEST_KEY": "wrong-key-12345"})
    assert words in refused(out).replace("\n", " ")
    everything = (
        out.stdout
        + out.stderr
        + "".join(file.read_bytes().decode(errors="replace") for file in (tmp_path / "s").rglob("*") if file.is_file())
    )
    assert "wrong-key-12345" not in everything


def test_nothing_that_is_written_holds_the_key(study, tmp_path, monkeypatch):
    monkeypatch.setenv("BREADTH_TEST_KEY", "the-right-key-1")
    with Server(writes("the-right-key-1"), key="the-right-key-1") as server:
        run(study(entry(server, ", key_env: BREADTH_TEST_KEY"), on="sums"), into=tmp_path / "s", max_requests=5)
        journal = next(tmp_path.glob("s/runs/*/answers.jsonl")).read_bytes()
        assert b"[key]" in journal
        run(study(entry(server, ", key_env: BREADTH_TEST_KEY"), on="sums"), into=tmp_path / "s")
    texts = [journal, *(file.read_bytes() for file in (tmp_path / "s").rglob("*") if file.is_file())]
    assert b"the-right-key-1" not in b"".join(texts)
    assert answers_of(tmp_path / "s")["answer"].unique().to_list() == ["[key]"]


def test_a_cluster_is_refused(study, tmp_path):
    path = study("{endpoint: http://localhost:1/v1, model: m}", on="sums")
    with pytest.raises(InputError, match="m is behind an endpoint, which no cluster is needed for"):
        run(path, into=tmp_path / "s", on="ray")
    with pytest.raises(InputError, match="max_requests= is for models behind an endpoint"):
        run(study("smollm2-135m", on="sums"), into=tmp_path / "s", max_requests=5)
