"""The maps of the house are true: layers as the contract has them, files that are there."""

import re
import runpy
import sys
import tomllib
from pathlib import Path

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


def test_every_layer_of_the_table_is_there_with_its_files():
    rows = re.findall(
        r"^\| `([\w/.]+)`(?:, `\w+\.py`)? \|(.*)\|(.*)\|$", ARCHITECTURE, re.MULTILINE
    )
    named = {name.rstrip("/").removesuffix(".py") for name, _, _ in rows} | {"_validation"}
    assert named == {part for layer in layers() for part in layer.split(" | ")}
    for name, _, files in rows:
        assert (PACKAGE / name).exists(), name
        for file in re.findall(r"`([\w/]+\.py)`", files):
            assert (PACKAGE / name / file).is_file(), f"{name}{file}"


@pytest.mark.parametrize("text", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "contributing"])
def test_every_path_in_the_words_leads_somewhere(text):
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    for path in re.findall(r"`([\w/]+/(?:\w+\.\w+)?)`", prose):
        if path.startswith("lab/") and not (ROOT / "lab").exists():
            continue  # a distribution of the library alone
        assert (ROOT / path).exists() or (PACKAGE / path).exists(), path


def test_the_contributing_page_is_short():
    assert len(CONTRIBUTING.splitlines()) < 60


SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_promise_is_kept_by_a_test_that_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", SECURITY)
    assert len(named) > 10
    for path, function in named:
        assert f"def {function or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), path
    rows = [line for line in SECURITY.splitlines() if line.startswith("|")][2:]
    assert all("`tests/" in row for row in rows)


PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "gallery" not in path.parts)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_page_is_longer_than_two_screens_without_a_picture(path):
    text = path.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures or len(text.splitlines()) <= 80
    for picture in pictures:
        assert (path.parent / picture).is_file(), picture


DRAWER = ROOT / "scripts" / "draw_docs.py"


@pytest.mark.skipif(not DRAWER.exists(), reason="a distribution has the pictures alone")
def test_sketches_are_those_that_the_script_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(DRAWER), "--out", str(tmp_path)])
    runpy.run_path(str(DRAWER), run_name="__main__")
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (ROOT / "docs/pictures").iterdir()}
