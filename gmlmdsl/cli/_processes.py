"""Commands that several processes run together: `--processes`, `--coordinator` and `--rank`.

All processes run the same command on the same files. JAX joins their devices to one mesh of one
axis. The process of rank 0 prints and writes. The others write to a folder that is removed, so that
no process skips a computation for which the others wait.

With `--processes` alone the command starts the processes on this machine, watches them, and ends
all of them if one fails.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from .._diagnostics import fail
from ._console import stop
from .limits import GRACE, HEARTBEAT, LEAST_THREADS, POLL

_SHARE = "Number of processes: on this machine, or with --coordinator on several machines."
_MEET = "Address of the process of rank 0, to which all other processes connect."
PANEL = "Several processes"
_WHICH = "Rank of this process, from 0. Rank 0 prints and writes files."
Processes = Annotated[int, typer.Option("--processes", metavar="N", min=1, help=_SHARE, rich_help_panel=PANEL)]
Coordinator = Annotated[str | None, typer.Option("--coordinator", metavar="HOST:PORT", help=_MEET, rich_help_panel=PANEL)]
Rank = Annotated[int | None, typer.Option("--rank", metavar="I", min=0, help=_WHICH, rich_help_panel=PANEL)]

AXIS = "process"
FOLDER = "GMLM_PROCESSES"  # The folder that the starting process shares with its children.
PEER_ENDED = 75  # The exit status of a process that ends because another one has ended.


@dataclass(frozen=True)
class Here:
    """The part of this process in a command that several processes run.

    Attributes:
        axis: the axis of the ambient mesh over which work is spread; None for a single process.
        folder: the folder of everything that is written; None leaves paths unchanged.
    """

    axis: str | None = None
    folder: Path | None = None

    def written(self, path: Path | None) -> Path | None:
        """Return the path to which this process writes the output `path`."""
        return path if path is None or self.folder is None else self.folder / path.name

    def resumed(self, path: Path, ignored: tuple[str, ...]) -> Path:
        """Return the folder in which this process goes on with a run: its own copy of `path`.

        Args:
            path: the folder of the run, in which the process of rank 0 works.
            ignored: the names of files and folders that are not copied.
        """
        mine = self.written(path)
        assert mine is not None
        if mine != path and path.is_dir():
            shutil.copytree(path, mine, ignore=shutil.ignore_patterns(*ignored), dirs_exist_ok=True)
        if self.axis is not None:
            _meet()
        return mine


@contextlib.contextmanager
def several(processes: int, coordinator: str | None, rank: int | None) -> Iterator[Here]:
    """Run the block as one of several processes, or start these processes and wait for them.

    Args:
        processes: the value of `--processes`.
        coordinator: the value of `--coordinator`.
        rank: the value of `--rank`.

    Raises:
        typer.BadParameter: for options that do not fit together.
        typer.Exit: in the process that started the others, with their exit status.
        GmlmError: E507 if an argument is a pipe, which only one process can read.
    """
    if (coordinator is None) != (rank is None):
        lacking = "--coordinator HOST:PORT" if coordinator is None else "--rank I"
        raise typer.BadParameter(f"--coordinator and --rank stand together: add {lacking}")
    if rank is not None and rank >= processes:
        message = f"{rank} is not below the number of processes, {processes}: say --processes N"
        raise typer.BadParameter(message, param_hint="--rank")
    if coordinator is not None and rank is not None:
        with _joined(processes, coordinator, rank) as here:
            yield here
    elif processes == 1:
        yield Here()
    else:
        raise typer.Exit(_started(processes))


@contextlib.contextmanager
def _joined(processes: int, coordinator: str, rank: int) -> Iterator[Here]:
    shared = os.environ.get(FOLDER)
    if shared is not None:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("NPROC", str(max(LEAST_THREADS, os.cpu_count() or 1)))
    import jax

    with contextlib.ExitStack() as stack:
        errors = sys.stderr
        try:
            jax.config.update("jax_enable_preemption_service", False)  # it would swallow SIGTERM
            stack.enter_context(_silent())  # Gloo reports each connection
            one_each = None if shared is None else [rank]
            place = coordinator, processes, rank, one_each
            jax.distributed.initialize(*place, heartbeat_timeout_seconds=HEARTBEAT)
            # Weights that are loaded under a mesh keep the kind of its axes.
            auto = (jax.sharding.AxisType.Auto,)
            mesh = jax.make_mesh((jax.device_count(),), (AXIS,), axis_types=auto)
            _meet()
            stack.close()
            folder = None
            if rank:
                null = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stdout(null))
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
                folder = Path(shared or stack.enter_context(tempfile.TemporaryDirectory())) / str(rank)
                folder.mkdir()
            stack.enter_context(jax.set_mesh(mesh))
            yield Here(AXIS, folder)
        except (SystemExit, typer.Exit):
            raise
        except BaseException as error:
            status = _told(error, shared is not None)
            if isinstance(sys.stderr, io.StringIO):
                print(sys.stderr.getvalue(), end="", file=errors, flush=True)
            stack.close()
            sys.stdout.flush()
            os._exit(status)  # the end of the interpreter would wait for the other processes


def _meet() -> None:
    from jax.experimental.multihost_utils import sync_global_devices

    sync_global_devices("gmlm")


def _told(error: BaseException, is_supervised: bool) -> int:
    """Print why this process ends, and return its exit status.

    The process that started the others reports which of them ended first.
    """
    import jax

    if not isinstance(error, jax.errors.JaxRuntimeError):
        return stop(error)
    if not is_supervised:
        message = "another process of this command has ended or cannot be reached"
        stop(fail("E507", f"{message}: {str(error).splitlines()[0]:.200}"))
    return PEER_ENDED


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discard what libraries write to the standard streams of the process within the block."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(null, number)
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
        for handle in (null, *kept):
            os.close(handle)


def _end_with_parent() -> None:
    """End this process when its parent has ended, which closes its standard input."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    shutil.rmtree(os.environ[FOLDER], ignore_errors=True)
    os._exit(PEER_ENDED)


