"""A browser shows the report on a small and a large screen, in the light and in the dark, and loads nothing."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from report_cases import whole_page
from thinned import thinned

from gmlmdsl.report import Report

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def page() -> str:
    return whole_page()


def browse(tmp_path: Path, text: str, width: int, height: int, *options: str) -> str:
    file, profile = tmp_path / "page.html", tmp_path / "profile"
    file.write_text(text, encoding="utf-8")
    quiet = ("quic", "background-networking", "component-update", "sync", "gpu", "dev-shm-usage")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=2000"]
    command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", *(f"--disable-{name}" for name in quiet)]
    command += [*options, file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout


PROBE = """<script>addEventListener("load", () => {
  const root = parent.document.documentElement
  root.dataset.width = innerWidth
  root.dataset.scroll = document.documentElement.scrollWidth
  root.dataset.loaded = performance.getEntriesByType("resource").filter(e => !e.name.startsWith("data:")).length
  const outside = e => !e.closest(".scroll") && !e.closest("svg") && !e.closest(".skip") && e.getBoundingClientRect().right > innerWidth + 1
  root.dataset.outside = [...document.body.querySelectorAll("*")].filter(outside).length
  root.dataset.cut = [...document.querySelectorAll(".scroll:has(table)")].filter(e => e.scrollWidth > e.clientWidth).length
  root.dataset.images = [...document.images].every(i => i.complete && i.naturalWidth > 0)
})</script>"""


def seen(tmp_path: Path, page: str, width: int, height: int) -> dict[str, str]:
    """What a page shows in a frame; a window is never narrower than 500 pixels, a frame is."""
    probed = page.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';").replace("</body>", f"{PROBE}</body>")
    size = f"width:{width}px;height:{height}px;border:0"
    frame = f'<!DOCTYPE html><iframe style="{size}" srcdoc="{html.escape(probed, quote=True)}"></iframe>'
    root = re.findall(r"<html[^>]*>", browse(tmp_path, frame, 1400, 1000, "--dump-dom"))[0]
    return dict(re.findall(r'data-(\w+)="([^"]*)"', root))


needs_chromium = pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed")


@needs_chromium
@pytest.mark.parametrize(("width", "height"), thinned([(390, 844), (1280, 900)], 2))
def test_browser_shows_it_without_overflow_and_loads_nothing(page, tmp_path, width, height):
    found = seen(tmp_path, page, width, height)
    assert found["width"] == str(width)
    assert int(found["scroll"]) <= width
    assert found["outside"] == "0"
    assert found["loaded"] == "0"
    assert found["images"] == "true"


@needs_chromium
def test_a_table_of_couplings_of_long_names_is_whole_on_a_large_screen(tmp_path):
    names = ["x[adoption-of-the-budget-resolution]", "x[synfuels-corporation-cutback]", "x[export-administration-act-south-africa]"]
    rows = [[a, b, -0.9473, 0.1469, -1.2236, -0.6710, 0.9473] for a in names for b in names]
    report = Report("Votes").section("Estimates").table(["first", "second", "value", "std_error", "3%", "97%", "score"], rows)
    report.section("Program").text("none")
    assert seen(tmp_path, report.html(), 1280, 900)["cut"] == "0"


@pytest.mark.slow
@needs_chromium
def test_browser_shows_it_dark_where_asked(page, tmp_path):
    from PIL import Image

    shades = []
    for scheme in (0, 1):
        picture = tmp_path / f"{scheme}.png"
        browse(tmp_path, page, 390, 844, f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={scheme}")
        with Image.open(picture) as image:
            assert image.size == (390, 844)
            shades.append(image.convert("L").getpixel((2, 2)))
    assert shades[0] < 60 < 200 < shades[1]
