"""`gmlm sample` and `gmlm explain` of decoders in a model with a joint distribution, of draws that begin with one, and of `visits`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_cases import gmlm
from thinned import thinned

TEXT = """
model m {
  var x[i in range(4)] : bit
  factor 0.8 * x[i] * x[i + 1] for i in range(4) if i < 3
}
sampler two  = random_order(steps = 2)  # gmlm: allow W828
sampler more { start from two  repeat 2 { update x[i] for i in range(4) } }
"""


@pytest.mark.parametrize("sampler", thinned(["two", "more"], 2))
def test_decodes_of_a_joint_distribution_are_shown_as_draws(sampler: str, tmp_path: Path):
    path = tmp_path / "m.gmlm"
    path.write_text(TEXT)
    assert "x[3]" in gmlm("sample", str(path), "--sampler", sampler, "--draws", "200", "--chains", "2").output


def test_what_a_decoder_does_is_explained(tmp_path: Path):
    path = tmp_path / "m.gmlm"
    path.write_text(TEXT)
    found = " ".join(gmlm("explain", str(path), "--sampler", "two").output.split())
    assert "for n = 4, after each pass: 2, 0." in found.lower()
    assert "`start from two`, whatever stood before" in gmlm("explain", str(path), "--sampler", "more").output
