"""A fresh process: published networks, read and asked; prints the questions, the answers and processor seconds as JSON."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import gmlmdsl as gm

SETS, KNOWN = 5, 4  # sets of evidence of a network, and variables of each


def asked(path: Path) -> dict[str, Any]:
    """The answers for one network: for each set of evidence all marginals, a mode and log p."""
    start = time.process_time()
    found = gm.read_model(path)
    model = gm.parse(found.text, **found.inputs).model()
    read = time.process_time()
    mode: Any = model.map({})[0]
    names = sorted(mode)
    questions, laws, scores = [], [], []
    for k in range(SETS):
        known = {n: int(mode[n]) for n in random.Random(k).sample(names, min(KNOWN, len(names) - 2))}
        table = model.marginals({}, clamp=known)
        best, log_p = model.map({}, clamp=known)
        evidence = model.log_prob({}, {n: np.asarray(known.get(n, -1)) for n in names}, missing=-1)
        questions.append(known)
        laws.append({n: np.asarray(table[n], float).tolist() for n in names if n not in known})
        scores.append([float(log_p), float(model.log_prob({}, best)), float(evidence)])
    times = {"read": read - start, "answers": time.process_time() - read}
    return times | {"questions": questions, "laws": laws, "scores": scores}


if __name__ == "__main__":
    folder, *networks = sys.argv[1:]
    print(json.dumps({"networks": {name: asked(Path(folder) / f"{name}.bif") for name in networks}}))
