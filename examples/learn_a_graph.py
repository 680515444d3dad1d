"""Learn a graph on its own
========================

A graph is learned from features, and from features and a given graph together. The example shows
its certificate, and that labels are needed to find out whether the given graph is misleading.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from glnn import GLNNClassifier, learn_graph
from glnn.data.synthetic import block_model

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, help="fewer for a quick look")
args = parser.parse_args()


def share(data, adjacency):
    """Share of the edges that join nodes of one class."""
    i, j = np.nonzero(np.triu(adjacency.toarray(), k=1))
    return np.mean(data.labels[i] == data.labels[j])


for name, data in (
    ("helpful", block_model(homophily=0.9, separation=4.0)),  # 300 nodes, three classes
    ("misleading", block_model(homophily=0.5, separation=5.0)),  # half of its edges are wrong
):
    from_features = learn_graph(data.features, n_neighbors=8)
    from_both = learn_graph(data.features, data.graph, n_neighbors=4)
    print(f"{name + ' graph:':<18} {share(data, data.graph):.3f} of its edges join equal classes")
    print(f"from features:     {share(data, from_features.adjacency):.3f}")
    print(f"from both:         {share(data, from_both.adjacency):.3f}")

# Features and graph together are better than either alone if both are informative. Without labels
# there is no way to know which of the two is misleading, and the learned graph stays close to the
# given one. With labels the fit finds out:
y = np.where(np.arange(data.n_nodes) % 5 == 0, data.labels, -1)
clf = GLNNClassifier(random_state=0, n_epochs=args.epochs).fit(data.features, y, data.graph)
print(f"with 60 labels:    {share(data, clf.graph_):.3f}, {clf.choices_['mixture']}")

certificate = from_both.certificate
print(f"largest violation: {certificate.max_violation:.1e} over {certificate.pairs_checked:.0%}")
print(f"objective within   {certificate.gap:.1e} of the lowest possible")
assert certificate.converged

# The optimum does not depend on how it is computed: here from a start of few candidates.
again = learn_graph(data.features, data.graph, n_neighbors=4, n_candidates=2)
print(f"solved again:      differs by {abs(again.adjacency - from_both.adjacency).max():.1e}")

# Edges as points, nodes sorted by class: those within a class lie in the blocks of the diagonal.
order = np.argsort(data.labels, kind="stable")
graphs = {"given": data.graph, "learned with 60 labels": clf.graph_}
for axes, (title, graph) in zip(plt.subplots(1, 2, figsize=(8, 4))[1], graphs.items()):
    axes.spy(graph[order][:, order], markersize=1)
    axes.set(title=title, xticks=[], yticks=[])
plt.show()
