import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and ".py`" in line]
LABELS = [
    "eq:laplacian",
    "eq:normailized_laplacian",
    "eq:glr",
    "eq:final_map",
    "eq:prior_distribution",
    "eq:sparsity_constraint",
    "eq:properties_constraints",
    "eq:final_likelihood_func",
    "eq:formulation",
    "eq:final_formulation",
    "eq:loss_gl",
    "eq:loss_properties",
    "eq:symmetrization",
    "eq:overall_loss",
    "tab:results",
    "tab:para_analysis",
    "fig:robustness",
    "fig:visual",
    "fig:teaser",
    "fig:pipeline",
]


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_the_paper_is_on_the_map(label):
    assert f"`{label}`" in TEXT


def found(name):
    """The file of that name, in the library or in the laboratory."""
    folders = ("tests", "lab/tests") if "/test_" in name else ("src/glnn", "lab/src/glnn_lab")
    paths = [ROOT / folder / name for folder in folders]
    (path,) = [path for path in paths if path.is_file()] or paths[:1]
    return path


def test_every_file_on_the_map_exists():
    for name in re.findall(r"`([\w/]+\.(?:py|toml))`", TEXT):
        assert found(name).is_file(), name


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_every_function_on_the_map_is_in_one_of_the_modules_beside_it(row):
    words = re.findall(r"`([^`]+)`", row)
    modules = [w for w in words if w.endswith(".py") and "/test_" not in w]
    code = "\n".join(found(module).read_text(encoding="utf-8") for module in modules)
    for name in words:
        if re.fullmatch(r"[A-Za-z_]+", name):
            assert re.search(rf"(def|class) {name}\b", code), name
