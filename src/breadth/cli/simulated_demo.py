"""``breadth demo --simulated``: scores and answers made here, whose truth is known, analysed in seconds."""

from __future__ import annotations

from pathlib import Path


def show_simulated(into: Path, seed: int) -> None:
    """Correlate the test sets of simulated runs and calibrate simulated answers; write both and what comes of them."""
    import numpy as np

    from breadth.cli.calibrate import show_calibration
    from breadth.cli.correlate import show, write_correlation
    from breadth.cli.terminal import console, say_written
    from breadth.datasets import simulate_answers, simulate_scores
    from breadth.records import write_table, write_whole
    from breadth.report.page import write_figure
    from breadth.verbs import calibrate, correlate

    table = write_table(simulate_scores(runs=6, seed=seed), into / "scores.csv")
    console.print(
        "Six simulated fine-tuning runs, 41 checkpoints each, an in-domain score and six test sets. By construction "
        "negation, word_order and numbers rise and fall together, and so do formal_style, science and coreference; "
        "between the two sets of three the sign is + in runs 00, 02, 04 and - in runs 01, 03, 05.\n",
        highlight=False,
    )
    command = f"breadth correlate {table} --control in_domain --by run --order step"
    console.print(f"$ {command}", style="bold", markup=False, highlight=False, soft_wrap=True)
    result = correlate(table, control="in_domain", by="run", order="step")
    show(result)
    say_written(table)
    write_correlation(result, into / "pairs.csv")
    say_written(
        write_figure(result.figure(), into / "figure.html", "breadth demo", result.summary()),
        write_figure(result.figure(), into / "figure.png", "breadth demo"),
    )

    answers = simulate_answers(400, 60, seed=seed)
    answers.matrix[:, 7] = 1 - answers.matrix[:, 7]
    names = {"models": [f"model-{i:03d}" for i in range(400)], "items": [f"q{j:02d}" for j in range(60)]}
    matrix = into / "answers.npz"
    write_whole(matrix, lambda path: np.savez_compressed(path, R=answers.matrix, **names))  # type: ignore[arg-type]
    console.print(
        "\nFour hundred simulated models answer sixty questions. The key of question q07 is wrong by construction.\n",
        highlight=False,
    )
    command = f"breadth calibrate {matrix} --model 2pl"
    console.print(f"$ {command}", style="bold", markup=False, highlight=False, soft_wrap=True)
    calibration = calibrate(matrix, model="2pl")
    show_calibration(calibration, 10)
    written = calibration.save(into / "calibration.parquet")
    written.append(write_figure(calibration.figure(), into / "map.html", "breadth demo", calibration.summary()))
    say_written(matrix, *written)
