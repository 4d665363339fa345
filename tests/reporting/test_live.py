"""The live page: what it serves, what it refuses, and that it follows a study in another process."""

import base64
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest
from polars.exceptions import PanicException

from breadth.errors import InputError
from breadth.records.files import checksum
from breadth.records.store import StudyStore
from breadth.reporting import live, view
from breadth.reporting.pages import own_scripts
from breadth.reporting.progress import Progress

FEED = """
import shutil, sys, time
from pathlib import Path
source, target = map(Path, sys.argv[1:3])
for path in sorted(source.glob("step-*")):
    time.sleep(0.4)
    shutil.copy(path, target / f".{path.name}.part")
    (target / f".{path.name}.part").rename(target / path.name)
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The first page is the whole report, however slow the machine."""
    monkeypatch.setattr(live, "FIRST_WAIT", 25)


@pytest.fixture
def serve():
    """Serve a directory in the background; gives (port, ask)."""
    servers = []

    def start(folder, **options):
        server = view(folder, port=0, **options)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]

        def ask(path, method="GET", **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}

        return port, ask

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def beginning(simulated_study, tmp_path):
    """A copy of the study in which every run has only begun."""
    folder = shutil.copytree(simulated_study.folder, tmp_path / "studies" / "growing")
    for run in StudyStore(folder).runs():
        for step, name in run.parts().items():
            if step > 96:
                (run.folder / name).unlink()
    return folder


def test_only_this_machine(serve, simulated_study):
    port, ask = serve(simulated_study.folder)
    assert ask("/")[0] == 200
    assert ask("/", Host="example.org")[0] == 403
    assert ask("/", Host=f"localhost:{port}")[0] == 200
    assert ask("/", method="POST")[0] == 405


@pytest.mark.parametrize(
    "host",
    ["evil.com@localhost", "localhost@evil.com", "localhost.evil.com", "[::1", "]", "localhost:x", "localhost:1:2", ""],
)
def test_a_host_is_this_machine_or_refused(serve, simulated_study, host):
    _, ask = serve(simulated_study.folder)
    assert ask("/", Host=host)[0] in (400, 403)


def test_only_the_scripts_of_the_page_may_run(serve, simulated_study):
    _, ask = serve(simulated_study.folder)
    _, text, headers = ask("/")
    policy = headers["content-security-policy"]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == len(own_scripts(live=True))
    assert all(script_hash(script) in policy for script in scripts)
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
    for page in ("state.json", "main.html"):
        assert "script-src 'none'" in ask(f"/study/plain-study/{page}")[2]["content-security-policy"]


def test_a_script_that_got_into_a_page_with_data_may_not_run(serve, simulated_study, monkeypatch):
    render = live.render_html
    evil = "document.title = 'owned'"
    monkeypatch.setattr(
        live, "render_html", lambda *given, **options: render(*given, **options) + f"<script>{evil}</script>"
    )
    _, ask = serve(simulated_study.folder)
    _, text, headers = ask("/")
    assert evil in text
    assert script_hash(evil) not in headers["content-security-policy"]
    own = " ".join(map(script_hash, own_scripts(live=True)))
    assert f"script-src {own};" in headers["content-security-policy"]


def script_hash(script):
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def test_what_has_not_changed_is_neither_made_nor_sent_again(serve, simulated_study, monkeypatch):
    _, ask = serve(simulated_study.folder)
    first = {page: ask(f"/study/plain-study{page}") for page in ("", "/main.html", "/data.json", "/state.json?seen=x")}
    monkeypatch.setattr(live, "render_html", None)
    monkeypatch.setattr(live, "payload", None)
    for page, (status, text, headers) in first.items():
        assert status == 200
        assert ask(f"/study/plain-study{page}")[1] == text
        assert ask(f"/study/plain-study{page}", **{"If-None-Match": headers["etag"]})[:2] == (304, "")


