"""Classes from an embedding: logistic regression whose penalty the visible labels choose."""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from glnn.quality.plain.logistic_regression import LogisticRegressionSettings, fitted_to
from glnn.quality.plain.problem import NodeProblem


def embedding_logits(z: np.ndarray, problem: NodeProblem, penalty: float | None) -> Tensor:
    """Fit on the labelled nodes' embedding; return log-probabilities of every node.

    Without a given inverse penalty the visible labels choose one.
    """
    settings = dataclasses.replace(LogisticRegressionSettings(), inverse_penalty=penalty)
    return torch.from_numpy(fitted_to(z, problem, settings)).clamp_min(1e-30).log()
