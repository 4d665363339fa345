"""The first screen: answers first, then a table of models and test sets, then how the data were read."""

import html
import re

import numpy as np
import polars as pl
import pytest

from breadth.datasets import simulate_scores
from breadth.reporting import build_report
from breadth.reporting.cards import MOST_CARDS, MOST_CHARACTERS, answer_cards, cards_of, make_card
from breadth.reporting.glossary import Explainer, corrections, page_words
from breadth.reporting.grid import FIRST_ROWS, MOST_ROWS, score_grid
from breadth.reporting.names import short_names
from breadth.reporting.pages import render_html
from breadth.results import Answer, Question, State, Verdict


@pytest.fixture(scope="module")
def levels_page(levels_data):
    return render_html(levels_data)


def answers_of(models, items=60, testsets=("answers",), seed=0):
    generator = np.random.default_rng(seed)
    rows = []
    for number, model in enumerate(models):
        for testset in testsets:
            right = generator.random(items) < 0.3 + 0.5 * number / max(len(models), 2)
            rows += [
                {"model": model, "testset": testset, "item": f"{testset}-{k}", "correct": int(one)}
                for k, one in enumerate(right)
            ]
    return pl.DataFrame(rows)


def leaderboard(models, testsets=3):
    generator = np.random.default_rng(1)
    columns = {f"set{k}": generator.uniform(20, 90, models).round(1) for k in range(testsets)}
    return pl.DataFrame({"model": [f"org/model-{k:05d}" for k in range(models)], **columns})


# Cards


def test_a_study_of_training_leads_with_what_carried_over(levels_data):
    cards = answer_cards(levels_data)
    assert 3 <= len(cards) <= MOST_CARDS
    assert cards[0].question == "Did training on “plain” carry over?"
    assert [card.section for card in cards].index("overview") == 0
    assert {card.section for card in cards} <= {section.key for section in levels_data.contents}


@pytest.mark.parametrize(
    ("models", "question"),
    [(["only"], Question.HOW_GOOD), ([f"m{k}" for k in range(12)], Question.BEST)],
)
def test_what_can_be_answered_comes_first(models, question):
    cards = answer_cards(build_report(answers_of(models)))
    assert cards[0].question == question
    assert cards[0].state is not State.OPEN
    unanswered = [card.answer == "Not enough data" for card in cards]
    assert unanswered == sorted(unanswered)
    # Of one test set nobody asks whether it speaks for another.
    assert Question.SPEAKS_FOR not in [card.question for card in cards]
    assert all(card.more for card in cards)


def verdict(**parts):
    return Verdict(**({"answer": Answer.MIXED, "reason": "Some improved.", "question": Question.IMPROVED} | parts))


def test_a_card_keeps_the_advice_before_what_is_open():
    short = make_card("s", "t", verdict(advice="Do this.", needed="About 4 runs would do."))
    assert short.more == "Do this. About 4 runs would do."
    long = make_card("s", "t", verdict(advice="Do this.", needed=f"About 4 runs {'x' * MOST_CHARACTERS}."))
    assert long.more == "Do this."
    undecided = verdict(
        answer=Answer.UNKNOWN, advice=f"Do this {'x' * MOST_CHARACTERS}.", needed="About 4 runs would do."
    )
    assert make_card("s", "t", undecided).more == "About 4 runs would do."


def test_a_card_names_what_its_advice_speaks_of_before_the_rest_of_the_reason():
    tail = f"More {'x' * (MOST_CHARACTERS - 40)}."
    card = make_card(
        "s", "t", verdict(reason=f"Some fell. {tail}", findings="These are a and b.", advice="Check these.")
    )
    assert (card.text, card.findings) == ("Some fell.", "These are a and b.")
    assert card.more == "Check these."
    # Sentences are whole, and one that is left out takes those after it along.
    rest = make_card("s", "t", verdict(findings=f"A. More {'x' * MOST_CHARACTERS}. B."))
    assert rest.findings == "A."


def test_a_card_without_advice_says_what_to_do_all_the_same():
    card = make_card("s", "t", verdict(answer="m", question=Question.BEST))
    assert card.more
    assert make_card("s", "t", verdict(answer=Answer.NO, question=Question.TOGETHER)).more != card.more


