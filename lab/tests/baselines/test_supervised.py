import torch

from glnn.nn.features import Features
from glnn_lab.baselines.inputs import InputMap
from glnn_lab.baselines.supervised import Network, SupervisedTask, rate


class Linear(Network):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.first_map = InputMap(n_in, n_out)
        self.offset = torch.nn.Parameter(torch.zeros(n_out))

    def forward(self, x, noise):
        return self.first_map(x.dropped(rate(self, 0.5), noise)) + self.offset


def make_task(problem, **options):
    x = Features.of(problem.features)
    return SupervisedTask(
        problem, x, lambda: Linear(x.shape[1], problem.n_classes), 0, weight_decay=0.1, **options
    )


def test_the_loss_is_the_mean_log_probability_of_the_labels(blocks):
    problem, _, _ = blocks
    task = make_task(problem)
    task.module.first_map.weight.data.zero_()  # without it dropout changes nothing
    loss = task.losses(0)["cross_entropy"]
    torch.testing.assert_close(loss, torch.tensor(3.0).log())


def test_scores_are_without_dropout(blocks):
    task = make_task(blocks[0])
    task.losses(0)
    assert torch.equal(task.scores(), task.scores())


def test_decay_goes_to_the_named_layer_alone(blocks):
    groups = make_task(blocks[0], decayed="first").parameter_groups()
    assert [group.get("weight_decay", 0.0) for group in groups] == [0.1, 0.0]
    assert [len(group["params"]) for group in groups] == [1, 1]
    assert len(make_task(blocks[0]).parameter_groups()) == 1
