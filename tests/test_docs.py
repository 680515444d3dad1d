"""The pages about the code are true, and the code keeps the rules that they state."""

import re
import runpy
import sys
import tomllib
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "glnn"


def layers():
    page = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [c for c in page["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    return contract["layers"]


@pytest.mark.parametrize("text", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "contributing"])
def test_the_layers_are_those_of_the_import_contract(text):
    blocks = re.findall(r"(?:^ {4}\S.*\n)+", text, flags=re.MULTILINE)
    (block,) = [block for block in blocks if block.startswith("    cli")]
    drawn = [re.split(r" {2,}", line.strip())[0] for line in block.splitlines()]
    assert drawn == layers()


def test_every_package_of_the_table_is_there_with_all_its_files():
    rows = re.findall(r"^\| `(\w+)(/|\.py)` \|.*\|(.*)\|$", ARCHITECTURE, re.MULTILINE)
    assert {name for name, _, _ in rows} == {p for layer in layers() for p in layer.split(" | ")}
    for name, kind, files in rows:
        if kind == ".py":
            assert (PACKAGE / f"{name}.py").is_file(), name
            continue
        named = set(re.findall(r"`([\w/]+\.py)`", files))
        there = {str(path.relative_to(PACKAGE / name)) for path in (PACKAGE / name).rglob("*.py")}
        assert named == {path for path in there if not path.endswith("__init__.py")}, name


@pytest.mark.parametrize("text", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "contributing"])
def test_every_path_in_the_words_leads_somewhere(text):
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    for path in re.findall(r"`([\w/]+/(?:\w+\.\w+)?)`", prose):
        if path.startswith("lab/") and not (ROOT / "lab").exists():
            continue  # a distribution of the library alone
        assert (ROOT / path).exists() or (PACKAGE / path).exists(), path


def test_no_modules_import_each_other_in_a_circle():
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("glnn", cache_dir=None)
    imports = nx.DiGraph(
        (module, other)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    )
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    for line in contract["contracts"][0]["ignore_imports"]:  # they happen inside methods
        imports.remove_edge(*line.split(" -> "))
    assert [group for group in nx.strongly_connected_components(imports) if len(group) > 1] == []


SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_promise_is_kept_by_a_test_that_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", SECURITY)
    assert len(named) > 10
    for path, function in named:
        assert f"def {function or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), path
    rows = [line for line in SECURITY.splitlines() if line.startswith("|")][2:]
    assert all("`tests/" in row for row in rows)


DRAWER = ROOT / "scripts" / "draw_docs.py"


@pytest.mark.skipif(not DRAWER.exists(), reason="a distribution has the pictures alone")
def test_sketches_are_those_that_the_script_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(DRAWER), "--out", str(tmp_path)])
    runpy.run_path(str(DRAWER), run_name="__main__")
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (ROOT / "docs/pictures").iterdir()}
