"""Buffers of a compiled program are taken from memory that was freed before, not anew from the system."""

import platform
import subprocess
import sys

import pytest

from gmlmdsl.cli import _main

FAULTS = """
import resource, sys
{first}
import jax, jax.numpy as jnp

program = jax.jit(lambda x: x[:, None] * x[None])

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

x = jnp.linspace(0.0, 1.0, 6000)
for _ in range(60):  # what is freed is found again once it lies in few pieces
    program(x).block_until_ready()
before = faults()
for _ in range(10):
    program(x).block_until_ready()
print(faults() - before)
"""
KEPT = "from gmlmdsl.cli._main import keep_freed_memory; keep_freed_memory()"


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_pages_are_not_cleared_anew_at_each_call():
    """Calls whose results have 144 MB, in pages of 4 kB."""
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", FAULTS.format(first=first)], capture_output=True, text=True, check=True).stdout)
        for first in ("", KEPT)
    )
    assert 5 * kept < given_back


def test_every_command_keeps_what_it_frees(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(_main, "keep_freed_memory", lambda: asked.append(True))
    monkeypatch.setattr(sys, "argv", ["gmlm", "--version"])
    assert _main._run(["--version"]) == 0
    assert asked == [True]
