import contextlib
import copy
import functools
import os
import random
import runpy
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from glnn.distributed import Peers
from glnn.exceptions import GlnnError

N_MUTATIONS = int(os.environ.get("GLNN_FUZZ", "100"))
N_BRED = int(os.environ.get("GLNN_BRED", "0"))
TOKENS = [b"", b"0", b"-1", b"99999999999999999999", b"1e999", b"nan", b'"', b"\0", b"\xff\xfe"]
TOKENS += [b"\n", b"\t", b",", b"<", b">", b"&#0;", b"\xf0\x9f\x92\xa9", b"\r\n\r\n", b"[[[["]


def mutated(content, rng):
    """One to three small injuries: flipped, cut out, doubled, replaced or truncated bytes."""
    out = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 1, 2, 4, 16, 64)))
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at:end]
        elif kind == 2:
            out[at:at] = out[at:end]
        elif kind == 3:
            out[at:end] = rng.choice(TOKENS)
        elif kind == 4 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind == 5 and rng.random() < 0.2:
            del out[at:]
    return bytes(out)


def overwrite(path, content):
    """Write in place: emptying a file first costs milliseconds on some file systems."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


@pytest.fixture(scope="session")
def mutation():
    """The function that injures some bytes."""
    return mutated


@pytest.fixture(scope="session")
def survives_mutation():
    """Read injured copies: each gives a record or one clear line, never another error."""

    def is_refused(read, path, content):
        overwrite(path, content)
        try:
            read()
        except GlnnError as error:
            assert str(error)
            assert "\n" not in str(error)
            assert "Type-check" not in str(error)
            return True
        return False

    def check(read, paths, count=N_MUTATIONS, mutate=mutated):
        rng = random.Random(0)
        originals = {Path(path): Path(path).read_bytes() for path in paths}
        refused = 0
        count = max(count, N_MUTATIONS)
        for _ in range(count):
            path = rng.choice(list(originals))
            refused += is_refused(read, path, mutate(originals[path], rng))
            overwrite(path, originals[path])
        assert 0 < refused < count  # both ends were reached

    def breed(read, paths, count=0, mutate=None):
        bred = runpy.run_path(str(Path(__file__).with_name("guided.py")))["bred"]
        for path in map(Path, paths):
            original, take = path.read_bytes(), functools.partial(is_refused, read, path)
            said = bred(take, original, N_BRED // len(paths), mutate)
            assert not said, said
            overwrite(path, original)

    return breed if N_BRED else check


# Ranks that run as threads meet inside properties, whose lock all instances share in Python 3.11.
functools.cached_property.lock = property(lambda _: contextlib.nullcontext(), lambda *_: None)


class ThreadPeers(Peers):
    """Several ranks as threads of one process: what they exchange is checked, not how fast."""

    def __init__(self, rank, size, slots, barrier):
        self.rank, self.size, self._slots, self._barrier = rank, size, slots, barrier

    def all_gather(self, part):
        self._slots[self.rank] = part
        self._barrier.wait(60)
        parts = [copy.deepcopy(given) for given in self._slots]
        self._barrier.wait(60)
        return parts

    def all_reduce(self, part, op="sum"):
        parts = self.all_gather(part)
        if op == "sum":
            return sum(parts)
        largest = functools.reduce(torch.maximum, map(torch.as_tensor, parts))
        if isinstance(part, torch.Tensor):
            return largest
        return largest.numpy() if isinstance(part, np.ndarray) else float(largest)

    def broadcast(self, part):
        return self.all_gather(part)[0]

    def all_to_all(self, parts):
        return [given[self.rank] for given in self.all_gather(list(parts))]

    def all_to_all_(self, received, sent):
        for q, came in enumerate(self.all_to_all(sent)):
            if q != self.rank:
                assert came.shape == received[q].shape
                received[q].copy_(came)


def run_together(size, work):
    """Call ``work(peers)`` in every rank; return the answers in order."""
    slots, barrier = [None] * size, threading.Barrier(size)
    answers, errors = [None] * size, []

    def run(rank):
        try:
            answers[rank] = work(ThreadPeers(rank, size, slots, barrier))
        except Exception as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
    if errors:
        raise (real or errors)[0]
    return answers


@pytest.fixture
def together():
    return run_together


@pytest.fixture
def all_tracks_count(monkeypatch):
    """Give up no track, however little a few epochs have taught it."""
    monkeypatch.setattr("glnn.engine.rounds.NEGLIGIBLE", 0.0)


class PowerCuts:
    """What a disk would hold if the power failed after each change to a folder.

    Bytes that were not forced to the disk are lost, as a file system may lose them: such a file
    is empty in the state that is kept.
    """

    CHANGES = ("fsync", "link", "mkdir", "rename", "replace", "rmdir", "unlink")

    def __init__(self, folder, scratch):
        self.folder, self._scratch, self.n_cuts = folder, scratch, 0
        self._synced = {path.stat().st_ino: _stamp(path.stat()) for path in folder.rglob("*")}

    def watch(self, monkeypatch, *others):
        """Keep the state after every change that the operating system is asked for."""
        for module, name in [*((os, name) for name in self.CHANGES), *others]:
            monkeypatch.setattr(module, name, self._watched(name, getattr(module, name)))

    def _watched(self, name, change):
        def call(*args, **named):
            answer = change(*args, **named)
            if name == "fsync":
                status = os.fstat(args[0])
                self._synced[status.st_ino] = _stamp(status)
            self._keep()
            return answer

        return call

    def _keep(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self, "_keep", lambda: None)  # the copy itself is no change
            target = self._scratch / f"{self.n_cuts:04}"
            shutil.copytree(self.folder, target, copy_function=self._copied)
            self.n_cuts += 1

    def _copied(self, source, target):
        status = Path(source).stat()
        is_safe = self._synced.get(status.st_ino) == _stamp(status)
        Path(target).write_bytes(Path(source).read_bytes() if is_safe else b"")

    def states(self):
        """The folders as they were after each change."""
        return sorted(self._scratch.iterdir())


def _stamp(status):
    return status.st_size, status.st_mtime_ns


@pytest.fixture
def power_cuts(tmp_path_factory):
    return lambda folder: PowerCuts(folder, tmp_path_factory.mktemp("cuts"))


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, driven by Playwright, where scripts/get_browser.sh could install both."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("chromium is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_tab(browser):
    """Return a function that opens an address, and check at the end that nothing went wrong."""
    tabs, wrong = [], []

    def opened(url, *, width=1400, height=900, dark=False):
        scheme = "dark" if dark else "light"
        tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        tabs.append(tab)
        own = (url.split("?")[0], "blob:", "data:")
        tab.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda asked: asked.url.startswith(own) or wrong.append(asked.url))
        tab.goto(url)
        return tab

    opened.wrong = wrong
    yield opened
    for tab in tabs:
        tab.close()
    assert wrong == []
