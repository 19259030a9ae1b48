"""What `gmlm check` warns of once sizes are known is said by `gmlm fit`, too, but for samplers, of which `gmlm sample` speaks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_cases import gmlm

TIED = """\
index t = range(3)
model m {
  var x[i in t] : bit
  var z[i in t] : bit
  param a
  param b[i in t]
  param p[c in range(2), d in range(2)] : simplex ~ dirichlet(2)
  factor (a + b[i]) * x[i] for i in t
  require x[0] + x[1] + x[2] == 1
  z[i] ~ categorical(p[z[i - 1]]) for i in t if i > 0
}
mask all = everything(x, z)
sampler s { update x[i] for i in t  update z }
"""
CONTRADICTED = """\
model m {
  var x[i in range(2)] : bit
  param h ~ normal(0, 1)
  factor h * x[0]
  require x[0] == 1
  require x[0] == 0
}
mask one = subsets(x, size = 1)
"""


def warned(*words: str, status: int = 0) -> list[str]:
    """The codes of the warnings that a command prints."""
    return sorted(set(re.findall(r"warning\[(W\d+)", gmlm(*words, status=status).output)))


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tied.gmlm").write_text(TIED)
    Path("contradicted.gmlm").write_text(CONTRADICTED)
    Path("rows.csv").write_text("0,1,0,1,0,0\n1,0,0,0,0,1\n0,0,1,1,1,1\n")
    Path("two.csv").write_text("0,1\n1,1\n")


@pytest.mark.slow
def test_a_fit_warns_of_its_model_and_a_sample_of_its_sampler(standard_promotion: None) -> None:
    assert warned("check", "tied.gmlm") == ["W822", "W823", "W824"]
    assert warned("fit", "tied.gmlm", "rows.csv", "--out", "m.fit") == ["W823", "W824"]
    assert "W822" in warned("sample", "m.fit", "--draws", "4", "--warmup", "1")


def test_a_fit_of_what_nothing_satisfies_is_warned_of_before_its_first_row_is_refused() -> None:
    assert warned("check", "contradicted.gmlm") == ["W821"]
    assert warned("fit", "contradicted.gmlm", "two.csv", status=1) == ["W821"]
