import itertools

import altair as alt
import numpy as np
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.results import FORMATS, Control, Figure, as_chart, write_figure
from breadth.results.figures import MODEL_COLOURS, STRONG, THEMES, heat_layers, model_colour

TABLES = {"points": pl.DataFrame({"x": [1, 2, 3], "y": [3, 1, 2], "kind": ["a", "b", "a"]}), "unused": pl.DataFrame()}
SPEC = {
    "data": {"name": "points"},
    "params": [{"name": "shown", "value": "a"}],
    "transform": [{"filter": "datum.kind == shown"}],
    "usermeta": {"most": 400},
    "width": "container",
    "height": 100,
    "mark": {"type": "point", "color": "@model0"},
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
}
CONTROL = Control("shown", "Kind", (("a", "first"), ("b", "second")))
FIGURE = Figure("points", "Some points", "What they mean.", SPEC, "points", (CONTROL,))


def test_a_chart_carries_its_data_colours_and_inputs():
    spec = as_chart(FIGURE, tables=TABLES).to_dict()
    assert spec["datasets"] == {"points": TABLES["points"].to_dicts()}
    assert spec["mark"]["color"] == THEMES["light"]["@model0"]
    assert spec["width"] == 400
    assert spec["params"][0]["bind"]["labels"] == ["first", "second"]
    assert spec["title"]["text"] == "Some points"
    assert "@" not in str(spec["config"])
    assert as_chart(FIGURE, tables=TABLES, theme="dark").to_dict()["mark"]["color"] == THEMES["dark"]["@model0"]
    assert SPEC["width"] == "container", "the definition is not changed"


def test_a_chart_remembers_its_figures():
    (figure,) = as_chart(FIGURE, tables=TABLES).to_dict()["usermeta"]["figures"]
    assert (figure["title"], figure["caption"], figure["panels"]) == ("Some points", "What they mean.", 1)
    assert figure["spec"]["mark"]["color"] == "@model0"
    assert figure["spec"]["width"] == "container"
    assert figure["spec"]["params"][0]["bind"]["options"] == ["a", "b"]


def test_several_figures_are_below_each_other():
    spec = as_chart(FIGURE, FIGURE, tables=TABLES).to_dict()
    assert len(spec["vconcat"]) == len(spec["usermeta"]["figures"]) == 2


def test_rows_are_not_checked_one_by_one(monkeypatch):
    """Altair checks a specification against a schema; with thousands of rows that takes minutes."""
    seen = []
    monkeypatch.setattr(alt.Chart, "from_dict", lambda spec, **_: seen.append(spec) or alt.Chart())
    as_chart(FIGURE, tables=TABLES)
    assert "datasets" not in seen[0]


def test_colours_belong_to_models():
    models = [f"m{k}" for k in range(MODEL_COLOURS + 1)]
    scale = model_colour(models[:-1])["scale"]
    assert scale["domain"] == models[:-1]
    assert len(set(scale["range"])) == MODEL_COLOURS
    assert model_colour(models) == {"value": "@muted"}, "a hue that means two models would mean none"
    assert model_colour(["m"])["legend"] is None


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
    ]),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ]),
}  # fmt: skip

