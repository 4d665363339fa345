from breadth.study import describe_studies, shipped_studies


def test_descriptions():
    frame = describe_studies()
    assert frame.select("name", "models", "runs").rows() == [
        ("cross-difficulty", 7, 294),
        ("generalisation", 8, 48),
        ("mnli-levels", 1, 19),
        ("mnli-small", 1, 1),
        ("small", 2, 2),
    ]
    assert frame["description"].str.len_chars().min() > 20


def test_files_are_commented():
    """Each shipped file says why it is as it is."""
    assert all(path.read_text().count("#") > 3 for path in shipped_studies().values())
