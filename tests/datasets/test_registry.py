"""The registry matches the published descriptions, knows what is available, and makes Hub columns canonical."""

import sys
import time

import polars as pl
import pytest

from breadth.datasets import REGISTRY, SETS, Choice, Entry, Generate, Pattern, describe_datasets, extract, find, load
from breadth.datasets.canonical import canonical, identify
from breadth.datasets.registry import BOXED, NUMBER, cache_directory, is_cached
from breadth.errors import InputError
from breadth.records.schemas import SHIFTS
from breadth.sources.tables import Table

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
    assert sizes == {"arc": 1170, "gsm8k": 1319, "bbh": 5250, "mmlu_pro": 12032, "math": 1324, "musr": 756, "gpqa": 546}
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
    with pytest.raises(InputError, match="data= must name a directory"):
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


# Rows as the Hub has them.
HUB = {
    "arc": {
        "id": "Mercury_1", "question": "What melts?", "answerKey": "2",
        "choices": {"text": ["a stone", "ice"], "label": ["1", "2"]},
    },
    "gsm8k": {"question": "Two bags of 600 nuts?", "answer": "2*600 = <<2*600=1200>>1,200\n#### 1,200"},
    "bbh": {"input": "True and not True is", "target": "False"},
    "mmlu_pro": {
        "question_id": 70, "question": "2 + 2?", "options": ["3", "4", "5"], "answer": "B", "answer_index": 1,
        "cot_content": "", "category": "math", "src": "x",
    },
    "math": {
        "problem": "Half?", "level": "Level 5", "type": "Algebra",
        "solution": r"First $\boxed{x}$, then $\boxed{\frac{1}{\sqrt{2}}}$.",
    },
    "musr": {
        "narrative": "A long story.", "question": "Who?", "choices": "['Ann', \"Bob's\"]", "answer_index": 1,
        "answer_choice": "Bob's",
    },
}  # fmt: skip
LABELS = {"arc": "B", "gsm8k": "1200", "bbh": "False", "mmlu_pro": "B", "math": r"\frac{1}{\sqrt{2}}", "musr": "B"}


def read(name, *rows):
    frame, _ = canonical(Table(pl.DataFrame(rows), name), REGISTRY[name], lenient=True)
    return identify(frame, REGISTRY[name], name)[0]


@pytest.mark.parametrize("name", HUB)
def test_rows_of_the_hub_become_canonical(name):
    frame, task = read(name, HUB[name]), REGISTRY[name].task
    row = frame.row(0, named=True)
    assert row["label"] == LABELS[name]
    assert row["item"].startswith(f"{name}-")
    prompt = task.template.format(**{"choices": "", **row})
    assert "{" not in prompt.replace("\\boxed{}", "")
    if isinstance(task, Generate):
        # What is trained on holds the answer that evaluation would extract.
        assert extract(task.extract, row[task.completion]).replace(",", "") == row["label"]
    else:
        assert row["options"][row["option_labels"].index(row["label"])] in ("ice", "Bob's")


def test_only_level_five_of_math_is_kept():
    other = {**HUB["math"], "level": "Level 1", "solution": "no answer"}
    assert read("math", HUB["math"], other)["level"].to_list() == ["Level 5"]


def test_options_of_mmlu_pro_are_written_for_the_prompt():
    assert read("mmlu_pro", HUB["mmlu_pro"])["choices"].item() == "A. 3\nB. 4\nC. 5"


def test_a_solution_without_an_answer_is_named():
    with pytest.raises(InputError, match=r"gsm8k, row 2, column 'answer': no final answer"):
        read("gsm8k", HUB["gsm8k"], {"question": "Why?", "answer": "nobody knows"})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3 + 4 = 7\n#### 7", "7"),
        ("#### -7 and then 9", "-7"),
        ("#### 12\n#### 13", "13"),
        ("so it costs $3.50.", "3.50"),
        ("that is -5", "-5"),
        ("10-5", "5"),
        ("5, 6", "6"),
        ("1,000 in all", "1,000"),
        ("none", None),
    ],
)
def test_numbers(text, answer):
    assert extract(NUMBER, text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{a} then \boxed{b}", "b"),
        (r"$\boxed 5$", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{\$5}", r"\$5"),
        (r"\boxed{cut off", None),
    ],
)
def test_boxed_answers(text, answer):
    assert extract(BOXED, text) == answer


@pytest.mark.parametrize("text", ["\\boxed " * 1000, "\\boxed{" * 2000, "1," * 5000, "####" * 3000, "-" * 9000])
def test_search_ends_on_nonsense(text):
    start = time.process_time()
    extract(BOXED, text), extract(NUMBER, text)
    assert time.process_time() - start < 5


def test_real_solutions_hold_their_labels(shared_data):
    loaded = load("gsm8k", "all", data=shared_data)
    raw = pl.read_parquet(shared_data / "qa" / "gsm8k.parquet")
    task = loaded.task
    assert isinstance(task, Generate)
    assert loaded.frame.height == raw.height
    for solution, label in loaded.frame.select("solution", "label").iter_rows():
        assert solution.rpartition("####")[2].strip().replace(",", "") == label
        assert float(extract(task.extract, solution).replace(",", "")) == float(label)


def test_gpqa_as_it_is_on_the_hub(monkeypatch):
    """Options are put in an order that depends on the question alone; expert ratings become numbers."""
    rows = []
    for k in range(12):
        rating = ("Easy undergraduate level (or easier)", "Hard graduate level (...)", "Post-graduate level", None)[
            k % 4
        ]
        wrong = {f"Incorrect Answer {n}": f"wrong {n} of {k}" for n in (1, 2, 3)}
        row = {"Question": f"Question {k}?", "Correct Answer": f"right {k} ", "Record ID": f"rec{k}", **wrong}
        rows.append({**row, "Writer's Difficulty Estimate": rating})
    hub = pl.DataFrame(rows)
    loading = sys.modules["breadth.datasets.load"]  # the name is that of a function as well
    monkeypatch.setattr(loading, "fetch", lambda entry, split: hub.with_columns(split=pl.lit(split)))
    frame = load("gpqa", "all").frame.sort("item")
    assert frame.height == 12
    right = [row["options"][row["option_labels"].index(row["label"])] for row in frame.iter_rows(named=True)]
    assert sorted(right) == sorted(f"right {k}" for k in range(12))
    assert frame["label"].n_unique() > 1
    assert all(len(options) == 4 for options in frame["options"])
    ratings = dict(frame.select("question", "expert_rating").iter_rows())
    assert [ratings[f"Question {k}?"] for k in range(4)] == [0, 2, 3, None]
    again = load("gpqa", "all").frame.sort("item")
    assert again.equals(frame)
