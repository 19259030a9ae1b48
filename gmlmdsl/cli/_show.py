"""The work and the output of `gmlm fit` and `gmlm sample`.

Samplers of strings take prompts from a file and print a table of drawn strings.
"""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import Diagnostic, GmlmError, counted, duration, fail, listed
from .._types import Clamp, DrawsLike
from ..files import decoded_line, opened_text, raw_lines, reading
from ._console import as_on_command_line, note, print_table, show, warn
from ._model_source import ModelSource, checked_program, model_and_params, pick
from ._program_arguments import read_clamps, read_n_masks

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from .._compile import BoundProgram
    from ..graph import FactorGraph
    from ..model import Model
    from ._data_files import Reading

# By option of a fit: its default, and what it is about that a network has not.
NOT_OF_NETWORKS: dict[str, tuple[object, str]] = {
    "report": (None, "draws estimates with their errors, which a network has not"),
    "gaps": ("sum", "says how missing cells enter a joint distribution; a network does not see them"),
    "level": (None, "is about intervals of estimates, which a network has not"),
    "starts": (1, "compares exact objectives, which the training of a network has not"),
    "checkpoint": (None, "has the state of a fit; that of a training is `gm.Training(checkpoint=)` in Python"),
}
PAGES = (".html", ".htm")  # the endings of a report's name
WRITTEN = {
    "letters": "a prompt a line, its letters without anything between them: `ab`",
    "labels": "a prompt a line, its labels with spaces between them: `red blue`",
    "numbers": "a prompt a line, its numbers with spaces between them: `0 1 0`",
}


@dataclass(frozen=True)
class FitRequest:
    """The command line of `gmlm fit`."""

    file: Path
    data: Path
    mask: str | None
    model: str | None
    inputs: Sequence[str]
    arrays: Path | None
    reading: Reading
    n_masks: str | None
    max_steps: int | None
    seed: int
    rows: int
    out: Path | None
    report: Path | None
    allow_python: bool = False
    gaps: str = "sum"
    starts: int = 1
    level: float | None = None
    mesh_axis: str | None = None
    checkpoint: Path | None = None


@dataclass(frozen=True)
class SampleRequest:
    """The command line of `gmlm sample`."""

    source: ModelSource
    sampler: str | None
    draws: int | None
    warmup: int | None
    chains: int | None
    thin: int
    seed: int
    clamp: Sequence[str]
    rows: int
    out: Path | None
    report: Path | None
    prompt: Path | None
    store: Path | None
    mesh_axis: str | None = None

    def counts(self, strings: bool) -> dict[str, int | None]:
        """Return the numbers of draws, warm-up steps and chains, with the defaults of chains.

        For strings there are no defaults here.
        """
        stated = {"draws": self.draws, "warmup": self.warmup, "chains": self.chains}
        return stated if strings else {k: d if n is None else n for (k, n), d in zip(stated.items(), (1000, 500, 4), strict=True)}


def _note_size(model: Model) -> None:
    """Print before a large fit that it will have no standard errors."""
    from ..fit import MOST_INFERRED

    size = sum(p.size for p in model.graph.parameters)
    if size > MOST_INFERRED:
        note(f"{size:,} parameters: above {MOST_INFERRED:,} a fit gives estimates without standard errors, and may take long")


