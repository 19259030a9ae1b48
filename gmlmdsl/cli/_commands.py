"""The commands of `gmlm`, one short function each.

Expensive modules are imported inside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._diagnostics import GmlmError
from . import _fit_options as o
from ._check_files import check_files
from ._console import show_error, stdin_text, stop
from ._processes import Coordinator, Processes, Rank, several
from ._program_arguments import same_named
from .limits import MOST_SEED


class Commands(TyperGroup):
    """Commands whose user faults end with rendered diagnostics and status 1, and never with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            is_usage = any(c.__name__ == "ClickException" for c in type(error).__mro__)
            if is_usage or isinstance(error, BrokenPipeError | typer.Exit | typer.Abort):
                raise
            status = stop(error)
        raise typer.Exit(status)


# The groups of commands in the help.
PROGRAMS, MODELS, FILES, TRANSLATORS = "Write programs", "Fit and sample", "Exchange models", "Translate"

app = typer.Typer(
    name="gmlm",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A modelling language for generative masked models. A `.gmlm` file declares models, masks and samplers; data are options.",
    epilog="`gmlm` alone prints the first steps, and `gmlm COMMAND --help` has the options of a command.",
)
FIRST = """gmlm fits discrete probability models to data and samples from them. A .gmlm file declares the models.

Start with a project that runs:
  gmlm new council                 a program, data and a README, in the folder council
  cd council
  gmlm check council.gmlm          every fault of the program
  gmlm fit council.gmlm data.csv --mask pairs --out council.fit
  gmlm sample council.fit --sampler gibbs

Or with a program:
  gmlm examples                    programs to copy
  gmlm mock FILE                   data of the types that a program declares
  gmlm explain factor              a word of the language; `gmlm explain FILE` prints formulas

`gmlm --help` lists all commands."""

