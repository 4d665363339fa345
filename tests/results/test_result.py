from dataclasses import dataclass

import polars as pl
import pytest

from breadth.errors import InputError
from breadth.results import Result, latex_table, markdown_table

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

    def summary(self):
        return "Two pairs <b>."


def test_printing_shows_warnings_table_and_summary():
    text = str(Pair(pl.concat([FRAME] * 6), ("few rows",)))
    assert text.startswith(
        "warning: few rows\n\n| test\\_set | r | p | n |\n|---|---|---|---|\n| a\\|b | 0.123 | 1e-09 | 3 |"
    )
    assert text.endswith("... 2 more rows\n\nTwo pairs <b>.")


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


def test_latex():
    assert latex_table(FRAME).splitlines() == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"test\_set & r & p & n \\",
        r"\midrule",
        r"a|b & 0.123 & 1e-09 & 3 \\",
        r"\textless{}i\textgreater{}\& &  & 1.23e+04 & 4 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_shows_text_as_it_is():
    assert markdown_table(pl.DataFrame({"x": ["*a*\nb"]})).splitlines()[-1] == r"| \*a\* b |"
