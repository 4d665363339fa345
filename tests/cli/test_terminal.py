from dataclasses import dataclass

import polars as pl
import pytest
import typer

from breadth.cli import terminal
from breadth.results import Answer, Result, Verdict


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


def printed(result, *tables):
    with terminal.console.capture() as capture:
        terminal.print_result(result, *tables)
    return capture.get()


def test_the_verdict_is_printed_before_tables_and_details():
    verdict = Verdict(Answer.NO, "[red]a[/red] says nothing.", "Strongest: b.", "More runs.")
    assert printed(Found(verdict), "a table") == (
        "No: [red]a[/red] says nothing.\nStrongest: b.\nMore runs.\n\na table\nDetails of [red]a[/red].\n"
    )
    assert printed(Found(None), "a table") == "a table\nDetails of [red]a[/red].\n"


def test_only_the_answer_is_bold(monkeypatch):
    console = terminal.Console(force_terminal=True, color_system="standard", width=100)
    monkeypatch.setattr(terminal, "console", console)
    with console.capture() as capture:
        terminal.print_verdict(("Yes: it does.", "Strongest: b."), "A title")
    assert capture.get() == "\x1b[2mA title\x1b[0m\n\x1b[1mYes: it does.\x1b[0m\nStrongest: b.\n\n"


def test_control_characters_are_not_printed():
    evil = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202egnp"
    table = terminal.make_table("A title", ["model"], ["n"], 80)
    table.add_row(evil, "1")
    out = printed(Found(Verdict(Answer.NO, f"{evil} says nothing.")), table, evil)
    for console in (terminal.console, terminal.errors):
        with console.capture() as capture:
            terminal.print_line(evil, target=console)
        out += capture.get()
    assert out.count("[31mred") == 5
    assert not set(out) & set("\x1b\x07\x9b\u202e")


def test_nothing_computed_ends_with_exit_code_2():
    terminal.exit_if_empty(Found(None), Found(Verdict(Answer.UNKNOWN, "too few rows.")))
    with pytest.raises(typer.Exit) as ended:
        terminal.exit_if_empty(Found(None), Found(Verdict(Answer.UNKNOWN, "no rows.", computed=False)))
    assert ended.value.exit_code == 2
