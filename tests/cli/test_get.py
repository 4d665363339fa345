def test_an_unknown_model_is_one_line(breadth):
    out = breadth("get", "gema3", ok=False)
    assert out.returncode == 2
    assert out.stderr.strip() == (
        "breadth: there is no embedded model 'gema3'. Did you mean gemma3-270m? "
        "Embedded models: smollm2-135m, gemma3-270m"
    )


def test_help_names_the_models(breadth):
    out = breadth("get", "--help")
    assert "smollm2-135m" in out.stdout
    assert "gemma3-270m" in out.stdout
