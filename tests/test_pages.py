"""What the pages of docs/ show is run, page by page, in a folder with the files they speak of."""

import functools
import inspect
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.cli.main import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "howto").glob("*.md")])
NEEDS_MORE = {
    "parallel.md": "is started by torchrun",
    "baselines.md": "needs the laboratory, whose tests fit every baseline",
    "reproduce.md": "needs the laboratory and recorded results; its tests run cells again",
}


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the pages name; fits take few epochs, rounds and folds."""
    initialize = GLNNClassifier.__init__

    @functools.wraps(initialize)
    def initialize_quickly(self, *args, **given):
        initialize(self, *args, **{"n_epochs": 3, "n_rounds": 1} | given)

    monkeypatch.setattr(GLNNClassifier, "__init__", initialize_quickly)
    fit = inspect.unwrap(GLNNClassifier.fit)
    monkeypatch.setattr(fit, "__kwdefaults__", fit.__kwdefaults__ | {"folds": 2})
    shutil.copy(ROOT / "examples" / "customers.csv", tmp_path)
    (tmp_path / "newcomers.csv").write_text("id,age,visits,spend\nn0,31,3,25\nn1,58,5,150\n")
    people = ["id,age,height,group"]
    people += [f"p{k},{30 + k},{160 + k % 7},{['smoker', 'other', ''][k % 3]}" for k in range(12)]
    (tmp_path / "people.csv").write_text("\n".join(people))
    (tmp_path / "friends.csv").write_text("source,target\np1,p2\np3,nobody\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def known():
    """What a page may take as given: data, a fitted model, rows that were held out."""
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = rng.normal(size=(90, 5)) + 3 * np.eye(3, 5)[truth]
    y = np.where(np.arange(90) < 60, truth, -1)
    clf = GLNNClassifier(random_state=0, n_epochs=10, n_rounds=1).fit(X, y)
    return {
        "X": X,
        "y": y,
        "graph": None,
        "clf": clf,
        "X_held_out": X[60:],
        "y_held_out": truth[60:],
    }


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # of PyG
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_python_of_a_page_runs(page, folder, known):
    if page.name in NEEDS_MORE:
        pytest.skip(NEEDS_MORE[page.name])
    names = dict(known)
    for code in blocks(page, "python"):
        exec(compile(code, page.name, "exec"), names)  # noqa: S102


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "sh")], ids=lambda page: page.stem
)
def test_commands_of_a_page_run(page, folder, capsys):
    for line in "".join(blocks(page, "sh")).splitlines():
        program, *args = shlex.split(line, comments=True)
        if program == "pip":
            continue
        assert program == "glnn"
        quick = ["--epochs", "3"] if args[0] in ("fit", "tune") else []
        if args[0] == "fit":
            quick += ["--set", "n_rounds=1", "--rivals", "none"]
            quick += [] if "--folds" in args else ["--folds", "2"]
        assert main([*args, *quick]) == 0, capsys.readouterr().err


def test_links_of_the_pages_lead_somewhere():
    for page in [*PAGES, DOCS / "results" / "README.md"]:
        for target in re.findall(r"\]\(([^)#: ]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_listed_in_the_index():
    index = (DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    for page in PAGES:
        name = str(page.relative_to(DOCS).with_suffix(""))
        assert name == "index" or name in index, name
