"""Builds the playground: one page that checks programs in a browser by Pyodide, from the npm package of Pyodide.

python docs/build_playground.py [FOLDER]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "playground"
PYODIDE = "pyodide@314.0.7"
NEEDED = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
EXAMPLES = ("votes", "ising", "potts", "hmm", "mixed", "rbm")


def pack_sources(target: Path) -> None:
    """Write the package, its grammar and the answers of the page as one archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((ROOT / "gmlmdsl").rglob("*")):
            if path.suffix in (".py", ".toml"):
                archive.write(path, path.relative_to(ROOT))
        for path in sorted((ROOT / "grammar").glob("gmlm.*")):
            archive.write(path, Path("gmlmdsl/grammar") / path.name)
        archive.write(PAGE / "answers.py", "answers.py")


def fetch_pyodide(target: Path) -> None:
    """Put the needed files of the npm package into a folder; `npm` must be installed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", PYODIDE], cwd=folder, check=True)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as packed:
            for name in NEEDED:
                packed.extract(f"package/{name}", folder, filter="data")
                shutil.copy(Path(folder) / "package" / name, target)


def main(out: Path) -> None:
    """Write the page and all that it loads into a folder."""
    (out / "pyodide").mkdir(parents=True, exist_ok=True)
    shutil.copy(PAGE / "index.html", out)
    pack_sources(out / "gmlmdsl.zip")
    texts = {name: (ROOT / "examples" / f"{name}.gmlm").read_text(encoding="utf-8") for name in EXAMPLES}
    (out / "examples.json").write_text(json.dumps(texts), encoding="utf-8")
    fetch_pyodide(out / "pyodide")
    print(f"wrote {out}; look at it: python -m http.server --bind 127.0.0.1 --directory {out}")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or [ROOT / "build" / "playground"]))
