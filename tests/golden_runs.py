"""Small fits whose results are recorded in ``golden_runs.json``, see ``test_golden.py``.

``python tests/golden_runs.py FILE`` writes the results of this source tree to FILE, those of the
fits in this process or of the commands alone if ``fits`` or ``commands`` follows. To record them
anew after a change that is meant to change them, write them over ``tests/golden_runs.json``.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

# Instructions that every x86-64 processor of the last ten years has, and no others, so that a
# record made on one machine holds on the next. Set before the libraries are loaded.
PORTABLE = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Haswell",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
EPOCHS = 12


def make_blocks(n_nodes=72, n_classes=3):
    """Return words, links and classes of nodes in blocks."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(11)
    classes = np.arange(n_nodes) % n_classes
    same = classes[:, None] == classes
    upper = np.triu(rng.random((n_nodes, n_nodes)) < np.where(same, 0.2, 0.03), 1)
    likely = 0.15 + 0.35 * np.repeat(np.eye(n_classes), 6, 1)[classes]
    words = (rng.random(likely.shape) < likely).astype(np.float32)
    return sp.csr_matrix(words), sp.csr_matrix((upper | upper.T).astype(float)), classes


def make_table(n_nodes=72, n_columns=5):
    """Return a dense table of numbers and its classes."""
    import numpy as np

    rng = np.random.default_rng(12)
    classes = np.arange(n_nodes) % 2
    return rng.normal(size=(n_nodes, n_columns)) + 1.5 * classes[:, None], classes


def describe_fit(model, new_rows):
    """Return everything a fitted classifier answers, as arrays."""
    import numpy as np

    results = {
        "raw": model.raw_distributions_,
        "calibrated": model.label_distributions_,
        "weights": model.graph_.data,
        "columns": model.graph_.indices,
        "rows": model.graph_.indptr,
        "losses": np.array([epoch["loss"] for epoch in model.history_]),
    }
    if model.certificate_ is not None:
        certificate = model.certificate_
        results["certificate"] = np.array([certificate.objective, certificate.n_pairs_checked])
    if new_rows is not None:
        results["new rows"] = model.predict_proba(new_rows)
    return results


def fit_everything():
    """Yield a name and the results of each fit in this process."""
    import numpy as np

    from glnn import GLNNClassifier, evaluate

    words, links, topics = make_blocks()
    table, groups = make_table()
    nodes = np.arange(len(topics))
    topics_seen, groups_seen = np.where(nodes < 30, topics, -1), np.where(nodes < 30, groups, -1)
    for preset in ("default", "paper", "literal"):
        make = GLNNClassifier(preset, n_epochs=EPOCHS, random_state=3)
        new_words = None if preset == "literal" else words[40:46] * 2.0
        yield f"{preset}, graph", describe_fit(make.fit(words, topics_seen, links), new_words)
        seen = np.where(nodes < 45, topics, -1)
        make.fit(words, seen, links, validation=np.arange(30, 45))
        yield f"{preset}, validation", describe_fit(make, None)
        new = None if preset == "literal" else table[40:46] + 0.01
        yield f"{preset}, no graph", describe_fit(make.fit(table, groups_seen), new)
    default = GLNNClassifier(n_epochs=EPOCHS, random_state=3)
    yield "links alone", describe_fit(default.fit(None, topics_seen, links), None)
    for head in ("gcn", "linear", "hops"):
        other = GLNNClassifier(
            n_epochs=EPOCHS, calibrate=None, random_state=3, settings={"head": head}
        )
        yield head, describe_fit(other.fit(words, topics_seen, links), words[40:46] * 2.0)
    for reading in ("channel", "frobenius"):
        other = GLNNClassifier("paper", n_epochs=EPOCHS, random_state=3)
        other.set_params(calibrate=None, settings={"reading": reading})
        yield reading, describe_fit(other.fit(words, topics_seen, links), None)
    judged = evaluate(table, groups_seen, estimator=default, folds=2)
    yield "evaluate", {"numbers": np.array(list(numbers_in(judged.to_dict()).values()), float)}


def numbers_in(value, path=""):
    """Return the numbers of a nested record by their path, without times."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list | tuple):
        pairs = enumerate(value)
    elif isinstance(value, int | float) and "second" not in path:
        return {path: value}
    else:
        return {}
    return {k: v for name, part in pairs for k, v in numbers_in(part, f"{path}/{name}").items()}


def describe_folder(folder):
    """Return the contents of a run folder as arrays, without times and words."""
    import numpy as np
    from safetensors.numpy import load_file

    results = {
        f"model/{name}": part for name, part in load_file(folder / "model.safetensors").items()
    }
    for name in ("predictions.csv", "history.jsonl"):
        results[name] = np.frombuffer((folder / name).read_bytes(), dtype=np.uint8)
    metrics = numbers_in(json.loads((folder / "metrics.json").read_text()))
    results["metrics.json"] = np.array(list(metrics.values()), dtype=float)
    return results


def run_command(folder, *args, processes=1):
    """Run ``glnn fit`` over so many processes and return what it left in the folder."""
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    command = [*launcher, "glnn", "fit", *args, "--out", str(folder), "--quiet"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return describe_folder(folder)


def run_commands(folder):
    """Yield a name and the run folder of each command."""
    table, groups = make_table()
    header = "id,label," + ",".join(f"x{column}" for column in range(table.shape[1]))
    lines = [
        f"n{node},{'ab'[groups[node]] if node < 30 else ''}," + ",".join(map(repr, row.tolist()))
        for node, row in enumerate(table)
    ]
    path = folder / "table.csv"
    path.write_text("\n".join([header, *lines]))
    short = ["--epochs", str(EPOCHS), "--seed", "3"]
    yield "command", run_command(folder / "one", str(path), "--folds", "2", *short)
    for preset in ("default", "paper"):
        args = ["block_model", "--graph", "none", "--preset", preset, *short, "--checkpoint"]
        out = folder / preset
        yield (
            f"{preset}, two processes",
            run_command(out, *args, str(folder / f"{preset}-state"), processes=2),
        )


def describe_machine():
    """Return everything the last bits of a result depend on."""
    import numpy
    import scipy
    import sklearn
    import torch

    versions = [m.__version__ for m in (numpy, scipy, sklearn, torch)]
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join([platform.machine(), *models[:1], platform.python_version(), *versions])


def summarize(array):
    """Return the digest of an array's bits, and what is left of it on another machine."""
    import numpy as np

    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    is_text = array.dtype == np.uint8
    norm = 0.0 if is_text else float(np.linalg.norm(np.nan_to_num(array.astype(float))))
    return {"sha256": digest.hexdigest(), "norm": norm}


def main(path, *chosen):
    """Write all results, or those of one kind, and the machine they hold for."""
    source = str(Path(__file__).parents[1] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, source)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"fits": fit_everything(), "commands": run_commands(Path(folder))}
        for kind in chosen or kinds:
            for run, parts in kinds[kind]:
                results[run] = {name: summarize(part) for name, part in parts.items()}
    page = {"machine": describe_machine(), "results": results}
    Path(path).write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in PORTABLE.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | PORTABLE)
    main(*sys.argv[1:])
