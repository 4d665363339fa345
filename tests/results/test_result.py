import json
from dataclasses import dataclass

import polars as pl
import pytest
from scipy import stats

from breadth.errors import InputError
from breadth.results import SEEN, Answer, Result, State, Verdict, about, times_more

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
        return Verdict(
            Answer.MIXED, "On <the> model.", "Strongest: a.", "More runs.", question="Which?", advice="Try both.",
            facts={"models": 3},
        )  # fmt: skip


def test_printing_fits_a_screen_and_leaves_statistics_to_details():
    text = str(Pair(pl.concat([FRAME] * 400), ("few rows", "another", "a third")))
    assert text.startswith("warning: few rows (and 2 more: see .warnings)\n\n")
    assert len(text.splitlines()) < 20
    assert "790 more rows" in text
    assert "Two pairs" not in text
    assert "\\" not in text
    assert repr(Pair(FRAME)) == str(Pair(FRAME))
    assert Pair(FRAME).summary() == "Two pairs <b>."
    assert Pair(FRAME).summary(details=False) == ""


def test_the_verdict_comes_first():
    result = Answered(FRAME, ("few rows",))
    lines = "Mixed. On <the> model.\nStrongest: a.\nTry both.\nMore runs."
    assert result.summary() == f"{lines}\n\nTwo pairs <b>."
    assert str(result).startswith(f"Which?\n{lines}\n\nwarning: few rows\n\n")
    html = result._repr_html_()
    assert html.startswith("<p>Which?</p><p><strong>Mixed. On &lt;the&gt; model.</strong></p><p>Strongest: a.</p>")
    assert html.index("few rows") < html.index("<table>") < html.index("Two pairs")


def test_a_notebook_shows_escaped_html():
    html = Pair(FRAME, ("<script>",))._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "<td>&lt;i&gt;&amp;</td><td>-</td>" in html
    assert "Two pairs &lt;b&gt;." in html


def test_everything_as_plain_values():
    values = json.loads(json.dumps(Answered(FRAME, ("few rows",)).to_dict()))
    assert values["verdict"]["answer"] == "Mixed"
    assert values["verdict"]["state"] == "mixed"
    assert values["verdict"]["facts"] == {"models": 3}
    assert values["tables"]["other"] == [{"test_set": "a|b", "r": 0.12345, "p": 1e-9, "n": 3}]
    assert values["warnings"] == ["few rows"]
    assert Pair(FRAME).to_dict()["verdict"] is None


def test_tables_by_name():
    result = Pair(FRAME)
    assert result.to_pandas().shape == (2, 4)
    assert result.to_pandas("other")["n"].tolist() == [3]
    assert result.to_markdown("other").count("\n") == 2
    with pytest.raises(InputError, match=r"no table 'pair'\. Did you mean pairs\? Tables: pairs, other"):
        result.to_latex("pair")


def test_lines_leave_out_what_is_not_said():
    verdict = Verdict(Answer.UNKNOWN, "Too few rows.", needed="Add rows.")
    assert verdict.lines() == ("Not enough data. Too few rows.", "Add rows.")
    assert str(verdict) == "Not enough data. Too few rows. Add rows."


def test_a_name_or_a_number_answers_without_a_word_in_front():
    named = Verdict("gpt4", "gpt4 is best.")
    assert named.state is State.YES
    assert named.headline == "gpt4 is best."
    assert Verdict("Not decided", "Both may be.", state=State.OPEN).state is State.OPEN
    for answer, state in ((Answer.YES, State.YES), (Answer.NO, State.NO), (Answer.MIXED, State.MIXED)):
        assert Verdict(answer, "").state is state
    assert Verdict(Answer.UNKNOWN, "").state is State.OPEN


def test_the_numbers_of_a_verdict_are_found():
    text = "gemma3-270m gained +28.5 points (−3 to 1,234) at r .67 in 12 of 45 runs; p1x 0.5% of v1.2.3, in 2024-08-06."
    assert Verdict(Answer.YES, text).numbers() == ["28.5", "3", "1,234", ".67", "12", "45", "0.5"]
    facts = Verdict(Answer.YES, "3 of 4.", facts={"runs": 4}).fact_table()
    assert facts.rows() == [("runs", "4")]


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