def run_fit(request: FitRequest) -> None:
    """Read the data, fit, print, and write the requested files.

    Nothing is written after an error.
    """
    if request.data.suffix == ".gmlm" and request.data.is_file():
        table = {".gmlm": "DATA.csv"}.get(request.file.suffix, request.file)
        help = f"data stand behind the program: `gmlm fit {request.data} {table}`"
        raise fail("E507", f"{request.data} is a program, and no data", help=help)
    from ._data_files import print_data, program_and_data, weights_of, words_of

    n_masks = read_n_masks(request.n_masks)
    used = (request.file, request.data, request.arrays, Path(request.reading.weights or "."))
    verify_writable(request.out, used=used)
    verify_writable(request.report, PAGES, (*used, request.out))
    checked, inputs = checked_program(request.file, request.inputs, request.arrays)
    name = pick(request.model, list(checked.models), "model")
    program, data = program_and_data(checked, name, inputs, request.data, request.reading, request.allow_python)
    _warn_outside_samplers(program)
    mask = pick(request.mask, _owned(program.checked.masks, name), f"mask of model `{name}`", "mask")
    model = program.model(name)
    options: dict[str, Any] = {"seed": request.seed, "n_masks": n_masks, "max_steps": request.max_steps, "mesh_axis": request.mesh_axis}
    if model.graph.network is None:
        options |= {"gaps": request.gaps, "starts": request.starts, "level": request.level, "checkpoint": request.checkpoint}
    else:
        _verify_of_network(request)
    _warn_of_sizes(program, model, mask)
    with _naming(request.data, "x"):
        weights = weights_of(model, data, request.reading)
    _note_size(model)
    with _naming(request.data, "x"):
        fit: Any = model.fit(data.x, mask=mask, missing=data.missing, given=data.given, weights=weights, **options)
    print(f"Fit of `{name}` to {counted(fit.meta['rows'], 'row')} of {request.data} ({words_of(model.graph, data.x)})")
    print_data(data, request.reading, weights)
    if model.graph.network is None:
        _tell_fit(fit, request.rows)
    else:
        print(fit)
    if (fit.status.code if model.graph.network is None else fit.reason) == "diverged":
        raise fail("E507", "the fit diverged: nothing is written", help="check the data and the priors")
    if request.out is not None:
        fit.save(request.out)
        print(f"saved {request.out}{_next(fit, request.out)}")
    if request.report is not None:
        from ..report import fit_report

        print(f"wrote {fit_report(fit).save(request.report)}")


def _verify_of_network(request: FitRequest) -> None:
    for name, (default, words) in NOT_OF_NETWORKS.items():
        if getattr(request, name) != default:
            raise fail("E507", f"`--{name}` {words}", help="leave it out")


def _warn_of_sizes(program: BoundProgram, model: Model, mask: str) -> None:
    """Print warnings about a model and its mask that depend on sizes.

    Samplers and other masks are left out, since a fit does not run them.
    """
    checked = program.checked
    others = [*checked.samplers.values(), *(m for m in checked.masks.values() if m.name != mask)]
    sized = [d for d in model.warnings if d not in checked.warnings]
    show([d for d in sized if not any(_within(d, part) for part in others)], sys.stderr)


def _next(fit: Any, out: Any) -> str:
    """Return a text with the next command for a saved fit.

    For a network, the text also names further options of training.
    """
    which = f" --sampler {fit.model.samplers[0]}" if len(fit.model.samplers) > 1 else ""
    drawn = f"; next: gmlm sample {out}{which}"
    if fit.graph.given:
        drawn = "" if fit.graph.network is None else f'; next, in Python: gm.load_fit("{out}").sample(given=..)'
    if fit.graph.network is None:
        return drawn
    return (
        drawn
        + "\nrows of a batch, validation, averages and checkpoints are options of gm.Training in Python; of a translator, of gmlm train"
    )


def _tell_fit(fit: Any, rows: int) -> None:
    """Print the status, the estimates and the warnings of a fit of a factor model."""
    print(f"mask {fit.meta['mask_use']}; {fit.status.code} after {counted(len(fit.loss_trace), 'step')}, {duration(fit.meta['seconds'])}")
    if fit.meta["convex"] and fit.status.converged:
        print("the objective is convex: this is its global minimum")
    if fit.missing is not None and fit.missing.any:
        print(as_on_command_line(fit.missing.words))
    if fit.starts is not None:
        print(fit.starts.words)
    if any(p.size for p in fit.graph.parameters):
        print_frame(fit.summary(), rows, "none")
    for finding in fit.status.findings:
        warn(finding.message, finding.remedy)


