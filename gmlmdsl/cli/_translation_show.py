"""The work and the output of the commands of translators."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import counted, fail
from .._progress import bar, shows_progress
from ._console import note, print_table, stdin_bytes, warn
from ._model_source import checked_program, pick
from ._program_arguments import same_named
from ._show import verify_writable
from .limits import COVERED_PAIRS, WIDTH_STEP

if TYPE_CHECKING:
    from ..translation import Recipe, Texts, Translator
    from ._serve import Limits


@dataclass(frozen=True)
class ProgramRequest:
    """The program of a command line, with its inputs."""

    file: Path
    inputs: Sequence[str]
    arrays: Path | None
    allow_python: bool


@dataclass(frozen=True)
class TrainRequest(ProgramRequest):
    """The options of `gmlm train`."""

    model: str | None
    mask: str | None
    sampler: str | None
    vocabulary: Path | None
    languages: str
    restart: bool
    mesh_axis: str | None = None
    byte_fallback: bool = False


@dataclass(frozen=True)
class PipelineRequest(ProgramRequest):
    """The options of `gmlm pipeline`."""

    vocabulary: Path | None
    languages: str
    teacher_sampler: str | None
    samplers: tuple[str, ...]
    masks: tuple[str, ...]
    raw: bool  # Whether another student is trained on the raw text.
    warm: bool  # Whether students start from the teacher's weights.
    minutes: float | None
    sentences: int
    seed: int
    byte_fallback: bool
    learnt: Path | None
    restart: bool
    mesh_axis: str | None = None


@dataclass(frozen=True)
class TranslateRequest:
    """The options of `gmlm translate`."""

    sampler: str | None
    n_best: int
    draft: Path | None
    prefix: str | None
    phrases: Path | None
    drop_repeats: bool
    trace: bool
    batch_size: int | None
    cut: bool
    seed: int
    rerank: Path | None = None
    precision: str = "float32"
    shortlist: bool = False
    mesh_axis: str | None = None


@dataclass(frozen=True)
class EvaluateRequest:
    """The options of `gmlm evaluate`."""

    samplers: tuple[str, ...]
    learnt: Path | None
    rerank: Path | None
    attention: bool
    latency: bool
    seed: int
    as_json: bool
    precision: str = "float32"
    shortlist: bool = False
    mesh_axis: str | None = None


def direction_of(languages: str, reverse: bool) -> str:
    """Return a direction such as `en-de`, reversed if the text is.

    Raises:
        GmlmError: E507 for a text that is not a pair of languages.
    """
    if not languages:
        return ""
    parts = languages.split("-")
    if len(parts) != 2 or not all(p.isalpha() for p in parts):
        raise fail("E507", f"`--languages {languages}`: expected two languages, such as `en-de`")
    return "-".join(parts[::-1] if reverse else parts)


def run_train(request: TrainRequest, recipe: Recipe, texts: Texts, out: Path) -> None:
    """Train a model of a program, and write its bundle.

    Args:
        request: the options of the program.
        recipe: how the model is trained.
        texts: the parallel text.
        out: the folder of the run.
    """
    from ..translation import TrainJob, train_translator

    _verify_validation(recipe, texts)
    checked, inputs = checked_program(request.file, request.inputs, request.arrays)
    name = pick(request.model, [n for n, m in checked.models.items() if m.conditional is not None], "translation model", "model")
    options = same_named(TrainJob, vars(request)) | {"model": name, "inputs": inputs}
    options |= {"direction": direction_of(request.languages, texts.reverse), "resume": not request.restart}
    job = TrainJob(checked=checked, texts=texts, folder=out, recipe=recipe, **options)
    fit, bundle = train_translator(job, note)
    print(fit)
    print(f"saved {bundle}; next: gmlm translate {bundle}")


def _verify_validation(recipe: Recipe, texts: Texts) -> None:
    """Raise an error if validation losses are requested without a validation text.

    The error names the options, and comes before the text is read.
    """
    for name, value in (("--evaluate-every", recipe.evaluate_every), ("--patience", recipe.patience)):
        if value is not None and not texts.validation:
            message = f"{name} {value} is about losses of validation, and there is no text for it"
            raise fail("E704", message, help="say `--validation SOURCE --validation TARGET`, or `--validation PAIRS.tsv`")


def run_distill(
    bundle: Path, text: Path, out: Path, sampler: str | None, seed: int, allow_python: bool, mesh_axis: str | None = None
) -> None:
    """Write the teacher's translations of a text.

    Args:
        bundle: the bundle of the teacher.
        text: the file of source lines.
        out: the file of translations.
        sampler: the sampler of the teacher; None selects its own.
        seed: the seed of all random numbers.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
        mesh_axis: the axis of the ambient mesh over which sentences are spread, or None.
    """
    from ..translation import distill, file_hash, lines_cut, load_translator, read_lines

    verify_writable(out, used=(bundle, text))
    teacher = load_translator(bundle, sampler=sampler, allow_python=allow_python)
    sources = read_lines(text)
    started = time.perf_counter()
    with _moving() as moved:
        options = {"seed": seed, "tell": moved, "mesh_axis": mesh_axis}
        found = distill(teacher, sources, out, identity=file_hash(bundle), **options)
    made = f"{found.lines:,} lines, {found.decoded:,} decoded now, {found.empty:,} empty"
    print(f"{made}, {found.unended:,} without an end mark, {found.looping:,} that loop")
    if warning := found.warning():
        warn(warning)
    if found.cut:
        print(lines_cut(found.cut))
    print(f"saved {out}, {time.perf_counter() - started:.1f} s")


def run_shortlist(bundle: Path, texts: Texts, likely: int) -> None:
    """Write a shortlist into a bundle, and print the share of the target text that it covers.

    Args:
        bundle: the bundle, which is overwritten.
        texts: the parallel text.
        likely: the number of target tokens of a source token.
    """
    from ..translation import Shortlist, read_bundle, write_bundle

    found, pairs = read_bundle(bundle), texts.pairs()
    vocabulary = found.load_vocabulary()
    made = Shortlist.learn(pairs, vocabulary, likely)
    write_bundle(bundle, replace(found, shortlist=made.to_bytes()))
    share = made.covered(pairs[:COVERED_PAIRS], vocabulary)
    print(f"saved {bundle}; {100 * share:.1f} % of the target pieces are on the shortlists of their lines")


@contextmanager
def _moving(wanted: bool = True, what: str = "lines") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar over lines or batches, if the standard error is a terminal.

    The context manager yields a function of the numbers of finished items and of all items.
    """
    with bar(show=wanted and shows_progress(None)) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def run_translate(bundle: Path, text: Path | None, how: TranslateRequest, allow_python: bool) -> None:
    """Translate lines to the standard output, each batch as soon as it is finished.

    Args:
        bundle: the bundle of the translator.
        text: the file of lines; None reads the standard input.
        how: the options of translation.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
    """
    from ..translation import TranslationOptions, lines_cut, lines_in, load_translator, read_lines
    from ..translation.limits import LINES_AT_ONCE

    translator = load_translator(
        bundle, sampler=how.sampler, allow_python=allow_python, rerank=how.rerank, precision=how.precision, shortlist=how.shortlist
    )
    drafts = None if how.draft is None else read_lines(how.draft)
    phrases = None if how.phrases is None else ([t for t in line.split("\t") if t.strip()] for line in read_lines(how.phrases))
    usual = 64 if how.mesh_axis is None else LINES_AT_ONCE
    size = how.batch_size or (1 if text is None and stdin_bytes().isatty() else usual)
    kept = how.n_best, how.drop_repeats, how.seed, how.cut, how.trace, how.mesh_axis
    options = TranslationOptions(None, *kept)
    known = None if text is None else read_lines(text)
    lines = lines_in(stdin_bytes(), "the standard input") if known is None else known
    found = translator.stream(lines, options, batch_size=size, prefix=how.prefix, drafts=drafts, phrases=phrases)
    out, shortened, few = sys.stdout.buffer, 0, 0
    # On a terminal the printed lines themselves show the progress.
    watched = known is not None and not out.isatty()
    try:
        with _moving(watched) as moved:
            for number, t in enumerate(found, 1):
                shortened += t.cut > 0
                few += len(t.pieces) > 0 and len(t.alternatives) < how.n_best
                for k, step in enumerate(t.trace, 1):
                    note(f"{number}, pass {k}: {step}")
                rows = [t.text] if how.n_best == 1 else [f"{number}\t{score:.4f}\t{other}" for other, score in t.alternatives]
                out.write("".join(f"{row}\n" for row in rows).encode())
                if number % size == 0:
                    out.flush()
                if known is not None and (number % size == 0 or number == len(known)):
                    moved(number, len(known))
    finally:
        out.flush()
        if few:
            has = f"{counted(few, 'line')} with fewer than {how.n_best} different translations"
            note(f"{has}: a sampler tries as many as its `lengths` or its `beam`")
        if shortened:
            warn(lines_cut(shortened))


