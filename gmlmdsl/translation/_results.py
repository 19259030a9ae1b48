"""The results of a pipeline: scores, times and pictures, collected in one report."""

from __future__ import annotations

import io
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._load_fit import load_fit
from .._types import JsonObject
from ..files import write_whole
from ..graph import versions
from ._bundle import write_translator
from ._claims import claims
from ._corpus import read_lines, read_pairs
from ._dependency import dependency
from ._evaluate import evaluate
from ._kept_stages import file_hash
from ._latency import latency
from ._pipeline_choices import choose_students
from ._programs import by_beams
from ._rerank import RERANKED, Reranked, candidate_count
from .limits import LONGEST_DRAWN, SHOWN_TRANSLATIONS

if TYPE_CHECKING:
    from ._pipeline_stages import PipelineStages
    from ._translator import Translator

Report = Callable[[JsonObject, Mapping[str, np.ndarray], Path], None]
FORMAT = 2  # The format of the results; results of another format are computed again.


def results(p: PipelineStages, names: Sequence[str], report: Report | None) -> JsonObject:
    """Compute all results after training, and return the content of the report.

    Args:
        p: a pipeline whose networks are trained.
        names: the names of the networks.
        report: a function that writes the report as a page from its content, arrays and path.
    """
    chosen = choose_students(p, samplers_of(p, "student"))
    for name in names:
        for way in ways_of(p, name):
            evaluate_one(p, name, way)
        bundle(p, name, p.distiller if name == "teacher" else chosen)
    pictures(p)
    dependencies(p)
    measure(p, names)
    content = content_of(p, names)
    write_whole(p.stages / "report.json", json.dumps(content, indent=1, default=str).encode())
    if report is not None:
        with np.load(p.stages / "pictures.npz", allow_pickle=False) as found:
            report(content, {k: found[k] for k in found.files}, p.stages / "report.html")
    return content


def samplers_of(p: PipelineStages, name: str) -> list[str]:
    """Return the samplers under which a network is compared."""
    model = p.models[p.model_of(name)]
    return [s for s in model.samplers if not p.o.samplers or s in p.o.samplers]


def ways_of(p: PipelineStages, name: str) -> list[str]:
    """Return the ways in which a network decodes.

    These are its samplers. A student's sampler with several candidates is listed again with
    reranking by the teacher.
    """
    model, samplers = p.models[p.model_of(name)], samplers_of(p, name)
    several = [s + RERANKED for s in samplers if name != "teacher" and candidate_count(model, s) > 1]
    return [*samplers, *several]


def decoder_of(p: PipelineStages, name: str, way: str) -> tuple[Translator, str]:
    """Return the translator and the sampler of one of a network's ways to decode."""
    own = p.translator(name)
    return (Reranked(own, p.translator("teacher")) if way.endswith(RERANKED) else own), way.removesuffix(RERANKED)


def made_of(p: PipelineStages, name: str, way: str) -> list[str]:
    """Return hashes of weights and sampler, which together with the text determine a decode."""
    networks = [name, "teacher"] if way.endswith(RERANKED) else [name]
    weights = [p.stages.done[n].files[f"{n}.fit"] for n in networks]
    return [*weights, p.sampler_digest(p.model_of(name), way.removesuffix(RERANKED))]


def evaluate_one(p: PipelineStages, name: str, way: str) -> None:
    """Write the translations of the test text and their scores."""
    files = p.stages.done["text"].files
    inputs = {k: v for k, v in files.items() if k.startswith("text/test")}
    inputs |= {
        "made of": made_of(p, name, way),
        "vocabulary": p.pieces.sha256,
        "direction": p.o.direction,
        "seed": p.o.seed,
        "format": FORMAT,
    }
    inputs |= {} if p.o.learnt is None else {"learnt": file_hash(p.o.learnt) if p.o.learnt.is_file() else str(p.o.learnt)}
    output = f"evaluation/{name}.{way}.txt"

    def make(_: str) -> JsonObject:
        pairs, language = p.pairs("text/test"), p.o.direction.rpartition("-")[2] or None
        decoder, sampler = decoder_of(p, name, way)
        options = {"sampler": sampler, "seed": p.o.seed, "target_language": language, "oracle": way == sampler, "learnt": p.o.learnt}
        options |= {"mesh_axis": p.o.mesh_axis}
        found = evaluate(decoder, [s for s, _ in pairs], [t for _, t in pairs], **options)
        write_whole(p.stages / output, "".join(f"{t}\n" for t in found.outputs).encode())
        return found.as_dict()

    p.stages.run(f"evaluate-{name}-{way}", inputs, [output], make)


