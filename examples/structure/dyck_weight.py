# The weight of Lab C's regulariser, by a rule that sees nothing but the loss it is added to and words of the trained length.
# python examples/structure/dyck_weight.py [--quick] [--out DIR] [--page]
#
# The largest weight, from the greatest of WEIGHTS down, with which networks of seeds that the laboratory has not still tell as many last
# brackets of words of 28 symbols as every network of the thesis does. Neither longer words nor the violation of the balance are looked at.
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import dyck  # noqa: E402 - beside this file
import laboratory  # noqa: E402 - in the folder above

WEIGHTS, SEEDS = (10.0, 1.0, 0.1, 0.01), (100, 101)
SETTING, WELL = "one-hot, regularised", 0.97


def told(size: dyck.Size, out: Path, weight: float) -> list[float]:
    """Closing brackets told at the trained length, seed by seed."""
    asked = dyck.closing(dyck.words(size, 2)[1], 2, dyck.LENGTH, 3)
    networks = [dyck.Trained(size, out / str(weight), SETTING, seed, weight) for seed in SEEDS]
    return [dyck.accuracy(m.params["net"].module, *asked)["closing"] for m in networks]


def search(size: dyck.Size, out: Path) -> dict[str, list[float]]:
    """By weight, down to the first that is taken; trained weights are kept, so that a search that was killed goes on with them."""
    found: dict[str, list[float]] = {}
    for weight in WEIGHTS:
        found[str(weight)] = told(size, out, weight)
        if min(found[str(weight)]) >= WELL:
            break
    return found


def parts(size: dyck.Size, out: Path) -> dict[str, Callable[[], Any]]:
    return {"search": partial(search, size, out)}


def tables(results: laboratory.Results, size: dyck.Size) -> dict[str, str]:
    rows = [[w, *(f"{100 * a:.1f}" for a in found), "taken" if min(found) >= WELL else ""] for w, found in results["search"].items()]
    return {"dyck_weight-tried": laboratory.markdown(["weight", *(f"of closing ones, seed {k}, %" for k in SEEDS), ""], rows)}


def lab() -> laboratory.Lab:
    return laboratory.Lab("dyck_weight", HERE, {"quick": dyck.QUICK, "default": dyck.Size()}, parts, tables, lambda results, size: {})


if __name__ == "__main__":
    sys.exit(laboratory.main(lab()))
