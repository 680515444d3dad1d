"""Inputs that are bred find what is wrong, and nothing is said where nothing is."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="make fuzz installs it")
bred = runpy.run_path(str(Path(__file__).with_name("guided.py")))["bred"]


def take(content):
    """Fail for one beginning, which is found a letter at a time."""
    if content[:1] == b"a" and content[1:2] == b"b" and content[2:3] == b"c":
        raise ValueError("found")


take.__module__ = "glnn.data.made_up"


def test_an_input_that_is_not_survived_is_found():
    assert "ValueError: found" in bred(take, b"x", 100_000)


def test_nothing_is_said_of_a_reader_that_survives_all():
    assert bred(len, b"x", 50) == ""
