import json
import subprocess
import sys
from pathlib import Path

import pytest

from glnn_lab.benches import revision_child
from glnn_lab.benches.revision_child import fit_arrays
from glnn_lab.benches.revisions import _store_arrays

CHILD = [sys.executable, "-P", str(Path(revision_child.__file__))]


def test_a_fit_is_judged_on_the_test_nodes(tmp_path):
    data = str(_store_arrays("tiny", 0, tmp_path))
    found = fit_arrays({"data": data, "preset": "paper", "seed": 0})
    assert 0.5 < found["accuracy"] <= 1
    assert found["n_epochs"] > 0 and found["seconds"] > 0


@pytest.mark.slow
def test_each_line_is_answered_and_the_first_answer_names_the_library():
    asked = json.dumps({"data": "nowhere.npz", "preset": "paper", "seed": 0})
    done = subprocess.run(CHILD, input=f"{asked}\n", capture_output=True, text=True, check=True)
    library, failed = map(json.loads, done.stdout.splitlines())
    assert Path(library["library"]).parts[-2] == "glnn"
    assert failed["error"].startswith("FileNotFoundError")
