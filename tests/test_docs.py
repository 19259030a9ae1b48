"""The pages run, their links lead somewhere, and what is generated is fresh."""

import importlib.util
import re
import tomllib
import warnings
from itertools import pairwise

import pytest
from documented_examples import examples
from markdown_blocks import LABS, PAGES, ROOT, Output, alike, blocks_in, blocks_of, broken_links, run_page, unlike_kept

DOCS = ROOT / "docs"
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed"]
TUTORIAL = DOCS / "tutorial" / "first-model.md"
NIGHT = {ROOT / e.name for e in examples() if e.night} - {TUTORIAL}  # `test_documented_examples.py` runs these beside their figures
RUNNING = [p for p in PAGES if p not in NIGHT and any(b.language in ("gmlm", "python", "sh") for b in blocks_of(p))]
ELSEWHERE = {ROOT / e.name for e in examples()} - {TUTORIAL}  # `make examples` runs these on their own, on real data
DEAR = (  # to compile
    *("explanation/missing-cells.md", "explanation/standard-errors.md", "how-to/check-a-model.md", "how-to/choose-a-mask.md"),
    *("how-to/ask-exact-questions.md", "how-to/use-covariates.md", "how-to/start-faster.md", "reference/python.md"),
    *(
        "how-to/find-edges-by-posterior.md",
        "how-to/use-numpyro.md",
        "how-to/draw-from-posteriors.md",
        "how-to/generate-under-constraints.md",
    ),
    *("how-to/use-several-devices.md", "how-to/fit-hidden-variables.md", "explanation/exact-plans.md", "tutorial/language-by-example.md"),
    *("how-to/read-data.md", "how-to/read-the-warnings.md", "how-to/sample-and-diagnose.md"),
    *("how-to/train-a-network.md", "how-to/translate.md", "how-to/understand-a-chain.md"),
    *("how-to/decode-with-a-likelihood.md", "how-to/model-ordered-answers.md", "how-to/come-from-other-tools.md"),
)


def load(builder="build_reference"):
    spec = importlib.util.spec_from_file_location(builder, DOCS / f"{builder}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name(page):
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else LABS.parent))


def of_page(page):
    """What is dear to compile, or runs elsewhere, is slow."""
    marks = [pytest.mark.slow] * (page in {TUTORIAL} | ELSEWHERE or name(page) in DEAR)
    return pytest.param(page, marks=marks)


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("page", [of_page(p) for p in RUNNING], ids=map(name, RUNNING))
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # as the kept outputs were printed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the diagnostics, which the pages explain
        outputs: list[Output] = []
        assert run_page(page, tmp_path, outputs=outputs) > 0
    assert unlike_kept(page, outputs) == []


def test_each_kept_output_is_of_a_block_as_it_stands():
    builder = load("build_outputs")
    now = {str(p.relative_to(ROOT)): [b.digest for b in blocks_of(p) if b.prints] for p in builder.pages()}
    then = {page: [o["block"] for o in outputs] for page, outputs in builder.kept().items()}
    changed = sorted(page for page in now.keys() | then.keys() if now.get(page) != then.get(page))
    assert changed == [], f"run: python docs/build_outputs.py {' '.join(changed)}"


def test_the_outputs_on_the_page_of_examples_are_the_kept_ones():
    page = DOCS / "tutorial" / "language-by-example.md"
    kept = {o["block"]: o["text"] for o in load("build_outputs").kept()[str(page.relative_to(ROOT))]}
    blocks = blocks_of(page)
    shown = [(kept[b.digest], after.text) for b, after in pairwise(blocks) if b.prints and after.language == "text"]
    assert len(shown) > 10
    assert [f"{text}\n" for text, _ in shown] == [text for _, text in shown]


PAGE = """# A page

```python
print(1)
```

And more:

```python
print(2)
```

It prints this:

```text
2
```

## A part

```sh
gmlm --version
```
"""


def test_outputs_stand_below_their_blocks_once():
    builder = load("build_outputs")
    kept = [{"block": b.digest, "text": t} for b, t in zip([b for b in blocks_in(PAGE) if b.prints], ("1", "2", "```\n.."), strict=True)]
    shown = builder.with_outputs(PAGE, kept)
    assert shown.count("{code-block} text") == 2  # the page shows the second itself
    assert "print(1)\n```\n\n```{code-block} text\n:class: output\n\n1\n```\n" in shown
    assert shown.endswith("````{code-block} text\n:class: output\n\n```\n..\n````\n")
    assert builder.with_outputs(PAGE, [{"block": "0", "text": "1"}]) == PAGE
    assert builder.with_outputs("# No block\n", []) == "# No block\n"


def test_outputs_are_compared_by_their_words():
    assert alike("converged after 4 steps, 7.4 s", "converged after 5 steps, 0.1 s")
    assert not alike("error: there is no such model", "converged after 5 steps")
    assert alike("0.1 2e-3", "[1.5, nan]")
    assert not alike("", "converged after 5 steps")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_a_page_lead_somewhere(page):
    assert broken_links(page) == []


