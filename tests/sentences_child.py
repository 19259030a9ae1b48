"""A tiny translator over several devices beside one, in a process of its own; prints JSON.

`python tests/sentences_child.py DEVICES [RANK PROCESSES PORT]`: virtual devices of one process, or one device of each process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ["NPROC"] = "32"  # more threads than devices, see `mesh_child.py`
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[1]}"

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402

if len(sys.argv) > 2:
    rank, processes, port = (int(word) for word in sys.argv[2:])
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=processes, process_id=rank, heartbeat_timeout_seconds=20)

from network_cases import disturbed  # noqa: E402
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary  # noqa: E402

import gmlmdsl as gm  # noqa: E402
from gmlmdsl.translation import Recipe, Translator, distill, evaluate  # noqa: E402
from gmlmdsl.translation._train_pairs import train_pairs  # noqa: E402

MORE = "sampler apart for translate = sundae(steps = 2, lengths = 2)\nsampler cells for translate { update tgt[i] for i in t }\n"
AXIS: Any = {"mesh_axis": "data"}
PAIRS = toy_pairs(230)
LINES = [a for a, _ in PAIRS]


def translations(mesh: jax.sharding.Mesh, program: Any) -> dict[str, int]:
    """The number of translations that differ, with their scores, candidates and texts by pass."""
    out = {}
    for name, samplers in (("translate", ("refine", "apart")), ("teacher", ("beam",))):
        model = program.model(name)
        params = {label: disturbed(net, 3) for label, net in model.init_params().items()}
        for sampler in samplers:
            t = Translator(model, params, toy_vocabulary(), sampler)
            options: Any = {"n_best": 2, "seed": 4, "cut": True, "trace": name == "translate"}
            for count in (len(LINES), 3):  # several batches, and one
                alone = t.translate(LINES[:count], **options)
                with jax.set_mesh(mesh):
                    spread = t.translate(LINES[:count], **options, **AXIS)
                out[f"{sampler} {count}"] = sum(a != b for a, b in zip(alone, spread, strict=True))
            assert len({a.text for a in t.translate(LINES, **options)}) > 10
            alone = evaluate(t, LINES, [b for _, b in PAIRS], resamples=0)
            with jax.set_mesh(mesh):
                spread = evaluate(t, LINES, [b for _, b in PAIRS], resamples=0, **AXIS)
            told = [json.dumps(e.as_dict() | {"seconds": 0, "outputs": e.outputs}) for e in (alone, spread)]
            out[f"evaluation {sampler}"] = int(told[0] != told[1])
        with tempfile.TemporaryDirectory() as folder:
            alone = distill(t, LINES, f"{folder}/alone", identity="toy")
            with jax.set_mesh(mesh):
                spread = distill(t, LINES, f"{folder}/spread", identity="toy", keep_chunks=True, **AXIS)
                out[f"chunks {name}"] = int(Path(f"{folder}/spread.chunks").exists() != (jax.process_index() == 0))
                again = distill(t, LINES, f"{folder}/spread", identity="toy", **AXIS)
            out[f"chunks read {name}"] = again.decoded
            texts = [Path(folder, part).read_text() for part in ("alone", "spread")]
            out[f"distilled {name}"] = int(alone != spread) + int(texts[0] != texts[1])
    return out


def draws(mesh: jax.sharding.Mesh, program: Any) -> dict[str, float]:
    """The shares of codes that differ: decodes, and chains of one row and of many."""
    model, vocabulary = program.model("translate"), toy_vocabulary()
    params = {label: disturbed(net, 3) for label, net in model.init_params().items()}
    encoded = [row[:8] for row in vocabulary.encode(LINES[:90])]
    source, out = vocabulary.rows(encoded, 8), {}
    for sampler, rows, more in (("apart", 90, {"draws": 70, "chains": 2}), ("cells", 1, {"draws": 20}), ("cells", 9, {"draws": 20, "chains": 3})):
        options = {"given": {"src": source[:rows]}, "missing": -1, "lengths": 6, "seed": 3, "progress": False} | more
        alone = model.sample(params, sampler, **options)["posterior"]["tgt"].values
        with jax.set_mesh(mesh):
            spread = model.sample(params, sampler, **options, **AXIS)["posterior"]["tgt"].values
        out[f"draws {sampler} {rows}"] = float((alone != spread).mean())
        assert len(np.unique(alone)) > 5
    return out


def trained(mesh: jax.sharding.Mesh, program: Any) -> dict[str, float]:
    """The largest difference of the weights of translators after some steps."""
    options: Any = (toy_vocabulary(), PAIRS[:200], [], Recipe(steps=12, batch_size=10))
    out = {}
    for name, mask in (("translate", "corrupt"), ("teacher", "forced")):
        alone = train_pairs(program.model(name), mask, *options, progress=False)
        with jax.set_mesh(mesh):
            spread = train_pairs(program.model(name), mask, *options, progress=False, **AXIS)
        weights = [[np.asarray(a) for a in jax.tree.leaves(eqx.filter(f.params, eqx.is_array))] for f in (alone, spread)]
        out[f"trained {name}"] = max(float(np.abs(a - b).max()) for a, b in zip(*weights, strict=True))
    return out


def main() -> None:
    """Every number is a difference between one device and the mesh."""
    warnings.simplefilter("ignore")
    mesh, program = jax.make_mesh((jax.device_count(),), ("data",)), gm.parse(PROGRAM + MORE)
    print(json.dumps(translations(mesh, program) | draws(mesh, program) | trained(mesh, program)))


if __name__ == "__main__":
    main()
