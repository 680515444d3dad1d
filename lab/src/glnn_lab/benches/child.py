"""A measurement in a process of its own: time, and memory above the libraries it loads."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glnn.exceptions import GlnnError, InputError
from glnn_lab.experiments.machine import PeakMemory, n_threads

_MARK = "glnn-bench-result "


@dataclass(frozen=True)
class Measured:
    """Wall-clock and processor seconds of a call."""

    seconds: float
    cpu_seconds: float


def timed(call: Callable[[], Any]) -> tuple[Any, Measured]:
    """Return what the call returns, and how long it took."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = call()
    return result, Measured(time.perf_counter() - began, time.process_time() - cpu_began)


class MemoryAbove:
    """Peak memory above what the process held when the object was made, in MB."""

    def __init__(self) -> None:
        self._peak = PeakMemory()
        self._base = self._peak.megabytes()

    def megabytes(self) -> float:
        """Return the peak so far."""
        return round(self._peak.megabytes() - self._base, 1)

    def restart(self) -> float:
        """Forget the peak so far and return what is held now; the base stays."""
        self._peak = PeakMemory()
        return self.megabytes()


def in_fresh_process(
    job: str, threads: int, *, processes: int = 1, **arguments: Any
) -> dict[str, Any]:
    """Run a job of :func:`run_job` in a fresh interpreter; a failure is ``{"error": ...}``.

    With several ``processes`` torchrun starts them, and the first one answers.
    """
    text = json.dumps({"job": job, "threads": threads, "arguments": arguments})
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*(launcher if processes > 1 else ()), "-m", "glnn_lab.benches.child", text]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment
    )
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            result: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return result
    if done.returncode < 0:
        return {"error": f"ended by signal {-done.returncode}, perhaps out of memory"}
    said = [line for line in done.stderr.splitlines() if line.strip()] or ["no answer"]
    return {"error": said[-1][:300]}


def run_job(job: str, threads: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do one measurement in this process."""
    from glnn_lab.benches import compare, growth, processes

    jobs: dict[str, Callable[..., dict[str, Any]]] = {
        "contender": compare.measure_memory,
        "growth": growth.measure_task,
        "processes": processes.measure_processes,
        "scale": growth.measure_fit,
    }
    if job not in jobs:
        raise InputError(f"the job must be one of {', '.join(jobs)}, got {job!r}.")
    with n_threads(threads):
        return jobs[job](**arguments)


def main() -> int:
    """Do the job that the first argument describes and print its result."""
    request = json.loads(sys.argv[1])
    try:
        result = run_job(request["job"], request["threads"], request["arguments"])
    except (GlnnError, MemoryError) as error:
        result = {"error": str(error) or "out of memory"}
    if os.environ.get("RANK", "0") == "0":
        print(_MARK + json.dumps(result), flush=True)  # noqa: T201 - the answer to the parent
    return 0


if __name__ == "__main__":
    sys.exit(main())