def test_every_page_is_linked_from_the_index():
    listed = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", (DOCS / "index.md").read_text(encoding="utf-8"))}
    records = {DOCS / "index.md", DOCS / "reference" / "benchmarks.md"}  # `laboratories.md` links the records
    assert {p for p in PAGES if p not in records and p.is_relative_to(DOCS)} <= listed


GENERATED = [
    *(f"reference/{name}.md" for name in ("language", "errors", "limits", "python", "command-line")),
    "explanation/how-it-is-tested.md",
    "how-to/upgrade.md",
]


@pytest.fixture(scope="module")
def fresh():
    """The generated pages as they are written now."""
    return {name(path): text for path, text in load().pages().items()}


@pytest.mark.parametrize("page", GENERATED)
def test_the_generated_reference_is_fresh(fresh, page):
    assert (DOCS / page).read_text(encoding="utf-8") == fresh[page], "run: python docs/build_reference.py"


def test_a_page_of_limits_has_sections_names_values_and_comments():
    load()  # the folder of the builders is then found
    from build_limits import constants

    text = '''class Budget:
    """Limits of work."""

    terms: float = 2.0**28  # for one block

# Starts.
A = 1e-3
# of a long
# comment
B = (1 << 2) - 1  # and | more
C, D = 1, 2
BUDGET = Budget()

E = 6_000.0

# Packed files. Zeros pack to a thousandth, and
# data to a half.
F = 2.5  # a ratio
'''
    assert list(constants(text)) == [
        ("Limits of work", "terms", "268,435,456 = 2^28", "for one block"),
        ("Starts", "A", "1e-3", ""),
        ("Starts", "B", "(2^2) - 1", "of a long comment and \\| more"),
        ("Starts", "C, D", "1, 2", ""),
        ("Starts", "E", "6,000", ""),
        ("Packed files\n\nZeros pack to a thousandth, and data to a half.", "F", "2.5", "a ratio"),
    ]


def test_a_target_names_tests_that_exist():
    targets = tomllib.loads((ROOT / "tests" / "targets.toml").read_text(encoding="utf-8"))["target"]
    assert len(targets) == 16
    for target in targets:
        files = re.findall(r"tests/\S+\.py", target["command"])
        assert files and all((ROOT / file).is_file() for file in files), target["command"]
        assert target["state"] in ("met", "partly", "not run") and re.fullmatch(r"night|\d{4}-\d\d-\d\d", target["when"])


def test_the_deprecations_are_those_of_the_code():
    """The page has what `codes.toml` calls deprecated: every warning of an old form is, and Python's own warnings are not used."""
    codes = tomllib.loads((ROOT / "gmlmdsl" / "codes.toml").read_text(encoding="utf-8"))
    old = {c for c, entry in codes.items() if re.search("earlier version|another name now", entry["title"])}
    assert old == {c for c, entry in codes.items() if {"deprecated", "removed"} & {*entry}} > set()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    for entry in (codes[c] for c in old):
        since, until, now = ([int(n) for n in text.split(".")[:2]] for text in (entry["deprecated"], entry["removed"], version))
        assert since < until and since <= now < until, "a form that may go has gone, or its time is longer"
    warned = [p for p in (ROOT / "gmlmdsl").rglob("*.py") if re.search(r"(Deprecation|Future)Warning", p.read_text(encoding="utf-8"))]
    assert [p.name for p in warned] == ["_arviz.py"]  # which silences those of ArviZ


def test_every_form_is_in_the_reference():
    from gmlmdsl.program import forms

    text = (DOCS / "reference" / "language.md").read_text(encoding="utf-8")
    assert [f.name for f in forms.FORMS if f"| `{f.signature if f.options else f.name}` |" not in text] == []


def test_every_code_is_in_the_reference():
    codes = tomllib.loads((ROOT / "gmlmdsl" / "codes.toml").read_text(encoding="utf-8"))
    text = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    assert [c for c in codes if f"### {c} " not in text] == []


def test_the_changelog_is_one_file():
    """A version has each kind of change at most once, in one order; every change is an entry of a kind, but those of "When you upgrade"."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert not (DOCS / "changelog.d").exists(), "an entry goes into CHANGELOG.md"
    versions = re.split(r"^## ", text, flags=re.M)[1:]
    assert versions[0].startswith("Unreleased\n")
    for version in versions:
        kinds = re.findall(r"^### (.*)$", version, re.M)
        assert kinds == [kind for kind in KINDS if kind in kinds]
        for entries in re.split(r"^### .*$", version, flags=re.M)[1:]:
            assert re.fullmatch(r"\n\n(- \S.*\n(  \S.*\n)*)+\n*", entries), "an entry begins with `- `, and its lines with two blanks"


def test_the_links_of_the_changelog_lead_somewhere():
    assert broken_links(ROOT / "CHANGELOG.md") == []


def test_refused_models_cost_what_the_page_says(capsys):
    page = DOCS / "explanation" / "exact-plans.md"
    (block,) = (b for b in blocks_of(page) if b.language == "python" and "models = {" in b.text)
    exec(compile(block.text, str(page), "exec"), {})
    said = capsys.readouterr().out.splitlines()
    rows = {
        tuple(c.strip() for c in line.split("|")[1:3]) for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    }
    assert len(said) == 5
    for line in said:
        assert any(line == " ".join(row) for row in rows), line
