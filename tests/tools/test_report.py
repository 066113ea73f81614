"""The report of a training: all of it in one file, for any browser, and as it is said."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from micrograd_core.tools.cli import main
from micrograd_train.report import charts
from tests.tools.flowers import QUICK, table

NAMES = {"species": "<script>alert('species')</script>", "colour": 'a "quoted" & <mark>odd</mark> name'}
"""Of columns, which must not become part of the page."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
KINDS = ("classes", "numbers", "points", "images")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    path = table(folder)
    text = path.read_text()
    for name, odd in NAMES.items():
        quoted = odd.replace('"', '""')
        text = text.replace(name, f'"{quoted}"', 1)
    path.write_text(text.replace("setosa", "<mark>setosa</mark>"))
    given = {
        "classes": [str(path), "--target", NAMES["species"], *QUICK],
        "numbers": [str(path), "--target", "length", *QUICK],
        "points": ["moons", "--epochs", "2", "--hidden", "8"],
        "images": ["digits", "--epochs", "2", "--hidden", "8"],
    }
    for kind in KINDS:
        assert main(["train", *given[kind], "--out", str(folder / kind)]) == 0
    return folder


class Page(HTMLParser):
    """What is in a page: tags and their attributes, and whether each is closed."""

    EMPTY = ("meta", "link", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} is closed, and another one is open"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_holds_all_that_it_shows(kind: str, folder: Path) -> None:
    text = (folder / kind / "report.html").read_text()
    page = Page(text)
    assert not page.open
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "iframe", "object", "mark"}
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert "url(" not in text
    assert "@import" not in text
    assert "nan" not in re.findall(r'(?:points|cx|cy|x|y|width|height)="([^"]*)"', text)
    assert len(text) < 400_000


def test_names_are_text_and_nothing_else(folder: Path) -> None:
    page = Page((folder / "classes" / "report.html").read_text())
    assert NAMES["species"] in page.text
    assert NAMES["colour"] in page.text
    assert "<mark>setosa</mark>" in page.text
    metrics = json.loads((folder / "classes" / "metrics.json").read_text())
    assert f"{100 * round(metrics['test']['accuracy'], 4):.4g} %" in page.text


def test_a_folder_has_what_fits_the_task(folder: Path) -> None:
    always = {"checkpoint.safetensors", "config.toml", "curves.png", "metrics.json", "model.safetensors", "report.html"}
    for kind, more in (
        ("classes", {"confusion.png", "importance.png"}),
        ("numbers", {"residuals.png", "importance.png"}),
        ("points", {"confusion.png", "importance.png", "boundary.png"}),
        ("images", {"confusion.png", "importance.png"}),
    ):
        assert {path.name for path in (folder / kind).iterdir()} == always | more
        for name in more | {"curves.png"}:
            assert (folder / kind / name).read_bytes().startswith(b"\x89PNG")


def test_what_a_former_run_wrote_and_this_one_does_not_is_taken_away(tmp_path: Path) -> None:
    path = str(table(tmp_path))
    for target, name, other in (
        ("species", "confusion.png", "residuals.png"),
        ("length", "residuals.png", "confusion.png"),
    ):
        assert main(["train", path, "--target", target, *QUICK, "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out" / name).exists()
        assert not (tmp_path / "out" / other).exists()


# ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3, 7), (0.001, 0.0013), (1e6, 5e6), (0.99, 1.0), (-1e-9, 1e-9), (5, 5)]
)
@pytest.mark.parametrize("log", [False, True])
def test_ticks_are_few_and_inside(low: float, high: float, log: bool) -> None:
    if log and low <= 0:
        low = high / 1000
    ticks = charts.Axis(low, max(high, low * 1.01), 0, 100, log).ticks()
    assert len(ticks) <= 7
    assert all(low - 1e-9 * abs(low) <= tick <= max(high, low * 1.01) * (1 + 1e-9) for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_charts_take_what_is_odd() -> None:
    for values in ([0.5], [1.0, 1.0], [float("nan"), 1.0], [0.0, 0.0], [float("inf"), 2.0, 1.0]):
        for log in (False, True):
            drawn = charts.lines([charts.Series("<a>", values, 0)], "x & y", 1, log)
            assert "<a>" not in drawn
            assert "x &amp; y" in drawn
            assert not re.search(r'"[^"]*\b(nan|inf)\b[^"]*"', drawn)
    assert "rect" in charts.histogram([1.0, 1.0], "errors")
    assert "circle" in charts.scatter([1.0], [1.0], "x")


def test_pngs_are_as_others_read_them() -> None:
    np, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    for channels in (1, 3, 4):
        pixels = np.random.RandomState(0).randint(0, 256, (3, 5, channels)).astype("uint8")
        found = np.asarray(image.open(io.BytesIO(charts.png(pixels))))
        assert (found.reshape(pixels.shape) == pixels).all()


# ── in a browser ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def browser() -> Any:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{each}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


LOOK = """
const images = [...document.images].every(x => x.complete && x.naturalWidth > 0);
const outside = [...document.querySelectorAll('section, .tile, h1')]
  .filter(x => x.getBoundingClientRect().right > innerWidth + 1).length;
const small = [...document.querySelectorAll('svg.chart')].filter(x => x.getBoundingClientRect().height < 100).length;
return {images, outside, small, wide: document.documentElement.scrollWidth, inner: innerWidth,
        paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
        charts: document.querySelectorAll('svg.chart').length, sections: document.querySelectorAll('section').length};
"""


def brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 765


@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_shows_it_light_and_dark_on_a_screen_and_a_phone(kind: str, folder: Path, browser: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    np = pytest.importorskip("numpy")
    seen = {}
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 375)):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get((folder / kind / "report.html").as_uri())
        found = browser.execute_script(LOOK)
        assert found["images"]
        assert (found["outside"], found["small"]) == (0, 0)
        assert found["wide"] <= width
        assert found["charts"] >= 2
        assert found["sections"] >= 5
        assert (brightness(found["paper"]) > 0.5) == (scheme == "light")
        assert abs(brightness(found["paper"]) - brightness(found["ink"])) > 0.6
        shown = np.asarray(image.open(io.BytesIO(base64.b64decode(browser.get_screenshot_as_base64()))).convert("L"))
        assert shown.std() > 10
        seen[scheme, width] = shown
    assert seen["light", 1200].mean() > 180 > 70 > seen["dark", 1200].mean()
    assert not browser.get_log("browser")
    asked = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    urls = {each["params"]["request"]["url"] for each in asked if each["method"] == "Network.requestWillBeSent"}
    assert {url.partition(":")[0] for url in urls} <= {"file", "data"}
    assert sum(url.startswith("file") for url in urls) == 1
