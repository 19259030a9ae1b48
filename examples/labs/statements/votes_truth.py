# Makes votes.json: the parameters of a model of six votes of the House in 1984, fitted to the members who cast all of them.
# python votes_truth.py house-votes-84.csv
import csv
import json
import sys
from pathlib import Path

import numpy as np

import gmlmdsl as gm

HERE, COUNT = Path(__file__).resolve().parent, 6


def main(path: Path) -> None:
    """Fit by maximum a posteriori under the priors of votes.gmlm, all votes hidden at once."""
    with path.open(encoding="utf-8") as file:
        names, *rows = list(csv.reader(file))
    cast = [row[1 : COUNT + 1] for row in rows if "?" not in row[1 : COUNT + 1]]
    x = (np.array(cast) == "y").astype(int)
    params = gm.load(HERE / "votes.gmlm").model().fit(x, mask="six").params
    found = {name: [round(float(v), 4) for v in np.asarray(value)] for name, value in params.items()}
    text = json.dumps({"votes": [name.strip() for name in names[1 : COUNT + 1]], "rows": len(x), "params": found}, indent=1)
    (HERE / "votes.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