@contextlib.contextmanager
def _as_options(prompts: Path | None, model: Model) -> Iterator[None]:
    """Name options and lines instead of Python arguments in the help of errors.

    Parts of the help that do not apply to the command line are removed.
    """
    try:
        with naming_lines(prompts, model):
            yield
    except GmlmError as error:
        helps = ["; ".join(part for part in d.help.split("; ") if "keep_draws" not in part) for d in error.diagnostics]
        helps = [re.sub(r"`(draws|chains|warmup|thin)=`", r"`--\1`", text) for text in helps]
        raise GmlmError([replace(d, help=text) for d, text in zip(error.diagnostics, helps, strict=True)]) from None


def run_sample(request: SampleRequest) -> None:
    """Sample, print, and write the requested files."""
    _verify_outputs(request)
    model, params = model_and_params(request.source, "sample")
    if model.graph.given:
        message = f"`gmlm sample` takes no data of {listed([v.name for v in model.graph.given])}, which model `{model.name}` is given"
        raise fail("E510", message, help="sample in Python: `model.sample(params, given={..})`")
    sampler, decodes, strings = _sampler_of(model, request.sampler)
    clamp = read_clamps(request.clamp, model.graph)
    if decodes and not strings and request.report is not None:
        help_ = "leave `--report` out; `--out` saves tokens and scores"
        raise fail("E507", f"a report looks at chains, and sampler `{sampler}` decodes", help=help_)
    spread = _spread_chains(sampler, strings, request)
    if request.store is not None and decodes:
        message = f"`--store` takes chains and independent draws, and sampler `{sampler}` decodes"
        raise fail("E507", message, help="save the draws at the end: `--out`")
    import time

    counts, started = request.counts(strings), time.perf_counter()
    prompts: dict[str, Any] = {} if request.prompt is None else {"prompt": read_prompts(request.prompt, model)}
    prompts |= {} if request.store is None else {"store": request.store}
    with warnings.catch_warnings(record=True) as caught, _as_options(request.prompt, model):
        warnings.simplefilter("always")
        given = {"thin": request.thin, "seed": request.seed, "clamp": clamp}
        idata = model.sample(params, sampler, **counts, **given, **prompts, **spread)
    many = "strings" if strings else f"{counts['chains']} chains of {counts['draws']} draws"
    print(f"{many} from `{model.name}` by sampler `{sampler}`, {duration(time.perf_counter() - started)}")
    shown = show_strings if strings else show_decodes
    if decodes:
        shown(model, idata, request.rows)
    elif request.store is None:
        show_draws(model, idata, clamp, request.rows)
    else:
        _show_stored(model, idata, clamp, request)
    from ..sample import SamplingWarning

    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, SamplingWarning)):
        warn(of_lines(text, request.prompt))
    if request.out is not None:
        from ..sample import save

        print(f"saved {save(idata, request.out)}")
    if request.report is not None:
        from ..report import guided_report, sample_report

        made = guided_report(model, idata) if strings else sample_report(model, idata, clamp=clamp)
        print(f"wrote {made.save(request.report)}")


def _spread_chains(sampler: str, strings: bool, request: SampleRequest) -> dict[str, Any]:
    """Return the arguments of `sample` that spread chains over processes.

    Raises:
        GmlmError: E507 for draws that one process makes.
    """
    if request.mesh_axis is None:
        return {}
    if request.store is not None:
        raise fail("E507", "`--store` is written by one process", help="leave `--processes` out, or take `--out`")
    if strings:
        message = f"`--processes` spreads chains and decodes, and sampler `{sampler}` draws strings"
        raise fail("E507", message, help="leave it out")
    return {"mesh_axis": request.mesh_axis}


def _verify_outputs(request: SampleRequest) -> None:
    """Raise for an output that could not be written, before any work."""
    from ..sample import need_netcdf, verified_store

    source = request.source
    used = (source.file, source.params, source.arrays, request.prompt, request.store)
    verify_writable(request.out, (".nc", ".npz"), used)
    verify_writable(request.report, PAGES, (*used, request.out))
    if request.out is not None and request.out.suffix == ".nc":
        need_netcdf()
    if request.store is not None:
        verified_store(request.store)


