from glnn_lab.cli.names import names_of


def test_names_stand_between_commas():
    assert names_of(" a, b,") == ("a", "b")
    assert names_of(None) is None
