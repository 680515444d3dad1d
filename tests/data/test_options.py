import json

import pytest

from glnn.data import TableOptions
from glnn.exceptions import InputError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encode": "one-hot"}, "Did you mean 'onehot'"),
        ({"missing": "mean"}, "error, median, indicator"),
        ({"on_unknown": "keep"}, "error, drop"),
        ({"decimal": ";"}, "decimal must be one of"),
        ({"delimiter": "ab"}, "one character"),
        ({"encoding": "martian"}, "Python knows"),
        ({"lable_column": "x"}, "Did you mean 'label_column'"),
    ],
)
def test_a_wrong_option_is_refused_with_the_right_ones(change, message):
    with pytest.raises(InputError, match=message):
        TableOptions().changed(**change)


def test_options_survive_json():
    options = TableOptions(encode="auto", features=("x*",), decimal=",")
    assert TableOptions(**json.loads(json.dumps(options.to_dict()))) == options
