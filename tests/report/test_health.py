from glnn.report.health import health_rows


def test_nothing_is_bad_here_and_everything_is_said():
    rows = list(health_rows())
    assert {state for state, _, _ in rows} <= {"ok", "note"}
    subjects = [subject for _, subject, _ in rows]
    for subject in ("glnn", "torch", "matplotlib", "cpu", "data folder", "solver"):
        assert subject in subjects


def test_a_missing_package_is_noted_with_its_extra(monkeypatch):
    monkeypatch.setattr("glnn.report.health.find_version", lambda package: None)
    noted = {subject: words for state, subject, words in health_rows() if state == "note"}
    assert "glnn[report]" in noted["matplotlib"]
    assert "glnn[tables]" in noted["pyarrow"]


def test_data_folders_say_which_sets_they_hold(monkeypatch, tmp_path):
    (tmp_path / "cora.npz").touch()
    monkeypatch.setenv("GLNN_DATA", str(tmp_path))
    words = [words for _, subject, words in health_rows() if subject == "data folder"]
    assert words[0] == f"{tmp_path}: cora"
