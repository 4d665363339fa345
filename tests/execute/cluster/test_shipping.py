"""What travels: outputs, data, models."""

import numpy as np
import pytest

from breadth.execute.cluster import shipping
from breadth.execute.cluster.shipping import (
    DamagedShipmentError,
    ModelFiles,
    Origin,
    ShippedData,
    answers_origin,
    has_files,
    local_files,
    pack_pieces,
    read_chunks,
    seal,
    shipped_folder,
    unpack_pieces,
    unseal,
    write_chunks,
)  # fmt: skip
from breadth.execute.cluster.tasks import Cell
from breadth.execute.plan import plan_study
from breadth.lm import Outputs
from breadth.study import read_study_file

from ..conftest import LORA, START

ONE, TWO = Cell("a/b", 0, 2, 5.0), Cell("ü", 1, 2, 5.0)


def test_outputs_there_and_back():
    pieces = {ONE: Outputs([3, 1], np.array([[0.1, 0.2], [0.3, 1e-300]])), TWO: Outputs([0], ['a "text"\n\0 ü'])}
    back = unpack_pieces(pack_pieces(pieces), [ONE, TWO, Cell("a/b", 1, 2, 5.0)])
    assert set(back) == {ONE, TWO}
    assert back[ONE].index == [3, 1]
    np.testing.assert_array_equal(back[ONE].values, pieces[ONE].values)
    assert back[TWO].values == pieces[TWO].values


def test_empty_parts_and_damaged_bytes():
    empty = {ONE: Outputs([], np.zeros((0, 1)))}
    assert unpack_pieces(pack_pieces(empty), [ONE])[ONE].index == []
    assert unpack_pieces(b"no safetensors", [ONE]) == {}


OWN = Origin("the outputs", "a", 4, (ONE, TWO))
OTHERS = [
    OWN._replace(what="the answers"),
    OWN._replace(run="b"),
    OWN._replace(step=2),
    OWN._replace(cells=(ONE,)),
    OWN._replace(cells=(TWO, ONE)),
]


@pytest.mark.parametrize("other", OTHERS)
def test_the_seal_says_what_the_bytes_are(other):
    assert unseal(seal(b"same", OWN), other, OWN) == b"same"
    with pytest.raises(DamagedShipmentError, match="arrived instead of"):
        unseal(seal(b"same", other), OWN)
    # Who changes only what it says it is breaks the seal.
    with pytest.raises(DamagedShipmentError, match="another checksum"):
        unseal(seal(b"same", other)._replace(origin=OWN), OWN)


def test_answers_are_of_cells_in_any_order():
    assert answers_origin("a", 4, [ONE, TWO]) == answers_origin("a", 4, {TWO: 1, ONE: 2})
    assert answers_origin("a", 4, [ONE, TWO]) != answers_origin("a", 4, [ONE])


def test_data_is_drawn_once_and_needs_no_files(study, tmp_path):
    plan = plan_study(read_study_file(study(START)), tmp_path / "s")
    runs = [unit.run for unit in plan.units]
    data = ShippedData.of(runs, plan.study_data)
    for run in runs:
        if run.train_set:
            assert data.training(run).frame.equals(plan.study_data.training(run).frame)
            assert data.start(run).frame.equals(plan.study_data.start(run).frame)
        assert data.keeps_order(run) == plan.study_data.keeps_order(run)
    assert list(data.testsets) == ["plain", "negation"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "cache"))


def test_a_model_is_sent_once_per_node(tiny, cache, monkeypatch):
    files = local_files(str(tiny))
    assert has_files(files, tiny)
    monkeypatch.setattr(shipping, "CHUNK", 1000)
    chunks = list(read_chunks(files))
    assert len(chunks) > len(files.sizes)
    folder = write_chunks(files, chunks)
    assert folder == shipped_folder(files)
    for name in files.sizes:
        assert (folder / name).read_bytes() == (tiny / name).read_bytes()
    assert write_chunks(files, iter(())) == folder  # nothing is read again
    (folder / "config.json").write_text("{}")
    write_chunks(files, chunks)
    assert (folder / "config.json").read_bytes() == (tiny / "config.json").read_bytes()
    assert sorted(path.name for path in folder.parent.iterdir()) == [files.digest, f"{files.digest}.lock"]


def test_models_of_the_hub_are_not_sent(cache):
    assert local_files("owner/model") is None
    assert local_files("smollm2-135m") is None  # not in this cache


@pytest.mark.slow
def test_a_worker_uses_the_model_that_was_sent(tiny, study, cache, tmp_path):
    from breadth.execute.cluster.executor import chains_of
    from breadth.execute.cluster.worker import Worker

    plan = plan_study(read_study_file(study(LORA)), tmp_path / "s")
    chains = chains_of(plan, {str(tiny): "any"})
    data = ShippedData.of([unit.run for unit in plan.units], plan.study_data)
    here = local_files(str(tiny))
    elsewhere = ModelFiles(str(tmp_path / "on the driver only"), here.sizes, here.digest)
    groups = {chain.run: chain.group for chain in chains}
    run, cells = chains[0].run, chains[0].cells
    sent = Worker(data, groups, 1, {str(tiny): elsewhere}, lambda model: read_chunks(here))
    local = Worker(data, groups, 1)
    assert sent.evaluate(run, 0, cells, None).pieces == local.evaluate(run, 0, cells, None).pieces
    assert has_files(here, shipped_folder(here))
