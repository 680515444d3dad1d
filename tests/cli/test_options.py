import inspect
import typing

import pytest

from glnn.cli import options
from glnn.cli.fit_command import fit

OPTIONS = {
    name: value
    for name, value in vars(options).items()
    if typing.get_origin(value) is typing.Annotated
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_explains_itself_in_a_sentence(name):
    words = typing.get_args(OPTIONS[name])[1].help
    assert words[0].isupper() or words.startswith(("cpu", "default"))
    assert words.endswith(".")


def test_every_option_is_used_by_fit_exactly_once():
    used = [parameter.annotation for parameter in inspect.signature(fit).parameters.values()]
    assert len(used) == len(OPTIONS)
    assert all(option in used for option in OPTIONS.values())
