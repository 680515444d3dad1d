import pytest
import torch
from torch import nn

from glnn.engine.task import Task


class Line(Task):
    def __init__(self):
        self.module = nn.Linear(2, 1)

    def losses(self, epoch):
        return {"square": self.module.weight.square().sum()}

    def scores(self):
        return torch.zeros(1, 2)


def test_a_task_must_say_what_it_minimises_and_what_it_predicts():
    with pytest.raises(TypeError, match=r"abstract methods '?losses'?, '?scores'?"):
        Task()


def test_by_default_every_parameter_is_trained_alike():
    task = Line()
    (group,) = task.parameter_groups()
    assert group.keys() == {"params"}
    assert [id(p) for p in group["params"]] == [id(p) for p in task.module.parameters()]
