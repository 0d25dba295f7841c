"""Verdicts as JUnit XML, which every CI reads. It writes no file."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.value import Value


class Case(Value):
    """``failure`` is empty for a case that passed; ``output`` are further lines."""

    name: str
    seconds: float
    failure: str = ""
    output: tuple[str, ...] = ()


def xml(suite: str, cases: Sequence[Case]) -> str:
    from xml.etree import ElementTree as Tree

    failed = sum(bool(case.failure) for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0", "skipped": "0"}
    counts["time"] = f"{sum(case.seconds for case in cases):.3f}"
    root = Tree.Element("testsuites", {"name": "routekit smoke", **counts})
    rows = Tree.SubElement(root, "testsuite", {"name": clean(suite), **counts})
    for case in cases:
        said = {"classname": clean(suite), "name": clean(case.name), "time": f"{case.seconds:.3f}"}
        row = Tree.SubElement(rows, "testcase", said)
        if case.failure:
            text = "\n".join((case.failure, *case.output))
            Tree.SubElement(row, "failure", {"message": clean(case.failure)}).text = clean(text)
        elif case.output:
            Tree.SubElement(row, "system-out").text = clean("\n".join(case.output))
    return Tree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def clean(text: str) -> str:
    """Without the characters XML has no way to say."""
    return "".join(one if _can_be_said(ord(one)) else "\ufffd" for one in text)


def _can_be_said(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