def test_a_question_that_cannot_be_asked_has_a_card_only_alone():
    impossible = verdict(answer=Answer.UNKNOWN, computed=False, question=Question.SPEAKS_FOR)
    assert [card.question for card in cards_of([("carry_over", "", impossible)])] == [Question.SPEAKS_FOR]
    both = [("overview", "", verdict()), ("carry_over", "", impossible)]
    assert [card.question for card in cards_of(both)] == [Question.IMPROVED]
    settled = verdict(answer=Answer.UNKNOWN, computed=False, question=Question.SPEAKS_FOR, needed="It takes 8 rows.")
    assert [card.question for card in cards_of([*both[:1], ("carry_over", "", settled)])][-1] == Question.SPEAKS_FOR


def test_a_table_of_scores_has_a_leader():
    frame = leaderboard(8)
    data = build_report(frame)
    first = answer_cards(data)[0]
    means = frame.with_columns(mean=pl.mean_horizontal("set0", "set1", "set2")).sort("mean", descending=True)
    assert first.question == Question.BEST
    assert first.answer == f"{means['model'][0]} leads"
    assert f"{means['mean'][0]:.1f}%" in first.text
    assert means["model"][1] in first.text


def test_no_gain_is_told_of_what_was_evaluated_once():
    for source in (leaderboard(8), answers_of(["a", "b", "c"], testsets=("x", "y"))):
        data = build_report(source)
        grid = score_grid(data)
        assert "gain" not in grid.title + grid.hint
        assert not any(cell.text.startswith(("+", "−")) for row in grid.rows for cell in row.cells)


# The table


def test_cells_are_the_gains_of_the_table(levels_data):
    grid = score_grid(levels_data)
    gains = levels_data.table("gains")
    assert [head.name for head in grid.heads] == levels_data.testsets
    for row in grid.rows:
        own = gains.filter(model=row.name)
        for head, cell in zip(grid.heads, row.cells, strict=True):
            known = own.row(by_predicate=pl.col("testset") == head.name, named=True)
            assert cell.value == known["gain"]
            assert cell.text == f"{100 * known['gain']:+.0f}".replace("-", "−")
            found = known["ci_low"] > 0 or known["ci_high"] < 0
            assert cell.clear == (found if known["in_domain"] else known["q"] < 0.05)
            assert cell.panel == {"panel": "items", "testset": head.name, "first": row.name}


def test_a_large_leaderboard_shows_its_best():
    data = build_report(leaderboard(700))
    grid = score_grid(data)
    assert len(grid.rows) == MOST_ROWS
    assert grid.first_rows == FIRST_ROWS
    means = [round(np.mean([cell.value for cell in row.cells]), 9) for row in grid.rows]
    assert means == sorted(means, reverse=True)
    overview = next(content for section, content in data.contents.items() if section.key == "overview")
    assert [figure.key for figure in overview.figures] == ["distribution", "standings", "scatter"]
    assert data.page_tables["standings"].height == 700


def test_one_model_on_many_test_sets_stands_in_a_column():
    frame = simulate_scores(runs=1, steps=12)
    wide = frame.with_columns(pl.col("science").alias(f"more{k}") + k / 100 for k in range(14))
    grid = score_grid(build_report(wide, by="run", order="step", control="none"))
    assert grid.noun == "test set"
    assert len(grid.heads) == 1
    assert len(grid.rows) > 14


def test_what_names_share_is_left_out_of_labels():
    assert short_names(["eval/a1", "eval/b1"]) == {"eval/a1": "a1", "eval/b1": "b1"}
    assert short_names(["model-a", "model-b"]) == {"model-a": "model-a", "model-b": "model-b"}
    most = ["hendrycksTest-anatomy", "hendrycksTest-virology", "hendrycksTest-law", "piqa"]
    assert list(short_names(most).values()) == ["…anatomy", "…virology", "…law", "piqa"]
    assert len(set(short_names(most).values())) == len(most)


# Words


