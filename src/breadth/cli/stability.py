"""``breadth stability``."""

from __future__ import annotations

from typing import Annotated

import typer

from breadth.cli.options import (
    By,
    ExcelSafe,
    FigureFile,
    Order,
    Out,
    ScoreOption,
    Seed,
    TablesArgument,
    Testsets,
    given,
    one_or_all,
)


def stability_command(
    sources: TablesArgument,
    testsets: Testsets = None,
    by: By = None,
    order: Order = None,
    score: ScoreOption = None,
    item_counts: Annotated[
        str | None,
        typer.Option(
            metavar="A=635,..",
            help="Items per test set, for their noise; or none. Default: usual sizes of well-known sets.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Which runs belong together; or none. Default: the model of a run."),
    ] = None,
    seed: Seed = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    figure: FigureFile = None,
) -> None:
    """How far do scores move up and down during training, and do models differ in it?

    TABLE is a table of scores with a row per checkpoint (or per checkpoint and test set), single answers, or the
    directory of a study, as for `breadth correlate`. A score fluctuates if it lies off the line between the checkpoints
    before and after it by more than the choice of questions explains.

    Examples:

    * `breadth stability my-study`

    * `breadth stability scores.csv --item-counts negation=2000,science=2000 --figure stability.html`

    * `breadth stability scores.csv --by run --order step --cluster model --out fluctuation.csv`
    """
    from breadth.cli.correlate import parse_counts
    from breadth.cli.terminal import (
        check_outputs,
        console,
        exit_if_empty,
        print_result,
        print_warnings,
        write_figure_file,
        write_tables,
    )
    from breadth.fluctuation import comparisons_table, models_table, stability

    check_outputs(out, figure)
    counts = item_counts if item_counts in (None, "none") else parse_counts(item_counts)
    options = given(testsets=testsets, by=by, order=order, score=score, item_counts=counts, cluster=cluster, seed=seed)
    result = stability(one_or_all(sources), **options)
    print_warnings(result.warnings, notes=result.read_as)
    tables = [models_table(result.models, console.width, result.noun)]
    if result.comparisons.height:
        tables.append(comparisons_table(result.comparisons, console.width))
    print_result(result, *tables)
    write_tables(out, result.models, excel_safe, runs=result.runs, comparisons=result.comparisons, scales=result.scales)
    if figure is not None:
        write_figure_file(result, figure, f"breadth stability: {sources[0].name}")
    exit_if_empty(result)
