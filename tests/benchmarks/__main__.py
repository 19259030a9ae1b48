"""`python tests/benchmarks`, or `python -m benchmarks` beside it; see `run.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.run import main

if __name__ == "__main__":
    sys.exit(main())
