"""Runs the tests under other versions of Python and of the packages that this one depends on.

`python tests/versions.py` makes one environment for each line of `SETTINGS`, installs the package there as the line says, and runs
the tests of `make check`; `--all` runs those of `make test`. Names of lines select some of them. `--pytest="-n 2"` passes options on.
It needs uv (`pip install uv`) and the versions of Python; `--folder` keeps the environments between runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("test", "demo", "netcdf", "docs")  # what the tests import


@dataclass(frozen=True)
class Setting:
    """A version of Python, the versions of the dependencies, and what is installed: the checkout, a wheel, or a wheel of the sdist."""

    python: str
    resolution: str  # as uv names it
    installed: str


SETTINGS = {
    "lowest": Setting("3.11", "lowest-direct", "sdist"),
    "3.12": Setting("3.12", "highest", "wheel"),
    "3.13": Setting("3.13", "highest", "editable"),
}


def run(*words: str | Path) -> str:
    """Run a command in the checkout, and return what it printed; an error ends this program."""
    done = subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(name: str, folder: Path) -> Path:
    """Make the environment of a setting; return the folder of its programs."""
    setting, venv, pins = SETTINGS[name], folder / name, folder / f"{name}.txt"
    uv = (sys.executable, "-m", "uv", "--quiet")
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    kind = ("--resolution", setting.resolution, "--python-version", setting.python)
    run(*uv, "pip", "compile", "--no-header", *kind, *extras, "pyproject.toml", "-o", pins)
    run(*uv, "venv", "--clear", "--python", setting.python, venv)
    if setting.installed == "editable":
        package = ["--editable", f".[{','.join(EXTRAS)}]"]
    else:
        dist = folder / f"dist-{name}"
        run(*uv, "build", *(["--wheel"] if setting.installed == "wheel" else []), "--out-dir", dist)  # else the sdist, and the wheel of it
        package = [f"{next(dist.glob('*.whl'))}[{','.join(EXTRAS)}]"]
    run(*uv, "pip", "install", "--python", venv / "bin" / "python", "--constraint", pins, *package)
    return venv / "bin"


def tested(name: str, bin_folder: Path, words: list[str]) -> bool:
    """Run pytest in an environment, and print where the package was found and whether all tests passed."""
    program = "import gmlmdsl, sys, jax, numpy, arviz, pandas; print(sys.version.split()[0], gmlmdsl.__file__, "
    program += "*(f'{m.__name__} {m.__version__}' for m in (jax, numpy, arviz, pandas)), sep=', ')"
    with tempfile.TemporaryDirectory() as away:
        where = subprocess.run([bin_folder / "python", "-W", "ignore", "-c", program], cwd=away, capture_output=True, text=True, check=True)
    print(f"{name}: {where.stdout.strip()}", flush=True)
    if SETTINGS[name].resolution != "highest":  # an old version may use what a newer one, of which it knows nothing, calls deprecated
        words = [*words, *(f"-Wignore::{kind}" for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning"))]
    # `pytest` and not `python -m pytest`, which would put the checkout before what is installed.
    done = subprocess.run([bin_folder / "pytest", "-q", *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": ""}, check=False)
    print(f"{name}: {'passed' if done.returncode == 0 else f'failed, status {done.returncode}'}", flush=True)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SETTINGS)}; all by default")
    parser.add_argument("--folder", type=Path, help="keep the environments here")
    parser.add_argument("--all", action="store_true", help="the tests of `make test`, not of `make check`")
    parser.add_argument("--pytest", default="", metavar="WORDS", help="options and files of pytest")
    a = parser.parse_args()
    if unknown := set(a.names) - set(SETTINGS):
        parser.error(f"no setting {', '.join(sorted(unknown))}; known are {', '.join(SETTINGS)}")
    with tempfile.TemporaryDirectory() as away:
        folder = (a.folder or Path(away)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        chosen = a.pytest.split() + ([] if a.all else ["-m", "check and not slow"])
        passed = [tested(name, environment(name, folder), chosen) for name in a.names or SETTINGS]
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
