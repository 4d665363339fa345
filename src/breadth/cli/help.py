"""Help without types of Python: ``<bool>`` behind a flag looks as if a word had to follow."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand


def hide_types(parameters: list[Any]) -> list[Any]:
    """Show no type of arguments and flags; that of other options is their metavar."""
    for parameter in parameters:
        if isinstance(parameter, TyperArgument) or getattr(parameter, "is_flag", False):
            parameter.display_type_rich = no_type
    return parameters


def no_type(ctx: Any) -> None:
    """The type of a parameter that has none to show."""


class PlainCommand(TyperCommand):
    """A command whose help shows names and words alone."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, of which arguments and flags show no type."""
        return hide_types(super().get_params(ctx))