File = Annotated[Path, typer.Argument(metavar="FILE", help="A .gmlm file.", show_default=False)]
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help=".gmlm files; `-` is the standard input.", show_default=False)]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input, such as L=8. May be repeated.", rich_help_panel=o.PROGRAM),
]
Arrays = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE.npz", help="Inputs that are arrays, by name.", rich_help_panel=o.PROGRAM)
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model; may be left out where the program has one.", rich_help_panel=o.PROGRAM),
]
MaskName = Annotated[
    str | None,
    typer.Option("--mask", "-m", metavar="NAME", help="The mask; may be left out where the model has one.", rich_help_panel=o.PROGRAM),
]
SamplerName = Annotated[str | None, typer.Option("--sampler", "-s", metavar="NAME", help="The sampler; not needed where there is one.")]
DrawnBy = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        "-s",
        metavar="NAME",
        help="Not needed where there is one; `exact`: independent draws, if affordable.",
        rich_help_panel=o.PROGRAM,
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=MOST_SEED, help="Everything random follows from it.")]
Rows = Annotated[
    int, typer.Option("--rows", metavar="N", min=0, help="The most rows of the table that are shown; 0: all.", rich_help_panel=o.OUTPUT)
]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write a report: one HTML page that needs nothing else.", rich_help_panel=o.OUTPUT),
]
DataPath = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Rows of data: .csv (with a header or not), .a2m, .a3m, .fasta or .sto, packed (.csv.gz) or not, .parquet, .npy, or .npz.",
        show_default=False,
    ),
]
FittedFile = Annotated[Path, typer.Argument(metavar="FILE", help="A saved fit, or a .gmlm file with --params.", show_default=False)]
ParamsFile = Annotated[Path | None, typer.Option("--params", metavar="FILE.npz", help="For a .gmlm file: the parameters, by name.")]
AllowPython = Annotated[
    bool,
    typer.Option(
        "--allow-python",
        help='Let networks, verifiers and values `python("package.module:name")` import and run that.',
        rich_help_panel=o.PROGRAM,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data (JSON) instead of text.")]
WithPlans = Annotated[
    bool,
    typer.Option("--plans", help="Print also how each sum is computed, and what it costs."),
]


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Show the version, or what to do first if no command is given."""
    if version:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as version_of

        try:
            print(f"gmlm {version_of('gmlmdsl')}")
        except PackageNotFoundError:
            print("gmlm, not installed: run from its source")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(FIRST)


@app.command(rich_help_panel=PROGRAMS)
def check(
    files: Files,
    as_json: AsJson = False,
    fix: Annotated[bool, typer.Option("--fix", help="Make the edits that surely mend a fault in the files; then check.")] = False,
    inputs: Inputs = None,
    arrays: Arrays = None,
) -> None:
    """Check programs, bound as far as their inputs are known: every error and warning. Status 1 where there is an error, else 0."""
    raise typer.Exit(check_files(files, as_json, fix, inputs or (), arrays))


@app.command(rich_help_panel=PROGRAMS)
def lsp() -> None:
    """Serve an editor over the standard streams, by the Language Server Protocol. Needs the extra `editor`."""
    from .._optional import need

    need("pygls", "an editor's language server needs pygls", '"gmlmdsl[editor]"')
    from ..editor import serve

    serve()


@app.command("format", rich_help_panel=PROGRAMS)
def format_files(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help=".gmlm files, rewritten in place.", show_default=False)] = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; list the files that would change, and exit with 1 if there are any.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="As --check, and print what would change, line by line.")] = False,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read a program from the standard input and print it formatted.")] = False,
) -> None:
    """Write programs in their one canonical form; comments stay."""
    from ..files import write_whole
    from ..syntax import format_source, read_source

    if stdin == bool(files):
        raise typer.BadParameter("name files, or say --stdin")
    if stdin:
        print(format_source(stdin_text(), "<stdin>"), end="")
        return
    status, check_only = 0, check_only or diff
    for file in files or ():
        try:
            before = read_source(file, piped=False).text
            text = format_source(before, str(file))
            changed = text.encode() != file.read_bytes()
            if changed and not check_only:
                write_whole(file, text.encode())
        except GmlmError as error:
            show_error(error)
            status = 1
            continue
        if changed:
            print(f"{'would change' if check_only else 'formatted'} {file}")
            if diff:
                print(_difference(before, text, file), end="")
            status = 1 if check_only else status
    raise typer.Exit(status)


def _difference(before: str, after: str, file: Path) -> str:
    import difflib

    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"{file}", f"{file} (formatted)")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@app.command(rich_help_panel=PROGRAMS)
def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|WORD|CODE",
            help="A .gmlm file, a word of the language, or the code of a message, such as E203.",
            show_default=False,
        ),
    ],
    inputs: Inputs = None,
    arrays: Arrays = None,
    stage: Annotated[
        str | None, typer.Option("--stage", metavar="tree|program|graph|plan", help="Print what this stage of the compiler makes of it.")
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="LaTeX instead of plain text.")] = False,
    model: ModelName = None,
    mask: MaskName = None,
    sampler: SamplerName = None,
    params: Annotated[
        Path | None,
        typer.Option("--params", metavar="FILE.npz", help="Parameters, by name: for the exact bias of samplers of small models."),
    ] = None,
    plans: WithPlans = False,
) -> None:
    """Explain a program: log p, each mask's conditional, loss and objective, each sampler.

    Or explain a word of the language, such as factor, or the code of a message.
    """
    from .. import explain as explaining
    from ._console import text_width

    if stage is not None and stage not in explaining.STAGES:
        raise typer.BadParameter(f"`{stage}` is none of {', '.join(explaining.STAGES)}", param_hint="--stage")
    if not what.endswith(".gmlm") and explaining.is_word_or_code(what):
        print(explaining.explain_word(what, text_width()), end="")
        return
    program, bound = _bound_if_possible(Path(what), inputs, arrays, needed=stage in ("graph", "plan"))
    if stage is not None:
        print(explaining.print_stage(stage, program, bound), end="")
        return
    told = explaining.Explanation(program, bound, model, mask, sampler, plans=plans)
    print(told.latex() if latex else told.text(text_width()), end="")
    if bound is not None and mask is None and not latex:
        from ._biases import show_biases

        show_biases(program, bound, model, sampler, params)


def _bound_if_possible(file: Path, inputs: list[str] | None, arrays: Path | None, needed: bool = False):
    """Return the checked program and the bound program.

    The latter is None if an input has no value and it is not `needed`.
    """
    from ..explain import needed_inputs
    from ..program import check_file
    from ._program_arguments import bind_program, read_inputs

    program = check_file(file)
    given = read_inputs(program, inputs or (), arrays)
    if not needed and needed_inputs(program, given):
        return program, None
    return program, bind_program(program, given).bound


@app.command(rich_help_panel=PROGRAMS)
def info(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A .gmlm file.", show_default=False)] = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
    versions: Annotated[bool, typer.Option("--versions", help="Print the versions of the packages, for the report of a fault.")] = False,
) -> None:
    """List what a program has: inputs, graphs, models with shapes and counts, masks, samplers; of a network its parameters by part."""
    from ..explain import describe

    if versions == (file is not None):
        raise typer.BadParameter("name a file, or say --versions")
    if file is None:
        from ._show_info import show_versions

        show_versions(as_json)
        return

    program, bound = _bound_if_possible(file, inputs, arrays)
    found = describe(program, bound, allow_python)
    if as_json:
        import json

        print(json.dumps(found, indent=2))
        return
    from ._show_info import show_info

    show_info(found)


@app.command(rich_help_panel=MODELS)
def fit(
    file: File,
    data: DataPath,
    mask: MaskName = None,
    model: ModelName = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
    columns: o.Columns = None,
    where: o.Where = None,
    missing: o.Missing = None,
    header: o.Header = None,
    weights: o.Weights = None,
    identity: o.Identity = None,
    focus: o.Focus = None,
    unknown_letters: o.UnknownLetters = None,
    row_gaps: o.RowGaps = None,
    column_gaps: o.ColumnGaps = None,
    n_masks: o.NMasks = None,
    max_steps: o.MaxSteps = None,
    starts: o.Starts = 1,
    checkpoint: o.Checkpoint = None,
    level: o.Level = None,
    gaps: o.GapsOption = o.Gaps.sum,
    seed: Seed = 0,
    rows: Rows = 40,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE.fit", help="Save the fit, for `gmlm sample` and Python's `gm.load_fit`.", rich_help_panel=o.OUTPUT
        ),
    ] = None,
    report: ReportFile = None,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Fit a model to data under a mask: estimates with standard errors, and what must be said about them.

    An input that is the number of columns may be left out: the data give it.
    Names of columns become labels of the cells.
    """
    options = locals() | {"inputs": inputs or [], "where": where or (), "missing": missing or (), "gaps": gaps.value}
    from ._data_files import Reading
    from ._show import FitRequest, run_fit

    options["reading"] = Reading(**same_named(Reading, options))
    with several(processes, coordinator, rank) as here:
        options |= {"out": here.written(out), "report": here.written(report), "mesh_axis": here.axis}
        run_fit(FitRequest(**same_named(FitRequest, options)))


@app.command(rich_help_panel=MODELS)
def sample(
    file: FittedFile,
    sampler: DrawnBy = None,
    model: ModelName = None,
    params: ParamsFile = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
    draws: o.Draws = None,
    warmup: o.Warmup = None,
    chains: o.Chains = None,
    thin: o.Thin = 1,
    seed: Seed = 0,
    clamp: o.Clamp = None,
    prompt: o.Prompt = None,
    rows: Rows = 20,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.nc|.npz", help="Save the draws: netCDF for ArviZ, or .npz.", rich_help_panel=o.OUTPUT),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="FILE.nc|.zarr",
            help="Write draws as they are drawn; a killed run goes on from there.",
            rich_help_panel=o.OUTPUT,
        ),
    ] = None,
    report: ReportFile = None,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Sample from a fitted model, or from a model with given parameters: ArviZ summary and warnings."""
    options: dict[str, Any] = locals() | {"clamp": clamp or []}
    from ._model_source import ModelSource
    from ._show import SampleRequest, run_sample

    options["source"] = ModelSource(file, model, params, inputs or [], arrays, allow_python)
    with several(processes, coordinator, rank) as here:
        options |= {name: here.written(options[name]) for name in ("out", "report", "store")} | {"mesh_axis": here.axis}
        run_sample(SampleRequest(**same_named(SampleRequest, options)))


@app.command(rich_help_panel=MODELS)
def masks(
    file: FittedFile,
    mask: Annotated[
        list[str] | None, typer.Option("--mask", "-m", metavar="NAME", help="A mask; may be repeated. Every mask that can fit by default.")
    ] = None,
    model: ModelName = None,
    params: ParamsFile = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print masks worth trying as .gmlm text, the best first, and nothing else: `>> file.gmlm`.")
    ] = False,
    draws: Annotated[
        int | None,
        typer.Option("--draws", metavar="N", help="Estimate from N draws, 200 or more. By default exact for small models, else 4000."),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option("--sampler", "-s", metavar="NAME", help="What draws them. Independent draws by default, where affordable.")
    ] = None,
    seed: Seed = 0,
    no_times: Annotated[bool, typer.Option("--no-times", help="Do not time gradients and steps, which compiles both.")] = False,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
) -> None:
    """Compare masks at a model's parameters: what each costs in rows and in time, how fast its chain forgets, which to take."""
    from ._masks_command import MasksRequest, run_masks
    from ._model_source import ModelSource

    if suggest and mask:
        raise typer.BadParameter("suggested masks are not the program's: leave --mask out", param_hint="--suggest")
    source = ModelSource(file, model, params, inputs or [], arrays, allow_python)
    run_masks(MasksRequest(source, mask, suggest, draws, sampler, seed, not no_times, as_json))


@app.command("import", rich_help_panel=FILES)
def import_model(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A model of another tool: BIF, XMLBIF, UAI, dimod, plmc or adabmDCA.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.gmlm", help="The program; by default FILE's name, in this folder."),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", metavar="FILE.evid", help="For UAI: known values, which become requirements."),
    ] = None,
) -> None:
    """Write a program from a model file of another tool, and its large tables beside it.

    The tables are one .npz file, for `--inputs`, and parameters another, for `--params`. Nothing is
    overwritten.
    """
    from ._exchange import run_import

    run_import(file, out, evidence)