def test_the_first_page_does_not_wait_for_a_long_analysis(serve, simulated_study, monkeypatch):
    _, ask = serve(simulated_study.folder)
    go_on = threading.Event()
    build = live.build_report
    monkeypatch.setattr(live, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(live, "build_report", lambda folder: go_on.wait(60) and build(folder))
    status, text, _ = ask("/")
    assert status == 200
    assert "is being analysed" in text
    state = json.loads(ask(f"/study/{simulated_study.folder.name}/state.json")[1])
    assert f"{state['done']} of {state['planned']} checkpoints of {state['run_count']} runs are there" in ask("/")[1]
    go_on.set()
    monkeypatch.setattr(live, "FIRST_WAIT", 25)
    assert 'id="live-text"' in ask("/")[1]


def test_many_at_once_are_all_answered(serve, simulated_study):
    _, ask = serve(simulated_study.folder)
    ask("/")
    with ThreadPoolExecutor(100) as pool:
        statuses = list(pool.map(lambda _: ask("/study/plain-study/state.json")[0], range(200)))
    assert statuses == [200] * 200


OUTSIDE = (
    "/../secret",
    "/study/..",
    "/study/%2e%2e",
    "/study/%2e%2e%2fsecret",
    "/study/plain-study/../../secret",
    "/study//etc/passwd",
    "/study/plain-study/study.yaml",
    "/study/plain-study/runs",
    "/study/other",
    "/study/outside",
    "/etc/passwd",
)


def test_nothing_else_is_served(serve, simulated_study, tmp_path):
    shutil.copytree(simulated_study.folder, tmp_path / "here" / "plain-study")
    outside = shutil.copytree(simulated_study.folder, tmp_path / "elsewhere")
    (tmp_path / "here" / "outside").symlink_to(outside)
    (tmp_path / "secret").write_text("secret")
    _, ask = serve(tmp_path / "here")
    assert ask("/study/plain-study/state.json")[0] == 200
    for path in OUTSIDE:
        status, text, _ = ask(path)
        assert status == 404, path
        assert "secret" not in text


def test_nothing_is_written(serve, simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "study")
    path = StudyStore(folder).run(simulated_study.runs[0]).part_path(16)
    path.write_bytes(b"torn")
    before = {entry: entry.stat().st_mtime_ns for entry in folder.rglob("*")}
    _, ask = serve(folder)
    for page in ("", "/state.json", "/data.json", "/main.html"):
        assert ask(f"/study/study{page}")[0] == 200
    assert {entry: entry.stat().st_mtime_ns for entry in folder.rglob("*")} == before


def test_studies_are_listed_with_their_progress(serve, beginning):
    shutil.copytree(beginning, beginning.parent / "<b>odd & name")
    _, ask = serve(beginning.parent)
    status, text, headers = ask("/")
    assert status == 200
    assert headers["x-content-type-options"] == "nosniff"
    assert "28 of 96" in text
    assert "&lt;b&gt;odd &amp; name" in text
    assert "<b>odd" not in text
    assert ask("/study/%3Cb%3Eodd%20%26%20name/state.json")[0] == 200


def test_accuracies_are_sent_once(serve, beginning):
    _, ask = serve(beginning)
    state = json.loads(ask("/study/growing/state.json")[1])
    assert len(state["trajectories"]) == 28 * 8
    again = json.loads(ask(f"/study/growing/state.json?seen={state['fingerprint']}")[1])
    assert "trajectories" not in again
    assert again["done"] == 28


def test_a_study_that_has_not_begun_waits(serve, simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "empty")
    shutil.rmtree(folder / "runs")
    (folder / "runs").mkdir()
    _, ask = serve(folder)
    status, text, _ = ask("/study/empty")
    assert status == 200
    assert "no checkpoint has been evaluated yet" in text
    status, text, _ = ask("/study/empty/data.json")
    assert status == 409
    assert "no checkpoint" in json.loads(text)["error"]
    assert json.loads(ask("/study/empty/state.json")[1])["done"] == 0


def replace_part(folder, change):
    """Change the answers of a checkpoint as nobody but breadth should; gives back how to undo it."""
    run = StudyStore(folder).runs()[0]
    path = run.part_path(16)
    sound = path.read_bytes()
    changed = io.BytesIO()
    change(pl.read_parquet(path)).write_parquet(changed)
    path.unlink()
    number = path.name.split(".")[0]
    other = path.with_name(f"{number}.{checksum(changed.getvalue())}.parquet")
    other.write_bytes(changed.getvalue())

    def undo():
        other.unlink()
        path.write_bytes(sound)

    return undo


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.with_columns(correct=pl.lit("<b>yes")),
        lambda part: part.with_columns(item=pl.int_range(pl.len())),
        lambda part: part.drop("correct"),
        lambda part: part.with_columns(testset=pl.lit(b"\xff")),  # which JSON cannot hold
        lambda part: part.with_columns(testset=pl.duration(days=1)),
        lambda part: part.with_columns(correct=pl.lit(2.0, dtype=pl.Float32)),
        lambda part: part.with_columns(correct=pl.lit(float("inf"), dtype=pl.Float32)),
    ],
)
def test_answers_of_a_wrong_type_are_named_until_they_are_mended(serve, copied, monkeypatch, change):
    monkeypatch.setattr(live, "LEAST_PAUSE", 0.0)
    undo = replace_part(copied, change)
    warned = []
    _, ask = serve(copied, warn=warned.append)
    status, text, _ = ask("/study/study")
    assert status == 200
    assert "step-000016" in text
    assert "is being analysed" not in text
    assert ask("/study/study/data.json")[0] == 409
    for _ in range(3):
        state = json.loads(ask("/study/study/state.json")[1])
        assert "step-000016" in state["failure"]
    assert len(warned) == 1
    undo()
    until_analysed(ask)
    assert 'id="live-text"' in ask("/study/study")[1]
    assert json.loads(ask("/study/study/state.json")[1])["failure"] == ""


