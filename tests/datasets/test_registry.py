"""The registry says what FACTS say: ids, splits, sizes, labels."""

import pytest

from breadth.datasets import SETS
from breadth.datasets.checks import check_task, text_fields
from breadth.datasets.registry import REGISTRY, find
from breadth.datasets.tasks import Choice, Generate, Pattern
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
    assert (entry.hub, entry.config, entry.test_split, entry.items, *labels) == PUBLISHED[name]
    assert entry.train_split != entry.test_split
    assert entry.task == Pattern(
        "{premise} Question: {hypothesis} Yes or No?",
        (("entailment", " Yes"), ("not_entailment", " No")),
        "premise",
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
def test_every_entry_is_whole(entry):
    check_task(entry.task, entry.name)
    assert text_fields(entry.task)
    assert entry.shift in SHIFTS
    assert entry.description
    assert entry.licence
    assert entry.how
    assert entry.items > 0
    assert (entry.hub is None) == (entry.kind == "generated")


def test_every_generated_set_is_registered():
    assert [entry.name for entry in REGISTRY.values() if entry.kind == "generated"] == list(SETS)


def test_a_wrong_name_gets_a_hint():
    with pytest.raises(InputError, match=r"there is no data set 'mmlu-pr'\. Did you mean mmlu_pro\?"):
        find("mmlu-pr")
