import itertools

import altair as alt
import numpy as np
import polars as pl
import pytest

from breadth.results import Control, Figure, as_chart
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