# Ottosson (2020), Oklab: equal distances look equally different, and 0.02 is just noticeable.
CONES = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
OKLAB = np.array([
    [0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
])  # fmt: skip
MODELS = [f"@model{k}" for k in range(MODEL_COLOURS)]
SIGNS = ["@low", "@high"]


def linear(colour):
    values = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def look(colour, vision):
    return OKLAB @ np.cbrt(CONES @ np.clip(VISION[vision] @ linear(colour), 0, 1))


def difference(one, two, vision):
    return float(np.linalg.norm(look(one, vision) - look(two, vision)))


def contrast(one, two):
    """WCAG 2.1; 3:1 is the least for graphics, 4.5:1 for text."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, two))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_what_means_something_stands_out_from_the_paper(theme):
    tokens = THEMES[theme]
    assert contrast(*(("#ffffff", "#000000"))) == pytest.approx(21)
    for token in (*MODELS, *SIGNS, "@muted", "@ink"):
        assert contrast(tokens[token], tokens["@paper"]) >= 3, token
    for token in ("@muted", "@ink"):
        assert contrast(tokens[token], tokens["@paper"]) >= 4.5, token


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", THEMES)
def test_readers_with_any_colour_vision_can_tell_colours_apart(theme, vision):
    tokens, normal = THEMES[theme], vision == "normal"
    for one, two in itertools.combinations(MODELS, 2):
        assert difference(tokens[one], tokens[two], vision) > (0.12 if normal else 0.075), (one, two)
    for one, two in itertools.combinations(MODELS[:3], 2):
        assert difference(tokens[one], tokens[two], vision) > 0.1, (one, two)
    assert difference(tokens["@low"], tokens["@high"], vision) > 0.2
    for model, sign in itertools.product(MODELS, SIGNS):
        assert difference(tokens[model], tokens[sign], vision) > (0.11 if normal else 0.06), (model, sign)
    for model, neutral in itertools.product(MODELS, ("@ink", "@muted")):
        assert not normal or difference(tokens[model], tokens[neutral], vision) > 0.09, (model, neutral)


@pytest.mark.parametrize("theme", THEMES)
def test_numbers_can_be_read_on_every_cell(theme):
    tokens = THEMES[theme]
    layers = heat_layers("r", "text", [], 1.0, "r", ".0f")
    rule = layers[-1]["encoding"]["color"]
    assert f"> {STRONG}" in rule["condition"]["test"]
    for end, value in itertools.product(SIGNS, np.linspace(0, 1, 21)):
        # Halfway in linear light is a little lighter than halfway in CIELAB, as the figure has it.
        start, stop = (np.cbrt(linear(tokens[token])) for token in ("@mid", end))
        light = ((1 - value) * start + value * stop) ** 3
        text = linear(tokens["@strong" if value > STRONG else "@ink"])
        low, high = sorted(float(colour @ [0.2126, 0.7152, 0.0722]) for colour in (light, text))
        assert (high + 0.05) / (low + 0.05) > 3.5, (end, value)


EVIL = "</script><script>document.title='broken'</script>"
AXIS = {"type": "quantitative"}
DOTS = {
    "data": {"name": "points"},
    "params": [{"name": "shown", "value": "a"}],
    "transform": [{"filter": "datum.kind == shown"}],
    "usermeta": {"most": 900},
    "width": "container",
    "height": 100,
    "mark": {"type": "point", "color": "@model0"},
    "encoding": {"x": {"field": "x", **AXIS}, "y": {"field": "y", **AXIS}},
}
PANELS = {
    "data": {"name": "points"},
    "usermeta": {"pad": 40, "least": 120},
    "facet": {"field": "kind", "type": "nominal"},
    "spec": {"height": 80, "mark": {"type": "point", "color": "@ink"}, "encoding": DOTS["encoding"]},
}
PAGE_TABLES = {"points": pl.DataFrame({"x": [*range(12)], "y": [*range(12)], "kind": ["a", "b", "c", "d"] * 3})}
PAGE_CONTROL = Control("shown", "Kind", (("a", "first"), ("b", "second")))
FIGURES = (
    Figure("dots", "Some points", "What they mean.", DOTS, "points", (PAGE_CONTROL,)),
    Figure("panels", "In panels", "", PANELS, "points"),
)
CHART = as_chart(*FIGURES, tables=PAGE_TABLES)


@pytest.mark.parametrize(
    ("ending", "start"), [(".html", b"<!doctype html>"), (".pdf", b"%PDF"), (".png", b"\x89PNG"), (".svg", b"<svg")]
)
def test_every_format(tmp_path, ending, start):
    assert ending in FORMATS
    content = write_figure(CHART, tmp_path / f"figure{ending}", "Heading", "Finding").read_bytes()
    assert content.startswith(start)
    assert len(content) > 5000


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot tell the format from '\.gif'; use \.html, \.pdf, \.png, \.svg"):
        write_figure(CHART, tmp_path / "figure.gif", "x")


def test_pictures_are_light(tmp_path):
    picture = write_figure(CHART, tmp_path / "figure.svg", "x").read_text()
    assert THEMES["light"]["@model0"] in picture
    assert THEMES["dark"]["@model0"] not in picture
    assert f'fill="{THEMES["light"]["@paper"]}"' in picture


def test_a_page_holds_both_themes_and_fetches_nothing(tmp_path):
    evil = Figure("dots", EVIL, EVIL, DOTS, "points")
    page = write_figure(as_chart(evil, tables=PAGE_TABLES), tmp_path / "f.html", EVIL, f"{EVIL}\nMore.").read_text()
    assert EVIL not in page
    assert '<p class="verdict">&lt;/script&gt;' in page
    assert "<p>More.</p>" in page
    assert all(theme["@model0"] in page for theme in THEMES.values())
    assert not any(f'{kind}="http' in page for kind in ("src", "href"))


def opened(browser, path, width=1200, scheme="light"):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.trouble = []
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on("console", lambda message: page.trouble.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_function(
        "document.querySelectorAll('.plot[data-drawn]').length === document.querySelectorAll('.plot').length"
    )
    return page


@pytest.mark.slow
def test_the_page_follows_the_theme_and_keeps_what_was_chosen(browser, tmp_path):
    page = opened(browser, write_figure(CHART, tmp_path / "f.html", "Heading", "Yes: it does."))
    light, dark = (THEMES[name]["@model0"] for name in ("light", "dark"))
    plot = page.locator(".plot").first
    assert light in plot.inner_html()
    page.get_by_label("second").check()
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector(".plot[data-drawn=dark] >> nth=1")
    assert dark in plot.inner_html()
    assert light not in plot.inner_html()
    assert page.get_by_label("second").is_checked()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert page.trouble == []


@pytest.mark.slow
def test_the_page_fits_a_phone(browser, tmp_path):
    path = write_figure(CHART, tmp_path / "f.html", "A-heading-without-a-space-" * 5, "Finding")
    page = opened(browser, path, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = "[...document.querySelectorAll('.plot svg.marks')].map((one) => one.getBoundingClientRect().width)"
    assert max(page.evaluate(widths)) <= 358
    page.set_viewport_size({"width": 1200, "height": 800})
    page.wait_for_function(f"Math.min(...{widths}) > 700")
    assert page.trouble == []


@pytest.mark.slow
def test_paper_is_light_and_nothing_is_clipped(browser, tmp_path):
    page = opened(browser, write_figure(CHART, tmp_path / "f.html", "Heading", "Finding"), scheme="dark")
    page.get_by_label("second").check()
    page.emulate_media(media="print")
    page.evaluate("document.body.style.width = '600px'")  # paper is narrower than the window
    papers = page.locator(".paper svg.marks")
    assert [papers.nth(k).is_visible() for k in range(2)] == [True, True]
    assert not page.locator(".plot").first.is_visible()
    assert THEMES["light"]["@model0"] in page.locator(".paper").first.inner_html()
    assert "x: 5; y: 5" in page.locator(".paper").first.inner_html(), "what was chosen is printed"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert all(papers.nth(k).bounding_box()["width"] <= 600 for k in range(2))
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="screen")
    assert not papers.first.is_visible()
    assert page.trouble == []


@pytest.mark.slow
def test_a_chart_of_somebody_else_is_drawn_as_it_is(browser, tmp_path):
    chart = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point(color="#123456").encode(x="x:Q")
    page = opened(browser, write_figure(chart, tmp_path / "f.html", "Heading"))
    assert "#123456" in page.locator(".plot").first.inner_html()
    assert page.trouble == []
