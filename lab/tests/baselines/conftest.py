import dataclasses

import pytest

QUICK = {"n_epochs": 60}


def quick(method, **changes):
    """The method with a short schedule and small networks: the tests look at identities."""
    known = {field.name for field in dataclasses.fields(method.settings)}
    wanted = QUICK | {"n_steps": 4, "n_walks": 60, "patience": None} | changes
    if method.name in ("sgc", "appnp"):
        wanted.pop("n_steps", None)
    wanted = {key: value for key, value in wanted.items() if key in known}
    return type(method)(dataclasses.replace(method.settings, **wanted))


@pytest.fixture
def shortened():
    return quick
