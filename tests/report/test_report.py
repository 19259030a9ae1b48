"""The report component: what it writes, that it needs nothing else, and that a browser shows it well."""

from __future__ import annotations

import html
import html.parser
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from report_cases import lattice, pictures, whole_page

from gmlmdsl import _diagnostics
from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.report import (
    Report,
    _palette,
    plot_couplings,
    plot_ess_r_hat,
    plot_forest,
    plot_images,
    plot_loss,
    plot_profile,
    plot_traces,
)

VOID = {"meta", "img", "br", "link", "input", "hr"}
HOSTILE = "<script>alert(\"1\")</script> & 'x'"


@pytest.fixture(autouse=True)
def known_codes(monkeypatch):
    """The code of this file, whether or not the table has it yet."""
    try:
        table = dict(_diagnostics.codes())
    except FileNotFoundError:
        table = {}
    table.setdefault("E560", {"slug": "cannot-write"})
    monkeypatch.setattr(_diagnostics, "codes", lambda: table)


@pytest.fixture(scope="module")
def page() -> str:
    return whole_page()


class _Outline(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outline(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.tags


def test_page_is_well_formed_with_unique_ids(page):
    tags = outline(page)
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a.get("href") or "" for t, a in tags if t == "a"]
    targets = [link[1:] for link in links if link.startswith("#")]
    assert set(targets) <= set(ids)
    assert len(targets) == 3  # skip link and two sections
    used = {m for _, a in tags for v in a.values() for m in re.findall(r"url\(#([^)]+)\)", v or "")}
    used |= {(a.get("xlink:href") or "")[1:] for t, a in tags if t == "use"}
    assert used <= set(ids)


def test_page_names_itself_and_its_language(page):
    tags = outline(page)
    assert ("html", {"lang": "en"}) in tags
    assert "<title>Digits</title>" in page
    assert [t for t, _ in tags].count("h1") == 1
    assert [t for t, _ in tags].count("main") == 1
    assert [t for t, _ in tags].count("nav") == 1


def test_every_picture_has_a_description(page):
    shown = [a.get("alt") if t == "img" else a.get("aria-label") for t, a in outline(page) if t in ("img", "svg")]
    assert len(shown) == len(pictures())
    assert all(shown)
    assert all(a.get("role") == "img" for t, a in outline(page) if t == "svg")


def test_tables_have_headers_and_scroll_inside_a_focusable_box(page):
    tags = outline(page)
    assert {a.get("scope") for t, a in tags if t == "th"} == {"col", "row", "colgroup"}
    boxes = [a for _, a in tags if (a.get("class") or "").startswith("scroll")]
    assert len(boxes) == 2
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in boxes)


