"""A mode in a process of its own: `python -m benchmarks._modes_child FILE METHOD`; prints JSON."""

from __future__ import annotations

import json
import sys

from benchmarks.modes import ours

if __name__ == "__main__":
    print(json.dumps(ours(*sys.argv[1:])))
