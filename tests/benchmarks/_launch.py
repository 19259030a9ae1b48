"""Runs a command and writes what it took: `python -S _launch.py FILE COMMAND ..`.

A small process between, because on Linux the most memory held starts, for a child, at what its parent held.
"""

import json
import os
import subprocess
import sys
import time

if __name__ == "__main__":
    start = time.perf_counter()
    child = subprocess.Popen(sys.argv[2:])
    status, used = os.wait4(child.pid, 0)[1:]
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    took = {"seconds": time.perf_counter() - start, "processor": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * unit}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(took, file)
    sys.exit(child.returncode)
