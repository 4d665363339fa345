"""One run of a model behind an endpoint: choose how to ask, ask what is missing, score, write. Needs no torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from breadth.endpoints import (
    AskedTestSet,
    BudgetSpentError,
    Connection,
    Connections,
    Continued,
    Endpoint,
    How,
    Journal,
    Kept,
    KeptAnswer,
    Question,
    RefusedError,
    ask_all,
    forms_of,
)
from breadth.execute.data import StudyData, fewshot_prefix
from breadth.execute.plan import StudyPlan
from breadth.execute.progress import Events, Work
from breadth.records import RunStore, StudyStore
from breadth.study import RunSpec

#: Characters of a token, for estimates: about what tokenizers make of English.
PER_TOKEN = 4


class EndpointRunner:
    """Runs models behind endpoints."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections

    def check(self, plan: StudyPlan, store: StudyStore, events: Events) -> None:
        """Refuse an endpoint that is not there, or cannot answer a test set, before anything is asked in bulk."""
        for unit in plan.units:
            if unit.run.endpoint is not None and unit.missing and plan.study_data is not None:
                connection, own = self._connection(unit.run), store.run(unit.run.name)
                try:
                    _choose_forms(unit.run, plan.study_data, connection, _kept_if_free(own))
                except BudgetSpentError:
                    return
                for note in connection.notes:
                    events.note(note)

    def remaining(
        self, run: RunSpec, study_data: StudyData, missing: Sequence[int], store: RunStore, resumed: bool
    ) -> Work:
        """All items, and how many of them were answered in earlier calls."""
        items, journal = sum(each.frame.height for each in study_data.testsets_of(run).values()), Journal(store)
        earlier = _earlier(journal, self._connection(run))
        done = _Shares(_answered(run, study_data, journal)).of(earlier)
        return Work(0, items, items_done=int(done), resumed=resumed or bool(earlier))

    def finish(
        self, run: RunSpec, study_data: StudyData, store: RunStore, missing: Sequence[int], events: Events
    ) -> None:
        """Ask every question that is not answered yet, keep each answer as it comes, then score and write them all."""
        connection, journal, started = self._connection(run), Journal(store), time.perf_counter()
        if journal.damaged:
            store.warnings.append(
                f"{journal.path}: {journal.damaged} damaged or torn lines; their questions are asked again"
            )
        testsets, sent = _begun(run, study_data, connection, journal), self.connections.budget.spent
        events.note("prompts are sent whole; recipe.context does not shorten them for a model behind an endpoint")
        events.ready(run)
        progress = _Progress(events, _Shares(testsets).of(_earlier(journal, connection)))
        try:
            _ask_missing(testsets, connection, journal, progress)
        except RefusedError as error:
            if not isinstance(error.question, Continued):
                raise
            testsets = _other_forms(testsets, error.reason, run, study_data, connection, journal, events)
            _ask_missing(testsets, connection, journal, progress)
        answers = pl.concat([testset.scores(journal.values) for testset in testsets])
        for note in dict.fromkeys(note for testset in testsets for note in testset.notes(journal.values)):
            events.note(note)
        store.write_part(0, answers)
        events.checkpoint(run, 0, answers)
        seconds = time.perf_counter() - started
        store.log(
            step=0, seconds=seconds, requests=self.connections.budget.spent - sent, retries=connection.client.retries,
            prompt_tokens=journal.tokens.read, completion_tokens=journal.tokens.written,
        )  # fmt: skip
        journal.clear()
        events.ended(run)

    def forget(self, store: RunStore) -> None:
        """Delete the journal of a run whose part was written."""
        Journal(store).clear()

    def _connection(self, run: RunSpec) -> Connection:
        assert run.endpoint is not None
        return self.connections.of(run.endpoint)


class RequestEstimate(NamedTuple):
    """An estimate of what is left to ask of one endpoint: at most so many requests and tokens to write, and about so
    many tokens of prompts."""

    endpoint: Endpoint
    requests: int
    prompt_tokens: int
    max_written: int


