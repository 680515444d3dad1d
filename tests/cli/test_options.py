import inspect
import typing

import pytest

from glnn.cli.fit_command import fit
from glnn.cli.options import OPTIONS, parse_settings
from glnn.exceptions import InputError


def test_every_option_of_fit_explains_itself_and_stands_in_the_table():
    used = inspect.signature(fit).parameters
    assert len(used) <= 35
    shared = {name for name in OPTIONS if " " not in name}  # "tune out" is of one command
    assert shared - set(used) == {"run"}
    for parameter in used.values():
        assert typing.get_args(parameter.annotation)[1].help.endswith(".")


def test_settings_are_numbers_words_lists_or_nothing():
    given = ["n_neighbors=15", "dropout = 0.5", "head=gcn", "tracks=hops,linear", "gate=none"]
    found = {"n_neighbors": 15, "dropout": 0.5, "head": "gcn", "tracks": ["hops", "linear"]}
    assert parse_settings(given, of_fit=True) == {**found, "gate": None}
    reading = {"decimal": ",", "delimiter": ";", "exact_labels": True}
    assert (
        parse_settings(["decimal=,", "delimiter=;", "exact_labels=true"], of_fit=False) == reading
    )


@pytest.mark.parametrize(
    ("text", "of_fit", "words"),
    [
        ("delimeter=;", True, "Did you mean 'delimiter'"),
        ("droput=1", True, "Did you mean 'dropout'"),
        ("dropout=1", False, "must name a setting"),
        ("weights=1", True, "must name a setting"),
        ("dropout", True, "NAME=VALUE"),
    ],
)
def test_unknown_settings_are_refused_with_the_nearest_name(text, of_fit, words):
    with pytest.raises(InputError, match=words):
        parse_settings([text], of_fit=of_fit)
