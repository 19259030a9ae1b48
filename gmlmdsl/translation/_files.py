"""Translators as files: a fit with its vocabulary in one bundle."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .._compile import BoundProgram, checked_texts, load_fit
from .._diagnostics import fail
from ..program import Program
from ._translator import Translator
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..run.networks import NetworkFit

