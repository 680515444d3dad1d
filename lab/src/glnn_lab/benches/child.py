"""Measurements in a separate process: time, and memory without that of the libraries."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glnn.exceptions import GlnnError, InputError
from glnn_lab.experiments.machine import PeakMemory, use_threads

_MARK = "glnn-bench-result "


@dataclass(frozen=True)
class CallTime:
    """Wall-clock and processor seconds of a call."""

    seconds: float
    cpu_seconds: float


def time_call(call: Callable[[], Any]) -> tuple[Any, CallTime]:
    """Return the result of the call and its time."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = call()
    return result, CallTime(time.perf_counter() - began, time.process_time() - cpu_began)


class ExtraMemory:
    """Increase of the peak memory in MB since the object was made."""

    def __init__(self) -> None:
        self._peak = PeakMemory()
        self._base = self._peak.megabytes()

    def megabytes(self) -> float:
        """Return the peak so far."""
        return round(self._peak.megabytes() - self._base, 1)

    def restart(self) -> float:
        """Reset the peak and return the current increase; the base stays the same."""
        self._peak = PeakMemory()
        return self.megabytes()


def run_in_process(
    job: str, threads: int, *, processes: int = 1, **arguments: Any
) -> dict[str, Any]:
    """Run a job of :func:`run_job` in a new interpreter; a failure is ``{"error": ...}``.

    Several ``processes`` are started by torchrun, and the first one prints the result.
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
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no answer"]
    return {"error": lines[-1][:300]}


def run_job(job: str, threads: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one measurement in this process."""
    from glnn_lab.benches import compare, growth, processes

    jobs: dict[str, Callable[..., dict[str, Any]]] = {
        "contender": compare.measure_memory,
        "growth": growth.measure_task,
        "processes": processes.measure_processes,
        "scale": growth.measure_fit,
    }
    if job not in jobs:
        raise InputError(f"the job must be one of {', '.join(jobs)}, got {job!r}.")
    with use_threads(threads):
        return jobs[job](**arguments)


def main() -> int:
    """Run the job described by the first argument and print its result."""
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
