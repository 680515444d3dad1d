from glnn.report.health import health_rows


def test_packages_and_data_are_named_with_what_is_missing(monkeypatch, tmp_path):
    (tmp_path / "cora.npz").touch()
    monkeypatch.setenv("GLNN_DATA", str(tmp_path))
    monkeypatch.setattr("glnn.report.health.find_version", lambda package: None)
    rows = list(health_rows())
    assert {state for state, _, _ in rows} <= {"ok", "note"}
    words = {subject: text for _, subject, text in rows[::-1]}
    assert words["data folder"] == f"{tmp_path}: cora"
    assert "glnn[report]" in words["matplotlib"] and "glnn[tables]" in words["pyarrow"]
    assert {"glnn", "torch", "cpu", "self-test"} <= set(words)
