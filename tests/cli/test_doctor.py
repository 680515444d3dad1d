def test_the_doctor_fits_one_screen_and_proves_a_small_graph(glnn):
    outcome = glnn("doctor")
    assert outcome.code == 0
    assert outcome.err == ""
    assert len(outcome.out.splitlines()) <= 40
    for word in ("torch", "cpu", "data folder", "optimal"):
        assert word in outcome.out
