import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
import typer

from breadth.cli import terminal
from breadth.cli.signatures import Outcome, exit_if_nothing_was_computed
from breadth.results import Answer, Column, Columns, Result, Shown, Verdict


@dataclass(frozen=True)
class Found(Result):
    answer: Verdict | None
    warnings: tuple[str, ...] = ()

    def tables(self):
        return {"rows": pl.DataFrame({"x": [1]})}

    def verdict(self):
        return self.answer

    def details(self):
        return "Details of [red]a[/red]."


def printed(result, **options):
    with terminal.console.capture() as capture:
        terminal.print_result(result, **options)
    return capture.get()


def test_the_verdict_is_printed_before_tables_and_details():
    verdict = Verdict(Answer.NO, "[red]a[/red] says nothing.", "Strongest: b.", "More runs.", question="Does it?")
    out = printed(Found(verdict), details=True).splitlines()
    assert out[:5] == ["Does it?", "No. [red]a[/red] says nothing.", "Strongest: b.", "More runs.", ""]
    assert [line.strip() for line in out[5:] if line.strip(" ─")] == ["x", "1", "Details of [red]a[/red]."]
    assert "Details" not in printed(Found(verdict))
    assert printed(Found(None)).split()[0] == "x"


def test_only_the_answer_is_bold(monkeypatch):
    console = terminal.Console(force_terminal=True, color_system="standard", width=100)
    monkeypatch.setattr(terminal, "console", console)
    with console.capture() as capture:
        terminal.print_verdict(("Yes: it does.", "Strongest: b."), "A title")
    assert capture.get() == "\x1b[2mA title\x1b[0m\n\x1b[1mYes: it does.\x1b[0m\nStrongest: b.\n\n"


def test_control_characters_are_not_printed():
    evil = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202egnp"
    shown = Shown("A title", pl.DataFrame({"model": [evil], "n": [1]}), Columns(Column("model"), Column("n")))
    table = terminal.ShownTable(shown, 80)
    with terminal.console.capture() as capture:
        terminal.console.print(table)
        terminal.print_text(evil)
    out = printed(Found(Verdict(Answer.NO, f"{evil} says nothing."))) + capture.get()
    for console in (terminal.console, terminal.errors):
        with console.capture() as capture:
            terminal.print_line(evil, target=console)
        out += capture.get()
    assert out.count("[31mred") == 5
    assert not set(out) & set("\x1b\x07\x9b\u202e")


def test_nothing_computed_ends_with_exit_code_2():
    few, none = Verdict(Answer.UNKNOWN, "Too few rows."), Verdict(Answer.UNKNOWN, "No rows.", computed=False)
    exit_if_nothing_was_computed(Outcome({"": Found(None), ".few": Found(few)}))
    with pytest.raises(typer.Exit) as ended:
        exit_if_nothing_was_computed(Outcome({"": Found(few), ".none": Found(none)}))
    assert ended.value.exit_code == 2


@pytest.mark.parametrize("width", [80, 60])
def test_a_real_terminal_shows_whole_numbers(tmp_path, width):
    """As ``correlate`` prints on a pseudo-terminal: every correlation has two decimals, no number is cut."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    generator = np.random.default_rng(0)
    frame = pl.DataFrame(generator.random((90, 4)), schema=["eval/mnli", "eval/hans_lexical", "eval/anli", "eval/paws"])
    frame = frame.with_columns(run=pl.Series([f"run-{i // 30}" for i in range(90)]), step=pl.Series([*range(30)] * 3))
    frame.write_csv(tmp_path / "scores.csv")
    screen, side = pty.openpty()
    termios.tcsetwinsize(side, (50, width))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "breadth", "correlate", "scores.csv", "--control", "eval/mnli", "--by", "run"]
    child = subprocess.Popen(command, cwd=tmp_path, stdin=side, stdout=side, stderr=subprocess.DEVNULL, env=environment)
    os.close(side)
    parts = []
    with suppress(OSError):  # Linux ends a terminal with an error
        while part := os.read(screen, 4096):
            parts.append(part)
    os.close(screen)
    assert child.wait() == 0
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(parts).decode()).splitlines()
    assert max(map(len, lines)) <= width
    pairs = [line for line in lines if line.startswith((" …", " eval/"))]
    assert len(pairs) == 3
    assert len({tuple(line.split()[:2]) for line in pairs}) == 3
    for line in pairs:
        assert re.search(r" [+-]\.\d\d( |$)", line), "the correlation"
        assert not re.search(r"[\d.]…", line), "a number that is cut"
    assert any(line.startswith("Not shown for lack of room: ") for line in lines)
