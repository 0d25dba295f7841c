"""The built-in profile ``demo``: two scripted providers, the first of which fails. It is never used unasked."""

from __future__ import annotations

NAME = "demo"

TEXT = """\
version = 1

[defaults]
route = "demo"

[providers.demo-primary]
api = "scripted"
params.script = [{ fault = "transient", status = 503, message = "this demo provider is always overloaded" }]

[providers.demo-backup]
api = "scripted"
params.script = ["Hello from the demo. You asked: {prompt}"]

[routes.demo]
name = "Demo"
targets = ["demo-primary/model", "demo-backup/model"]
"""