def test_a_checkpoint_without_an_answer_is_no_number(serve, copied):
    """NaN stands for no answer, and JSON has no word for it."""
    replace_part(copied, lambda part: part.with_columns(correct=pl.lit(float("nan"), dtype=pl.Float32)))
    _, ask = serve(copied)
    status, text, _ = ask("/study/study/state.json")
    assert status == 200
    rows = json.loads(text)["trajectories"]
    run = StudyStore(copied).runs()[0].name
    assert {row["accuracy"] for row in rows if row["run"] == run and row["step"] == 16} == {None}
    assert all(row["accuracy"] is not None for row in rows if row["step"] != 16)


@pytest.mark.parametrize("error", [RuntimeError("<b>no"), PanicException("<b>no"), MemoryError("<b>no")])
def test_any_failure_of_the_analysis_is_shown_and_told_once(serve, copied, monkeypatch, error):
    build, tries, warned = live.build_report, [], []

    def fail(folder):
        tries.append(folder)
        raise error

    monkeypatch.setattr(live, "LEAST_PAUSE", 0.0)
    monkeypatch.setattr(live, "build_report", fail)
    _, ask = serve(copied, warn=warned.append)
    status, text, _ = ask("/study/study")
    assert status == 200
    assert f"{type(error).__name__}: &lt;b&gt;no" in text
    for _ in range(3):
        ask("/study/study/state.json")
        time.sleep(0.05)
    assert len(tries) == len(warned) == 1  # the files have not changed
    monkeypatch.setattr(live, "build_report", build)
    StudyStore(copied).runs()[0].part_path(0).unlink()
    until_analysed(ask)
    assert 'id="live-text"' in ask("/study/study")[1]


def test_a_page_that_cannot_be_made_is_a_message(serve, simulated_study, monkeypatch):
    def fail(*given, **options):
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(live, "render_html", fail)
    warned = []
    _, ask = serve(simulated_study.folder, warn=warned.append)
    status, text, _ = ask("/study/plain-study")
    assert (status, "nothing to divide by" in text) == (200, True)
    assert ask("/study/plain-study/main.html")[0] == 409
    assert ask("/study/plain-study/state.json")[0] == 200
    assert len(warned) == 1


def until_analysed(ask):
    """Ask as a page does until there is an analysis."""
    until(lambda: json.loads(ask("/study/study/state.json")[1])["analysis"])


def until(holds):
    for _ in range(200):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("waited in vain")


