import re
from pathlib import Path

import pytest

from glnn.data import origins
from glnn.data.origins import RAW_FILES
from glnn.data.planetoid import CLASS_NAMES, PARTS


def test_every_file_has_a_digest_and_an_origin():
    for raw in RAW_FILES.values():
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in raw.sha256.values())
        assert all(origin.base_url.startswith("https://") for origin in raw.origins)
        assert all(origin.base_url.endswith("/") for origin in raw.origins)


def test_planetoid_sets_list_the_eight_files():
    for name in CLASS_NAMES:
        files = {f"ind.{name}.{part}" for part in (*PARTS, "test.index")}
        assert set(RAW_FILES[name].sha256) == files and len(files) == 8


@pytest.mark.dataset
def test_digests_are_those_of_the_published_files(published):
    sums = published / "raw" / "SHA256SUMS"
    if not sums.is_file():
        pytest.skip("raw/SHA256SUMS is not in GLNN_DATA")
    listed = {Path(name): digest for digest, name in map(str.split, sums.read_text().splitlines())}
    for raw in RAW_FILES.values():
        for name, digest in raw.sha256.items():
            assert listed[Path(raw.folder) / name] == digest


def test_a_published_file_has_at_most_64_mib():
    assert origins.MAX_DOWNLOAD == 64 * 2**20
