"""Data to measure on: sets by name (public, generated, your own), and simulated data whose truth is known.

``registry`` lists the sets, ``load`` reads them into one canonical frame, ``examples`` draws items to train and to test
on, ``suite`` generates items, ``tasks`` and ``kinds`` define how items are scored, ``protocols`` how published studies
word and score them. Imports only ``records`` and
``errors``.
"""

from breadth.datasets.canonical import Entry
from breadth.datasets.examples import draw_examples, draw_items, drop_shared_texts, hash_items
from breadth.datasets.extraction import RULES, extract, extract_answer
from breadth.datasets.kinds import (
    NEITHER,
    Choice,
    Generate,
    Metric,
    Pattern,
    Texts,
    answer_problems,
    answer_warnings,
)
from breadth.datasets.load import Examples, ItemSet, Loaded, Mixture, load, load_own
from breadth.datasets.protocols import PROTOCOLS, Protocol
from breadth.datasets.registry import REGISTRY, describe_datasets, find, find_file, is_cached
from breadth.datasets.simulated import (
    TESTSETS,
    AnswerTruth,
    SimulatedStudy,
    autoregressive,
    control_series,
    simulate_answers,
    simulate_scores,
    simulate_study,
)
from breadth.datasets.suite import SETS, generate
from breadth.datasets.tasks import (
    CHOICES,
    DEFAULT_KIND,
    KINDS,
    KeyProblem,
    Loss,
    Predict,
    Task,
    TaskKeys,
    fields_of,
    register_kind,
    unregister_kind,
    wording_problems,
)

__all__ = [
    "CHOICES",
    "DEFAULT_KIND",
    "KINDS",
    "NEITHER",
    "PROTOCOLS",
    "REGISTRY",
    "RULES",
    "SETS",
    "TESTSETS",
    "AnswerTruth",
    "Choice",
    "Entry",
    "Examples",
    "Generate",
    "ItemSet",
    "KeyProblem",
    "Loaded",
    "Loss",
    "Metric",
    "Mixture",
    "Pattern",
    "Predict",
    "Protocol",
    "SimulatedStudy",
    "Task",
    "TaskKeys",
    "Texts",
    "answer_problems",
    "answer_warnings",
    "autoregressive",
    "control_series",
    "describe_datasets",
    "draw_examples",
    "draw_items",
    "drop_shared_texts",
    "extract",
    "extract_answer",
    "fields_of",
    "find",
    "find_file",
    "generate",
    "hash_items",
    "is_cached",
    "load",
    "load_own",
    "register_kind",
    "simulate_answers",
    "simulate_scores",
    "simulate_study",
    "unregister_kind",
    "wording_problems",
]