def run_serve(bundle: Path, how: dict[str, Any], warm_up: Path | None, limits: Limits, address: tuple[str, int]) -> None:
    """Serve a translator over HTTP until the process is interrupted.

    Args:
        bundle: the bundle of the translator.
        how: the further arguments of `load_translator`.
        warm_up: a file of lines. One line of each width is translated first, in batches of every
            size, which compiles the programs of these widths.
        limits: the limits of the server.
        address: the host and the port.
    """
    from ..decode.limits import BATCH_SIZES
    from ..translation import load_translator, read_lines
    from ._serve import run_service

    translator = load_translator(bundle, **how)
    sampler = translator.sampler_named()
    translator.decoder(sampler)
    lines = [] if warm_up is None else read_lines(warm_up)
    encoded = zip(lines, translator.vocabulary.encode(lines), strict=True)
    widths = {-(-len(pieces) // WIDTH_STEP): line for line, pieces in encoded}
    for line in widths.values():
        for size in BATCH_SIZES:
            translator.translate([line] * size, cut=True)
    run_service(translator, limits, address, lambda url: print(f"serving {translator.model.name}, sampler {sampler}, at {url}", flush=True))


def run_evaluate(
    bundle: Path, text: tuple[Path, ...], how: EvaluateRequest, reverse: bool, languages: str, limit: int | None, allow_python: bool
) -> None:
    """Print the scores of a translator under some of its samplers, and with reranking.

    Args:
        bundle: the bundle of the translator.
        text: the files of the parallel text.
        how: the options of the evaluation.
        reverse: whether source and target are exchanged.
        languages: the languages of the text, such as `en-de`.
        limit: the number of first pairs that are used; None uses all.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
    """
    from ..translation import Texts, dependency, evaluate, latency, load_translator, verify_learnt

    if how.learnt is not None:
        verify_learnt(how.learnt)
    translator = load_translator(bundle, allow_python=allow_python, precision=how.precision, shortlist=how.shortlist)
    pairs = Texts(text, limit=limit, reverse=reverse).pairs()
    direction = direction_of(languages, reverse) or translator.direction
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    options = {"seed": how.seed, "target_language": direction.rpartition("-")[2] or None, "learnt": how.learnt}
    options |= {"mesh_axis": how.mesh_axis}
    found: dict[str, dict[str, Any]] = {}

    def shown(words: object) -> None:
        if not how.as_json:
            print(f"{words}\n", flush=True)

    ways = _ways(translator, how, allow_python)
    for label, (t, name) in ways.items():
        with _moving() as moved:
            told = partial(_told, moved, len(sources))
            e = evaluate(t, sources, references, sampler=name, oracle=label == name, tell=told, **options)
        found[label] = e.as_dict()
        shown(e if label == name else f"reranked, {e}")
        if how.attention and label == name:
            tables = dependency(t, sources, sampler=name, seed=how.seed)
            found[label]["attention"] = None if tables is None else tables.as_dict()
            shown(tables or f"attention of sampler {name}: it has one pass, whose attention is its start's, or no line has a translation")
    if how.latency:
        with _moving(what="batches") as moved:
            times = latency(ways, [s for s in sources if s.strip()], tell=moved)
        for label, notes in found.items():
            notes["latency"] = [t for t in times.as_dict()["timings"] if t["name"] == label]
        shown(times)
    if how.as_json:
        print(json.dumps(found, indent=2))
    elif len(found) > 1:
        show_scores(found)


def _told(moved: Callable[[int, int], None], lines: int, rows: int) -> None:
    moved(min(rows, lines), lines)


def _ways(translator: Translator, how: EvaluateRequest, allow_python: bool) -> dict[str, tuple[Translator, str]]:
    """Return the samplers to compare.

    With a teacher that reranks, samplers of several candidates are listed again.
    """
    from ..translation import RERANKED, Reranked, candidate_count, load_translator

    ways = {name: (translator, name) for name in (translator.sampler_named(s) for s in how.samplers or translator.model.samplers)}
    if how.rerank is None:
        return ways
    chosen = Reranked(translator, load_translator(how.rerank, allow_python=allow_python))
    several = [name for name in ways if candidate_count(translator.model, name) > 1]
    if not several:
        help = "take a sampler with `lengths = 5`, say"
        raise fail("E590", f"there is nothing to choose from: {', '.join(ways)} makes one candidate", help=help)
    return ways | {name + RERANKED: (chosen, name) for name in several}


def show_scores(found: dict[str, Any], signed: bool = False) -> None:
    """Print a table of scores with a row for each; if `signed`, print their signatures below."""
    from ..translation import score_columns

    headers, rows, signatures = score_columns(found)
    print_table(["", *headers], rows)
    for line in signatures if signed else ():
        print(line)


def run_latency(
    text: Path,
    bundles: Sequence[Path],
    samplers: Sequence[str],
    what: tuple[int, int | None, bool, str, bool],
    as_json: bool,
    allow_python: bool,
) -> None:
    """Print the times of translators.

    Args:
        text: the file of source lines.
        bundles: the bundles of the translators.
        samplers: the samplers to measure; none stands for all.
        what: the number of sentences, the number of subword tokens of each translation, whether to
            measure peers, the precision, and whether to use shortlists.
        as_json: whether to print JSON.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
    """
    from ..translation import latency, load_translator, peers, read_lines

    translators: dict[str, tuple[Translator, str]] = {}
    for path in bundles:
        t = load_translator(path, allow_python=allow_python, precision=what[3], shortlist=what[4])
        for name in t.model.samplers:
            if not samplers or name in samplers:
                way = "" if t.way == "float32" else f", {t.way}"
                translators[f"{path.stem} {name}{way}"] = (t, name)
    if not translators:
        raise fail("E506", f"no translator has a sampler {', '.join(samplers)}")
    sentences, pieces, compared = what[:3]
    others = peers(next(iter(translators.values()))[0]) if compared else ()
    lines = [line for line in read_lines(text) if line.strip()]
    with _moving(what="batches") as moved:
        found = latency(translators, lines, sentences=sentences, length=pieces, peers=others, tell=moved)
    print(json.dumps(found.as_dict(), indent=2) if as_json else found)


def run_pipeline(request: PipelineRequest, teacher: Recipe, student: Recipe, texts: Texts, out: Path) -> None:
    """Run the pipeline, and print its table of scores.

    Args:
        request: the options of the pipeline.
        teacher: how the teacher is trained.
        student: how the students are trained.
        texts: the parallel text.
        out: the folder of the run.
    """
    from ..report import translation_report
    from ..translation import Pipeline, PipelineOptions

    if request.mesh_axis is not None and request.minutes is not None:
        help = "state the numbers of batches: `--steps` and `--teacher-steps`"
        raise fail("E507", "`--minutes` measures how fast a process is, and all processes must take the same steps", help=help)
    checked, inputs = checked_program(request.file, request.inputs, request.arrays)
    if unknown := [name for name in request.masks if name not in checked.masks]:
        raise fail("E506", f"the program has no mask `{unknown[0]}`", help=f"it has {', '.join(checked.masks)}")
    options = same_named(PipelineOptions, vars(request)) | {"inputs": inputs, "measured": request.sentences}
    options |= {"masks": {checked.masks[name].model: name for name in request.masks}}
    options |= {"direction": direction_of(request.languages, texts.reverse)}
    options |= {"command": shlex.join(["gmlm", *sys.argv[1:]])}
    run = Pipeline(PipelineOptions(request.file, texts, out, teacher, student, **options), note)
    content = run.run(lambda found, arrays, path: translation_report(found, arrays).save(path) and None)
    show_scores(content["scores"], signed=True)
    for name, notes in content["training"].items():
        if notes["reason"] == "patience":
            warn(f"{name}: training stopped before its last step, for want of patience")
    print(f"wrote {out / 'report.html'}")