# The process that starts the others


def _started(count: int) -> int:
    """Start the processes of this command, and return the exit status when all have ended."""
    _verify_files(sys.argv[1:], count)
    # Before our words stand the options of the interpreter and the script or module.
    before, (verb, *words) = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1], sys.argv[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(count):
                place = ["--coordinator", address, "--rank", str(rank)]
                command = [sys.executable, *before, verb, *place, *words]
                children.append(_child(command, None if rank == 0 else _errors(folder, rank), folder))
            return _watched(children, folder)
        finally:
            for child in children:
                child.kill()
                child.communicate()  # waits and closes its input


def _child(command: Sequence[str], errors: Path | None, folder: str) -> subprocess.Popen[bytes]:
    """Start a process that prints nothing, and its errors to a file; or here, if that is None."""
    with open(os.devnull if errors is None else errors, "wb") as file:
        out, err = (None, None) if errors is None else (subprocess.DEVNULL, file)
        environment, inp = os.environ | {FOLDER: folder}, subprocess.PIPE
        return subprocess.Popen(command, -1, None, inp, out, err, env=environment, start_new_session=True)


def _errors(folder: str, rank: int) -> Path:
    return Path(folder) / f"{rank}.errors"


def _verify_files(words: Sequence[str], count: int) -> None:
    """Raise an error for an argument that only one process could read."""
    for word in words:
        path = Path(word)
        if word == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
            message = f"`{word}` is a pipe, which only one of {count} processes can read"
            raise fail("E507", message, help="write it to a file first")


def _watched(children: Sequence[subprocess.Popen[bytes]], folder: str) -> int:
    """Wait until all processes have ended, and return the exit status of the command.

    SIGTERM and Ctrl-C are passed on. After a failure the others have some seconds to end, for
    example with the same error; then they are killed.
    """
    failed: dict[int, int] = {}  # the statuses of failed processes by rank; the first stands first
    deadline = float("inf")
    with _passing_on(children) as asked:
        while any(child.poll() is None for child in children) and time.monotonic() < deadline:
            time.sleep(POLL)
            ended = {rank: child.returncode for rank, child in enumerate(children) if child.poll()}
            failed |= {rank: status for rank, status in ended.items() if rank not in failed}
            deadline = min(deadline, time.monotonic() + GRACE) if failed else deadline
    if asked and failed:
        return 128 + asked[0]
    return _report(failed, len(children), folder) if failed else 0


@contextlib.contextmanager
def _passing_on(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Pass SIGTERM and Ctrl-C on within the block; the result lists what has arrived."""
    asked: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        asked.append(number)
        for child in children:
            child.send_signal(number)  # does nothing if the process has ended

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(failed: dict[int, int], count: int, folder: str) -> int:
    """Print which process failed first, and return its status.

    Nothing is printed if rank 0 has reported an error of its own.
    """
    if 0 < failed.get(0, 0) != PEER_ENDED:
        return failed[0]
    rank, status = min(failed.items(), key=lambda item: item[1] == PEER_ENDED)
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"failed with status {status}"
    what = f"process {rank} of {count} (counted from 0) {how}"
    print(f"error: {what}, and the others were ended", file=sys.stderr)
    if rank:
        sys.stderr.write(_errors(folder, rank).read_text(encoding="utf-8", errors="replace"))
    return status if status > 0 else 1
