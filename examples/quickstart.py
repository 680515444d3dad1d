"""Digits from five labels of each
===============================

The graph is learned from the features; none is given.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay

from glnn import GLNNClassifier, load_dataset
from glnn.data import make_split

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, help="fewer for a quick look")
args = parser.parse_args()

data = load_dataset("digits")
split = make_split(data, "per_class", seed=0, n_per_class=5, n_val=0)
y = np.full(data.n_nodes, -1)  # -1: unlabelled
y[split.train] = data.labels[split.train]

clf = GLNNClassifier(random_state=0, n_epochs=args.epochs).fit(data.features, y)

right = clf.transduction_[split.test] == data.labels[split.test]
print(f"{split.train.size} labels, accuracy on {split.test.size} others: {right.mean():.3f}")
print(f"learned graph: {clf.n_edges_} edges; {clf.certificate_}")

truth, predicted = data.labels[split.test], clf.transduction_[split.test]
ConfusionMatrixDisplay.from_predictions(truth, predicted, cmap="Blues", colorbar=False)
plt.show()