@app.command("export", rich_help_panel=FILES)
def export_model(
    file: FittedFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.bif|.xmlbif|.uai|.json|.coo|.model|.dat",
            help="Its ending names the format.",
            show_default=False,
        ),
    ],
    model: ModelName = None,
    params: ParamsFile = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
) -> None:
    """Write a model, at its parameters, as a file of another tool."""
    from ._exchange import run_export
    from ._model_source import ModelSource

    run_export(ModelSource(file, model, params, inputs or [], arrays), out)


@app.command(rich_help_panel=PROGRAMS)
def examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The example to copy; without it they are listed.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR|FILE.gmlm", help="Where the copy goes; this folder by default.")
    ] = None,
) -> None:
    """List the programs that come with gmlm, or copy one and what it imports. Nothing is overwritten."""
    from ._starter import run_examples

    if out is not None and name is None:
        raise typer.BadParameter("name the example to copy", param_hint="--out")
    run_examples(name, out)


@app.command(rich_help_panel=PROGRAMS)
def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The name of the project, and of its new folder.", show_default=False)],
) -> None:
    """Write a project to start from: a program, data and a README with commands that run as printed. Nothing is overwritten."""
    from ._starter import run_new

    run_new(folder)


@app.command(rich_help_panel=PROGRAMS)
def mock(
    file: File,
    model: ModelName = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="How many rows are drawn.")] = 100,
    inputs: Inputs = None,
    arrays: Arrays = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.")] = Path(),
    allow_python: AllowPython = False,
) -> None:
    """Write invented data of the types that a program declares, and invented inputs, and print the command that fits them.

    Each cell is uniform over its values, whatever the factors are. Nothing is overwritten.
    """
    from ._model_source import ModelSource
    from ._starter import run_mock

    run_mock(ModelSource(file, model, None, inputs or [], arrays, allow_python), rows, seed, out)


@app.command(rich_help_panel=MODELS)
def demo(out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the report goes.")] = Path("demo-report")) -> None:
    """Fit a model of handwritten digits under two masks, compare them, sample, and write a report. Takes a minute or two."""
    from ..demo import run

    run(out)
