"""A tiny translator over several devices beside one, in a process of its own; prints JSON.

`python tests/sentences_child.py DEVICES [RANK PROCESSES PORT]`: virtual devices of one process, or one device of each process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["NPROC"] = "32"  # more threads than devices, see `mesh_child.py`
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_llvm_disable_expensive_passes=true"  # compilation takes most of the time
os.environ["XLA_FLAGS"] = f"{QUICK} --xla_force_host_platform_device_count={sys.argv[1]}"

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_disable_most_optimizations", True)
if len(sys.argv) > 2:
    rank, processes, port = (int(word) for word in sys.argv[2:])
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=processes, process_id=rank, heartbeat_timeout_seconds=20)

from network_cases import disturbed  # noqa: E402
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary  # noqa: E402

import gmlmdsl as gm  # noqa: E402
from gmlmdsl.decode import _candidates  # noqa: E402
from gmlmdsl.train import _training  # noqa: E402
from gmlmdsl.translation import Recipe, Translator, distill, evaluate  # noqa: E402
from gmlmdsl.translation._train_pairs import train_pairs  # noqa: E402

MORE = "sampler apart for translate = sundae(steps = 2, lengths = 2)\nsampler cells for translate { update tgt[i] for i in t }\n"
AXIS: Any = {"mesh_axis": "data"}
PAIRS = toy_pairs(18)
LINES = [a for a, _ in PAIRS]


def student_and_teacher(program: Any) -> list[Translator]:
    """Translators with random weights."""
    out = []
    for name, sampler in (("translate", "refine"), ("teacher", "beam")):
        model = program.model(name)
        params = {label: disturbed(net, 3) for label, net in model.init_params().items()}
        out.append(Translator(model, params, toy_vocabulary(), sampler))
    return out


def translations(mesh: jax.sharding.Mesh, student: Translator, teacher: Translator) -> dict[str, int]:
    """The numbers of translations that differ, with their scores, candidates and texts by pass; of evaluations, and of distilled texts."""
    out = {}
    for t, options in ((student, {"n_best": 2, "trace": True}), (teacher, {})):
        for count in (len(LINES), 3):  # several batches, and one
            alone = t.translate(LINES[:count], cut=True, seed=4, **options)
            with jax.set_mesh(mesh):
                spread = t.translate(LINES[:count], cut=True, seed=4, **options, **AXIS)
            out[f"{t.sampler} {count}"] = sum(a != b for a, b in zip(alone, spread, strict=True))
        assert len({a.text for a in t.translate(LINES, cut=True, seed=4, **options)}) > 4
    references = [b for _, b in PAIRS]
    alone = evaluate(student, LINES, references, resamples=0)
    with jax.set_mesh(mesh):
        spread = evaluate(student, LINES, references, resamples=0, **AXIS)
    told = [json.dumps(e.as_dict() | {"seconds": 0, "outputs": e.outputs}) for e in (alone, spread)]
    out["evaluation"] = int(told[0] != told[1])
    with tempfile.TemporaryDirectory() as folder:
        alone = distill(teacher, LINES, f"{folder}/alone", identity="toy")
        with jax.set_mesh(mesh):
            spread = distill(teacher, LINES, f"{folder}/spread", identity="toy", keep_chunks=True, **AXIS)
            out["chunks"] = int(Path(f"{folder}/spread.chunks").exists() != (jax.process_index() == 0))
            out["chunks made again"] = distill(teacher, LINES, f"{folder}/spread", identity="toy", **AXIS).decoded
        texts = [Path(folder, part).read_text() for part in ("alone", "spread")]
        out["distilled"] = int(alone != spread) + int(texts[0] != texts[1])
    return out


def draws(mesh: jax.sharding.Mesh, student: Translator) -> dict[str, float]:
    """The shares of codes that differ: decodes of a seed, and chains of one row and of several."""
    encoded, out = [row[:8] for row in student.vocabulary.encode(LINES)], {}
    source = student.vocabulary.rows(encoded, 8)
    cases = (("apart", 10, {"draws": 3, "chains": 2}), ("cells", 1, {"draws": 20}), ("cells", 3, {"draws": 20, "chains": 3}))
    for sampler, rows, more in cases:
        options: Any = {"given": {"src": source[:rows]}, "missing": -1, "lengths": 6, "seed": 3, "progress": False, "warmup": 0} | more
        options = options if sampler == "cells" else {k: v for k, v in options.items() if k != "lengths"}
        alone = student.model.sample(student.params, sampler, **options)["posterior"]["tgt"].values
        with jax.set_mesh(mesh):
            spread = student.model.sample(student.params, sampler, **options, **AXIS)["posterior"]["tgt"].values
        out[f"draws {sampler} {rows}"] = float((alone != spread).mean())
        assert len(np.unique(alone)) > 5
    return out


def trained(mesh: jax.sharding.Mesh, program: Any) -> dict[str, float]:
    """The largest difference of the weights of translators after some steps."""
    options: Any = (toy_vocabulary(), toy_pairs(45), [], Recipe(steps=12, batch_size=10))
    out = {}
    for name, mask in (("translate", "corrupt"), ("teacher", "forced")):
        alone = train_pairs(program.model(name), mask, *options, progress=False)
        with jax.set_mesh(mesh):
            spread = train_pairs(program.model(name), mask, *options, progress=False, **AXIS)
        weights = [[np.asarray(a) for a in jax.tree.leaves(eqx.filter(f.params, eqx.is_array))] for f in (alone, spread)]
        out[f"trained {name}"] = max(float(np.abs(a - b).max()) for a, b in zip(*weights, strict=True))
    return out


NETWORK = """
network net = transformer(layers = 1, heads = 2, width = 16, dropout = 0.1)
model text { var x[t in range(6)] : range(5)  conditional x ~ net() }
mask some = bernoulli(x, rate = 0.4)
"""


def shared_out(mesh: jax.sharding.Mesh) -> dict[str, float]:
    """What a device holds more than its share of weights and the optimiser's state; the largest difference of weights and losses."""
    x = (np.random.default_rng(0).integers(0, 5, (60, 1)) + np.arange(6)) % 5
    model, t, shares = gm.parse(NETWORK).model(), gm.Training(batch_size=8, steps=12, ema=0.9), []
    alone = model.fit(x, "some", seed=1, method=t, progress=False)
    kind: Any = _training._Run
    update = kind.update

    def recorded(self: Any, *more: Any) -> Any:
        state, values = update(self, *more)
        leaves = jax.tree.leaves(state)
        shares.append(sum(a.addressable_shards[0].data.nbytes for a in leaves) / sum(a.nbytes for a in leaves))
        return state, values

    kind.update = recorded
    with jax.set_mesh(mesh), tempfile.TemporaryDirectory() as folder:
        spread = model.fit(
            x, "some", seed=1, method=replace(t, checkpoint=f"{folder}/run", save_every=6), progress=False, **AXIS, weight_axis="data"
        )
        again = model.fit(
            x, "some", seed=1, method=replace(t, checkpoint=f"{folder}/run", save_every=6), progress=False, **AXIS, weight_axis="data"
        )
    assert len(shares) == 12  # the second run has restored the end of the first
    weights = [[np.asarray(a) for a in jax.tree.leaves(eqx.filter(f.params, eqx.is_array))] for f in (alone, spread, again)]
    return {
        "shares": max(0.0, max(shares) - 1 / len(mesh.devices) - 0.05),
        "trained in shares": max(float(np.abs(a - b).max()) for a, b in zip(*weights[:2], strict=True)),
        "losses trained in shares": float(np.abs(np.subtract(alone.loss_trace, spread.loss_trace)).max()),
        "restored": max(float(np.abs(a - b).max()) for a, b in zip(*weights[1:], strict=True)),
    }


def main() -> None:
    """Every number is a difference between one device and the mesh."""
    warnings.simplefilter("ignore")
    _candidates.BATCH_SIZES = (4,)  # 18 lines are five batches, the last one filled up
    mesh, program = jax.make_mesh((jax.device_count(),), ("data",)), gm.parse(PROGRAM + MORE)
    student, teacher = student_and_teacher(program)
    print(json.dumps(translations(mesh, student, teacher) | draws(mesh, student) | trained(mesh, program) | shared_out(mesh)))


if __name__ == "__main__":
    main()
