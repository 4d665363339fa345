"""A pool of workers in this process: the driver's tests need no cluster, and any fault at any task can be made."""

from __future__ import annotations

import traceback

from breadth.execute.cluster.driver import Completion, Driver, Fault, ObjectLostError
from breadth.execute.cluster.executor import chains_of
from breadth.execute.cluster.schedule import Schedule
from breadth.execute.cluster.shipping import DamagedShipmentError, ShippedData
from breadth.execute.cluster.worker import Worker
from breadth.execute.directory import open_directory
from breadth.execute.executors import Outcome
from breadth.execute.plan import plan_study
from breadth.execute.progress import Events
from breadth.records.store import StudyStore
from breadth.study import expand, read_study_file


class Kept:
    """An object on a worker."""

    def __init__(self, content, worker):
        self.content, self.worker = content, worker


class InProcessPool:
    """``fault(number, worker, method)`` says what happens to the task of this number: None, or a fault.

    ``damage(number, method, values)`` makes of what a method returned what arrives. ``call(number, worker, method,
    arguments)`` calls the worker, or does something else.
    """

    def __init__(self, data, groups, workers, fault=None, damage=None, call=None):
        self.call = call or (lambda number, worker, method, arguments: getattr(worker, method)(*arguments))
        self.damage = damage or (lambda number, method, values: values)
        self.make = lambda: Worker(data, groups)
        self.count, self.fault, self.begun = workers, fault or (lambda *_: None), 0
        self.workers, self.pending, self.number, self.gone = {}, [], 0, set()
        self.calls = []

    def refresh(self, wanted):
        new = []
        while len(self.workers) < self.count:
            self.begun += 1
            self.workers[f"w{self.begun}"] = self.make()
            new.append((f"w{self.begun}", "any"))
        return new

    def environment(self):
        return {"test": True}

    def submit(self, worker, method, arguments, objects=0):
        self.pending.append((worker, method, arguments, objects))

    def wait(self, seconds):
        # The last first: what workers finish in another order must not matter.
        worker, method, arguments, objects = self.pending.pop()
        self.number += 1
        self.calls.append((method, *arguments[:2]))
        fault = self.fault(self.number, worker, method)
        if fault in (Fault.DIED, Fault.NODE):
            del self.workers[worker]
            self.gone.add(worker)
            return [Completion(worker, fault=fault, text=f"{worker} is gone")]
        if fault is Fault.ERROR:
            return [Completion(worker, fault=fault, text="it does not work")]
        try:
            values = self.call(self.number, self.workers[worker], method, [self.read(each) for each in arguments])
        except (ObjectLostError, DamagedShipmentError) as error:
            return [Completion(worker, fault=Fault.OBJECT, text=str(error))]
        except Exception:
            return [Completion(worker, fault=Fault.ERROR, text=traceback.format_exc())]
        values = self.damage(self.number, method, values)
        if not objects:
            return [Completion(worker, values)]
        return [Completion(worker, values[0], tuple(Kept(each, worker) for each in values[1:]))]

    def discard(self, worker):
        del self.workers[worker]
        self.gone.add(worker)

    def read(self, reference):
        if not isinstance(reference, Kept):
            return reference
        if reference.worker in self.gone:
            raise ObjectLostError(f"gone with {reference.worker}")
        return reference.content


def run_in_process(path, into, workers=2, fault=None, events=None, damage=None, call=None):
    """Run a study with workers in this process."""
    file = read_study_file(path)
    plan = plan_study(file, into, dry=False)
    store = StudyStore(into)
    open_directory(file, expand(file), plan.study_data, store, print)
    chains = chains_of(plan, {unit.run.label: "any" for unit in plan.units})
    data = ShippedData.of([unit.run for unit in plan.units if unit.missing], plan.study_data)
    pool = InProcessPool(data, {chain.run: chain.group for chain in chains}, workers, fault, damage, call)
    driver = Driver(plan, store, plan.study_data, events or Events(), pool, Schedule(chains))
    outcome = Outcome(into)
    for result in driver.execute():
        outcome.add(result)
    return outcome, pool, driver