def test_a_directory_that_is_not_there_yet_is_waited_for(serve, simulated_study, tmp_path):
    folder = tmp_path / "<b>later"
    _, ask = serve(folder)
    status, text, _ = ask("/")
    assert status == 200
    assert "does not exist yet" in text
    assert "--into" in text
    assert "<b>later" not in text
    assert 'http-equiv="refresh"' in text
    assert ask("/study/later")[0] == 404
    folder.mkdir()
    assert "holds no study yet" in ask("/")[1]
    shutil.copytree(simulated_study.folder, folder / "one")
    assert "96 of 96" in ask("/")[1]  # a list of studies
    shutil.rmtree(folder)
    shutil.copytree(simulated_study.folder, folder)
    assert 'id="live-text"' in ask("/")[1]  # the page of the study itself


def test_a_study_that_is_prepared_says_so_and_becomes_the_report(serve, simulated_study, tmp_path):
    folder = tmp_path / "study"
    warned = []
    _, ask = serve(folder, warn=warned.append)
    assert "does not exist yet" in ask("/")[1]
    StudyStore(folder).write_study("name: s\n")
    text = ask("/")[1]
    assert "is preparing the study" in text
    assert "does not exist" not in text
    state = json.loads(ask("/study/study/state.json")[1])
    assert (state["done"], state["run_count"], state["failure"]) == (0, 0, "")
    shutil.copytree(simulated_study.folder / "items", folder / "items")
    assert "is preparing the study" in ask("/")[1]
    run, *_ = StudyStore(simulated_study.folder).runs()
    StudyStore(folder).run(run.name).write_record(run.record())
    until(lambda: "is at its first run" in ask("/")[1])
    shutil.copytree(run.folder, folder / "runs" / run.name, dirs_exist_ok=True)
    until(lambda: 'id="live-text"' in ask("/")[1])
    assert warned == []


def test_a_study_that_is_prepared_is_in_the_list(serve, simulated_study, tmp_path):
    shutil.copytree(simulated_study.folder, tmp_path / "here" / "done")
    StudyStore(tmp_path / "here" / "prepared").write_study("name: s\n")
    (tmp_path / "here" / "study.yaml").write_text("name: a file of the user's own\n")
    _, ask = serve(tmp_path / "here")
    assert re.search(r">prepared</a>.*nothing yet", ask("/")[1])
    assert "is preparing the study" in ask("/study/prepared")[1]


def test_a_study_that_is_removed_while_it_is_viewed(serve, copied):
    _, ask = serve(copied)
    before = ask("/")[1]
    shutil.move(copied, copied.with_name("away"))
    for page in ("/", "/study/study"):
        status, text, _ = ask(page)
        assert status == 200
        assert "was removed or moved" in text
    for page in ("state.json", "data.json", "main.html"):
        status, text, _ = ask(f"/study/study/{page}")
        assert status == 409
        assert "was removed or moved" in json.loads(text)["error"]
    shutil.move(copied.with_name("away"), copied)
    assert ask("/")[1] == before


def test_a_part_that_cannot_be_read_is_named_until_it_can_be(serve, copied, monkeypatch):
    part = StudyStore(copied).runs()[0].part_path(16)
    system_open = os.open

    def refused(name, *arguments, **options):
        if os.path.basename(os.fsdecode(name)) == part.name:
            raise PermissionError(13, os.strerror(13), name)
        return system_open(name, *arguments, **options)

    monkeypatch.setattr(live, "LEAST_PAUSE", 0.0)
    warned = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        _, ask = serve(copied, warn=warned.append)
        status, text, _ = ask("/study/study")
        assert status == 200
        assert f"{part.name}: cannot be read" in text
        state = json.loads(ask("/study/study/state.json")[1])
        assert part.name in state["failure"]
        assert state["done"] == 96
        assert len(state["trajectories"]) == 95 * 8
    part.chmod(0o600)  # what makes it readable again changes neither its time nor its size
    until_analysed(ask)
    assert len(json.loads(ask("/study/study/state.json")[1])["trajectories"]) == 96 * 8
    assert len(warned) == 1


