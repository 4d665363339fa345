def test_what_would_run(breadth):
    out = breadth("validate", "small")
    assert "2 runs with 34 checkpoints in all, each on 12 test sets: 384 items per checkpoint" in out.stdout
    assert out.stderr == ""
    large = breadth("validate", "generalisation")
    assert "48 runs with 1,968 checkpoints in all, each on 8 test sets: 57,346 items" in " ".join(large.stdout.split())
    assert max(map(len, large.stdout.splitlines())) <= 100


def test_warnings_do_not_stop_it(breadth):
    out = breadth("validate", "cross-difficulty")
    assert "warning: line" in out.stderr
    assert "294 runs with 588 checkpoints" in out.stdout


def test_all_problems_at_once(breadth, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nmodels: smolm2-135m\nrecipe: {method: zero-shot, lr: -1}\n")
    out = breadth("validate", path, ok=False)
    assert out.returncode == 2
    assert out.stdout == ""
    first, *rest = out.stderr.splitlines()
    assert first == f"breadth: {path}: 3 problems"
    assert [line.split(":")[0] for line in rest] == ["  line 1, evaluate", "  line 2, models", "  line 3, recipe.lr"]


def test_own_files_are_counted_and_many_models_are_cut_short(breadth, tmp_path):
    (tmp_path / "mine.csv").write_text("claim,label\nx [bold],1\ny,0\nz,0\n")
    models = ", ".join(f"owner/model-{k}" for k in range(40))
    (tmp_path / "s.yaml").write_text(
        f"name: s\nmodels: [{models}]\nrecipe: {{method: zero-shot}}\nevaluate: {{on: mine}}\n"
        "sets: {mine: {file: mine.csv, pattern: '{claim}', answers: {1: ' Yes', 0: ' No'}}}\n"
    )
    out = breadth("validate", tmp_path / "s.yaml")
    assert "the first 30 rows" in out.stdout
    assert "40 runs with 40 checkpoints in all, each on 1 test set: 3 items per checkpoint, 120 answers." in out.stdout
