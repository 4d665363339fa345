"""How many items well-known test sets have, by name: what the sampling noise of their scores follows from.

Sets of the registry have the size that breadth evaluates. The others have the size of the split that evaluation tools
report by default. A table may hold scores of a subset, so whoever uses these numbers says so and lets users override
them.
"""

from __future__ import annotations

from functools import cache

from breadth.datasets.registry import REGISTRY
from breadth.records import parse_score, plain

#: Items of the split that is usually reported, by the name in plain words.
USUAL_SIZES = {
    "arc_c": 1172, "arc_challenge": 1172, "arc_e": 2376, "arc_easy": 2376, "ai2_arc": 3548,
    "aime": 30, "aime_2024": 30, "aime_2025": 30, "boolq": 3270, "cb": 56, "commonsense_qa": 1221,
    "copa": 100, "drop": 9536, "gpqa": 448, "gpqa_diamond": 198, "gpqa_main": 448, "headqa": 2742, "hellaswag": 10042,
    "humaneval": 164, "human_eval": 164, "ifeval": 541, "imagenet": 50000, "imagenet_a": 7500, "imagenet_r": 30000,
    "imagenet_sketch": 50889, "imagenet_v2": 10000, "lambada": 5153, "lambada_openai": 5153, "lambada_standard": 5153,
    "livebench": 1000, "logiqa": 651, "math_500": 500, "math500": 500, "math_hard": 1324, "math_lvl_5": 1324,
    "mathqa": 2985, "mbpp": 500, "medmcqa": 4183, "medqa": 1273, "mmlu": 14042, "mrpc": 408, "multirc": 4848,
    "nq_open": 3610, "naturalqs": 3610, "object_net": 18574, "objectnet": 18574, "openbookqa": 500, "obqa": 500,
    "piqa": 1838, "prost": 18736, "pubmedqa": 1000, "qnli": 5463, "qqp": 40430, "race": 1045, "record": 10000,
    "sciq": 1000, "siqa": 1954, "social_iqa": 1954, "squad": 10570, "sst2": 872, "sst_2": 872, "storycloze": 1871,
    "supergpqa": 26529, "swag": 20006, "swe_bench_verified": 500, "triviaqa": 17944, "trivia_qa": 17944,
    "truthfulqa": 817, "truthfulqa_mc1": 817, "truthfulqa_mc2": 817, "webqs": 2032, "wic": 638, "winograd": 273,
    "winogrande": 1267, "wsc": 104, "wsc273": 273, "xcopa": 500, "xwinograd": 2325,
}  # fmt: skip


def usual_items(column: str) -> int | None:
    """How many items the test set has whose score a column holds, if its name is a well-known one.

    >>> usual_items("hans"), usual_items("eval/HellaSwag acc_norm"), usual_items("my own set")
    (30000, 10042, None)
    """
    sizes = _sizes_by_letters()
    for name in (plain(column), parse_score(column).testset):
        letters = name.replace("_", "")
        if letters in sizes:
            return sizes[letters]
    return None


@cache
def _sizes_by_letters() -> dict[str, int]:
    """Sizes by names without word breaks: HellaSwag, hella_swag and hellaswag are one."""
    sizes = {name.replace("_", ""): items for name, items in USUAL_SIZES.items()}
    for name, entry in REGISTRY.items():
        # A generated set has as many items as its user asks for.
        if entry.kind != "generated":
            sizes[name.replace("_", "")] = entry.items
    return sizes
