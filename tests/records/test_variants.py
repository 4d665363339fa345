from breadth.records.store import RunRecord
from breadth.records.variants import label_runs, label_variants


def record(model, method, start=None, **recipe):
    return RunRecord(model, "plain", method=method, recipe={"method": method, **recipe}, start=start)


def test_a_model_with_one_recipe_keeps_its_name():
    records = {"a": record("m", "lora", lr=0.1), "b": record("m", "lora", lr=0.1), "c": record("n", "full")}
    assert label_runs(records) == {"a": "m", "b": "m", "c": "n"}


def test_recipes_of_one_model_have_names_of_their_own():
    records = {
        "zero": record("m", "zero-shot"),
        "few": record("m", "few-shot", num_fewshot=4),
        "slow": record("m", "lora", lr=0.01, rank=8, steps=None),
        "fast": record("m", "lora", lr=0.1, rank=8, steps=20),
        "other": record("n", "lora", lr=0.1),
    }
    assert label_runs(records) == {
        "zero": "m (zero-shot)",
        "few": "m (few-shot)",
        "slow": "m (lora, lr 0.01)",
        "fast": "m (lora, lr 0.1, steps 20)",
        "other": "n",
    }


def test_the_untrained_model_beside_a_start_is_the_same_model():
    start = {"examples": 8}
    records = {"zero": record("m", "zero-shot"), "a": record("m", "lora", start)}
    assert set(label_runs(records).values()) == {"m"}
    records["b"] = record("m", "full", start)
    assert label_runs(records) == {"zero": "m", "a": "m (lora)", "b": "m (full)"}


def test_what_a_recorder_recorded_keeps_the_name_of_its_model():
    """Its configuration is the user's own, and has no method."""
    records = {name: RunRecord("m", method="recorded", recipe={"lr": lr}) for name, lr in (("a", 0.1), ("b", 0.2))}
    assert set(label_runs(records).values()) == {"m"}


def test_endpoints_tell_models_of_one_name_apart():
    here, there = ({"method": "zero-shot", "url": url} for url in ("http://a/v1", "http://b/v1"))
    assert label_variants([("m", here), ("m", there)]) == [
        "m (zero-shot, url http://a/v1)",
        "m (zero-shot, url http://b/v1)",
    ]
