"""OpenAI Evals: event logs, JSON lines.

A specification, then events of samples, then the final report. Correctness comes from ``match`` events, else from the
numbers of ``metrics`` events, which are read by rules written from the tool's source code. Item: the sample's id, its
position in the data. A sample that was asked several times counts as the share that is right, or as epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from breadth.sources.columns import Column, Columns, json_object, text
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.registry import Detection, Part, Source, experimental_note
from breadth.sources.source_files import Object, SourceFile, entries, mapping, number, plain, short_answer, words
from breadth.sources.tools.common import drop_empty, epoch_means, epochs_to_read, reported_means

#: How OpenAI Evals calls the share of ``match`` events that are correct.
ACCURACY_NAME = "accuracy"


def expected_texts(value: Any) -> list[str]:
    """What would be right: a text or a list of texts."""
    return [one for one in entries(value) or [value] if isinstance(one, str)]


def last_message(prompt: Any) -> str | None:
    """The question: a prompt's last message, because earlier ones are instructions and examples."""
    if isinstance(prompt, str):
        return prompt
    for message in reversed(entries(prompt)):
        content = words(mapping(message).get("content"))
        if content is not None:
            return content
    return None


def evaluated_model(value: Any) -> str | None:
    """The first of several models; the first versions wrote one as a text."""
    names = [value] if isinstance(value, str) else entries(value)
    return words(names[0]) if names else None


def grader(value: Any) -> str | None:
    """The second of several models, which grades the answers of the first."""
    names = entries(value)
    return words(names[1]) if len(names) > 1 else None


SPECIFICATION = Columns(
    Column("task", "eval_name", words, required=True),
    Column("model", "completion_fns|model_names.completions|model_name", evaluated_model, required=True),
    Column("grader", "completion_fns|model_names.completions", grader),
    Column("seed", "run_config.seed", plain),
    Column("created_at", type=words, default=""),
)

EVENT = Columns(
    Column("spec", type=json_object),
    Column("final_report", type=json_object),
    Column("sample", "sample_id", text),
    Column("kind", "type", text),
    Column("data", type=json_object, default={}),
)

MATCH = Columns(
    Column("correct", type=number),
    Column("answer", "picked|sampled", short_answer),
    Column("expected", type=expected_texts),
)


@dataclass
class SampleEvents:
    """What the events of one sample say; it may be asked several times."""

    scores: dict[str, list[float]] = field(default_factory=dict)
    answers: set[str | None] = field(default_factory=set)
    question: str | None = None
    target: str | None = None

    def add(self, kind: str | None, data: Object, where: str) -> None:
        """Take from an event what is needed."""
        if kind == "match":
            match = MATCH.read(data, where)
            if match["correct"] is not None:
                self.scores.setdefault(ACCURACY_NAME, []).append(match["correct"])
            self.answers.add(match["answer"])
            self.target = " | ".join(match["expected"]) or self.target
        elif kind == "metrics":
            for name, value in data.items():
                score = number(value)
                if score is not None:
                    self.scores.setdefault(name, []).append(score)
        elif kind == "sampling" and self.question is None:
            self.question = last_message(data.get("prompt"))

    @property
    def answer(self) -> str | None:
        """The answer, if it was the same every time."""
        return next(iter(self.answers)) if len(self.answers) == 1 else None


class OpenAIEvals(Source):
    """Reads event logs of OpenAI Evals."""

    name: ClassVar[str] = "openai-evals"
    looks_like: ClassVar[str] = "OpenAI Evals logs (JSON lines)"

    def detect(self, file: SourceFile) -> Detection | None:
        """JSON lines that begin with a specification."""
        if file.is_list or "spec" not in file.keys or b'"eval_name"' not in file.head:
            return None
        return Detection(Part.ANSWERS, "the first line is a spec with an eval_name")

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read the events of one run."""
        specification: Object = {}
        report: Object | None = None
        by_name: dict[str, SampleEvents] = {}
        kinds: Counter[Any] = Counter()
        for where, event in EVENT.read_rows(file):
            if event["spec"] is not None and not specification:
                specification = event["spec"]
            elif event["final_report"] is not None:
                report = event["final_report"]
            elif event["sample"] is not None:
                kinds[event["kind"]] += 1
                by_name.setdefault(event["sample"], SampleEvents()).add(event["kind"], event["data"], where)
        run = SPECIFICATION.read(specification, f"{file.path}, line 1: spec")
        samples = list(by_name.values())
        names = list(dict.fromkeys(name for sample in samples for name in sample.scores))
        if not names:
            raise SkipFile("no sample has a match or a number among its metrics")
        scores = {name: [sample.scores.get(name, []) for sample in samples] for name in names}
        repeats = max(len(one) for column in scores.values() for one in column)
        texts = {"text": [sample.question for sample in samples], "target": [sample.target for sample in samples]}
        for epoch in epochs_to_read(options, repeats):
            yield Log(
                path=str(file.path),
                tool=self.name,
                testset=run["task"],
                model=run["model"],
                items=list(by_name),
                values={Metric(name): epoch_means(column, epoch) for name, column in scores.items()},
                prefer=[ACCURACY_NAME, "score"],
                answers=[sample.answer for sample in samples] if epoch is None else None,
                texts=drop_empty(texts) if options.texts else {},
                subject={} if epoch is None else {"epoch": epoch},
                settings={"seed": run["seed"], "grader": run["grader"]},
                stamp=run["created_at"],
                stated=reported_means(mapping(report), names) if epoch is None else {},
                notes=_notes_of_run(report, kinds),
            )


def _notes_of_run(report: Object | None, kinds: Counter[Any]) -> list[str]:
    notes: list[str] = []
    if report is None:
        notes.append("the run did not finish: it has no final report")
    if kinds["error"]:
        notes.append(f"{kinds['error']:,} samples ended in an error: missing")
    if kinds["metrics"]:
        notes.append(experimental_note("OpenAI Evals with metrics events"))
    return notes
