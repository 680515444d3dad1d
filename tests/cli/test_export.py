import networkx as nx
import pandas as pd
import pytest

from glnn.cli.main import BAD_INPUT, main


def test_a_run_is_exported_with_its_ids_and_classes(finished, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["export", str(finished / "run"), "--to", "graphml", "--out", str(out)]) == 0
    network = nx.read_graphml(capsys.readouterr().out.strip())
    predicted = pd.read_csv(finished / "run" / "predictions.csv", keep_default_na=False)
    assert dict(network.nodes(data="given_label")) == dict(
        zip(predicted["id"], predicted["given_label"])
    )
    assert set(nx.get_edge_attributes(network, "origin").values()) <= {"given", "learned"}


@pytest.mark.parametrize("args", [["--to", "dot"], []])
def test_a_format_must_be_named_and_known(finished, args, capsys):
    assert main(["export", str(finished / "run"), *args]) == BAD_INPUT
    assert "--to" in capsys.readouterr().err