def _sampler_of(model: Model, wanted: str | None) -> tuple[str, bool, bool]:
    """Return a sampler's name, whether it decodes, and whether it draws strings.

    The sampler `exact`, which no file declares, does neither.
    """
    if wanted == "exact" and wanted not in model.samplers:
        return wanted, False, False
    name = pick(wanted, model.samplers, f"sampler of model `{model.name}`", "sampler")
    checked = model.sampler(name)[1]
    show([d for d in model.warnings if _within(d, checked)], sys.stderr)
    # Decodes of a joint distribution are draws, as those of a chain are.
    strings = draws_strings(model, name)
    return name, strings or (checked.call is not None and model.graph.network is not None), strings


def show_decodes(model: Model, idata: DrawsLike, rows: int) -> None:
    """Print the best decodes with their scores."""
    import numpy as np

    from ..sample import groups_of

    groups = groups_of(idata)
    scores = np.asarray(groups["sample_stats"]["score"].values).ravel()
    v = model.graph.variables[0]
    values = np.asarray(groups["posterior"][v.name].values).reshape(len(scores), -1)
    names = [str(x) for x in v.labels]
    print(f"score, the mean log p of a token: mean {scores.mean():.4g}, best {scores.max():.4g}; passes {passes_of(groups)}")
    for k in np.argsort(-scores, kind="stable")[:rows]:
        tokens = [str(t) if v.ordered else names[t] for t in values[k].tolist() if t != v.padding]
        print(f"{scores[k]:8.3f}  {('' if v.kind == 'letters' else ' ').join(tokens)}")


def passes_of(groups: Mapping[str, xr.Dataset]) -> str:
    """Return the range of the numbers of passes of the decodes."""
    passes = groups["sample_stats"]["passes"].values
    return f"{passes.min()} to {passes.max()}" if passes.min() < passes.max() else str(passes.min())


def _warn_outside_samplers(program: BoundProgram) -> None:
    """Print the checker's warnings except those about samplers, which a fit does not run."""
    inside = {d for s in program.checked.samplers.values() for d in program.warnings if _within(d, s)}
    show([d for d in program.warnings if d not in inside], sys.stderr)


def _within(d: Diagnostic, declared: Any) -> bool:
    return d.span is not None and d.span.source == declared.span.source and declared.span.start <= d.span.start < declared.span.end


def _owned(table: dict[str, Any], model: str) -> list[str]:
    return [name for name, value in table.items() if value.model == model]


def verify_writable(path: Path | None, endings: Sequence[str] = (), used: Sequence[Path | None] = ()) -> None:
    """Raise an error for an output that could not be written, before any work.

    Args:
        path: the file to write; None for no file.
        endings: the endings of its name that are accepted; none accepts all.
        used: the other files of the command, which it reads or writes.

    Raises:
        GmlmError: E560.
    """
    import os

    from ..files import verify_plain

    if path is None:
        return
    verify_plain(path)
    if endings and path.suffix not in endings:
        raise fail("E560", f"cannot write {path}: the name must end in {' or '.join(endings)}")
    if os.path.realpath(path) in (os.path.realpath(other) for other in used if other is not None):
        told = "the same command reads this file, or writes another output to it"
        raise fail("E560", f"cannot write {path}: {told}", help="choose another name")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise fail("E560", f"cannot write {path}: there is no folder {folder}", help="make it first, or choose another")
    if not os.access(folder, os.W_OK):
        raise fail("E560", f"cannot write {path}: the folder may not be written to", help="choose another")


@contextlib.contextmanager
def _naming(path: Path, what: str) -> Iterator[None]:
    """Add the name of the data file to errors about data."""
    try:
        yield
    except GmlmError as error:
        named = [_named(d, path, what) for d in error.diagnostics]
        raise GmlmError(named) from None


