"""The eight inference sets of the study of generalisation results (arXiv 2512.07832): ids, splits, labels."""

from __future__ import annotations

from breadth.datasets.entry import Entry, Labels
from breadth.datasets.tasks import Pattern

ENTAILMENT, NOT_ENTAILMENT = "entailment", "not_entailment"

NLI_PATTERN = Pattern(
    template="{premise} Question: {hypothesis} Yes or No?",
    answers=((ENTAILMENT, " Yes"), (NOT_ENTAILMENT, " No")),
    shorten="premise",
)

#: Strings that every file may use for the two canonical labels.
_WORDS: Labels = {ENTAILMENT: ENTAILMENT, NOT_ENTAILMENT: NOT_ENTAILMENT, "non-entailment": NOT_ENTAILMENT}

#: Three classes: neutral items and those without a gold label (-1, "-") are dropped.
_THREE: Labels = {
    **_WORDS,
    **{"contradiction": NOT_ENTAILMENT, "neutral": None, "-": None},
    **{0: ENTAILMENT, 1: None, 2: NOT_ENTAILMENT, -1: None},
}
#: Two classes where 0 is entailment (RTE, HANS), and two where 1 is (WNLI, and paraphrases in PAWS).
_ZERO_ENTAILS: Labels = {**_WORDS, 0: ENTAILMENT, 1: NOT_ENTAILMENT, -1: None}
_ONE_ENTAILS: Labels = {**_WORDS, 1: ENTAILMENT, 0: NOT_ENTAILMENT, -1: None}
#: SciTail has no contradictions: its neutral items are the second class and are kept.
_SCITAIL: Labels = {**_WORDS, "entails": ENTAILMENT, "neutral": NOT_ENTAILMENT}

_SENTENCES = {"premise": "sentence1", "hypothesis": "sentence2"}


def _nli(
    name: str,
    description: str,
    shift: str,
    hub: str,
    config: str | None,
    splits: tuple[str, str],
    items: int,
    labels: Labels,
    licence: str,
    columns: dict[str, str] | None = None,
) -> Entry:
    return Entry(
        name=name,
        kind="nli",
        description=description,
        shift=shift,
        task=NLI_PATTERN,
        licence=licence,
        items=items,
        hub=hub,
        configs=(config,),
        test_split=splits[0],
        train_split=splits[1],
        columns=columns or {},
        labels=labels,
    )


#: Test split, then train split. WNLI and RTE are tested on their train split, which is larger; what may be trained on
#: is then their validation split.
INFERENCE = (
    _nli("snli", "captions of photographs", "domain", "stanfordnlp/snli", None, ("test", "train"),
         6605, _THREE, "CC BY-SA 4.0"),
    _nli("mnli", "ten genres of speech and writing", "in-domain", "nyu-mll/glue", "mnli",
         ("validation_matched", "train"), 6692, _THREE, "OANC and others", {"id": "idx"}),
    _nli("scitail", "science questions against sentences of the web", "domain", "allenai/scitail", "dgem_format",
         ("test", "train"), 2126, _SCITAIL, "Apache-2.0"),
    _nli("wnli", "pronouns of the Winograd schemas", "adversarial", "nyu-mll/glue", "wnli",
         ("train", "validation"), 635, _ONE_ENTAILS, "as in GLUE", {**_SENTENCES, "id": "idx"}),
    _nli("rte", "news and encyclopaedia, the first challenges", "domain", "nyu-mll/glue", "rte",
         ("train", "validation"), 2490, _ZERO_ENTAILS, "as in GLUE", {**_SENTENCES, "id": "idx"}),
    _nli("paws", "paraphrases and sentences with words swapped", "adversarial", "google-research-datasets/paws",
         "labeled_final", ("test", "train"), 8000, _ONE_ENTAILS, "free, see PAWS", _SENTENCES),
    _nli("hans", "word overlap that misleads, from templates", "adversarial", "jhu-cogsci/hans", None,
         ("validation", "train"), 30000, _ZERO_ENTAILS, "MIT"),
    _nli("anli", "written to mislead models, third round", "adversarial", "facebook/anli", None,
         ("test_r3", "train_r3"), 798, _THREE, "CC BY-NC 4.0", {"id": "uid"}),
)  # fmt: skip
