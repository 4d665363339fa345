"""Families of models: the column that names them, and names that show them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from breadth.sources.model_families import (
    FAMILY_COLUMNS,
    families_in_names,
    family_codes,
    family_column,
    family_of_name,
)

SCORES = Path(__file__).parents[3] / "shared" / "data" / "scores"


@pytest.mark.parametrize("name", [*FAMILY_COLUMNS, "Model Family", "baseModel", "Base model", "Organization"])
def test_usual_names_are_recognised(name: str) -> None:
    frame = pl.DataFrame({"model": ["a", "b", "c"], name: ["x", "x", "y"], "mnli": [0.1, 0.2, 0.3]})
    assert family_column(frame) == name


def test_the_finer_of_two_columns_is_taken() -> None:
    frame = pl.DataFrame({"organisation": ["o", "o", "p"], "family": ["x", "x", "y"]})
    assert family_column(frame) == "family"


@pytest.mark.parametrize(
    "values",
    [["x", "x", "x"], ["x", "y", "z"], [None, None, "x"], ["unknown", "?", "x"]],
    ids=["one family", "a family each", "null", "unknown"],
)
def test_a_column_that_does_not_divide_models_is_none(values: list[str | None]) -> None:
    assert family_column(pl.DataFrame({"family": values})) is None


def test_rows_of_a_model_are_of_one_family() -> None:
    rows = pl.DataFrame({"model": ["a", "a", "b", "b", "c"], "family": ["x", "x", "x", "x", "y"]})
    assert family_column(rows, ["model"]) == "family"
    # One row a model would have looked like a division of five models.
    assert family_column(rows.filter(pl.col("model") != "b"), ["model"]) is None
    mixed = rows.with_columns(family=pl.Series(["x", "y", "x", "x", "y"]))
    assert family_column(mixed, ["model"]) is None


def test_a_column_that_names_the_model_is_no_family() -> None:
    frame = pl.DataFrame({"base_model": ["a", "a", "b"], "x": [1, 2, 3]})
    assert family_column(frame) == "base_model"
    assert family_column(frame, ["base_model"]) is None


def test_models_of_unknown_family_are_alone() -> None:
    codes = family_codes(["x", None, "Unknown", "?", "x", " "])
    assert codes[0] == codes[4]
    assert len(np.unique(codes)) == 5


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1"),
        ("meta-llama/Llama-2-7b-hf", "llama-2"),
        ("huggyllama/llama-13b", "llama"),
        ("codellama/CodeLlama-13b-hf", "codellama"),
        ("openlm-research/open_llama_3b_v2", "open-llama"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen-2.5"),
        ("qwen-2.5-32b", "qwen-2.5"),
        ("cognitivecomputations/dolphin-2.9.2-qwen2-72b", "qwen-2"),
        ("google/gemma-2-9b", "gemma-2"),
        ("google/gemma-2b", "gemma"),
        ("mistralai/Mixtral-8x22B-v0.1", "mixtral"),
        ("mistralai/Mistral-7B-v0.1", "mistral"),
        ("EleutherAI/pythia-1.4b-deduped", "pythia"),
        ("EleutherAI/gpt-neox-20b", "gpt-neox"),
        ("gpt2-large", "gpt-2"),
        ("gpt-4o-mini", "gpt-4"),
        ("facebook/opt-6.7b", "opt"),
        ("microsoft/phi-1_5", "phi-1.5"),
        ("01-ai/Yi-6B-200K", "yi"),
        ("acme/optimised-7b", "optimised"),
        ("acme/Rocket-2-13B", "rocket-2"),
        ("run_1", None),
        ("model_12", None),
        ("baseline", None),
        ("7B", None),
        ("", None),
    ],
)
def test_names_show_families(name: str, family: str | None) -> None:
    assert family_of_name(name) == family


def test_names_that_are_mostly_alone_show_no_families() -> None:
    assert families_in_names(["Qwen2-7B", "Qwen2-72B", "a", "b", "c"]) == {}
    assert families_in_names([f"run_{k}" for k in range(20)]) == {}
    assert families_in_names(["pythia-70m", "pythia-1b", "pythia-12b"]) == {}
    assert families_in_names(["Qwen2-7B"] * 5 + ["gemma-7b"] * 5) == {}


@pytest.mark.skipif(not SCORES.exists(), reason="needs ../shared/data")
def test_families_of_published_tables() -> None:
    base = pl.read_csv(SCORES / "base_models_observational.csv")
    assert family_column(base) == "family"
    shown = families_in_names(base["model"].to_list())
    # Models that names put together are of one published family, and nearly all published pairs are found.
    published = dict(base.select("model", "family").iter_rows())
    codes = {model: family for family, members in shown.items() for model in members}
    models = base["model"].to_list()
    pairs = [(a, b) for k, a in enumerate(models) for b in models[:k]]
    together = [(a, b) for a, b in pairs if codes.get(a, a) == codes.get(b, b)]
    truly = [(a, b) for a, b in pairs if published[a] == published[b]]
    both = sum(published[a] == published[b] for a, b in together)
    assert both / len(together) > 0.9
    assert both / len(truly) > 0.85
    assert family_column(pl.read_csv(SCORES / "open_llm_leaderboard_v2.csv")) == "architecture"
    frontier = pl.read_csv(SCORES / "frontier_models_sparse.csv", infer_schema_length=None)
    assert family_column(frontier, ["model"]) == "provider"
    assert families_in_names(pl.read_csv(SCORES / "clip_finetunes.csv")["model"].to_list()) == {}