def _named(d: Diagnostic, path: Path, what: str) -> Diagnostic:
    from dataclasses import replace

    if d.code.startswith("E50") and (d.message.startswith((f"{what} ", f"{what}[", f"{what}:")) or f" of {what} " in d.message):
        return replace(d, message=f"{path}: {d.message}")
    return d


def print_frame(frame: pd.DataFrame, most: int, absent: str = "nan") -> None:
    """Print at most `most` rows of a pandas table; `absent` is the text for nan."""
    shown = frame if most == 0 else frame.head(most)
    rows = [[str(name), *row] for name, row in zip(shown.index, shown.itertuples(index=False), strict=True)]
    print_table([str(frame.index.name or ""), *map(str, frame.columns)], rows, absent=absent)
    if len(shown) < len(frame):
        print(f"{len(shown)} of {len(frame)} rows; `--rows 0` shows all")


def show_draws(model: Model, idata: DrawsLike, clamp: Clamp | None, most: int) -> None:
    """Print ArviZ's summary of numeric variables, and the categories of the others.

    If there are many cells, those with the largest R-hat are printed.

    Args:
        model: the model.
        idata: the draws.
        clamp: the clamped cells, which are left out.
        most: the most rows of a table; 0 prints all.
    """
    from ..report import diagnose_draws
    from ..sample import summary

    numbers = [v.name for v in model.graph.variables if v.ordered]
    if numbers:
        frame = summary(idata, numbers)
        frame.index.name = "cell"
        frame = _without_clamped(frame, model.graph, clamp)
        if most and len(frame) > most:
            print(f"the {most} of {len(frame)} cells with the largest R-hat; `--rows 0` shows all in their order:")
            frame = frame.sort_values("r_hat", ascending=False, kind="stable", na_position="first").head(most)
        print_frame(frame, 0)
    labelled = [v for v in model.graph.variables if not v.ordered]
    if labelled:
        _show_categories(diagnose_draws(model.graph, idata, clamp), labelled, most)


def _show_stored(model: Model, idata: DrawsLike, clamp: Clamp | None, request: SampleRequest) -> None:
    """Print the worst cells of draws in a file, which are read some cells at a time."""
    from ..report import diagnose_draws

    found = diagnose_draws(model.graph, idata, clamp)
    headers, rows = found.table(request.rows or len(found.cells))
    print(f"the worst {len(rows)} of {len(found.worst_cells)} cells:")
    print_table(headers, rows)
    print(f"the draws are in {request.store}")


def _without_clamped(frame: pd.DataFrame, graph: FactorGraph, clamp: Clamp | None) -> Any:
    if not clamp:
        return frame
    from ..data import clamped_cells

    held = {graph.cell_name(int(i)) for i in clamped_cells(graph, clamp)[0].nonzero()[0]}
    return frame[[name not in held for name in frame.index]]


def _show_categories(found: Any, variables: Sequence[Any], most: int) -> None:
    rows = []
    for v in variables:
        for i in range(v.offset, v.offset + v.size):
            for k, label in enumerate(found.categories[i]):
                rows.append([found.cells[i], label, float(found.frequency[i, k]), float(found.ess[i, k]), float(found.r_hat[i, k])])
    shown = rows if most == 0 else rows[:most]
    print_table(["cell", "value", "frequency", "ess", "r_hat"], shown)
    if len(shown) < len(rows):
        print(f"{len(shown)} of {len(rows)} rows; `--rows 0` shows all")


def read_prompts(path: Path | None, model: Model) -> list[Any] | None:
    """Return the prefixes of a file, one for each line; a line may be empty.

    A prefix of letters is the line itself. Other prefixes are values or labels, separated by
    spaces.

    Raises:
        GmlmError: with one of these codes; E523, E119 and E502 name the line.
            - E120: the file cannot be read.
            - E523: a line is too long.
            - E119: the bytes are not text.
            - E505: the file has no line.
            - E502: a word is not a whole number, although the values are numbers.
    """
    if path is None:
        return None
    v, lines = model.graph.observed[0], _lines(path)
    if not lines:
        message = f"{path} has no line, and a prompt is a line: there is nothing to draw for"
        raise fail("E505", message, help="an empty line is a prompt of no symbol; or leave `--prompt` out")
    if v.kind == "letters":
        return lines
    return [_row(line, v.ordered, path, k) for k, line in enumerate(lines, 1)]


