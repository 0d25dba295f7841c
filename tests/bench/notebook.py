"""What the magics cost in a real kernel: loading, a long answer, an interrupt.

    python tests/bench/notebook.py             a table
    python tests/bench/notebook.py --check     the same; exit 1 if a limit is exceeded

Each is the best of several runs: a busy machine makes a run slower, never faster.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.loopback import Loopback  # noqa: E402
from tests.notebook.conftest import Kernel, Ran  # noqa: E402

RUNS = 5
#: what is measured → the most it may be
LIMITS = {
    "%load_ext, processor seconds": 0.1,
    "interrupt to idle, seconds": 0.3,
    "updates in a second": 15.0,
    "3,000 lines, times the plain loop": 2.0,
}
LINES = "\n".join(f"line {number}" for number in range(3000))
PLAIN = """
import openai
client, text = openai.OpenAI(base_url={url!r}, api_key="x"), ""
for event in client.chat.completions.create(model="m", stream=True, messages=[{{"role": "user", "content": "go"}}]):
    text += (event.choices[0].delta.content or "") if event.choices else ""
"""


def seconds(kernel: Kernel, code: str) -> float:
    begun = time.monotonic()
    ran = kernel.run(code)
    assert ran.status == "ok", ran.traceback
    return time.monotonic() - begun


def fresh_load() -> float:
    """The first load of a kernel, imports included."""
    import subprocess

    code = (
        "import time; from IPython.core.interactiveshell import InteractiveShell; shell = InteractiveShell.instance();"
        "begun = time.process_time(); shell.run_line_magic('load_ext', 'routekit'); print(time.process_time() - begun)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def interrupt(kernel: Kernel) -> float:
    asked, ran = kernel.start("%route go"), Ran()
    kernel.wait_for_output(asked, ran)
    time.sleep(0.3)
    begun = kernel.interrupt()
    kernel.finish(asked, ran)
    assert ran.traceback == ["Interrupted: stopped; what had come is kept"]
    return ran.idle_at - begun


def updates(kernel: Kernel) -> float:
    ran = kernel.run("%route go")
    times = [at for at, message in ran.messages if message["msg_type"] in ("display_data", "update_display_data")]
    return max(sum(1 for other in times if at <= other < at + 1.0) for at in times)


def measure() -> dict[str, float]:
    with Loopback() as vendor, Kernel(Path(tempfile.mkdtemp()), vendor) as kernel:
        kernel.run("%route --quiet -m mock/warm hi")
        vendor.script("m", {"tokens": 5000, "delay": 0.01})
        stopped = min(interrupt(kernel) for _ in range(RUNS))
        vendor.script("m", {"tokens": 300, "delay": 0.01})
        often = updates(kernel)
        vendor.script("m", {"text": LINES})
        plain = PLAIN.format(url=vendor.url())
        ours = min(seconds(kernel, "%route go") for _ in range(RUNS))
        theirs = min(seconds(kernel, plain) for _ in range(RUNS))
    return dict(zip(LIMITS, (min(fresh_load() for _ in range(RUNS)), stopped, often, ours / theirs), strict=True))


def main() -> int:
    found = measure()
    for name, most in LIMITS.items():
        print(f"{name:<36} {found[name]:8.3f}   at most {most:g}")
    over = [name for name, most in LIMITS.items() if found[name] > most]
    return 1 if over and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
