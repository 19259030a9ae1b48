"""A browser shows the report on a small and a large screen, in the light and in the dark, and loads nothing."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from report_cases import whole_page

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
  root.dataset.images = [...document.images].every(i => i.complete && i.naturalWidth > 0)
})</script>"""

needs_chromium = pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed")


@needs_chromium
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 900)])
def test_browser_shows_it_without_overflow_and_loads_nothing(page, tmp_path, width, height):
    probed = page.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';").replace("</body>", f"{PROBE}</body>")
    # a window is never narrower than 500 pixels; a frame is
    frame = (
        f'<!DOCTYPE html><iframe style="width:{width}px;height:{height}px;border:0" srcdoc="{html.escape(probed, quote=True)}"></iframe>'
    )
    root = re.findall(r"<html[^>]*>", browse(tmp_path, frame, 1400, 1000, "--dump-dom"))[0]
    seen = dict(re.findall(r'data-(\w+)="([^"]*)"', root))
    assert seen["width"] == str(width)
    assert int(seen["scroll"]) <= width
    assert seen["outside"] == "0"
    assert seen["loaded"] == "0"
    assert seen["images"] == "true"


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
