import inspect
import typing

import numpy as np
import pytest

from glnn import GLNNClassifier, Weights
from glnn._parameters import FitParameters
from glnn.engine import settings
from glnn.engine.presets import PRESETS
from glnn.exceptions import InputError
from glnn.quality.trusted import CALIBRATIONS

CHOICES = {name: known for name, known in settings.CHOICES.items() if name != "powers"}
CHOICES |= {"preset": PRESETS, "calibrate": CALIBRATIONS}


@pytest.mark.parametrize("name", CHOICES)
def test_the_type_of_a_choice_lists_what_the_fit_accepts(name):
    hint = typing.get_type_hints(inspect.unwrap(FitParameters.__init__))[name]
    literals = [hint, *typing.get_args(hint)]
    listed = {
        value
        for literal in literals
        if typing.get_origin(literal) is typing.Literal
        for value in typing.get_args(literal)
    }
    assert listed == set(CHOICES[name])


def test_every_parameter_is_documented():
    names = set(GLNNClassifier().get_params())
    words = GLNNClassifier.__doc__.split("Attributes")[0]
    documented = {
        name.strip()
        for line in words.splitlines()
        if line.startswith("    ") and not line.startswith("     ") and " : " in line
        for name in line.split(" : ")[0].split(",")
    }
    assert documented == names


@pytest.mark.parametrize(
    "state", [7, np.random.default_rng(7), np.random.RandomState(7), None], ids=str
)
def test_the_seed_that_was_used_is_saved(state, tmp_path):
    X = np.random.default_rng(0).normal(size=(8, 2))
    y = [0, 1] * 2 + [-1] * 4
    model = GLNNClassifier(random_state=state, n_epochs=2, weights=Weights.without_prior())
    model.fit(X, y).save(tmp_path / "m")
    loaded = GLNNClassifier.load(tmp_path / "m")
    assert loaded.random_state == loaded.seed_ == model.seed_
    assert loaded.weights == model.weights
    again = loaded.fit(X, y)
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)


def test_an_unknown_parameter_is_refused_with_the_nearest_one():
    with pytest.raises(InputError, match="Did you mean 'n_epochs'"):
        GLNNClassifier().set_params(n_epoch=3)


def test_weights_come_back_from_plain_values():
    weights = Weights(smoothness=0.25)
    assert FitParameters._params_of({"n_epochs": 3}) == {"n_epochs": 3, "calibrate": None}
    assert FitParameters._params_of({"calibrate": "folds"})["calibrate"] == "folds"
    assert FitParameters._params_of({"weights": vars(weights)})["weights"] == weights