def bundle(p: PipelineStages, name: str, sampler: str | None) -> None:
    """Write a network as a translator in one file, with its scores and its default sampler."""
    provenance = p.program.provenance()
    inputs = {"fit": p.stages.done[name].files[f"{name}.fit"], "vocabulary": p.pieces.sha256, "program": provenance["sha256"]}
    notes = {s: p.stages.done[f"evaluate-{name}-{s}"].notes for s in ways_of(p, name)}
    inputs |= {"direction": p.o.direction, "scores": notes, "sampler": sampler}

    def make(_: str) -> None:
        fit: Any = load_fit(p.stages / f"{name}.fit", allow_python=p.o.allow_python)
        write_translator(p.stages / f"{name}.bundle", fit, p.program, p.pieces, p.o.direction, sampler, notes)

    p.stages.run(f"bundle-{name}", inputs, [f"{name}.bundle"], make)


def measure(p: PipelineStages, names: Sequence[str]) -> None:
    """Measure the latency of every network in each of its ways, over sentences of the test text."""
    files = p.stages.done["text"].files
    # The raw student has the same network as the student, and thus the same times.
    every = [(n, s) for n in names for s in ways_of(p, n) if n != "raw" or "student" not in names]
    inputs: JsonObject = {f"{n}.{s}": made_of(p, n, s) for n, s in every}
    inputs |= {"text": files["text/test.source"], "sentences": p.o.measured, "vocabulary": p.pieces.sha256, "format": FORMAT}

    def make(_: str) -> JsonObject:
        sources = [line for line in read_lines(p.stages / "text/test.source") if line.strip()]
        found = latency(
            {f"{n} {s}": decoder_of(p, n, s) for n, s in every}, sources, sentences=p.o.measured, tell=p.moved("latency", 50, "batches")
        )
        write_whole(p.stages / "latency.json", json.dumps(found.as_dict(), indent=1).encode())
        return {"sentences": p.o.measured}

    p.stages.run("latency", inputs, ["latency.json"], make)


def dependencies(p: PipelineStages) -> None:
    """Write the attention between equal subword tokens over the whole test text.

    The student uses its sampler with the most passes, and the teacher its sampler with the fewest
    beams.
    """
    of_teacher = [s for s in reversed(by_beams(p.checked, p.roles.teacher)) if s in samplers_of(p, "teacher")]
    of_student = sorted(samplers_of(p, "student"), key=lambda s: len(p.stages.done[f"evaluate-student-{s}"].notes["by_pass"]))
    every = [("student", s) for s in of_student[-1:]] + [("teacher", s) for s in of_teacher[:1]]
    inputs: JsonObject = {f"{n}.{s}": made_of(p, n, s) for n, s in every}
    inputs |= {"text": p.stages.done["text"].files["text/test.source"], "vocabulary": p.pieces.sha256, "seed": p.o.seed, "format": FORMAT}

    def make(_: str) -> None:
        lines = [line for line in read_lines(p.stages / "text/test.source") if line.strip()]
        found = {f"{n}.{s}": dependency(p.translator(n), lines, sampler=s, seed=p.o.seed) for n, s in every}
        plain = {key: None if tables is None else tables.as_dict() for key, tables in found.items()}
        write_whole(p.stages / "attention.json", json.dumps(plain, indent=1).encode())

    p.stages.run("attention", inputs, ["attention.json"], make)


