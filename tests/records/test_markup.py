import polars as pl

from breadth.records import latex_table, markdown_table

FRAME = pl.DataFrame(
    {"test_set": ["a|b", "<i>&"], "r": [0.12345, None], "p": [1e-9, 12345.6], "n": [3, 4]},
    schema_overrides={"r": pl.Float64},
)


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
