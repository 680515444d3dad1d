"""Nodes that arrive after training
================================

New nodes are classified without a new fit. The model is saved to a folder, without pickle, and
loaded again.
"""

import argparse
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from glnn import GLNNClassifier
from glnn.data.synthetic import block_model

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, help="fewer for a quick look")
args = parser.parse_args()

data = block_model(400)  # three classes, eight edges a node, a fifth of them between classes
order = np.random.default_rng(0).permutation(data.n_nodes)
old, new = np.sort(order[:200]), np.sort(order[200:])

y = np.array(data.class_names)[data.labels[old]]  # labels of any sortable type
y[30:] = ""  # only 30 of them are known
inside = data.graph[old][:, old]
clf = GLNNClassifier(random_state=0, n_epochs=args.epochs).fit(data.features[old], y, graph=inside)

links = data.graph[new][:, old]  # edges from new nodes to old ones; may be left out
truth = np.array(data.class_names)[data.labels[new]]
for name, known in (("features alone", None), ("features and links", links)):
    print(f"new nodes by {name}: {np.mean(clf.predict(data.features[new], known) == truth):.3f}")

with tempfile.TemporaryDirectory() as folder:
    clf.save(folder)  # safetensors and JSON
    same = GLNNClassifier.load(folder).predict(data.features[new], links)
print(
    f"saved, loaded, same answers: {np.array_equal(same, clf.predict(data.features[new], links))}"
)

places = PCA(2).fit(data.features[old].toarray()).transform(data.features[new].toarray())
for name in clf.classes_:
    plt.scatter(*places[same == name].T, s=15, label=name)
plt.legend(title="new nodes, predicted class")
plt.show()
