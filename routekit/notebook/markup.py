"""An answer's text as what a notebook can show: bundles of text, Markdown, code, JSON, a sandboxed page. Pure.

What a model writes is not trusted: nothing of it is fetched from afar, no tag of it is obeyed, no script runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..answer import fenced

Bundle = dict[str, Any]

_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_LOCAL = re.compile(r"\(\s*<?(?:data:image/|attachment:)", re.IGNORECASE)
#: tags that do nothing but dress text
_HARMLESS = "br|sub|sup|kbd|b|i|em|strong|u|s|mark|small"
_TAG = re.compile(rf"<(?!(?:/?(?:{_HARMLESS})\s*/?>|https?://[^\s<>]*>))(?=[A-Za-z/!?])")
#: a reader sees nothing of it, and no parser sees a tag behind it
_JOINER = "\u2060"
_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"


def bundle(text: str, format: str) -> Bundle:
    """The answer in a format: always ``text/plain``, which is the text itself, and beside it what is richer."""
    return {"text/plain": text} | _RICHER.get(format, _markdown)(text)


def growing(text: str, format: str) -> Bundle:
    """The answer while it comes: what is only good when whole is shown as text until then."""
    return bundle(text, "markdown" if format == "markdown" else "text")


def _markdown(text: str) -> Bundle:
    return {"text/markdown": safe_markdown(text)}


def _nothing(text: str) -> Bundle:
    return {}


def _last_code(text: str) -> Bundle:
    blocks = fenced(text)
    return _code(f"~~~~\n{blocks[-1]}~~~~") if blocks else _code(text)


def _code(text: str) -> Bundle:
    code = code_of(text)
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
    info = re.search(r"^\s*(?:`{3,}|~{3,})[ \t]*([\w+#.-]*)", text, re.MULTILINE)
    return {"text/plain": code, "text/markdown": f"{mark}{info[1] if info else ''}\n{code.rstrip()}\n{mark}"}


def code_of(text: str) -> str:
    """The first fenced block; the whole text where there is none."""
    blocks = fenced(text)
    return blocks[0] if blocks else text


def _json(text: str) -> Bundle:
    import msgspec

    try:
        data = msgspec.json.decode(code_of(text))
    except msgspec.MsgspecError:
        return {}
    # A bundle's JSON may be an object or a list; a number alone is its text.
    pretty = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return {"text/plain": pretty} | ({"application/json": data} if isinstance(data, dict | list) else {})


def _html(text: str) -> Bundle:
    return {"text/html": frame(code_of(text))}


def _math(text: str) -> Bundle:
    formula = code_of(text).strip()
    for begin, end in ((r"\[", r"\]"), ("$$", "$$"), (r"\(", r"\)"), ("$", "$")):
        if formula.startswith(begin) and formula.endswith(end) and len(formula) >= len(begin + end):
            formula = formula[len(begin) : -len(end)].strip()
    return {"text/latex": f"$$\n{formula}\n$$"}


_RICHER: Mapping[str, Callable[[str], Bundle]] = {
    "markdown": _markdown,
    "text": _nothing,
    "code": _code,
    "last code": _last_code,
    "json": _json,
    "html": _html,
    "math": _math,
}


def frame(page: str) -> str:
    """A page in a frame of its own: it runs nothing, sends nothing, loads nothing, and cannot touch the notebook."""
    guarded = f'<meta http-equiv="Content-Security-Policy" content="{_CSP}">{page}'
    style = "width:100%;height:24em;border:1px solid #ccc;background:#fff"
    return f'<iframe sandbox="" referrerpolicy="no-referrer" style="{style}" srcdoc="{escape(guarded)}"></iframe>'


def escape(text: str) -> str:
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;")):
        text = text.replace(raw, safe)
    return text


def safe_markdown(text: str) -> str:
    """The text with pictures from elsewhere as links, and tags as text. What stands in a fence at the margin is left
    alone, since nothing there is obeyed."""
    done: list[str] = []
    outside: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        if not fence:
            found = _FENCE.match(line.rstrip("\r\n"))
            if not found:
                outside.append(line)
                continue
            fence = found[1] or found[2]
            done.append(_disarmed("".join(outside)))
            outside = []
        elif _closes(line, fence):
            fence = ""
        done.append(line)
    return "".join([*done, _disarmed("".join(outside))])


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(line) - len(line.lstrip(" ")) <= 3 and bare.startswith(fence) and not bare.strip(fence[0])


def _disarmed(text: str) -> str:
    return _TAG.sub(f"<{_JOINER}", _links_for_pictures(text))


def _links_for_pictures(text: str) -> str:
    """``![alt](https://…)`` and ``![alt][name]`` without their ``!``; a picture inside the text itself stays."""
    if "![" not in text:
        return text
    drop: set[int] = set()
    open_at: list[int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            open_at.append(at)
        elif text[at] == "]" and open_at:
            began = open_at.pop()
            if began and text[began - 1] == "!" and _is_picture(text, at + 1):
                drop.add(began - 1)
        at += 1
    return "".join(char for number, char in enumerate(text) if number not in drop)


def _is_picture(text: str, after: int) -> bool:
    """Whether what follows ``![…]`` makes it a picture from elsewhere. ``vec![1, 2];`` is none, unless its name is
    given a destination somewhere."""
    if text.startswith("(", after):
        return not _LOCAL.match(text, after)
    return re.search(r"^[ ]{0,3}\[[^\]\n]+\]:", text, re.MULTILINE) is not None
