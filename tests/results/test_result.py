from dataclasses import dataclass

import polars as pl
import pytest
from scipy import stats

from breadth.errors import InputError
from breadth.results import SEEN, Answer, Result, Verdict, about, times_more

FRAME = pl.DataFrame(
    {"test_set": ["a|b", "<i>&"], "r": [0.12345, None], "p": [1e-9, 12345.6], "n": [3, 4]},
    schema_overrides={"r": pl.Float64},
)


@dataclass(frozen=True)
class Pair(Result):
    frame: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def tables(self):
        return {"pairs": self.frame, "other": self.frame.head(1)}

    def details(self):
        return "Two pairs <b>."


@dataclass(frozen=True)
class Answered(Pair):
    def verdict(self):
        return Verdict(Answer.DEPENDS, "on <the> model.", "Strongest: a.", "More runs.")


def test_printing_shows_warnings_table_and_details():
    text = str(Pair(pl.concat([FRAME] * 6), ("few rows",)))
    assert text.startswith(
        "warning: few rows\n\n| test\\_set | r | p | n |\n|---|---|---|---|\n| a\\|b | 0.123 | 1e-09 | 3 |"
    )
    assert text.endswith("... 2 more rows\n\nTwo pairs <b>.")
    assert Pair(FRAME).summary() == "Two pairs <b>."


def test_the_verdict_comes_first():
    result = Answered(FRAME, ("few rows",))
    lines = "It depends: on <the> model.\nStrongest: a.\nMore runs."
    assert result.summary() == f"{lines}\n\nTwo pairs <b>."
    assert str(result).startswith(f"{lines}\n\nwarning: few rows\n\n| test\\_set |")
    assert str(result).endswith("\n\nTwo pairs <b>.")
    html = result._repr_html_()
    assert html.startswith("<p><strong>It depends: on &lt;the&gt; model.</strong></p><p>Strongest: a.</p>")
    assert html.index("few rows") < html.index("<table>") < html.index("Two pairs")


def test_a_notebook_shows_escaped_html():
    html = Pair(FRAME, ("<script>",))._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "<td>&lt;i&gt;&amp;</td><td></td>" in html
    assert "Two pairs &lt;b&gt;." in html


def test_tables_by_name():
    result = Pair(FRAME)
    assert result.to_pandas().shape == (2, 4)
    assert result.to_pandas("other")["n"].tolist() == [3]
    assert result.to_markdown("other").count("\n") == 2
    with pytest.raises(InputError, match=r"no table 'pair'\. Did you mean pairs\? Tables: pairs, other"):
        result.to_latex("pair")


def test_lines_leave_out_what_is_not_said():
    verdict = Verdict(Answer.UNKNOWN, "too few rows.", needed="Add rows.")
    assert verdict.lines() == ("Not enough data: too few rows.", "Add rows.")
    assert str(verdict) == "Not enough data: too few rows. Add rows."


def test_what_is_needed_is_seen_with_a_probability_of_80_percent():
    error, effect = 0.1, 0.05
    enough = error / times_more(error, effect) ** 0.5
    assert 1 - stats.norm.cdf(1.96 - effect / enough) == pytest.approx(0.8, abs=0.001)
    assert times_more(effect / SEEN, effect) == pytest.approx(1)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.04, "1"), (2.96, "3"), (3.14, "3.1"), (9.96, "10"), (12.6, "13"), (99.7, "100"), (147, "150"), (1234, "1,200")],
)
def test_numbers_that_are_not_known_exactly(number, text):
    assert about(number) == text