def _lines(path: Path) -> list[str]:
    with reading(path, help="`--prompt` names a file of text, a prompt a line"), opened_text(path) as file:
        raw = raw_lines(file, path, "a prompt a line")
        return [decoded_line(line, path, k, "a prompt a line").rstrip("\r\n") for k, line in enumerate(raw, 1)]


def _row(line: str, numbers: bool, path: Path, number: int) -> list[Any]:
    words = line.split()
    if not numbers:
        return words
    for word in words:
        if not re.fullmatch(r"[+-]?[0-9]+", word):
            raise fail("E502", f"{path}, line {number}: {word!r:.60} is not a whole number", help=WRITTEN["numbers"])
    return [int(word) for word in words]


@contextlib.contextmanager
def naming_lines(path: Path | None, model: Model) -> Iterator[None]:
    """Replace numbers of prompts by lines of the file in errors."""
    try:
        yield
    except GmlmError as error:
        v = model.graph.observed[0]
        if path is None or not any("prompt[" in d.message for d in error.diagnostics):
            raise
        written = WRITTEN["letters" if v.kind == "letters" else "numbers" if v.ordered else "labels"]
        if written == WRITTEN["labels"] and all(len(str(label)) == 1 for label in v.labels):
            written += f'; with `letters("{"".join(map(str, v.labels))}")` in place of `labels(..)` they need no spaces'
        told = [of_lines(d.message, path) for d in error.diagnostics]
        helps = [written if d.code == "E502" else d.help for d in error.diagnostics]
        raise GmlmError([replace(d, message=m, help=h) for d, m, h in zip(error.diagnostics, told, helps, strict=True)]) from None


def of_lines(text: str, path: Path | None) -> str:
    """Return a text that names lines of the file instead of prompts, if there is a file."""
    return text if path is None else re.sub(r"prompt\[(\d+)\]", lambda m: f"{path}, line {int(m[1]) + 1}", text)


def draws_strings(model: Model, sampler: str) -> bool:
    """Return whether a sampler draws strings that `guided_stats` counts."""
    from ..program import AUTOREGRESSIVE, ir, is_guided

    body = model.sampler(sampler)[1].body
    if not isinstance(body, ir.FormCall):
        return False
    return is_guided(body.form.name) or (body.form is AUTOREGRESSIVE and model.graph.network is None)


def show_strings(model: Model, idata: DrawsLike, rows: int) -> None:
    """Print the counts of the draws, then the strings with the numbers of their prompts."""
    import numpy as np

    from ..sample import groups_of

    groups = groups_of(idata)
    stats = {name: np.asarray(a.values) for name, a in groups["guided_stats"].items()}
    failed, valid = stats["failed"].astype(bool), stats["valid"].astype(bool)
    summary = [["strings", failed.size - int(failed.sum())], ["failed", int(failed.sum())], ["valid", int(valid.sum())]]
    summary += [["distinct", int(groups["posterior"].attrs["distinct_strings"])]]
    summary += [[f"{name.replace('_', ' ')}, mean", float(stats[name].mean())] for name in ("oracle_calls", "verifier_calls")]
    summary += [["backtracks, mean", float(stats["backtracks"].sum(axis=-1).mean())]]
    print_table(["", "number"], summary)
    from ..report import drawn_strings

    prompts = failed.shape[2] if failed.ndim > 2 else 1
    for k, text in enumerate(drawn_strings(model.graph, idata)):
        if rows and k >= rows:
            print(f"{rows} of {failed.size} strings; `--rows 0` shows all")
            break
        print(f"{k % prompts:6d}  {text}" if failed.ndim > 2 else f"  {text}")
