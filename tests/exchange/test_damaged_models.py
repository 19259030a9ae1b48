"""Letters that are dropped, doubled and put in at random: a file is read or refused, and what is read is a program."""

from __future__ import annotations

import json
import random

import pytest
from damage import damaged as damaged_bytes
from exchange_cases import ASIA, ODD
from test_bqm import BQM, COO
from test_potts import GOOD, LINES
from test_uai import BAYES, RING
from test_xmlbif import DTD, SPRINKLER

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source

FILES = {"asia": ASIA, "odd": ODD, "xml": DTD + SPRINKLER, "markov": RING, "bayes": BAYES, "coo": COO, "json": json.dumps(BQM)}
FILES["adabm"] = "\n".join(LINES)
LETTERS = "{}()[]|,;\"<>&/*#:- \n\t0123456789.eExyz_é\x00\x7f\u2028\r\\'"


def damaged(text: str, draw: random.Random) -> str:
    """A text with one to four changes."""
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(text) + 1), draw.choice([0, 0, 1, 1, 5, 20])
        other = draw.randrange(len(text) + 1)
        new = draw.choice([draw.choice(LETTERS), "", text[other : other + draw.choice([3, 10, 60])]])
        text = text[:at] + new + text[at + length :]
    return text


def read_or_codes(path) -> gm.ImportedModel | tuple[str, ...]:
    try:
        return gm.read_model(path)
    except gm.GmlmError as error:
        return error.codes


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    draw, path = random.Random(name), tmp_path / "a.txt"
    for _ in range(150):
        path.write_text(damaged(FILES[name], draw), newline="")
        found = read_or_codes(path)
        if isinstance(found, gm.ImportedModel):
            assert check_source(Source("a", found.text)).warnings == ()
        else:
            assert set(found) <= {"E119", "E532", "E533", "E535"}


def test_damaged_files_of_plmc_are_read_or_refused(tmp_path):
    path, codes = tmp_path / "a.model", set()
    for seed in range(200):
        path.write_bytes(damaged_bytes(seed, "a.model", {"a.model": GOOD})[1])
        found = read_or_codes(path)
        if isinstance(found, gm.ImportedModel):
            assert check_source(Source("a", found.text)).warnings == ()
        else:
            codes |= set(found)
    assert {"E532", "E535"} <= codes <= {"E119", "E532", "E533", "E535"}
