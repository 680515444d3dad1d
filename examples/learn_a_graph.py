"""Learn a graph on its own
========================

With and without a given graph, and what its certificate says.
"""

import numpy as np

from glnn import learn_graph
from glnn.data.synthetic import block_model

data = block_model(homophily=0.5, separation=5.0)  # 300 nodes; half of the edges mislead


def share_of_equal_classes(adjacency):
    i, j = np.nonzero(np.triu(adjacency.toarray(), k=1))
    return np.mean(data.labels[i] == data.labels[j])


print(
    f"given graph:       {share_of_equal_classes(data.graph):.3f} of its edges join equal classes"
)

from_features = learn_graph(data.features, n_neighbors=8)
print(f"from features:     {share_of_equal_classes(from_features.adjacency):.3f}")

from_both = learn_graph(data.features, data.graph, n_neighbors=4)
print(f"from both:         {share_of_equal_classes(from_both.adjacency):.3f}")

certificate = from_both.certificate
print(f"largest violation: {certificate.max_violation:.1e} over {certificate.pairs_checked:.0%}")
print(f"objective within   {certificate.gap:.1e} of the lowest possible")
assert certificate.converged

# The optimum does not depend on how it is computed: here from a start of few candidates.
again = learn_graph(data.features, data.graph, n_neighbors=4, n_candidates=2)
print(f"solved again:      differs by {abs(again.adjacency - from_both.adjacency).max():.1e}")
