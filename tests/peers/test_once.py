from glnn.peers.once import computed_once


class Counter:
    def __init__(self):
        self.calls = 0

    @computed_once
    def value(self):
        """Count."""
        self.calls += 1
        return self.calls


def test_a_value_is_computed_once_for_each_instance():
    first, second = Counter(), Counter()
    assert first.value == first.value == second.value == 1
    assert (first.calls, second.calls) == (1, 1)
    assert Counter.value.__doc__ == "Count."


class Meeting:
    def __init__(self, peers):
        self.peers = peers

    @computed_once
    def total(self):
        return self.peers.all_reduce(float(self.peers.rank))


def test_ranks_that_run_as_threads_may_meet_inside(together):
    assert together(3, lambda peers: Meeting(peers).total) == [3.0, 3.0, 3.0]
