"""llama.cpp's own HTTP server on a free loopback port, as a process: prints its address, ends when its input closes.

    python serve_model.py MODEL.gguf NAME

A process of its own, because the model's threads and memory must not outlive, slow or crash a test run.
"""

from __future__ import annotations

import sys

import xllamacpp


def main(model: str, name: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.model_alias = {name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    parameters.kv_unified = True
    parameters.offline = True
    parameters.ui = False
    parameters.sampling.temp = 0.0
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    # The caller holds the other end; when it is gone, however it went, so are we.
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
