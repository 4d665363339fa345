import polars as pl
import pytest

from breadth.datasets import simulate_scores


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    simulate_scores(runs=3).write_csv(path)
    return path


def test_tables_summary_and_files(breadth, table, tmp_path):
    out = breadth(
        "correlate", table, "--control", "in_domain", "--by", "run", "--order", "step", "--windows", 2,
        "--out", tmp_path / "pairs.csv", "--figure", tmp_path / "figure.html",
    )  # fmt: skip
    assert max(map(len, out.stdout.splitlines()[:-6])) <= 100
    assert "Pairs of test sets over 3 runs" in out.stdout
    others = ("heterogeneity", "similarity", "windows", "changes")
    names = {"pairs.csv", "figure.html", *(f"pairs.{name}.csv" for name in others)}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert pl.read_csv(tmp_path / "pairs.csv").height == 45


def test_columns_are_recognised_and_said(breadth, table):
    options = ("--control", "in_domain", "--by", "run", "--order", "step")
    known, given = breadth("correlate", table), breadth("correlate", table, *options)
    assert known.stdout == given.stdout
    assert known.stderr.splitlines() == [
        "  3 runs (run) x 41 steps (step); in-domain: in_domain; test sets: 6 (negation, word_order, numbers, "
        "formal_style, ...)",
        "  wrong? --by, --order, --control, --testsets",
    ]
    assert not given.stderr


def test_an_export_of_wandb(breadth, table, tmp_path):
    logged = pl.read_csv(table).rename(
        {"run": "run_name", "step": "Step", "in_domain": "eval/mnli_acc", "negation": "eval/hans_acc",
         "science": "eval/anli_acc", "numbers": "train/loss"}
    )  # fmt: skip
    logged = logged.drop("word_order", "formal_style", "coreference").with_columns(_timestamp=1.7e9 + pl.col("Step"))
    logged.write_csv(tmp_path / "wandb.csv")
    out = breadth("correlate", tmp_path / "wandb.csv")
    assert out.stderr.splitlines()[:2] == [
        "  3 runs (run_name) x 41 steps (Step); in-domain: mnli; test sets: 2 (hans, anli)",
        "  ignored: train/loss (training), _timestamp (time); names are shortened (eval/mnli_acc is mnli); wrong? "
        "--by, --order, --control, --testsets",
    ]


def test_options_reach_the_verb(breadth, table):
    out = breadth(
        "correlate", table, "--control", "in_domain", "--testsets", "negation,sci*", "--by", "run", "--order", "step",
        "--adjust", "linear", "--method", "spearman", "--ci", "block", "--seed", 3,
    )  # fmt: skip
    rows = [line.split() for line in out.stdout.splitlines() if " negation " in line and " science " in line]
    assert len(rows) == 1, "one pair, as a mean over three runs"
    assert "3" in rows[0]


def test_direction_and_robust(breadth, table, tmp_path):
    options = ("--control", "in_domain", "--by", "run", "--order", "step", "--robust", "--out")
    breadth("correlate", table, *options, tmp_path / "up.csv")
    turned = ("--lower-is-better", "science", "--lower-is-better", "negation")
    breadth("correlate", table, *options, tmp_path / "down.csv", *turned)
    up, down = (pl.read_csv(tmp_path / f"{name}.csv") for name in ("up", "down"))
    assert "r_plain" in up.columns
    one = pl.col("a").is_in(["science", "negation"]) != pl.col("b").is_in(["science", "negation"])
    assert (up.filter(one)["r_raw"] * down.filter(one)["r_raw"] < 0).all()


def test_item_counts(breadth, table, tmp_path):
    breadth(
        "correlate", table, "--control", "in_domain", "--testsets", "negation,science", "--by", "none", "--order",
        "none", "--item-counts", "in_domain=9000,negation=20000,science=20000", "--out", tmp_path / "pairs.csv",
    )  # fmt: skip
    row = pl.read_csv(tmp_path / "pairs.csv").row(0, named=True)
    assert row["r"] != row["r_corrected"], "and what it was before the correction"
    assert 0.9 < row["reliability_a"] < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--control", "in_domian"], "Did you mean in_domain?"),
        (["--testsets", "science,negation,in_domain"], "no column is known to be in-domain; name it with --control"),
        (["--control", "in_domain", "--testsets", "science"], "at least 2"),
        (["--control", "in_domain", "--testsets", "science,in_domain"], "both control and test set"),
        (["--control", "in_domain", "--item-counts", "science"], "is not NAME=NUMBER"),
        (["--control", "in_domain", "--figure", "x.gif"], "use .html, .pdf, .png, .svg"),
        (["--control", "in_domain", "--out", "x.doc"], "cannot tell the format"),
        (["--control", "in_domain", "--out", "nowhere/x.csv"], "there is no directory nowhere"),
        (["--control", "in_domain", "--order", "step", "--by", "none"], "Add --by run"),
        (["--control", "in_domain", "--order", "none", "--windows", "2"], "--windows needs --order"),
        (["--control", "in_domain", "--adjust", "quadratic"], "gam, linear"),
        (["--control", "in_domain", "--ci", "wide"], "auto, iid, ar"),
        (["--control", "in_domain", "--method", "kendall"], "spearman"),
        (["--control", "in_domain", "--by", "run", "--order", "step", "--lower-is-better", "los"], "(lower is better)"),
        (["--control", "in_domain", "--robust", "--method", "spearman"], "choose one"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(breadth, table, arguments, message):
    out = breadth("correlate", table, *arguments, ok=False)
    assert out.returncode == 2
    assert message in out.stderr
    assert "Traceback" not in out.stderr
    assert len(out.stderr.strip().splitlines()) <= 2, "a warning may come before"


def test_mistakes_in_options_are_no_tracebacks(breadth, table):
    for arguments in (["--seed", "-1"], ["--by", "step", "--order", "step"], ["--by", "testset"], ["--control", ""]):
        out = breadth("correlate", table, *arguments, ok=False)
        assert out.returncode == 2, arguments
        assert "Traceback" not in out.stderr


def test_control_characters_in_messages(breadth, tmp_path):
    out = breadth("correlate", tmp_path / "\x1b[31mred.csv", ok=False)
    assert out.returncode == 2
    assert "\x1b" not in out.stderr
    assert "?[31mred.csv: no such file" in out.stderr


def test_formulas_for_spreadsheets(breadth, tmp_path):
    rows = "".join(f"=SUM(A{k}),{k % 7},{k % 5},{k % 3}\n" for k in range(30))
    (tmp_path / "t.csv").write_text("run,mnli,@one,-two\n" + rows)
    words = ["correlate", tmp_path / "t.csv", "--control", "mnli", "--by", "none", "--adjust", "linear", "--out"]
    breadth(*words, tmp_path / "plain.csv")
    breadth(*words, tmp_path / "safe.csv", "--excel-safe")
    plain, safe = ((tmp_path / name).read_text() for name in ("plain.csv", "safe.csv"))
    assert plain.splitlines()[1].startswith("@one,-two,")
    assert safe.splitlines()[1].startswith("'@one,'-two,")
    assert safe.replace("'@", "@").replace("'-two", "-two") == plain  # numbers, negative ones too, are as they were


def test_unreadable_table(breadth, tmp_path):
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1")
    out = breadth("correlate", path, "--control", "x", ok=False)
    assert out.returncode == 2
    assert "broken.parquet" in out.stderr
