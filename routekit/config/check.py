"""``config check``: what is wrong or risky beyond what stops a config from loading. It changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..core.config import Problem
from ..core.keyref import KEY_SHAPE
from ..errors import EX_CONFIG, EX_NO, EX_OK
from ..files import read_bounded
from .sources import other_writers


def check(found: Iterable[Problem], *, files: Sequence[str], more: Iterable[Problem] = ()) -> list[Problem]:
    """All problems, errors first. ``found`` is what reading said, ``files`` are those that were read, ``more`` what
    others have to say (expansion: dead targets, emptied groups; credentials that are absent)."""
    problems = [*found, *check_files(files), *more]
    return sorted(dict.fromkeys(problems), key=lambda problem: problem.severity != "error")


def exit_code(problems: Iterable[Problem]) -> int:
    """0 clean, 1 warnings only, 78 errors."""
    severities = {problem.severity for problem in problems}
    if "error" in severities:
        return EX_CONFIG
    return EX_NO if severities else EX_OK


def check_files(files: Iterable[str]) -> list[Problem]:
    """Files others can write, and secrets in plain text anywhere in them, comments included."""
    return [problem for file in files for problem in (*_writers(file), *_secrets(file))]


def _writers(file: str) -> Iterable[Problem]:
    try:
        words = other_writers(file, os.stat(file))
    except OSError:
        return
    if words:
        yield Problem(file=file, message=f"{words}; try: chmod go-w {file}", severity="warning")


def _secrets(file: str) -> Iterable[Problem]:
    try:
        lines = read_bounded(file).decode("utf-8", "replace").split("\n")
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        if KEY_SHAPE.search(line):
            yield Problem(
                file=file,
                line=number,
                message="what looks like a secret stands here in plain text; take it out; try: routekit keys set",
                severity="warning",
            )
