"""The registry matches the published descriptions: ids, splits, sizes, labels; and knows what is available."""

import pytest

from breadth.datasets import REGISTRY, SETS, Choice, Entry, Generate, Pattern, describe_datasets, find, load
from breadth.datasets.registry import cache_directory, is_cached
from breadth.errors import InputError
from breadth.records import SHIFTS

# From the published description: Hub id, configuration, test split, items, what the raw labels 0 and 1 mean.
PUBLISHED = {
    "snli": ("stanfordnlp/snli", None, "test", 6605, "entailment", None),
    "mnli": ("nyu-mll/glue", "mnli", "validation_matched", 6692, "entailment", None),
    "scitail": ("allenai/scitail", "dgem_format", "test", 2126, "?", "?"),
    "wnli": ("nyu-mll/glue", "wnli", "train", 635, "not_entailment", "entailment"),
    "rte": ("nyu-mll/glue", "rte", "train", 2490, "entailment", "not_entailment"),
    "paws": ("google-research-datasets/paws", "labeled_final", "test", 8000, "not_entailment", "entailment"),
    "hans": ("jhu-cogsci/hans", None, "validation", 30000, "entailment", "not_entailment"),
    "anli": ("facebook/anli", None, "test_r3", 798, "entailment", None),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_inference_sets_are_the_published_ones(name):
    entry = REGISTRY[name]
    assert entry.labels is not None
    labels = [entry.labels.get(key, "?") for key in (0, 1)]
    assert (entry.hub, *entry.configs, entry.test_split, entry.items, *labels) == PUBLISHED[name]
    assert entry.train_split != entry.test_split
    assert entry.task == Pattern(
        "{premise} Question: {hypothesis} Yes or No?",
        (("entailment", " Yes"), ("not_entailment", " No")),
        shorten="premise",
    )


def test_neutral_is_dropped_except_in_scitail():
    assert [REGISTRY[name].labels["neutral"] for name in ("snli", "mnli", "anli")] == [None] * 3
    assert REGISTRY["scitail"].labels["neutral"] == "not_entailment"
    assert REGISTRY["scitail"].labels["entails"] == "entailment"
    assert REGISTRY["snli"].labels[2] == REGISTRY["snli"].labels["contradiction"] == "not_entailment"
    assert REGISTRY["snli"].labels[-1] is None


def test_question_sets_have_the_published_sizes_and_metrics():
    sizes = {entry.name: entry.items for entry in REGISTRY.values() if entry.kind == "qa"}
    assert sizes == {"arc": 1170, "gsm8k": 1319, "bbh": 5250, "mmlu_pro": 12032, "math": 1324, "musr": 756}
    tasks = {name: REGISTRY[name].task for name in sizes}
    assert isinstance(tasks["arc"], Choice)
    assert tasks["arc"].continuation == "label"
    assert isinstance(tasks["musr"], Choice)
    assert tasks["musr"].normalise
    metrics = {name: task.metric for name, task in tasks.items() if isinstance(task, Generate)}
    assert metrics == {"gsm8k": "number", "bbh": "exact", "mmlu_pro": "exact", "math": "math"}
    assert len(REGISTRY["bbh"].configs) * 250 == sizes["bbh"]


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=list(REGISTRY))
def test_every_entry_is_complete(entry):
    entry.task.check(entry.name)
    assert entry.task.fields
    assert entry.shift in SHIFTS
    assert entry.description
    assert entry.licence
    assert entry.items > 0
    assert (entry.hub is None) == (entry.kind == "generated")


def test_every_generated_set_is_registered():
    assert [entry.name for entry in REGISTRY.values() if entry.kind == "generated"] == list(SETS)


def test_a_wrong_name_gets_a_hint():
    with pytest.raises(InputError, match=r"unknown data set 'mmlu-pr'\. Did you mean mmlu_pro\?"):
        find("mmlu-pr")


def test_cache_is_found_by_names_of_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    entry = REGISTRY["mnli"]
    assert not is_cached(entry)
    folder = tmp_path / "nyu-mll___glue" / "mnli" / "0.0.0" / "abc"
    folder.mkdir(parents=True)
    assert not is_cached(entry)
    (folder / "glue-validation_matched.arrow").touch()
    assert is_cached(entry)
    assert not is_cached(REGISTRY["rte"])
    monkeypatch.delenv("HF_DATASETS_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / "datasets"


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def test_available_sets(tmp_path, empty_cache):
    (tmp_path / "nli").mkdir()
    (tmp_path / "nli" / "hans.csv").touch()
    cached = tmp_path / "cache" / "facebook___anli" / "plain_text" / "0.1.0" / "abc"
    cached.mkdir(parents=True)
    (cached / "anli-test_r3.arrow").touch()
    frame = describe_datasets(tmp_path)
    assert frame["name"].to_list() == list(REGISTRY)
    sets = {name: (available, where) for name, available, where in frame.select("name", "available", "where").rows()}
    assert sets["hans"] == (True, str(tmp_path / "nli"))
    assert sets["anli"] == (True, "cached")
    assert sets["chains"] == (True, "generated")
    assert not sets["snli"][0]
    assert sets["snli"][1].startswith("put snli.parquet")


def test_the_data_directory_must_exist(tmp_path):
    with pytest.raises(InputError, match="--data must name a directory"):
        describe_datasets(tmp_path / "none")


def test_a_set_from_outside_costs_one_entry(tmp_path, monkeypatch):
    entry = Entry(
        name="weather", kind="qa", description="questions about the weather", licence="CC0", items=4, shift="domain",
        task=Pattern("{question}", (("wet", " Wet"), ("dry", " Dry")), shorten="question"),
    )  # fmt: skip
    monkeypatch.setitem(REGISTRY, "weather", entry)
    rows = "".join(f"What about day {i}?,{('wet', 'dry')[i % 2]}\n" for i in range(20))
    (tmp_path / "weather.csv").write_text(f"question,label\n{rows}")
    assert load("weather", "all", data=tmp_path).frame.height == 20
    assert describe_datasets(tmp_path).row(-1, named=True)["available"]
