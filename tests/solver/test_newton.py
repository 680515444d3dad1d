import numpy as np

from glnn.solver.newton import ConcaveDual, ascend


class Bowl(ConcaveDual):
    """-D(y) = |y|^2 / 2 - sum(y), whose graph is y itself; its step may be too long."""

    def __init__(self, stretch=1.0):
        self.stretch = stretch

    def point(self, y):
        return y, float(y @ y / 2 - y.sum())

    def gradient(self, y, values):
        return y - 1

    def violation(self, gradient):
        return float(np.abs(gradient).max(initial=0.0))

    def newton_step(self, values, gradient):
        return -self.stretch * gradient

    def dot(self, first, second):
        return float(first @ second)

    def largest(self, values):
        return float(values.max(initial=0.0))


def test_a_quadratic_is_solved_in_one_step():
    found = ascend(Bowl(), np.zeros(3), tol=1e-12, max_iter=10)
    assert found.converged
    assert found.iterations == 1
    assert np.array_equal(found.y, np.ones(3))


def test_a_step_that_is_too_long_is_halved():
    found = ascend(Bowl(stretch=4.0), np.zeros(3), tol=1e-12, max_iter=60)
    assert found.converged
    assert np.allclose(found.y, 1)


def test_a_wrong_direction_and_too_few_steps_do_not_converge():
    wrong = ascend(Bowl(stretch=-1.0), np.zeros(3), tol=1e-12, max_iter=60)
    assert not wrong.converged
    assert wrong.iterations == 0
    assert not ascend(Bowl(stretch=0.5), np.zeros(3), tol=1e-12, max_iter=2).converged


def test_nothing_to_find_is_found():
    found = ascend(Bowl(), np.zeros(0), tol=1e-12, max_iter=10)
    assert found.converged
    assert found.iterations == 0
