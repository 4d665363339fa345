import os
from pathlib import Path

from breadth.study.reference import key_tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "study.md"


def test_the_page_lists_every_key():
    """To refresh the page after a change of the schema: ``BREADTH_UPDATE_DOCS=1``."""
    text = PAGE.read_text()
    before, _, after = text.partition("checks it. -->\n\n")
    if os.environ.get("BREADTH_UPDATE_DOCS"):
        PAGE.write_text(f"{before}checks it. -->\n\n{key_tables()}")
        after = key_tables()
    assert after == key_tables()
