import torch

from glnn.report.threads import threads_for


def test_threads_are_set_for_the_block_only(monkeypatch):
    calls = []
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    for n_nodes, threads in ((100, None), (100, 3), (50_000, None)):
        with threads_for(n_nodes, threads):
            pass
    assert calls == [1, 8, 3, 8, 8, 8]
