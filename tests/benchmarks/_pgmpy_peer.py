"""Variable elimination by pgmpy, run by an interpreter that has it: `python _pgmpy_peer.py files FOLDER` or `.. answers FOLDER QUESTIONS`.

It knows nothing of this project, whose interpreter need not have pgmpy.
"""

import gzip
import json
import sys
import time
import warnings
from pathlib import Path

import numpy

warnings.filterwarnings("ignore")
for old, new in {"product": numpy.prod, "float_": numpy.float64}.items():  # names that releases without PyTorch still use
    if not hasattr(numpy, old):
        setattr(numpy, old, new)


def files(folder: Path) -> None:
    """Writes the networks that pgmpy brings along, those of the bnlearn repository, as BIF files."""
    import pgmpy

    for packed in (Path(pgmpy.__file__).parent / "utils" / "example_models").glob("*.bif.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))


def answers(folder: Path, questions: dict) -> dict:
    """The marginals of every other variable for each set of evidence, with processor seconds of reading and answering."""
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    found = {}
    for name, sets in questions.items():
        start = time.process_time()
        model = BIFReader(str(folder / f"{name}.bif")).get_model()
        states = {v: model.get_cpds(v).state_names[v] for v in model.nodes()}
        read, laws = time.process_time(), []
        asked = VariableElimination(model)
        for known in sets:
            evidence = {v: states[v][code] for v, code in known.items()}
            rest = [v for v in sorted(model.nodes()) if v not in known]
            query = [asked.query([v], evidence=evidence, show_progress=False) for v in rest]
            laws.append({v: [float(q.get_value(**{v: s})) for s in states[v]] for v, q in zip(rest, query, strict=True)})
        found[name] = {"read": read - start, "answers": time.process_time() - read, "laws": laws}
    return found


if __name__ == "__main__":
    if sys.argv[1] == "files":
        files(Path(sys.argv[2]))
    else:
        print(json.dumps(answers(Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))))
