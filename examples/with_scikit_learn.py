"""In a pipeline and a grid search
===============================

``GLNNClassifier`` can be used like any classifier of scikit-learn.
"""

import argparse

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glnn import GLNNClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, help="fewer for a quick look")
args = parser.parse_args()

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

clf = GLNNClassifier(random_state=0, n_epochs=args.epochs, settings={"scaling": "none"})
model = make_pipeline(StandardScaler(), clf)
search = GridSearchCV(model, {"glnnclassifier__n_neighbors": [5, 15]}, cv=2)
search.fit(X_train, y_train)  # each fold is predicted as new nodes

print(f"best: {search.best_params_}, cross-validated accuracy {search.best_score_:.3f}")
print(f"accuracy on {len(y_test)} new rows: {search.score(X_test, y_test):.3f}")

ConfusionMatrixDisplay.from_estimator(search, X_test, y_test, cmap="Greens", colorbar=False)
plt.show()
