"""What JAX reports of itself while a test looks: traces and compilations by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax


@contextmanager
def traced_or_compiled() -> Iterator[list[str]]:
    """The names of events that trace or compile, as they come; other listeners stay."""
    found: list[str] = []

    def heard(name: str, *_: Any, **__: Any) -> None:
        if "compile" in name or "trace" in name:
            found.append(name)

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)


def programs(events: list[str]) -> int:
    """How many programs were compiled."""
    return sum("backend_compile" in e for e in events)
