"""A section from outside the package: one class, and one call that registers it."""

import json
from typing import ClassVar

import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.reporting import SECTIONS, Section, SectionContent, register_section, unregister_section
from breadth.results import Figure


class Seeds(Section):
    key, title = "seeds", "Do seeds matter?"
    tables: ClassVar = {"seed_spread": "spread of accuracy between seeds"}

    def compute(self, data):
        last = data.table("trajectories").filter(pl.col("step") == pl.col("step").max())
        spread = last.group_by("model", "testset", maintain_order=True).agg(pl.col("accuracy").std().alias("spread"))
        return {"seed_spread": spread, "unnamed": spread}

    def write(self, data):
        spread = data.table("seed_spread")
        spec = {
            "data": {"name": "seed_spread"},
            "width": "container",
            "mark": {"type": "point", "color": "@model0"},
            "encoding": {
                "x": {"field": "spread", "type": "quantitative"},
                "y": {"field": "testset", "type": "nominal"},
            },
        }
        return SectionContent(
            f"Between seeds, accuracy varies by {spread['spread'].max():.2f} at most.",
            [Figure("seeds", "Spread between seeds", "A dot per model.", spec, "seed_spread")],
            ["One detail."],
            ["one thing is missing"],
            {"Largest spread": spread.sort("spread").tail(1)},
        )


@pytest.fixture
def registered():
    register_section(Seeds(), before="items")
    yield
    unregister_section("seeds")


def test_a_section_from_outside_is_part_of_every_format(registered, simulated_study, tmp_path):
    paths = [breadth.report(simulated_study.folder, out=tmp_path / f"r.{kind}") for kind in ("html", "md", "json")]
    page, words, data = (path.read_text() for path in paths)
    report = json.loads(data)
    finding = report["findings"]["seeds"]["finding"]
    assert report["findings"]["seeds"]["absent"] == ["one thing is missing"]
    assert list(report["findings"]).index("seeds") == list(report["findings"]).index("items") - 1
    assert len(report["tables"]["seed_spread"]) == 16
    assert "unnamed" not in report["tables"], "a table that the section does not name"
    for text in (page, words):
        assert "Do seeds matter?" in text
        assert finding in text
        assert "One detail." in text
        assert "one thing is missing" in text
    assert "Largest spread:\n\n| model | testset | spread |" in words
    assert 'data-figure="seeds"' in page
    assert "spread of accuracy between seeds (16 rows)" in page
    payload = json.loads(page.split('id="payload">')[1].split("</script>")[0])
    assert payload["figures"]["seeds"]["table"] == "seed_spread"
    assert payload["tables"]["seed_spread"]["rows"] == 16


def test_registering_again_replaces(registered):
    register_section(Seeds())
    assert [section.key for section in SECTIONS][-2:] == ["methods", "seeds"]
    with pytest.raises(InputError, match=r"no section 'item'\. Did you mean items\?"):
        register_section(Seeds(), before="item")
    unregister_section("seeds")
    assert "seeds" not in [section.key for section in SECTIONS]
