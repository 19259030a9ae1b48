"""Tests of the laboratories import their scripts, and the programs name classes and verifiers that lie beside them."""

import sys

from markdown_blocks import LABS

sys.path.extend(str(LABS / name) for name in (".", "brackets", "testcases", "dyck", "topics", "decoding", "statements", "reactions"))
