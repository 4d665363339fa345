"""The panel beside the figures: every mark leads to what is behind it, and the address keeps where the reader is."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_scores
from breadth.datasets.kinds import NLI_PATTERN
from breadth.reporting import build_report
from breadth.reporting.embedded import FINENESS
from breadth.sources import open_study

pytestmark = pytest.mark.slow

FIND = """async ([figure, role, words]) => {
    const marks = `[data-figure="${figure}"] .plot svg path[aria-roledescription="${role}"]`;
    const middle = () => {
        const node = [...document.querySelectorAll(marks)]
            .find((one) => words.every((word) => one.getAttribute("aria-label").includes(word)));
        if (!node) return null;
        node.scrollIntoView({ block: "center", inline: "center" });
        const box = node.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    };
    for (let tries = 0, before = null, now = middle(); tries < 200; tries += 1, before = now, now = middle()) {
        if (now && String(before) === String(now)) return now;
        await new Promise((done) => setTimeout(done, 100));
    }
    throw new Error(`${figure} has no ${role} of ${words}`);
}"""

TOP = "document.querySelector('[data-figure=\"{}\"]').getBoundingClientRect().top"


def click(page, figure, role, *words):
    """Click the mark whose description holds the words, with the mouse; the figure must not move."""
    place = page.evaluate(FIND, [figure, role, words])
    top = page.evaluate(TOP.format(figure))
    page.mouse.click(*place)
    page.until("!document.getElementById('panel').hidden && document.getElementById('panel-title').textContent")
    page.wait_for_timeout(400)  # figures are fitted to the smaller page
    assert page.evaluate(TOP.format(figure)) == pytest.approx(top, abs=2)
    return page.evaluate("breadth.state")


def listed(page):
    page.wait_for_selector("#count")
    return int(page.inner_text("#count").split(" of ")[0].replace(",", ""))


def test_marks_lead_to_the_items_behind_them(levels_report, levels_data, open_page):
    items = levels_data.table("items")
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        state = click(page, "profile", "point", "test set: chains", "model: model-b")
        assert (state["panel"], state["testset"], state["first"]) == ("items", "chains", "model-b")
        assert listed(page) == items.filter(pl.col("testset") == "chains").height
        first = page.locator("#item-list button.item").first.get_attribute("data-item")
        assert items.filter(pl.col("item") == first)["right_model-b"][0] == 0
        assert page.locator("#chips button").inner_text() == "failures of model-b first ✕"
        page.locator("#chips button").click()
        assert "first" not in page.evaluate("breadth.state")
        state = click(page, "transfer", "rect mark", "test level: 1")
        assert state["level"] == "1"
        assert listed(page) == items.filter(pl.col("level") == 1).height


def test_a_point_in_training_leads_to_the_answers_of_its_checkpoint(levels_report, levels_study, open_page):
    study = open_study(levels_study.folder)
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        values = {"testset": "science", "run": "model-a-02", "step": 64, "first": "model-a"}
        page.evaluate(f"breadth.open('items', {json.dumps(values)})")
        page.until("document.getElementById('count')?.textContent.includes('step 64')")
        row = study.subjects.with_row_index().filter(pl.col("subject") == "model-a-02/64")["index"][0]
        columns = np.flatnonzero((study.items["testset"] == "science").to_numpy())
        share = study.correct[row, columns].mean()
        assert f"model-a-02 at step 64 {100 * share:.0f}%" in page.inner_text("#count")
        wrong = set(np.array(study.item_names)[columns[study.correct[row, columns] == 0]])
        nodes = page.locator("#item-list button.item")
        names = [nodes.nth(k).get_attribute("data-item") for k in range(min(len(wrong), nodes.count()))]
        assert set(names) <= wrong


def test_a_correlation_leads_to_its_checkpoints(levels_report, levels_data, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        state = click(page, "correlations", "rect mark", "a: science", "b: chains", "shown: model-a")
        assert (state["panel"], state["a"], state["b"], state["model"]) == ("pair", "science", "chains", "model-a")
        assert page.inner_text("#panel-title") == "science and chains"
        dots = page.locator("#panel .small svg path[aria-roledescription=point]")
        dots.first.wait_for()
        table = levels_data.table("residuals").filter((pl.col("model") == "model-a") & (pl.col("testset") == "chains"))
        assert dots.count() == table.height > 40
        row = levels_data.table("correlations").filter(
            (pl.col("a") == "science") & (pl.col("b") == "chains") & (pl.col("panel") == "model-a")
        )
        partial = row.filter(pl.col("kind") == "partial")["r"][0]
        assert f"{partial:.2f}".replace("-", "−") in page.inner_text("#panel table >> nth=0")
        page.get_by_text("after adjustment", exact=True).last.click()
        page.until("document.querySelectorAll('#panel .small svg').length === 3")
        assert page.evaluate("breadth.state.adjusted") == "1"
        lines = page.locator("#panel .two svg path[aria-roledescription='line mark']").count()
        assert lines == 2 * table["run"].n_unique()
        page.locator("#panel summary").click()
        cells = page.locator("#panel details tbody tr").first.locator("td").all_inner_texts()
        first = levels_data.table("residuals").filter((pl.col("run") == cells[0]) & (pl.col("step") == int(cells[1])))
        values = {name: (score, left) for name, score, left in first.select("testset", "score", "residual").iter_rows()}
        shown = [float(cell.replace("−", "-")) for cell in cells[3:]]
        expected = [values["science"][0], values["chains"][0], values["science"][1], values["chains"][1]]
        assert shown == pytest.approx(expected, abs=5e-4)
        page.get_by_role("button", name="Items of chains").click()
        assert page.evaluate("[breadth.state.panel, breadth.state.testset]") == ["items", "chains"]


def test_filters_compose(levels_report, levels_data, open_page):
    items = levels_data.table("items")
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.get_by_role("button", name="Browse").click()
        assert listed(page) == items.height
        page.select_option("#filters [name=testset]", "science")
        page.select_option("#filters [name=level]", "2")
        expected = items.filter((pl.col("testset") == "science") & (pl.col("level") == 2))
        assert listed(page) == expected.height
        page.select_option("#filters [name=label]", "entailment")
        expected = expected.filter(pl.col("label") == "entailment")
        assert listed(page) == expected.height
        page.select_option("#filters [name=failed]", "model-b")
        expected = expected.filter(pl.col("right_model-b") < 0.5)
        assert listed(page) == expected.height > 0
        middle = expected["difficulty"].sort()[expected.height // 2]
        page.fill("#filters [name=low]", f"{middle:.4f}")
        expected = expected.filter(pl.col("difficulty") >= round(middle, 4))
        assert listed(page) == expected.height > 0
        word = expected["text"][0].split()[1].lower()
        page.fill("#filters [name=text]", word)
        expected = expected.filter(pl.col("text").str.to_lowercase().str.contains(word, literal=True))
        assert listed(page) == expected.height
        address = page.url
        page.reload()
        page.wait_for_selector("#item-list li")
        assert page.url == address
        assert listed(page) == expected.height
        assert page.input_value("#filters [name=text]") == word
        page.get_by_role("button", name="Clear").click()
        assert listed(page) == items.height
        page.check("#filters [name=doubt]")
        assert listed(page) == items.filter(pl.col("doubt").is_not_null()).height


def test_two_runs_are_compared(levels_report, levels_study, open_page):
    study = open_study(levels_study.folder)
    last = dict(study.ends.select("run", "last").iter_rows())
    one, two = (study.correct[last[run]] for run in ("model-a-00", "model-b-03"))
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.evaluate("breadth.open('items', {})")
        page.wait_for_selector("#filters")
        page.select_option("#filters [name=one]", "run:model-a-00")
        page.select_option("#filters [name=two]", "run:model-b-03")
        cells = page.locator("#cells button")
        expected = [int(((one == a) & (two == b)).sum()) for a in (1, 0) for b in (1, 0)]
        assert [int(text) for text in cells.all_inner_texts()] == expected
        cells.nth(1).click()
        assert listed(page) == expected[1]
        assert cells.nth(1).get_attribute("aria-pressed") == "true"
        item = page.locator("#item-list button.item").first.get_attribute("data-item")
        column = study.item_names.index(item)
        assert (one[column], two[column]) == (1, 0)


def test_an_item_shows_its_prompt_and_every_answer(levels_study, open_page, tmp_path, change_record):
    folder = shutil.copytree(levels_study.folder, tmp_path / "study")
    for record in folder.glob("runs/*/run.json"):
        change_record(record, tasks={"science": NLI_PATTERN.spec()})
    study = open_study(folder)
    column = int(np.flatnonzero((study.items["testset"] == "science").to_numpy())[7])
    row = study.items.row(column, named=True)
    with open_page(breadth.report(folder).as_uri()) as page:
        page.ready()
        page.evaluate(f"breadth.open('item', {{ item: '{row['item']}', of: 'science' }})")
        page.wait_for_selector("#panel tbody tr")
        assert page.inner_text("#panel pre") == NLI_PATTERN.template.format(**NLI_PATTERN.prompt_fields(row))
        assert f"{row['label']} (answer “{dict(NLI_PATTERN.answers)[row['label']]}”)" in page.inner_text("#panel dl")
        index = page.evaluate(f"breadth.items().then((rows) => rows.findIndex((row) => row.item === '{row['item']}'))")
        answers = page.evaluate(f"breadth.answersTo({index})")
        places = {tuple(key): k for k, key in enumerate(study.subjects.select("run", "step").iter_rows())}
        order = [places[answer["run"], answer["step"]] for answer in answers]
        assert sorted(order) == list(range(study.subjects.height))
        assert [answer["right"] for answer in answers] == study.correct[order, column].tolist()
        margins = np.arcsinh([answer["margin"] for answer in answers])
        assert margins == pytest.approx(np.arcsinh(study.margin[order, column]), abs=0.51 / FINENESS)
        cells = page.locator("#panel tbody tr").first.locator("td").all_inner_texts()
        own = study.subjects.with_row_index().filter(pl.col("run") == cells[0]).sort("step")
        right = study.correct[own["index"].to_numpy(), column]
        assert cells[1] == ("right" if right[-1] else "wrong")
        said = cells[2] == row["label"]
        assert said == bool(right[-1])
        spells = [part.split(" to ") for part in cells[3].split(", ")] if cells[3] != "never" else []
        steps = [s for s in own["step"] if any(int(spell[0]) <= s <= int(spell[-1]) for spell in spells)]
        assert steps == own["step"].to_numpy()[right == 1].tolist()
        page.locator("#panel .small svg").wait_for()


def test_back_and_forward_walk_through_the_panel(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.evaluate("breadth.open('items', { testset: 'chains' })")
        page.wait_for_selector("#item-list li")
        page.locator("#item-list button.item").nth(2).click()
        page.wait_for_selector("#panel dl")
        name, address = page.inner_text("#panel-title"), page.url
        page.go_back()
        page.wait_for_selector("#item-list li")
        assert listed(page) == 60
        page.go_back()
        page.until("document.getElementById('panel').hidden")
        assert page.url == levels_report.as_uri()
        page.go_forward()
        page.wait_for_selector("#item-list li")
        page.go_forward()
        page.until(f"document.getElementById('panel-title').textContent === '{name}'")
        page.get_by_role("button", name="Next").click()
        page.until(f"document.getElementById('panel-title').textContent !== '{name}'")
        page.goto("about:blank")
        page.goto(address)
        page.until(f"document.getElementById('panel-title').textContent === '{name}'")
        page.get_by_role("button", name="List of items").click()
        page.wait_for_selector("#item-list li")
        assert listed(page) == 60
        page.click("#panel-close")
        page.until("document.getElementById('panel').hidden")
        page.click("nav a[href='#difficulty']")
        assert page.url.endswith("#at=difficulty")


def test_answers_that_do_not_fit_are_said_to_be_missing(levels_study, open_page, tmp_path, monkeypatch):
    monkeypatch.setattr("breadth.reporting.embedded.MOST_ANSWERS", 100)
    report = breadth.report(levels_study.folder, out=tmp_path / "report.html")
    with open_page(report.as_uri()) as page:
        page.evaluate("breadth.open('items', {})")
        page.wait_for_selector("#item-list li")
        page.locator("#item-list button.item").first.click()
        page.until("document.getElementById('panel-body').textContent.includes('more than a page can carry')")


def test_a_table_of_scores_leads_to_its_runs_and_checkpoints(open_page, tmp_path):
    scores = simulate_scores(runs=3, steps=15)
    scores.write_csv(tmp_path / "scores.csv")
    report = breadth.report(tmp_path / "scores.csv", out=tmp_path / "report.html")
    with open_page(report.as_uri()) as page:
        page.ready()
        click(page, "profile", "point", "test set: numbers", "when: after")
        assert page.evaluate("[breadth.state.panel, breadth.state.testset]") == ["course", "numbers"]
        page.locator("#panel .small svg").wait_for()
        last = scores.filter(pl.col("step") == pl.col("step").max())["numbers"]
        shown = page.locator("#panel tbody tr td:nth-child(4)").all_inner_texts()
        assert [float(text) for text in shown] == pytest.approx(last.to_list(), abs=6e-4)
        click(page, "correlations", "rect mark", "a: negation", "b: numbers")
        page.locator("#panel .small svg").first.wait_for()
        dots = page.locator("#panel .small svg path[aria-roledescription=point]")
        assert dots.count() == scores.height


def test_items_that_only_one_model_gets_lead_to_the_panel(simulated_study, tmp_path, open_page):
    part = build_report(simulated_study.folder).results["differing"].parts[0]
    with open_page(breadth.report(simulated_study.folder, out=tmp_path / "report.html").as_uri()) as page:
        page.ready()
        box = page.locator("details.differing").first
        box.locator("summary").click()
        for number, place in ((part.first.number, 0), (part.second.number, 1)):
            box.locator("td button").nth(place).click()
            page.until("!document.getElementById('panel').hidden")
            page.until(f"document.getElementById('count').textContent.startsWith('{number} of ')")
        state = page.evaluate("breadth.state")
        assert (state["testset"], state["cell"]) == (part.name, "wrong-right")
        box.locator("button.item").first.click()
        page.until("breadth.state.panel === 'item'")