def estimate_requests(plan: StudyPlan) -> list[RequestEstimate]:
    """What is left to ask, endpoint by endpoint, in the form that takes most requests. Asks nothing."""
    totals: dict[Endpoint, list[Question]] = {}
    store = StudyStore(plan.folder)
    for unit in plan.units:
        run, data = unit.run, plan.study_data
        if run.endpoint is None or not unit.missing or data is None:
            continue
        before, answered = fewshot_prefix(run, data), Journal(store.run(run.name)).values
        for testset in data.testsets_of(run).values():
            forms = forms_of(testset.task, run.endpoint.api)
            asked = AskedTestSet.make(testset, forms[0], before).questions if forms else []
            totals.setdefault(run.endpoint, []).extend(each for each in asked if each.key not in answered)
    estimates = []
    for endpoint, asked in totals.items():
        bodies = [question.fields() for question in asked]
        characters = sum(len(str(body.get("prompt") or body["messages"][0]["content"])) for body in bodies)
        written = sum(int(body["max_tokens"]) for body in bodies)
        estimates.append(RequestEstimate(endpoint, len(bodies), characters // PER_TOKEN, written))
    return estimates


def _choose_forms(run: RunSpec, study_data: StudyData, connection: Connection, kept: Kept) -> list[AskedTestSet]:
    """Every test set in a form that the server supports."""
    before = fewshot_prefix(run, study_data)
    return [connection.choose(testset, before, kept) for testset in study_data.testsets_of(run).values()]


def _earlier(journal: Journal, connection: Connection) -> list[str]:
    """Keys of the answers from earlier calls: all but those to first questions of this one."""
    return [key for key in journal.values if key not in connection.answers]


def _kept_if_free(own: RunStore) -> Kept:
    """The journal of a run that has not begun here; nothing is added while another process has the run."""
    journal = Journal(own)

    def add(answer: KeptAnswer) -> None:
        with own.store.lock(own.key, wait=False) as mine:
            if mine:
                journal.add(answer)

    return Kept(journal.values, add)


def _begun(run: RunSpec, study_data: StudyData, connection: Connection, journal: Journal) -> list[AskedTestSet]:
    """The test sets of a run that has begun, each in its form."""
    try:
        return _choose_forms(run, study_data, connection, Kept(journal.values, journal.add))
    except BudgetSpentError:
        raise BudgetSpentError(f"answers kept so far: {len(journal.values):,}") from None


def _other_forms(
    testsets: Sequence[AskedTestSet], reason: str, run: RunSpec, study_data: StudyData, connection: Connection,
    journal: Journal, events: Events,
) -> list[AskedTestSet]:  # fmt: skip
    """The test sets of a run again, after a server repeated the prompt of a first question but not of all.

    Answers in the form that is given up are forgotten only if there is another one.
    """
    echoed = [testset for testset in testsets if testset.form.how is How.ECHO]
    connection.unsupported.update({testset.form: reason for testset in echoed})
    notes = len(connection.notes)
    others = _begun(run, study_data, connection, journal)
    journal.forget({question.key for testset in echoed for question in testset.questions})
    for note in connection.notes[notes:]:
        events.note(note)
    return others


def _ask_missing(
    testsets: Sequence[AskedTestSet], connection: Connection, journal: Journal, progress: _Progress
) -> None:
    """Ask every question that the journal has no answer to, and keep each answer as it comes."""
    shares, questions = _Shares(testsets), {each.key: each for testset in testsets for each in testset.questions}
    asked = [question for key, question in questions.items() if key not in journal.values]
    progress.done = shares.of(journal.values)
    with journal.adding() as add:

        def keep(answer: KeptAnswer) -> None:
            add(answer)
            progress.done += shares.of([answer.question.key])

        for question in asked:
            if question.key in connection.answers:
                keep(connection.answers[question.key])
        try:
            left = [question for question in asked if question.key not in connection.answers]
            ask_all(connection.client, left, keep, progress.show)
        except BudgetSpentError:
            kept = sum(key in journal.values for key in questions)
            raise BudgetSpentError(f"{kept:,} of {len(questions):,} answers are kept") from None


def _answered(run: RunSpec, study_data: StudyData, journal: Journal) -> Iterator[AskedTestSet]:
    """The test sets that the journal has answers to, in the form in which they were asked."""
    assert run.endpoint is not None
    before = fewshot_prefix(run, study_data) if journal.values else ""
    for testset in study_data.testsets_of(run).values() if journal.values else ():
        for form in forms_of(testset.task, run.endpoint.api):
            asked = AskedTestSet.make(testset, form, before)
            if asked.questions and asked.questions[0].key in journal.values:
                yield asked
                break


class _Progress:
    """Items that are answered, and how many of them events were told about."""

    def __init__(self, events: Events, shown: float) -> None:
        self.events, self.done, self.shown = events, shown, shown

    def show(self) -> None:
        """Tell about new ones."""
        if round(self.done) > round(self.shown):
            self.events.answered(round(self.done) - round(self.shown))
            self.shown = self.done


class _Shares:
    """Answered questions as answered items: an item may take several questions, and a question serve several items."""

    def __init__(self, testsets: Iterable[AskedTestSet]) -> None:
        self.by_key: dict[str, float] = {}
        for testset in testsets:
            share = testset.items.height / max(len(testset.questions), 1)
            for question in testset.questions:
                self.by_key[question.key] = self.by_key.get(question.key, 0.0) + share

    def of(self, keys: Iterable[str]) -> float:
        """Items that some answered questions make up."""
        return sum(self.by_key.get(key, 0.0) for key in keys)
