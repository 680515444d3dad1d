import torch

from glnn.graph.row_matrix import DenseRows
from glnn.peers import ALONE, Partition
from glnn.solver import centres


def random_points(n=600, width=8):
    generator = torch.Generator().manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(n, width, generator=generator))


def generator():
    return torch.Generator().manual_seed(1)


def test_directions_have_length_one_and_few_columns():
    rows = DenseRows(torch.randn(5, 300, generator=generator()))
    points = centres.directions(rows, generator())
    assert points.shape == (5, 128)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(5))
    narrow = centres.directions(DenseRows(3 * torch.eye(4)), generator())
    assert torch.equal(narrow, torch.eye(4))


def test_the_centres_are_the_same_for_any_number_of_processes(together):
    points = random_points()
    expected = centres.centres(points, 6, generator(), (0, 600), ALONE)

    def work(peers):
        part = Partition(600, peers)
        return centres.centres(points[part.rows], 6, generator(), (part.start, 600), peers)

    for found in together(3, work):
        assert torch.equal(found, expected)


def test_the_nearest_centres_of_a_centre_begin_with_itself():
    points = random_points(50)
    near = centres.nearest_centres(points[10:20], points, 4)
    assert near[:, 0].tolist() == list(range(10, 20))


def test_many_centres_in_two_steps_are_nearly_those_of_one_by_one(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    points = torch.nn.functional.normalize(torch.randn(3000, 8, generator=generator))
    some = points[:400].clone()
    exact = centres.nearest_of_all(points, some)
    found = centres.nearest_centre(points, some)  # 400 are more than are taken one by one
    lost = (points * some[exact]).sum(1) - (points * some[found]).sum(1)
    assert (found == exact).float().mean() > 0.75  # directions without any clusters: the worst
    assert lost.min() >= -1e-6 and lost.mean() < 0.02
    monkeypatch.setattr(centres, "_FLAT", 400)
    assert torch.equal(centres.nearest_centre(points, some), exact)
