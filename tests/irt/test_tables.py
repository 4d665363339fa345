import io

from rich.console import Console

from breadth.irt import items_table, levels_table, stability_table, subjects_table


def test_terminal_tables(result):
    tables = {
        items_table(result.items): ["Items: the easiest, the hardest and some with a note, of 40", "q00"],
        subjects_table(result.subjects): ["Subjects: the 30 ablest of 400"],
        levels_table(result.levels(4)): ["Difficulty levels, 0 is the easiest"],
        stability_table(result.level_stability(4, repeats=1)): ["200"],
    }
    for table, words in tables.items():
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(table)
        text = console.export_text()
        assert all(word in text for word in words)
        assert max(len(line) for line in text.splitlines()) <= 100