def test_a_page_names_options_only_where_it_says_how_to_correct(tmp_path):
    simulate_scores(runs=4).rename({"in_domain": "home"}).write_csv(tmp_path / "scores.csv")
    page = render_html(build_report(tmp_path / "scores.csv"))
    body = page[page.index("<main") : page.index("</main>")]
    fold = body[body.index('id="read"') : body.index("<section")]
    rest = re.sub(r"<[^>]*>", " ", body.replace(fold, ""))
    assert re.search(r"(?<![\w-])--[a-z]", fold)
    assert not re.search(r"(?<![\w-])--[a-z]", html.unescape(rest))


def test_notes_are_folded_and_after_the_answers(levels_page):
    main = levels_page[levels_page.index("<main") :]
    assert main.index('class="cards"') < main.index('id="grid"') < main.index('id="read"') < main.index("<section")
    assert 'class="absent"' not in main[: main.index("<section")]
    assert "Not shown" not in main[: main.index("</main>")]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Too few rows. --adjust none needs 4 rows.", "Too few rows."),
        ("in-domain: not recognised (--control); 8 test sets", "in-domain: not recognised; 8 test sets"),
        ("gain per level (breadth transfer)", "gain per level"),
        ("a-b -- c", "a-b -- c"),
        ("--by", ""),
    ],
)
def test_sentences_of_the_terminal_stay_there(text, kept):
    assert page_words(text) == kept


def test_corrections_are_told_once():
    assert corrections(["wrong? --by, --order", "wrong? --by, --order", "no option"]) == ["--by, --order"]


def test_terms_are_explained_once_in_a_section_and_text_is_escaped():
    explain = Explainer()
    first = str(explain("A finding <b>, 95% interval 1 to 2; another finding"))
    assert first.count('class="term"') == 2
    assert "<b>" not in first
    assert 'tabindex="0"' in first
    assert 'class="term"' not in explain("a finding again")
    explain.start()
    assert 'class="term"' in explain("a finding in the next section")
    assert set(explain.used) == {"finding", "95% interval"}


# In the browser


@pytest.mark.slow
def test_the_table_is_sorted_walked_and_opened(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        heads = page.locator("#grid thead button")
        names = "[...document.querySelectorAll('#grid tbody th')].map((node) => node.textContent)"
        heads.nth(1).click()
        values = page.evaluate(
            "[...document.querySelectorAll('#grid tbody tr')].map((row) => +row.cells[1].dataset.value)"
        )
        assert values == sorted(values, reverse=True)
        heads.nth(1).click()
        assert page.locator("#grid thead th").nth(1).get_attribute("aria-sort") == "ascending"
        heads.nth(0).click()
        assert page.evaluate(names) == sorted(page.evaluate(names))
        page.locator("#grid td button[tabindex='0']").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        place = page.evaluate(
            "[document.activeElement.closest('tr').rowIndex, document.activeElement.closest('td').cellIndex]"
        )
        assert place == [2, 2]
        page.keyboard.press("Enter")
        page.wait_for_selector("#item-list li")
        assert page.evaluate("[breadth.state.panel, breadth.state.testset, breadth.state.first]") == [
            "items", "science", "model-b",
        ]  # fmt: skip


@pytest.mark.slow
def test_a_card_leads_to_its_section(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        card = page.locator("a.card").nth(1)
        target = card.get_attribute("href")[1:]
        card.click()
        page.until(f"Math.abs(document.getElementById('{target}').getBoundingClientRect().top) < 120")


@pytest.mark.slow
def test_items_are_sorted_by_failures_and_doubt(levels_report, levels_data, open_page):
    items = levels_data.table("items")
    first = "document.querySelector('#item-list button.item').dataset.item"
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.evaluate("breadth.open('items', {})")
        page.wait_for_selector("#item-list li")
        page.select_option("#filters [name=order]", "right")
        page.until("breadth.state.sort === 'right'")
        least = items.filter(item=page.evaluate(first))["right"][0]
        assert least == items["right"].min()
        page.select_option("#filters [name=order]", "doubt")
        page.until("breadth.state.sort === 'doubt'")
        assert items.filter(item=page.evaluate(first))["doubt"][0] is not None
        page.select_option("#filters [name=order]", "difficulty down")
        page.until("breadth.state.down === '1'")
        hardest = items.filter(item=page.evaluate(first))["difficulty"][0]
        assert hardest == items["difficulty"].max()