def test_a_directory_that_cannot_be_read_is_named(serve, simulated_study, tmp_path, monkeypatch):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "here" / "study").parent
    system_list = os.listdir

    def refused(path="."):
        if os.fspath(path) == os.fspath(folder):
            raise PermissionError(13, os.strerror(13), path)
        return system_list(path)

    _, ask = serve(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refused)
        patch.setattr(os, "scandir", refused)
        for page in ("/", "/study/study"):
            status, text, _ = ask(page)
            assert status == 200
            assert f"{folder}: cannot be read" in text
        with pytest.raises(InputError, match="here: cannot be read"):
            view(folder, port=0).site.waiting()
    assert "96 of 96" in ask("/")[1]


@pytest.mark.parametrize("content", [b"name: [\n", b"name: s\n# checksum: 0123456789abcdef\n", b"\xff\xfe", b""])
def test_a_study_file_that_is_invalid_does_not_keep_the_report_away(serve, copied, content):
    (copied / "study.yaml").write_bytes(content)
    warned = []
    _, ask = serve(copied, warn=warned.append)
    assert 'id="live-text"' in ask("/study/study")[1]
    assert warned == []


def test_mistakes_are_one_line(tmp_path, serve, simulated_study):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a directory"):
        view(tmp_path / "file")
    port, _ = serve(simulated_study.folder)
    with pytest.raises(InputError, match=rf"port={port}: cannot be used \([^()]*\);"):
        view(simulated_study.folder, port=port)


@pytest.fixture
def copied(simulated_study, tmp_path):
    return shutil.copytree(simulated_study.folder, tmp_path / "study")


def test_a_finished_study(copied):
    state = Progress(copied).state()
    assert (state["done"], state["planned"], state["finished"]) == (96, 96, True)
    assert {run["state"] for run in state["runs"]} == {"finished"}
    assert state["runs"][0]["loss"] > 0
    assert len(state["trajectories"]) == 96 * 8
    assert all(0 <= row["accuracy"] <= 1 for row in state["trajectories"])


def test_a_study_on_its_way(copied):
    first, second, *others = StudyStore(copied).runs()
    for step, name in first.parts().items():
        if step > 160:
            (first.folder / name).unlink()
    for name in second.parts().values():
        (second.folder / name).unlink()
    now = time.time()
    for k, name in enumerate(first.parts().values()):
        os.utime(first.folder / name, (now - 20 + 2 * k, now - 20 + 2 * k))
    progress = Progress(copied)
    state = progress.state()
    by_name = {run["run"]: run for run in state["runs"]}
    assert by_name[first.name]["state"] == "running"
    assert by_name[first.name]["seconds_per_checkpoint"] == pytest.approx(2)
    assert by_name[second.name]["state"] == "waiting"
    assert state["seconds_left"] > 0
    assert not state["finished"]
    assert "trajectories" not in progress.state(state["fingerprint"])
    others[0].part_path(0).unlink()
    assert progress.state()["fingerprint"] != state["fingerprint"]


def test_a_run_that_begins_is_seen_without_a_look_at_all_others(copied, monkeypatch):
    first, second, *_ = StudyStore(copied).runs()
    shutil.move(first.folder, copied.parent / "kept")
    progress = Progress(copied)
    assert progress.state(None)["run_count"] == 3
    monkeypatch.setattr("breadth.reporting.progress.LOOK", 0)
    progress._next = 0.0
    second.part_path(0).unlink()  # a finished run is not looked at again soon
    assert progress.state(None, now=False)["done"] == 3 * 24
    first.folder.mkdir()
    progress._next = 0.0
    state = progress.state(None, now=False)
    assert (state["run_count"], state["done"]) == (3, 3 * 24 - 1)
    shutil.copytree(copied.parent / "kept", first.folder, dirs_exist_ok=True)  # the record comes later
    progress._next = 0.0
    assert progress.state(None, now=False)["run_count"] == 4


def test_a_run_that_stopped_writing_is_quiet(copied):
    run = StudyStore(copied).runs()[0]
    *earlier, last = run.parts().values()
    (run.folder / last).unlink()
    for name in (*earlier, "log.jsonl"):
        os.utime(run.folder / name, (1e9, 1e9))
    state = Progress(copied).state()
    assert state["runs"][0]["state"] == "quiet"
    assert not state["active"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b'{"loss": 0.5}\n{"lo',
        b"[1]\n",
        b"\xff\xfe",
        b'{"loss": NaN}\n',
        b'{"loss": 1e999}\n',
        b'{"loss": 1%s}\n' % (b"0" * 400),
    ],
)
def test_any_log_is_tolerated(copied, content):
    path = StudyStore(copied).runs()[0].folder / "log.jsonl"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    loss = Progress(copied).state(None)["runs"][0]["loss"]
    assert loss == (0.5 if content and b"0.5" in content else None)


