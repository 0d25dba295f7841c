"""``smoke``: drills before installing, one question through every route before relying on it. The trying is
``routekit.smoke``'s; here are its words, its data and its exit code."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.health import duration
from ..core.words import plural
from ..errors import EX_NO, EX_OK, RoutekitError, UsageError
from ..router import Router
from ..views import GroupNode
from .report import Context, Lines, Report
from .shapes import SCHEMA_VERSION, attempt_json, money

if TYPE_CHECKING:
    from ..loop import Background
    from ..smoke.deployed import Asked, Errand
    from ..smoke.drills import Verdict
    from ..smoke.stand import Parts

T = TypeVar("T")
#: how long one question may take, in seconds, where neither ``--timeout`` nor the variable says
TIMEOUT = 180.0
TIMEOUT_VARIABLE, VERBOSE_VARIABLE = "SMOKE_TIMEOUT_S", "SMOKE_VERBOSE"
#: so many lines of an answer are shown where more is wanted, and so many characters where not
ANSWER_LINES, ANSWER_SHOWN = 6, 40
#: names the configuration without a profile over it
PLAIN = "default"


# --- local ------------------------------------------------------------------------------------------------------------


def local(
    context: Context,
    *,
    routes: bool = False,
    json: bool = False,
    junit: str | None = None,
    parts: Parts | None = None,
) -> Report:
    """The drills; with ``routes`` the person's own routes after them. ``parts`` are what the drills try, where they are
    not the real ones."""
    from ..loop import Background
    from ..smoke import drills, walks

    _need_writable(junit)
    router = context.router if routes else None
    if router is not None:
        router.refresh()
    sources: list[AsyncGenerator[Verdict, None]] = [drills.run(parts)]
    sources += [walks.run(router)] if router is not None else []
    background, found = Background(), list[Any]()
    try:
        for source in sources:
            for verdict in _played(background, source):
                found.append(verdict)
                if not json:
                    context.io.show(_verdict_line(verdict))
    finally:
        background.close()
    failed = [row for row in found if not row.passed]
    _write_junit(junit, "routekit smoke local", [_verdict_case(row) for row in found])
    return Report(
        blocks=(Lines(text=(_count(found),)),),
        data=_local_data(found),
        exit_code=EX_NO if failed else EX_OK,
        hints=tuple(dict.fromkeys(map(_what_next, failed))),
    )


def _verdict_line(verdict: Verdict) -> str:
    return f"PASS  {verdict.name}" if verdict.passed else f"FAIL  {verdict.name}: {verdict.detail}"


def _count(found: Sequence[Any]) -> str:
    return f"{sum(row.passed for row in found)}/{len(found)}"


def _what_next(verdict: Verdict) -> str:
    if verdict.kind == "route":
        return f"routekit routes preview {verdict.name.partition(':')[0]}"
    return "routekit smoke --json"


def _local_data(found: Sequence[Verdict]) -> dict[str, Any]:
    rows = [
        {
            "name": row.name,
            "kind": row.kind,
            "passed": row.passed,
            "detail": row.detail or None,
            "duration_ms": round(row.seconds * 1000),
        }
        for row in found
    ]
    return {"schema_version": SCHEMA_VERSION, "mode": "local", **_totals(found), "results": rows}


def _totals(found: Sequence[Any]) -> dict[str, Any]:
    passed = sum(row.passed for row in found)
    return {"passed": passed == len(found), "count": len(found), "failed": len(found) - passed}


def _played(background: Background, source: AsyncGenerator[T, None]) -> Iterator[T]:
    """What an asynchronous generator yields, as it comes; also where a loop runs already, as in a notebook."""

    async def step() -> T | None:
        return await anext(source, None)

    try:
        while (one := background.call(step())) is not None:
            yield one
    finally:
        background.finish(source.aclose())


# --- deployed ---------------------------------------------------------------------------------------------------------


def deployed(
    context: Context,
    *,
    profile_name: str,
    route: Sequence[str] = (),
    dump_only: bool = False,
    each_target: bool = False,
    timeout: float | None = None,
    parallel: int | None = None,
    json: bool = False,
    junit: str | None = None,
) -> Report:
    """What a profile is made of; then one short question through each of its routes, or through those named."""
    from ..smoke.deployed import errand

    if parallel is not None and parallel < 1:
        raise UsageError("--parallel takes a number from 1 on", hints=["routekit smoke deployed --help"])
    seconds = _timeout(context.environ, timeout)
    _need_writable(junit)
    with _profile(context, profile_name) as router:
        composed = _Composition(router, profile_name)
        tell = context.io.say if json else context.io.show
        if not json:
            for line in composed.lines():
                tell(line)
        if dump_only:
            return Report(data=_deployed_data(composed, None, ()))
        task = errand(router, route, each_target=each_target, timeout=seconds, parallel=parallel or 1)
        tell(_calls(task))
        found = _ask(context, router, task, quiet=json)
        _write_junit(junit, f"routekit smoke deployed {profile_name}", [_asked_case(row) for row in found])
        failed = [row for row in found if not row.passed]
        return Report(
            blocks=(Lines(text=(_count(found),)),),
            data=_deployed_data(composed, task, found),
            notes=tuple(router.store.warnings),
            exit_code=EX_NO if failed else EX_OK,
            hints=_hints(failed),
        )


def _ask(context: Context, router: Router, task: Errand, *, quiet: bool) -> list[Asked]:
    from ..smoke.deployed import run

    verbose = context.environ.get(VERBOSE_VARIABLE, "") not in ("", "0")
    found: list[Asked] = []
    for asked in _played(router.background, run(router, task)):
        found.append(asked)
        if not quiet:
            for line in _asked_lines(asked, verbose=verbose):
                context.io.show(line)
        elif context.io.interactive:
            context.io.say(_asked_line(asked))
    return found


def _timeout(environ: Mapping[str, str], said: float | None) -> float:
    raw = environ.get(TIMEOUT_VARIABLE, "").strip()
    if said is not None or not raw:
        return said or TIMEOUT
    try:
        seconds = float(raw)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"{TIMEOUT_VARIABLE} is a number of seconds, such as 180; it says {raw!r}")
    return seconds


@contextmanager
def _profile(context: Context, name: str) -> Iterator[Router]:
    """A router over that profile and the patches of the command line. Raises ``UsageError`` for a name that is none."""
    plain = {key: value for key, value in context.environ.items() if key != "ROUTEKIT_PROFILE"}
    here = Context(context.io, environ=plain, config_file=context.config_file, surface=context.surface)
    known = _profiles(here.router.paths.profiles_dir)
    if name not in known:
        raise UsageError(
            f"there is no profile '{name}'; there are {', '.join(known)}",
            hints=[f"routekit smoke deployed {PLAIN}", "routekit config path"],
        )
    chosen = None if name == PLAIN else name
    there = Context(
        context.io,
        environ=plain,
        config_file=context.config_file,
        profile=chosen,
        patches=context.patches,
        surface=context.surface,
    )
    try:
        there.router.refresh()
        yield there.router
    finally:
        there.close()


def _profiles(folder: str) -> list[str]:
    from ..config import demo

    try:
        files = sorted(os.listdir(folder))
    except OSError:
        files = []
    own = [name.removesuffix(".toml") for name in files if name.endswith(".toml")]
    return list(dict.fromkeys([PLAIN, *own, demo.NAME]))


class _Composition:
    """What a profile comes down to: files, routes with their targets, where keys come from, what is asked unasked."""

    def __init__(self, router: Router, profile: str) -> None:
        from .keys import holders
        from .providers import key_words

        config = router.config
        self.profile, self.files = profile, list(config.files)
        self.trees: dict[str, GroupNode | str] = {}
        for row in config.routes.values():
            if row.enabled:
                self.trees[row.id] = _tree(router, row.id)
        self.keys = {one.who: key_words(router, one) for one in holders(config) if one.needed}
        self.members = {
            row.id: [member.provider for member in row.members if member.enabled]
            for row in config.synthetic_providers.values()
        }
        self.default = _default(router)
        self.warnings = [str(problem) for problem in config.warnings]
        self.now = router.now()

    @property
    def notes(self) -> list[str]:
        if self.default is None:
            return ["nothing is asked when nothing is named: there is no default"]
        return [] if self.default in self.trees else [f"the default, {self.default}, is not one of the routes"]

    def lines(self) -> Iterator[str]:
        from .routes import preview_lines

        yield f"profile {self.profile}: {', '.join(self.files) or 'no file'}"
        for id, tree in self.trees.items():
            yield from [f"{id}: {tree}"] if isinstance(tree, str) else preview_lines(tree, self.now)
        for id, members in self.members.items():
            yield f"{id} is {', '.join(members) or 'nobody'}"
        for who, words in self.keys.items():
            yield f"key of {who}: {words}"
        yield f"default: {self.default or 'none'}"
        yield from (f"warning: {text}" for text in self.warnings)
        yield from (f"note: {text}" for text in self.notes)

    def data(self) -> dict[str, Any]:
        from .routes import node_json

        routes = [
            {"id": id, "error": tree} if isinstance(tree, str) else {"id": id, "tree": node_json(tree)}
            for id, tree in self.trees.items()
        ]
        return {
            "files": self.files,
            "routes": routes,
            "synthetic_providers": self.members,
            "keys": self.keys,
            "default": self.default,
            "warnings": self.warnings,
        }


def _tree(router: Router, id: str) -> GroupNode | str:
    try:
        return router.preview(f"route/{id}")
    except RoutekitError as error:
        return error.message


def _default(router: Router) -> str | None:
    try:
        return router.default_model()
    except UsageError:
        return None


def _calls(task: Errand) -> str:
    """How many calls will be made: said before the first."""
    fewest, most, worst = task.calls
    what = plural(len(task.plans), "route")
    if task.each_target:
        what += f" and all of {plural(len(task.leaves), 'target')}"
    often = plural(fewest, "call") if fewest == most else f"{fewest} to {plural(most, 'call')}"
    more = f", up to {worst} where something fails" if worst > most else ""
    return f"asking {what}: {often}{more}; each may take {duration(task.timeout)}"


# --- what came back ---------------------------------------------------------------------------------------------------


def _asked_line(asked: Asked) -> str:
    kind = "target " if asked.kind == "target" else ""
    if not asked.passed:
        return f"FAIL  {kind}{asked.name}: {asked.detail}"
    served = f" → {asked.served_by}" if asked.served_by != asked.name else ""
    return " · ".join([f"PASS  {kind}{asked.name}{served}", *_measures(asked), _short(asked.answer)])


def _measures(asked: Asked) -> Iterable[str]:
    yield duration(asked.total)
    if asked.first_output is not None:
        yield f"first output {duration(asked.first_output)}"
    usage = asked.usage
    if usage is not None:
        yield f"{'~' if usage.estimated else ''}{usage.input_tokens}→{usage.output_tokens} tok"
    if asked.cost is not None:
        yield f"${asked.cost}"
    yield plural(len(asked.attempts), "attempt")


def _short(answer: str) -> str:
    line = " ".join(answer.split())
    return f"'{line}'" if len(line) <= ANSWER_SHOWN else f"'{line[: ANSWER_SHOWN - 1]}…'"


def _asked_lines(asked: Asked, *, verbose: bool) -> Iterator[str]:
    yield _asked_line(asked)
    if asked.note:
        yield f"      {asked.note}"
    if verbose or not asked.passed:
        yield from (f"      {line}" for line in asked.lines)
    if verbose:
        yield from (f"      | {line}" for line in asked.answer.splitlines()[:ANSWER_LINES])


def _hints(failed: Sequence[Asked]) -> tuple[str, ...]:
    if not failed:
        return ()
    credential = any(row.detail.startswith("credential problem") for row in failed)
    return (*(["routekit keys check"] if credential else []), "routekit why", "routekit health list")


def _deployed_data(composed: _Composition, task: Errand | None, found: Sequence[Asked]) -> dict[str, Any]:
    calls = dict(zip(("fewest", "most", "worst"), task.calls, strict=True)) if task is not None else None
    return {
        "schema_version": SCHEMA_VERSION,
        "mode": "deployed",
        "profile": composed.profile,
        **_totals(found),
        "composition": composed.data(),
        "notes": composed.notes,
        "calls": calls,
        "results": [_asked_data(row) for row in found],
    }


def _asked_data(asked: Asked) -> dict[str, Any]:
    usage = asked.usage
    return {
        "name": asked.name,
        "kind": asked.kind,
        "passed": asked.passed,
        "detail": asked.detail or None,
        "note": asked.note or None,
        "served_by": asked.served_by,
        "answer": asked.answer or None,
        "first_output_ms": round(asked.first_output * 1000) if asked.first_output is not None else None,
        "duration_ms": round(asked.total * 1000),
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost": money(asked.cost),
        "attempts": [attempt_json(row) for row in asked.attempts],
        "id": asked.record,
    }


# --- JUnit ------------------------------------------------------------------------------------------------------------


def _verdict_case(row: Verdict) -> Any:
    from ..smoke.junit import Case

    return Case(name=row.name, seconds=row.seconds, failure="" if row.passed else row.detail)


def _asked_case(row: Asked) -> Any:
    from ..smoke.junit import Case

    output = tuple(line for line in (row.note, *row.lines) if line)
    return Case(name=f"{row.kind} {row.name}", seconds=row.total, failure=row.detail, output=output)


def _need_writable(file: str | None) -> None:
    """Before anything is asked: verdicts that cannot be kept would be paid for twice."""
    if file is not None:
        _into(file, lambda: open(file, "ab").close())


def _write_junit(file: str | None, suite: str, cases: Sequence[Any]) -> None:
    from ..smoke.junit import xml

    if file is not None:
        text = xml(suite, cases).encode()

        def write() -> None:
            with open(file, "wb") as out:
                out.write(text)

        _into(file, write)


def _into(file: str, work: Callable[[], None]) -> None:
    try:
        work()
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
