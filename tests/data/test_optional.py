import pytest

from glnn.data.optional import need
from glnn.exceptions import MissingDependencyError


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'glnn\[tables\]'"):
        need("pyarrow")


def test_an_installed_package_is_returned():
    assert need("json").loads("[1]") == [1]