def test_damaged_parts_and_runs_are_passed_over(copied):
    first, second, *_ = StudyStore(copied).runs()
    first.part_path(0).write_bytes(b"torn")
    (second.folder / "run.json").write_text("{")
    state = Progress(copied).state()
    assert len(state["runs"]) == 3
    assert len(state["trajectories"]) == (3 * 24 - 1) * 8


@pytest.mark.slow
def test_the_page_grows_while_a_run_writes(serve, beginning, simulated_study, open_page):
    port, _ = serve(beginning.parent)
    name = simulated_study.runs[0]
    with open_page(f"http://127.0.0.1:{port}/study/growing") as page:
        page.until("document.getElementById('live-text').textContent.includes('28 of 96')")
        page.wait_for_selector('[data-figure="profile"] .plot[data-drawn]')
        command = [sys.executable, "-c", FEED, simulated_study.folder / "runs" / name, beginning / "runs" / name]
        feeding = subprocess.Popen(list(map(str, command)))
        mine = f"row.run === '{name}' && row.testset === 'plain'"
        count = f"(async () => (await breadth.rows('trajectories')).filter((row) => {mine}).length)()"
        before = page.evaluate(count)
        page.until(f"{count}.then((rows) => rows > {before})", 30)
        assert feeding.wait(timeout=60) == 0
        page.until("document.getElementById('live-text').textContent.includes('45 of 96')", 30)
        page.until(f"{count}.then((rows) => rows === 24)", 30)
        page.until("document.querySelector('#main .title').textContent.includes('45 checkpoints')", 30)
        assert page.locator("#live-runs tbody tr").count() == 4


@pytest.mark.slow
def test_the_page_says_when_the_server_is_gone(simulated_study, open_page):
    server = view(simulated_study.folder, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open_page(f"http://127.0.0.1:{server.server_address[1]}/study/plain-study") as page:
        page.until("document.getElementById('live-text').textContent.includes('96 of 96')")
        server.shutdown()
        server.server_close()
        page.until("document.getElementById('live-text').textContent.includes('No answer')", 20)
        assert "No answer" in page.evaluate("document.getElementById('live-text').textContent")
        time.sleep(0.1)
        page.trouble[:] = [text for text in page.trouble if "ERR_CONNECTION_REFUSED" not in text]


@pytest.mark.slow
def test_the_page_says_when_the_study_is_gone_and_goes_on_when_it_is_back(serve, copied, open_page):
    port, _ = serve(copied)
    words = "document.getElementById('live-text').textContent"
    with open_page(f"http://127.0.0.1:{port}/study/study") as page:
        page.until(f"{words}.includes('96 of 96')")
        shutil.move(copied, copied.with_name("away"))
        page.until(f"{words}.includes('was removed or moved')", 20)
        assert "No answer" not in page.evaluate(words)
        shutil.move(copied.with_name("away"), copied)
        page.until(f"{words}.includes('96 of 96')", 20)
        page.trouble[:] = [text for text in page.trouble if "409" not in text]


def test_the_workers_of_a_cluster(copied):
    status = {"workers": 4, "busy": 3, "seconds_left": None, "finished": False, "time": time.time()}
    file = copied / "cluster.json"
    file.write_text(json.dumps(status))
    assert Progress(copied).state(None)["cluster"] == {
        key: float(value) for key, value in status.items() if value is not None
    }
    for stale in ({**status, "finished": True}, {**status, "time": time.time() - 999}, [1], {"time": "x"}):
        file.write_text(json.dumps(stale))
        assert Progress(copied).state(None)["cluster"] is None
    file.write_text("{")
    assert Progress(copied).state(None)["cluster"] is None
    file.unlink()
    assert Progress(copied).state(None)["cluster"] is None