def pictures(p: PipelineStages) -> None:
    """Write the attention of the last pass over one sentence of the test text."""
    done, model = p.stages.done, p.roles.student
    known = samplers_of(p, "student")
    sampler = max(known, key=lambda s: len(done[f"evaluate-student-{s}"].notes["by_pass"])) if known else p.models[model].samplers[-1]
    inputs = {"weights": done["student"].files["student.fit"], "sampler": p.sampler_digest(model, sampler)}
    inputs |= {"text": done["text"].files["text/test.source"], "seed": p.o.seed, "format": FORMAT}

    def make(_: str) -> JsonObject:
        found = attention_of(p, sampler)
        buffer = io.BytesIO()
        np.savez(buffer, **found)  # pyright: ignore[reportArgumentType]
        write_whole(p.stages / "pictures.npz", buffer.getvalue())
        return {"sampler": sampler}

    p.stages.run("pictures", inputs, ["pictures.npz"], make)


def attention_of(p: PipelineStages, sampler: str) -> dict[str, np.ndarray]:
    """Return the weights of the last layer by head, with the subword tokens that they connect.

    The result is empty if no sentence is short enough.
    """
    t = p.translator("student")
    lines = [line for line in read_lines(p.stages / "text/test.source") if line.strip()]
    encoded = [e for e in t.vocabulary.encode(lines) if len(e) <= min(LONGEST_DRAWN, t.pair.cells[0])]
    if not encoded:
        return {}
    source = t.vocabulary.rows([max(encoded, key=len)], t.pair.cells[0])
    decoded = t.decode(source, sampler=sampler, seed=p.o.seed, trace=True)
    assert decoded.trace is not None
    assert decoded.seen is not None
    if decoded.trace.shape[1] < 2:  # A single pass sees only the start.
        return {}
    found = t.model.attention(t.params, {t.pair.target: decoded.seen}, given={t.pair.source: source}, missing=-1, lengths=decoded.length)
    n, m = int(decoded.length[0]), int((source[0] >= 0).sum())
    out = {
        "source": np.array([t.vocabulary.pieces[k] for k in source[0, :m]]),
        "target": np.array([t.vocabulary.pieces[k] for k in decoded.tokens[0, :n]]),
    }
    sizes = {"self": n, "positional": n, "cross": m}
    return out | {kind: np.asarray(a)[0, -1, :, :n, : sizes[kind]] for kind, a in found.items() if kind in sizes}


def content_of(p: PipelineStages, names: Sequence[str]) -> JsonObject:
    """Return all numbers of the report."""
    done = p.stages.done
    scores = {f"{n}.{s}": done[f"evaluate-{n}-{s}"].notes for n in names for s in ways_of(p, n)}
    test = read_pairs(p.stages / "text/test.source", p.stages / "text/test.target")
    outputs = {key: read_lines(p.stages / f"evaluation/{key}.txt") for key in scores}
    picked = [k for k, (s, _) in enumerate(test) if s.strip()][:SHOWN_TRANSLATIONS]
    examples = [{"source": test[k][0], "reference": test[k][1], **{key: lines[k] for key, lines in outputs.items()}} for k in picked]
    measured = json.loads((p.stages / "latency.json").read_text(encoding="utf-8"))
    return {
        "direction": p.o.direction,
        "command": p.o.command,
        "program": {s.path: s.text for s in p.checked.sources},
        "inputs": {k: np.asarray(v).tolist() for k, v in p.program.bound.inputs.items()},
        "roles": asdict(p.roles),
        "recipes": {"teacher": asdict(p.o.teacher), "student": asdict(p.o.student)},
        "text": done["text"].notes,
        "vocabulary": done["vocabulary"].notes,
        "cleaning": {"text": done["clean"].notes, "distilled": done["distilled"].notes},
        "distilled": done["distil"].notes,
        "chosen": {name: done[name].notes for name in ("split", "distiller", "choose-student") if name in done},
        "training": {n: done[n].notes for n in names},
        "scores": scores,
        "latency": measured,
        "attention": json.loads((p.stages / "attention.json").read_text(encoding="utf-8")),
        "claims": [asdict(c) for c in claims({k: v for k, v in scores.items() if not k.endswith(RERANKED)}, measured)],
        "examples": examples,
        "stages": {name: {"seconds": d.seconds, "kept": d.kept} for name, d in done.items()},
        "versions": versions(),
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "processor": platform.processor() or platform.machine()},
    }
