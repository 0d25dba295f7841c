"""Several questions at once from a script, with an honest end: python examples/summaries.py [PROFILE] < questions.txt

Each line of standard input is one question. Without any, three are asked. The default profile is the built-in demo.
"""

from __future__ import annotations

import asyncio
import sys

import routekit

QUESTIONS = ["What is failover?", "What is a route?", "What does exit code 75 mean?"]


async def main(profile: str) -> int:
    router = routekit.Router.open(profile=profile)
    typed = [] if sys.stdin.isatty() else [line.strip() for line in sys.stdin if line.strip()]
    questions = typed or QUESTIONS
    found = await asyncio.gather(*(router.aask(question) for question in questions), return_exceptions=True)
    code = 0
    for question, answer in zip(questions, found, strict=True):
        if isinstance(answer, routekit.RoutekitError):
            print(f"{question}\n  failed: {answer}", file=sys.stderr)
            code = answer.exit_code
        elif isinstance(answer, BaseException):
            raise answer
        else:
            print(f"{question}\n  {answer.text}\n  ({answer.served_by}, {answer.usage.output_tokens} tokens)")
    router.close()
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*(sys.argv[1:] or ["demo"]))))
