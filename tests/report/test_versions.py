import tomllib
from pathlib import Path

from glnn.report.versions import EXTRAS, PACKAGES, version_of, versions


def test_versions_name_python_and_every_package():
    assert set(versions()) == {"python", *PACKAGES}
    assert versions()["numpy"] == version_of("numpy")


def test_every_extra_brings_its_package():
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, extra in EXTRAS.items():
        wanted = project["optional-dependencies"][extra]
        assert any(requirement.startswith(package) for requirement in wanted)
