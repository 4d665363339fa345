"""Reads requests, a line of JSON each, and runs a study or a command for each in a child process, which may be killed.

The libraries are loaded once, before any child; no torch operation runs here, so children are as good as new.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback


def command(request):
    """What ``breadth`` does with these arguments; the command line itself is loaded here, in the child."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    from breadth.cli import main

    sys.argv = ["breadth", *request["command"]]
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def child(request):
    if request.get("die_before"):
        die_before(*request["die_before"])
    if request.get("count_operations"):
        count_operations(*request["count_operations"])
    if "code" in request:
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request.get("directory") or os.getcwd())
        exec(request["code"], {"__name__": "__main__"})
        return 0
    if "command" in request:
        return command(request)
    from breadth.errors import InputError
    from breadth.execute import run

    if request.get("file_limit"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], resource.RLIM_INFINITY))
    if request.get("kill_at"):
        die_at(*request["kill_at"].split())
    try:
        outcome = run(request["study"], into=request["into"], shard=request.get("shard"))
        print("\n".join(outcome.warnings), file=sys.stderr)
    except InputError as error:
        print(f"breadth: {error}", file=sys.stderr)
        return 2
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def die_at(when, count):
    """Kill this process before or after the ``count``-th time that a file is put in place."""
    replace, left = os.replace, int(count)

    def counted(*arguments, **options):
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments, **options)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = counted


def die_before(count, root):
    """Kill this process before the ``count``-th operation that changes files below ``root``, whoever does it."""

    def kill(number):
        if number == count:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_operations(root, kill)


def count_operations(file, root):
    """Write to ``file`` how many operations have changed files below ``root``."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT)
    watch_operations(root, lambda number: os.pwrite(handle, b"%d" % number, 0))


def watch_operations(root, watcher):
    """Tell ``watcher`` the number of every operation that is about to change files below ``root``."""
    done = 0
    # Where in an event's arguments the directory is that the path is relative to.
    changes = {"os.rename": 2, "os.mkdir": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2}
    system_open, opening = os.open, threading.local()

    def open_file(path, flags, mode=0o777, *, dir_fd=None):
        # The event of opening a file does not say which directory its path is relative to.
        opening.folder = dir_fd
        try:
            return system_open(path, flags, mode, dir_fd=dir_fd)
        finally:
            opening.folder = None

    def watch(event, arguments):
        nonlocal done
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            folder = getattr(opening, "folder", None)
        elif event in changes:
            folder = arguments[changes[event]]
        elif event == "os.truncate":
            folder = None
        else:
            return
        path = arguments[0]
        if not isinstance(path, int) and place(path, folder).startswith(root):  # a number is a file that is open
            done += 1
            watcher(done)

    os.open = open_file
    os.supports_dir_fd.add(open_file)
    sys.addaudithook(watch)


def place(path, folder):
    """Where a file is; its path may be relative to an open directory, or go through the handle of one."""
    path = os.fsdecode(path)
    if folder not in (None, -1):
        path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    above, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(above), name)


def serve():
    import altair  # noqa: F401
    import torch
    import transformers.models.llama.modeling_llama  # noqa: F401

    import breadth
    import breadth.execute.session

    for name in breadth.__all__:  # they are loaded when they are used first, which would be in every child
        getattr(breadth, name)
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as printed:
            started = time.monotonic()
            shards = request.get("together") or [request.get("shard")]
            numbers = [start({**request, "shard": shard}, printed, said) for shard in shards]
            status = max(wait_for(number, request.get("kill_after")) for number in numbers)
            seconds = time.monotonic() - started
            answer = {"code": os.waitstatus_to_exitcode(status), "seconds": seconds}
            for name, file in (("printed", printed), ("said", said)):
                file.seek(0)
                answer[name] = file.read()
        print(json.dumps(answer), flush=True)


def start(request, printed, said):
    number = os.fork()
    if number:
        return number
    os.dup2(printed.fileno(), 1)
    os.dup2(said.fileno(), 2)
    code = child(request)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait_for(number, seconds):
    if seconds is not None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended, status = os.waitpid(number, os.WNOHANG)
            if ended:
                return status
            time.sleep(0.001)
        os.kill(number, signal.SIGKILL)
    return os.waitpid(number, 0)[1]


if __name__ == "__main__":
    serve()
