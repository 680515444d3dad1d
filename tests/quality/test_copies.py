from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

from glnn import GLNNClassifier
from glnn.engine.callbacks import Callback
from glnn.quality.copies import unfitted


class Bar(Callback):
    def __deepcopy__(self, memo):
        raise TypeError("a bar cannot be copied")


def test_callbacks_are_not_copied():
    bar = Bar()
    copy = unfitted(GLNNClassifier(callbacks=[bar], n_epochs=3), calibrate=None)
    assert copy.callbacks == [bar]
    assert copy.n_epochs == 3 and copy.calibrate is None


def test_estimators_inside_are_copied_and_left_unfitted():
    inner = DecisionTreeClassifier().fit([[0], [1]], [0, 1])
    copy = unfitted(BaggingClassifier(inner))
    assert copy.estimator is not inner
    assert not hasattr(copy.estimator, "tree_")
