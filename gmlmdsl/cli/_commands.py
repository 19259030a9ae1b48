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

    def __init__(self, **options: Any):
        super().__init__(**options)
        for command in self.commands.values():  # A paragraph of a docstring becomes one line.
            command.help = "\n\n".join(p.replace("\n", " ") for p in (command.help or "").split("\n\n"))
            for flag in (p for p in command.params if getattr(p, "is_flag", False)):
                flag.metavar = ""  # Typer would print `<bool>`, as if the flag took a value.

    def invoke(self, ctx: Any) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            is_usage = any(c.__name__ == "ClickException" for c in type(error).__mro__)
            if is_usage or isinstance(error, BrokenPipeError | typer.Exit | typer.Abort):
                raise
            raise typer.Exit(stop(error)) from None


# The groups of commands in the help.
PROGRAMS, MODELS, FILES, TRANSLATORS = "Write programs", "Fit and sample", "Exchange models", "Translate"

app = typer.Typer(
    name="gmlm",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A modelling language for generative masked models. A `.gmlm` file declares models, masks and samplers; commands take the data.",
    epilog="`gmlm` without a command prints the first steps. `gmlm COMMAND --help` lists the options of a command.",
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
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help=".gmlm files, or `-` for standard input.", show_default=False)]
Inputs = Annotated[
    list[str] | None,
    o.program("--input", "-i", metavar="NAME=VALUE", help="Value of an input, such as L=8. May be repeated."),
]
Arrays = Annotated[Path | None, o.program("--inputs", metavar="FILE.npz", help="File of input arrays, by name.")]
ModelName = Annotated[str | None, o.program("--model", metavar="NAME", help="The model. Not needed if the program has only one.")]
MaskName = Annotated[str | None, o.program("--mask", "-m", metavar="NAME", help="The mask. Not needed if the model has only one.")]
SamplerName = Annotated[str | None, o.program("--sampler", "-s", metavar="NAME", help="The sampler to explain. Default: all samplers.")]
DrawnBy = Annotated[
    str | None,
    o.program(
        "--sampler",
        "-s",
        metavar="NAME",
        help="The sampler. Not needed if the model has only one. `exact` makes independent draws, if affordable.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=MOST_SEED, help="Seed of all random numbers.")]
Rows = Annotated[int, o.output("--rows", metavar="N", min=0, help="Maximum number of table rows to print; 0 prints all.")]
ReportFile = Annotated[Path | None, o.output("--report", metavar="FILE.html", help="Write a report as one self-contained HTML page.")]
DataPath = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Data file, one row per observation: .csv (with or without a header), .a2m, .a3m, .fasta or .sto, each also packed (.csv.gz); "
        ".parquet, .npy or .npz.",
        show_default=False,
    ),
]
FittedFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A saved fit, or a .gmlm file together with --params.", show_default=False)
]
ParamsFile = Annotated[Path | None, o.program("--params", metavar="FILE.npz", help="Parameters of a .gmlm file, by name.")]
AllowPython = Annotated[
    bool,
    o.program("--allow-python", help='Allow networks, verifiers and values `python("package.module:name")` to import and run that code.'),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
WithPlans = Annotated[bool, typer.Option("--plans", help="Also print how each sum is computed, and its cost.")]


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Show the version, or the first steps if no command is given."""
    if version:
        from importlib import metadata

        try:
            print(f"gmlm {metadata.version('gmlmdsl')}")
        except metadata.PackageNotFoundError:
            print("gmlm, not installed: run from its source")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(FIRST)


@app.command(rich_help_panel=PROGRAMS)
def check(
    files: Files,
    as_json: AsJson = False,
    fix: Annotated[bool, typer.Option("--fix", help="First correct the files by all fixes that are certain.")] = False,
    inputs: Inputs = None,
    arrays: Arrays = None,
) -> None:
    """Check programs, and print all errors and warnings.

    Faults that depend on sizes are found if the inputs are given or have defaults. The exit status
    is 1 if there is an error, and 0 otherwise.
    """
    raise typer.Exit(check_files(files, as_json, fix, inputs or (), arrays))


@app.command(rich_help_panel=PROGRAMS)
def lsp() -> None:
    """Run a language server for editors. Needs the extra `editor`.

    The server uses the Language Server Protocol over standard input and output.
    """
    from .._optional import need

    need("pygls", "an editor's language server needs pygls", '"gmlmdsl[editor]"')
    from ..editor import serve

    serve()


@app.command("format", rich_help_panel=PROGRAMS)
def format_files(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help=".gmlm files, which are rewritten in place.", show_default=False)
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing. List the files that would change; the exit status is 1 if there are any.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Like --check, and print the differences line by line.")] = False,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read a program from standard input and print it formatted.")] = False,
) -> None:
    """Rewrite programs in the canonical layout. Comments are kept."""
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
            help="A .gmlm file, a word of the language such as factor, or a code of a message such as E203.",
            show_default=False,
        ),
    ],
    inputs: Inputs = None,
    arrays: Arrays = None,
    stage: Annotated[
        str | None, typer.Option("--stage", metavar="tree|program|graph|plan", help="Print the output of this stage of the compiler.")
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX instead of plain text.")] = False,
    model: ModelName = None,
    mask: MaskName = None,
    sampler: SamplerName = None,
    params: Annotated[
        Path | None,
        typer.Option(
            "--params", metavar="FILE.npz", help="Parameters, by name. With them, the exact bias of samplers of small models is printed."
        ),
    ] = None,
    plans: WithPlans = False,
) -> None:
    """Explain a program, a word of the language or the code of a message.

    For a program, print the formulas: log p, the conditional, loss and objective of each mask, and
    the steps of each sampler.
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
    versions: Annotated[bool, typer.Option("--versions", help="Print the versions of all packages, for a fault report.")] = False,
) -> None:
    """List the parts of a program: inputs, graphs, models, masks and samplers.

    Models are listed with shapes and counts, and networks with the number of parameters of each
    part.
    """
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
        o.output("--out", "-o", metavar="FILE.fit", help="Save the fit, for `gmlm sample` and for `gm.load_fit` in Python."),
    ] = None,
    report: ReportFile = None,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Fit a model to data under a mask, and print the estimates with standard errors and warnings.

    An input that is the number of columns may be omitted, because the data determine it. The names
    of the columns become labels of the cells.
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
        Path | None, o.output("--out", "-o", metavar="FILE.nc|.npz", help="Save the draws, as netCDF for ArviZ or as .npz.")
    ] = None,
    store: Annotated[
        Path | None,
        o.output("--store", metavar="FILE.nc|.zarr", help="Write draws while sampling. The same command resumes a stopped run."),
    ] = None,
    report: ReportFile = None,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Sample from a fitted model, or from a model with given parameters.

    Prints the ArviZ summary of the draws, and warnings.
    """
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
        list[str] | None,
        o.program("--mask", "-m", metavar="NAME", help="A mask to compare. May be repeated. Default: all masks that can fit."),
    ] = None,
    model: ModelName = None,
    params: ParamsFile = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
    suggest: Annotated[
        bool,
        o.comparing("--suggest", help="Only print suggested masks as .gmlm text, the best first, to append to a file: `>> file.gmlm`."),
    ] = False,
    draws: Annotated[
        int | None,
        o.comparing(
            "--draws", metavar="N", help="Estimate from N draws, at least 200. By default exact for small models, else 4000 draws."
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        o.comparing("--sampler", "-s", metavar="NAME", help="The sampler of these draws. By default independent draws, if affordable."),
    ] = None,
    seed: Seed = 0,
    no_times: Annotated[
        bool, o.comparing("--no-times", help="Do not measure the time of gradients and steps, which needs compilation.")
    ] = False,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
) -> None:
    """Compare masks at a model's parameters, and recommend one.

    For each mask, print the rows and the time that it needs, and the mixing of its chain.
    """
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
        typer.Argument(metavar="FILE", help="A model file of another tool: BIF, XMLBIF, UAI, dimod, plmc or adabmDCA.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.gmlm", help="The program to write. Default: the name of FILE, in the current folder."),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", metavar="FILE.evid", help="Evidence of a UAI file: known values, which become `require` statements."),
    ] = None,
) -> None:
    """Convert a model file of another tool to a program.

    Large tables are written to an .npz file for `--inputs`, and parameters to another one for
    `--params`. Existing files are never overwritten.
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
            help="The file to write. Its suffix determines the format.",
            show_default=False,
        ),
    ],
    model: ModelName = None,
    params: ParamsFile = None,
    clamp: Annotated[
        list[str] | None,
        typer.Option(
            "--clamp",
            metavar="x[3]=1",
            help="A known cell, for the evidence beside a .uai file. May be repeated.",
        ),
    ] = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
) -> None:
    """Write a model with its parameters as a model file of another tool."""
    from ._exchange import run_export
    from ._model_source import ModelSource

    run_export(ModelSource(file, model, params, inputs or [], arrays), out, clamp or [])


