from glnn.report import plots
from glnn.report.text import verdict_line

# The learned graph

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_picture_has_the_same_bytes_each_time_and_the_verdict_in_its_title(results):
    figure = plots.graph_figure(results)
    image = plots.image_bytes(figure)
    assert image.startswith(PNG)
    assert image == plots.image_bytes(plots.graph_figure(results))
    assert figure._suptitle.get_text().splitlines()[-1] == verdict_line(results)


def test_the_picture_shows_every_node_edge_label_and_mistake(results):
    axis = plots.graph_figure(results).axes[0]
    shown = {c.get_label(): len(c.get_offsets()) for c in axis.collections[1:]}
    n_wrong = int((results.predictions != results.labels)[results.split.test].sum())
    assert len(axis.collections[0].get_segments()) == results.graph_facts.n_edges
    assert (
        sum(n for name, n in shown.items() if "labelled" not in name and "wrong" not in name) == 20
    )
    assert shown["labelled"] == results.split.train.size
    assert shown.get(f"wrong ({n_wrong})", 0) == n_wrong
