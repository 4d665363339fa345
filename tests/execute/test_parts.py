"""Test sets by column: the values of a column are test sets of their own, all the way to the analyses."""

import polars as pl
import pytest

from breadth.correlation import correlate
from breadth.errors import InputError
from breadth.execute import run
from breadth.execute.parts import split_into_parts
from breadth.reporting import scores
from breadth.reporting.progress import Progress
from breadth.sources import open_study
from breadth.study import expand, read_study_file

from .cluster.in_process import run_in_process
from .conftest import LORA, parts

SPLIT = [("items: 24", "items: 6, split_by: {negation: template}")]


def frame_of(values, **columns):
    items = [f"i{k}" for k in range(len(values))]
    return pl.DataFrame({"item": items, "testset": ["a"] * len(values), "kind": values, **columns})


def test_values_make_names_that_are_safe():
    found = split_into_parts("a", frame_of(["x/y", "x/y", None, None, "B c", "B c"]), ["kind"])
    assert list(found) == ["a.B_c", "a.none", "a.x_y"]
    assert found["a.x_y"]["item"].to_list() == ["i0", "i1"]
    assert found["a.x_y"]["testset"].to_list() == ["a.x_y"] * 2


def test_several_columns_are_combined():
    frame = frame_of(["p", "p", "q", "q"], level=[1, 1, 1, 1])
    assert list(split_into_parts("a", frame, ["kind", "level"])) == ["a.p.1", "a.q.1"]


@pytest.mark.parametrize(
    ("values", "column", "said"),
    [
        (["x", "x"], "kinds", "no column 'kinds'. Did you mean kind"),
        (["x", "x", "y"], "kind", r"a\.y \(1\)"),
        (["x y", "x y", "x_y", "x_y"], "kind", "the same test set"),
        ([str(k) for k in range(201)], "kind", "201 values"),
        ([["x"], ["x"]], "kind", "holds lists"),
    ],
)
def test_columns_that_make_no_test_sets(values, column, said):
    with pytest.raises(InputError, match=said):
        split_into_parts("a", frame_of(values), [column])


def test_items_are_drawn_of_every_part(study_data):
    text = "recipe: {method: zero-shot}\nevaluate: {on: [plain, negation], items: 5, split_by: {negation: template}}"
    data, _ = study_data(text)
    sizes = data.testsets["negation"].frame["testset"].value_counts()
    assert sizes.height > 1
    assert set(sizes["count"]) == {5}
    assert data.testsets["plain"].frame.height == 5
    again, _ = study_data(text)
    assert again.testsets["negation"].frame.equals(data.testsets["negation"].frame)


def test_a_wrong_column_is_named_with_its_line(study_data):
    data, _ = study_data("recipe: {method: zero-shot}\nevaluate: {on: plain, split_by: {plain: templat}}")
    with pytest.raises(InputError, match=r"s.yaml: line 4, evaluate.split_by.plain: plain has no column 'templat'"):
        _ = data.testsets


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny):
    """A study that was split by column, and the file it was run from."""
    folder = tmp_path_factory.mktemp("split")
    path = folder / "study.yaml"
    text = LORA.format(model=tiny).replace(*SPLIT[0]).replace("seeds: [0, 1]", "seeds: 0")
    path.write_text(text)
    run(path, into=folder / "s")
    return path, folder / "s"


def test_parts_are_test_sets_of_the_study(finished):
    measured = open_study(finished[1])
    assert "negation" not in measured.testsets
    own = [name for name in measured.testsets if name.startswith("negation.")]
    assert len(own) > 1
    assert len({measured.shifts[name] for name in own}) == 1
    assert measured.in_domain("plain") == ("plain",)
    assert measured.matrix.shape == (5, 6 * len(measured.testsets))
    assert measured.items["premise"].null_count() == 0
    assert set(scores(measured).scores["testset"]) == set(measured.testsets)
    pairs = correlate(measured, adjust="linear").pairs
    assert set(pairs["a"]) | set(pairs["b"]) == set(own)


def test_the_live_page_shows_parts(finished):
    rows = Progress(finished[1]).state()["trajectories"]
    assert {row["testset"] for row in rows} == set(open_study(finished[1]).testsets)


@pytest.mark.slow
def test_parts_on_workers_and_after_a_stop(finished, tmp_path):
    path, folder = finished
    whole = parts(folder)
    outcome, _, _ = run_in_process(path, tmp_path / "workers", workers=3)
    assert not outcome.failed
    assert parts(tmp_path / "workers") == whole
    lost = folder / next(name for name in whole if "step-000004" in name)
    lost.unlink()
    run(path, into=folder)
    assert parts(folder) == whole


def test_names_of_runs_stay_without_a_split(study):
    names = [each.name for each in expand(read_study_file(study()))]
    nothing = [("items: 24", "items: 24, split_by: {}")]
    assert [each.name for each in expand(read_study_file(study(changes=nothing)))] == names
    assert not {each.name for each in expand(read_study_file(study(changes=SPLIT)))} & set(names)
