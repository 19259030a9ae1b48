"""Ctrl-C and SIGTERM end a training behind the batch at hand; a second Ctrl-C ends it at once."""

import os
import signal
from collections.abc import Iterator

import pytest

from gmlmdsl.files._saved_states import ENDED, asked_to_end


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C is not ignored, as it is in a process behind `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(done: list[object], listens: bool, *numbers: int) -> None:
    with asked_to_end(listens) as ends:
        done.append(ends())
        for number in numbers:
            os.kill(os.getpid(), number)
            done.append(ends())


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_what_is_within_is_done_first(number: int, raised: type[BaseException]) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    done: list[object] = []
    with pytest.raises(raised) as caught:
        interrupted(done, True, number)
    assert done == [False, True]
    assert raised is KeyboardInterrupt or caught.value.code == ENDED  # type: ignore[attr-defined]
    assert before == [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]


def test_a_second_interrupt_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(done, True, signal.SIGINT, signal.SIGINT)
    assert done == [False, True]
    assert "Ctrl-C again ends at once" in capsys.readouterr().err


def test_where_nothing_is_saved_an_interrupt_ends_at_once() -> None:
    done: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(done, False, signal.SIGINT)
    assert done == [False]


def test_signals_that_are_ignored_stay_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with asked_to_end(True) as ends:
            os.kill(os.getpid(), signal.SIGINT)
            assert not ends()
    finally:
        signal.signal(signal.SIGINT, before)