def test_nothing_is_loaded_from_anywhere(page):
    assert not re.search(r"https?://", page)
    assert not re.search(r"@import|<link|<script|<object|<embed", page)
    for _, attributes in outline(page):
        for name in ("src", "href", "xlink:href", "srcset"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert "default-src 'none'" in page


def test_user_text_is_escaped_everywhere():
    report = Report(HOSTILE, HOSTILE, footer=HOSTILE, language='en"><script>')
    report.section(HOSTILE).subsection(HOSTILE).text(HOSTILE, f"`{HOSTILE}`").items(HOSTILE).facts({HOSTILE: HOSTILE})
    report.table([HOSTILE, "b"], [[HOSTILE, HOSTILE]], HOSTILE, groups=[(HOSTILE, 2)]).warning(HOSTILE, HOSTILE, HOSTILE)
    report.code(HOSTILE, label=HOSTILE).figure(plot_forest([HOSTILE], [1.0], [0.1], label=HOSTILE), alt=HOSTILE, caption=HOSTILE)
    tags = [t for t, _ in outline(report.html())]
    assert "script" not in tags
    assert HOSTILE not in report.html()
    assert "<script" not in report._repr_html_()


def test_names_with_dollars_are_not_mathematics():
    page = Report("t").figure(plot_forest(["$x", "a$b$"], [1.0, 2.0], [0.1, 0.1]), alt="a").html()
    assert ">a$b$</text>" in page
    assert ">$x</text>" in page


def test_figures_follow_light_and_dark(page):
    assert "prefers-color-scheme:dark" in page
    pictures_only = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "var(--ink)" in pictures_only
    assert not set(re.findall(r"#[0-9a-f]{6}\b", pictures_only)) - {"#ffffff"}


def test_numbers_of_a_column_share_their_decimals():
    page = (
        Report("t")
        .table(["a", "x", "n", "r"], [["a", 0.5, 7, 1.0], ["b", -12.25, None, 1.00123]], formats=[None, None, None, ".3f"])
        .html()
    )
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells == ["0.500", "7", "1.000", "-12.250", "\N{EN DASH}", "1.001"]
    assert 'class="number"' in page


def test_not_a_number_is_shown_as_such():
    page = Report("t").table(["a", "x"], [["a", float("nan")], ["b", float("-inf")], ["c", np.bool_(True)], ["d", 1e-9]]).html()
    assert re.findall(r"<td[^>]*>([^<]*)</td>", page) == ["nan", "-\N{INFINITY}", "yes", "1.000e-09"]


def test_empty_table_and_empty_report_are_pages():
    outline(Report("t").html())
    outline(Report("t").table(["a", "b"], []).html())


def test_wrong_tables_are_refused():
    with pytest.raises(GmlmError, match="2 columns"):
        Report("t").table(["a", "b"], [[1]])
    with pytest.raises(GmlmError, match="2 columns"):
        Report("t").table(["a", "b"], [], groups=[("x", 3)])
    with pytest.raises(GmlmError, match="2 entries"):
        Report("t").table(["a", "b"], [], formats=[".3f"])


def test_picture_needs_a_description():
    with pytest.raises(GmlmError, match="alt"):
        Report("t").figure(b"", alt=" ")


def test_large_figure_becomes_an_image(monkeypatch):
    monkeypatch.setattr(_palette, "MAX_SVG", 100)
    page = Report("t").figure(plot_loss(np.arange(3.0)), alt="loss").html()
    assert '<img alt="loss" src="data:image/png;base64,' in page


def test_equal_sections_get_different_ids():
    page = Report("t").section("Fit").section("Fit").section("***").html()
    assert [a["id"] for t, a in outline(page) if t == "h2"] == ["fit", "fit-2", "section"]


def test_same_report_is_the_same_bytes():
    first, second = (Report("t").figure(plot_couplings(lattice(), np.arange(210.0)), alt="map").html() for _ in range(2))
    assert first == second


def test_save_writes_the_whole_page_and_nothing_else(tmp_path):
    path = Report("t").save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.produces("E560")
@pytest.mark.parametrize("name", ["missing/report.html", ".", "file/report.html"])
def test_unwritable_path_is_an_error_and_leaves_nothing(tmp_path, name):
    (tmp_path / "file").write_text("here")
    with pytest.raises(GmlmError) as caught:
        Report("t").save(tmp_path / name)
    assert caught.value.codes == ("E560",)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_failed_write_keeps_the_old_report(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def break_off(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", break_off)
    with pytest.raises(GmlmError, match="No space left on device"):
        Report("t").save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_wrong_pictures_are_refused():
    with pytest.raises(GmlmError, match=r"\(image, height, width\)"):
        plot_images(np.zeros((8, 8)), np.zeros((2, 8, 8)))
    with pytest.raises(GmlmError, match="edges_xy"):
        plot_couplings(np.zeros((3, 2, 2)), np.zeros(4))


@pytest.mark.slow
def test_pictures_of_degenerate_results_do_not_fail():
    report = Report("t")
    for figure in (
        plot_images(np.full((1, 3, 3), np.nan), np.ones((1, 3, 3))),
        plot_couplings(lattice(), np.full(210, np.nan)),
        plot_couplings(lattice(), np.zeros(210)),
        plot_couplings(np.zeros((0, 2, 2)), np.zeros(0)),
        plot_traces({"m": np.zeros((1, 1))}),
        plot_traces({"m": np.full((2, 900), np.nan)}),
        plot_loss(np.array([3.0])),
        plot_loss(np.array([np.nan])),
        plot_ess_r_hat(np.full(3, np.nan), np.full(3, np.nan), chains=1),
        plot_forest(["a"], np.array([np.inf]), np.array([np.nan])),
        plot_profile(np.zeros(1), np.zeros(1), estimate=0.0, interval=(-np.inf, np.inf)),
    ):
        report.figure(figure, alt="degenerate")
    outline(report.html())


def test_a_forest_draws_intervals_that_are_not_symmetric():
    figure = plot_forest(["s"], np.array([1.0]), np.array([[0.5], [2.0]]), level=0.94)
    (segment,) = figure.axes[0].collections[0].get_segments()
    np.testing.assert_allclose(segment[:, 0], [1 - 0.5 * 1.8807936, 1 + 2 * 1.8807936], rtol=1e-6)


def test_a_profile_is_drawn_as_its_signed_root_with_its_interval():
    figure = plot_profile(np.array([-1.0, 0, 2]), np.array([4.0, 0, 9]), estimate=0.0, interval=(-0.9, np.inf))
    lines = [line.get_xydata() for line in figure.axes[0].lines]
    assert any(np.allclose(line, [[-1, -2], [0, 0], [2, 3]]) for line in lines if line.shape == (3, 2))
    assert any(np.allclose(line, [[-0.9, 0], [-0.9, -1.8807936]]) for line in lines if line.shape == (2, 2))


def test_long_traces_keep_their_spikes():
    trace = np.zeros((1, 100_000))
    trace[0, 77_777] = 9
    figure = plot_traces({"m": trace})
    drawn = np.asarray(figure.axes[0].lines[0].get_ydata())
    assert drawn.max() == 9
    assert len(drawn) < 1000


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_have_contrast(mode):
    colour = {name: pair[mode] for name, pair in _palette.COLOURS.items()}
    for text in ("ink", "muted", "link"):
        assert contrast(colour[text], colour["paper"]) >= 4.5
        assert contrast(colour[text], colour["panel"]) >= 4.5
    assert contrast(colour["warn"], colour["warn-panel"]) >= 4.5
    assert contrast(colour["ink"], colour["warn-panel"]) >= 7
    for name in ("c1", "c2", "c3", "c4", "c5", "c6", "d0", "d1", "d7", "d8"):
        assert contrast(colour[name], colour["paper"]) >= 3


def test_every_colour_is_told_apart_in_the_picture():
    assert len({light for light, _ in _palette.COLOURS.values()}) == len(_palette.COLOURS)


def test_import_loads_no_matplotlib_and_no_jax():
    program = "import sys, gmlmdsl.report; assert not {'matplotlib', 'jax', 'arviz'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True)
