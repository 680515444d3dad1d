"""What users may rely on: the public names, how little an import costs, where terms come from."""

import inspect
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import glnn
from glnn.objective import objective
from glnn.objective.base import Term

ROOT = Path(__file__).parents[1]
PUBLIC = [
    "Certificate",
    "Evaluation",
    "GLNNClassifier",
    "GlnnError",
    "LearnedGraph",
    "NodeData",
    "Weights",
    "__version__",
    "evaluate",
    "labelled_scorer",
    "learn_graph",
    "load_dataset",
]
NOT_IN_THE_PAPER = {"Ridge"}
TERMS = {
    name: term
    for name, term in inspect.getmembers(objective, inspect.isclass)
    if issubclass(term, Term) and not inspect.isabstract(term)
}


def in_a_fresh_interpreter(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_public_names_are_these_and_at_most_a_dozen():
    assert glnn.__all__ == PUBLIC
    assert len(glnn.__all__) <= 12
    assert dir(glnn) == sorted(PUBLIC)
    for name in set(PUBLIC) - {"__version__"}:
        assert getattr(glnn, name).__name__ == name and inspect.getdoc(getattr(glnn, name))
    with pytest.raises(AttributeError, match="'glnn' has no attribute 'GLNN'"):
        _ = glnn.GLNN


def test_importing_the_package_does_not_import_what_is_slow():
    slow = ("torch", "sklearn", "scipy", "numpy", "networkx", "matplotlib")
    code = f"import sys, glnn; print([name for name in {slow} if name in sys.modules])"
    assert in_a_fresh_interpreter(code) == "[]"


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_waiting_threads_do_not_spin_unless_the_user_wants_it(given):
    env = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    env |= {} if given is None else {"OMP_WAIT_POLICY": given}
    code = "import glnn, os; print(os.environ['OMP_WAIT_POLICY'])"
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert found.stdout.strip() == (given or "PASSIVE")


def test_the_version_is_written_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert glnn.__version__ in (project["version"], "0+source")  # the latter: never installed


@pytest.mark.parametrize("name", TERMS)
def test_every_term_of_the_objective_names_its_place_in_the_paper(name):
    text = inspect.getdoc(TERMS[name])
    assert ("Differs from the paper" if name in NOT_IN_THE_PAPER else "Paper: ") in text
