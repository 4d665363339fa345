"""``breadth correlate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from breadth.cli.options import (
    AdjustOption,
    By,
    Controls,
    ExcelSafe,
    FigureFile,
    LowerIsBetter,
    Order,
    Out,
    ScoreOption,
    Seed,
    TablesArgument,
    Testsets,
    given,
    one_or_all,
)
from breadth.errors import InputError

if TYPE_CHECKING:
    from breadth import Correlation


def correlate_command(
    tables: TablesArgument,
    control: Controls = None,
    testsets: Testsets = None,
    by: By = None,
    order: Order = None,
    score: ScoreOption = None,
    lower_is_better: LowerIsBetter = None,
    adjust: AdjustOption = None,
    method: Annotated[str | None, typer.Option(help="Correlate values or ranks.")] = None,
    robust: Annotated[
        bool, typer.Option("--robust", help="Give rows far out less weight (bivariate t distribution).")
    ] = False,
    ci: Annotated[
        str | None,
        typer.Option(help="Intervals: Fisher (iid), effective sample size (ar) or block bootstrap. auto: ar or iid."),
    ] = None,
    resamples: Annotated[int | None, typer.Option(metavar="N", help="Bootstrap resamples for --ci block.")] = None,
    windows: Annotated[
        int | None, typer.Option(metavar="K", help="Also analyse K consecutive parts of every run.")
    ] = None,
    item_counts: Annotated[
        str | None,
        typer.Option(
            metavar="A=635,..",
            help="Items per test set, to correct for noise; or none. Default: usual sizes of well-known sets.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What belongs together: model, family; or none. Default: the model of runs, the family of models.",
        ),
    ] = None,
    moderators: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,..",
            help="What correlations may depend on: size, kind, or columns of runs such as examples, family, train_set.",
        ),
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(metavar="A=KIND,..", help="Kind of shift of test sets, wildcards allowed, for --moderators kind."),
    ] = None,
    seed: Seed = None,
    out: Out = None,
    excel_safe: ExcelSafe = False,
    figure: FigureFile = None,
) -> None:
    """Do results on one test set carry over to another, after controlling for in-domain performance?

    TABLE is one file, or several that are put together: CSV, TSV, Parquet, JSON, Markdown or NPZ; wide (a column per
    test set), long (columns testset, score), or single answers (columns testset, item, correct). Columns are recognised
    by the names that tools in the field use; what was recognised is printed first, and options correct it. Or the
    directory of a study: every run is then analysed over its checkpoints, with its own training set as the control.

    Examples:

    * `breadth correlate scores.csv`

    * `breadth correlate scores.csv --control mnli --by run --order step --figure carry-over.html --out pairs.csv`

    * `breadth correlate scores.csv --control mnli --testsets 'hans_*,anli' --item-counts mnli=6692,anli=798`

    * `breadth correlate my-study --figure carry-over.html`

    * `breadth correlate my-study --score auc`

    * `breadth correlate models.csv --control mmlu --cluster family`

    * `breadth correlate scores.csv --by model --order step --moderators size`
    """
    from breadth.cli.terminal import (
        check_outputs,
        count_progress,
        exit_if_empty,
        print_warnings,
        write_figure_file,
        write_tables,
    )
    from breadth.correlation import correlate

    check_outputs(out, figure)
    counts = item_counts if item_counts in (None, "none") else parse_counts(item_counts)
    options = given(
        control=control, testsets=testsets, by=by, order=order, score=score, lower_is_better=lower_is_better,
        adjust=adjust, method=method, robust=robust or None, ci=ci, resamples=resamples,
        windows=windows, item_counts=counts, cluster=cluster,
        moderators=",".join(moderators) if moderators else None,
        kinds=None if kinds is None else parse_kinds(kinds), seed=seed,
    )  # fmt: skip
    with count_progress("correlating", "groups") as progress:
        result = correlate(one_or_all(tables), **options, progress=progress)
    print_warnings(result.warnings, notes=result.trajectories.reading.lines())
    print_correlation(result)
    if out is not None:
        others = {"heterogeneity": result.heterogeneity, "similarity": result.similarity, "windows": result.windows}
        others |= {"changes": result.changes}
        others |= {"moderators": result.moderators, "moderator_means": result.moderator_means}
        others["unmeasured"] = result.unmeasured
        write_tables(out, result.pairs, excel_safe, **others)
    if figure is not None:
        write_figure_file(result, figure, f"breadth correlate: {tables[0].name}")
    exit_if_empty(result)


def parse_counts(text: str) -> dict[str, int]:
    """Read ``a=635,b=2490``."""
    counts = {}
    for part in text.split(","):
        name, sign, number = part.rpartition("=")
        if not sign or not number.strip().isdigit():
            raise InputError(f"--item-counts: {part!r} is not NAME=NUMBER; write a=635,b=2490")
        counts[name.strip()] = int(number)
    return counts


def parse_kinds(text: str) -> dict[str, str]:
    """Read ``hans_*=adversarial,chat=style``."""
    kinds = {}
    for part in text.split(","):
        name, sign, kind = part.rpartition("=")
        if not sign or not name.strip() or not kind.strip():
            raise InputError(f"--kinds: {part!r} is not NAME=KIND; write hans=adversarial,chat=style")
        kinds[name.strip()] = kind.strip()
    return kinds


def print_correlation(result: Correlation) -> None:
    """Print the verdict, then tables and details, of each training set if there are several."""
    from breadth.cli.terminal import console, print_line, print_result, print_verdict
    from breadth.correlation import (
        CorrelationByTrainSet,
        correlations_table,
        groups_table,
        heterogeneity_table,
        moderator_words,
        moderators_table,
    )

    parts = result.parts if isinstance(result, CorrelationByTrainSet) else {"": result}
    several = len(parts) > 1
    if several:
        print_verdict(result.verdict().lines())
    for name, part in parts.items():
        if several:
            print_line(f"Trained on {name}", "bold")
        if part.by and part.pairs.height:
            groups = groups_table(part.pairs, part.by, console.width)
            tables = [groups, heterogeneity_table(part.heterogeneity, console.width, part.units.noun)]
        else:
            tables = [correlations_table(part.pairs, part.by, console.width)]
        if not several and result.moderators.height:
            tables.append(moderators_table(result.moderators, console.width))
        print_result(part, *tables, answered=several)
        if several:
            console.print()
    if several and result.moderators.height:
        console.print(moderators_table(result.moderators, console.width))
        print_line(moderator_words(result.moderators, result.moderator_means))