@app.command(rich_help_panel=PROGRAMS)
def examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The example to copy. Without a name, all examples are listed.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR|FILE.gmlm", help="Folder or file of the copy. Default: the current folder.")
    ] = None,
) -> None:
    """List the example programs, or copy one with the files that it imports.

    Existing files are never overwritten.
    """
    from ._starter import run_examples

    if out is not None and name is None:
        raise typer.BadParameter("name the example to copy", param_hint="--out")
    run_examples(name, out)


@app.command(rich_help_panel=PROGRAMS)
def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="Name of the project and of its new folder.", show_default=False)],
) -> None:
    """Create a starter project: a program, data, and a README with commands that run as printed.

    Existing files are never overwritten.
    """
    from ._starter import run_new

    run_new(folder)


@app.command(rich_help_panel=PROGRAMS)
def mock(
    file: File,
    model: ModelName = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Number of data rows.")] = 100,
    inputs: Inputs = None,
    arrays: Arrays = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the files.")] = Path(),
    allow_python: AllowPython = False,
) -> None:
    """Write random data and inputs of the types that a program declares.

    Prints the command that fits the data. Each cell is uniform over its values, and the factors
    are ignored. Existing files are never overwritten.
    """
    from ._model_source import ModelSource
    from ._starter import run_mock

    run_mock(ModelSource(file, model, None, inputs or [], arrays, allow_python), rows, seed, out)


@app.command(rich_help_panel=MODELS)
def demo(out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the report.")] = Path("demo-report")) -> None:
    """Fit a model of handwritten digits under two masks, compare the masks, and write a report.

    It also samples from the fits. It takes one to two minutes.
    """
    from ..demo import run

    run(out)
