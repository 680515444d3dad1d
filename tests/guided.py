"""Inputs that are bred: Atheris keeps those that reach new code, and injures them further."""

import gc
import os
import random
import sys
import tempfile
import types
from pathlib import Path

PACKAGES = ("glnn.data", "glnn.graph", "glnn.engine", "glnn.report", "glnn.quality")
LONGEST, MOST_MEMORY = 10, 4096  # seconds for one input, MB


def bred(take, original, count, mutate=None):
    """Let so many inputs be bred from one; return what was said if any was not survived.

    ``take`` is given an input and raises what must not happen. ``mutate`` takes the place of
    Atheris' own injuries.
    """
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said.txt"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _breed(take, original, count, mutate, Path(folder), said)
            except SystemExit as end:  # which is how Atheris says that all went well
                code = end.code or 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        failed = os.waitstatus_to_exitcode(status) != 0
        return said.read_text(errors="replace") if failed else ""


def _breed(take, original, count, mutate, folder, said):
    """End the process as Atheris does."""
    import atheris

    file = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "original").write_bytes(original)
    for function in gc.get_objects():
        if type(function) is types.FunctionType and _is_ours(function.__module__):
            atheris.instrument_func(function)
    longest = max(4096, 4 * len(original))
    limits = [f"-atheris_runs={count}", f"-max_len={longest}", f"-timeout={LONGEST}", "-seed=1"]
    limits += [f"-rss_limit_mb={MOST_MEMORY}", "-verbosity=0"]
    own = {} if mutate is None else {"custom_mutator": _mutator(mutate)}
    atheris.Setup([sys.argv[0], *limits, str(corpus)], take, **own)
    atheris.Fuzz()


def _is_ours(name):
    return isinstance(name, str) and name.startswith(PACKAGES)


def _mutator(mutate):
    return lambda data, most, seed: mutate(bytes(data), random.Random(seed))[:most]
