"""A study as it was resolved, and how it differs from the one that was run before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from breadth.study.lines import StudyDumper
from breadth.study.schema import Study


def resolved_study(study: Study) -> dict[str, Any]:
    """Every key with its value, defaults included, as plain values."""
    return study.model_dump(mode="json")


def resolved_yaml(study: Study) -> str:
    """The resolved study as YAML that reads back to the same study."""
    return yaml.dump(
        resolved_study(study),
        Dumper=StudyDumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=None,
    )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two resolved studies, a line each.

    >>> differences({"recipe": {"lr": 0.001}, "models": ["a"]}, {"recipe": {"lr": 0.0001}, "models": ["a", "b"]})
    ['recipe.lr: 0.001 -> 0.0001', 'models: b added']
    """
    return list(_differences("", old, new))


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            here = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"{here}: {_shown(old[key])} removed"
            elif key not in old:
                yield f"{here}: {_shown(new[key])} added"
            else:
                yield from _differences(here, old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(path, old, new)
    else:
        yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _list_differences(path: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    named = all(isinstance(each, Mapping) and "name" in each for each in [*old, *new])
    if named:
        before, after = ({each["name"]: each for each in entries} for entries in (old, new))
        for name in before:
            if name in after:
                yield from _differences(f"{path}.{name}", before[name], after[name])
        gone, come = [name for name in before if name not in after], [name for name in after if name not in before]
    else:
        gone, come = [each for each in old if each not in new], [each for each in new if each not in old]
    yield from (f"{path}: {_shown(each)} removed" for each in gone)
    yield from (f"{path}: {_shown(each)} added" for each in come)
    if not gone and not come:
        keys = ([each["name"] if named else each for each in entries] for entries in (old, new))
        first, second = keys
        if first != second:
            yield f"{path}: {_shown(first)} -> {_shown(second)}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_shown(each) for each in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in value.items()) + "}"
    return str(value)
