"""What public implementations do otherwise than a run of this program, or than their paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Implementation(NamedTuple):
    """Public code.

    Attributes:
        name: that it is known by.
        official: whether it is by the authors of the method's paper.
    """

    name: str
    official: bool = False


IMPLEMENTATIONS: Mapping[str, Implementation] = {
    "pfllib": Implementation("PFLlib"),
    "flower": Implementation("Flower"),
    "openfl_fedcurv": Implementation("OpenFL"),
    "facil": Implementation("FACIL"),
    "pycil": Implementation("PyCIL"),
    "continual_learning": Implementation("van de Ven's continual-learning"),
    "continual_learning_si": Implementation("van de Ven's continual-learning"),
    "mas_official": Implementation("MAS", official=True),
    "importance_ewc": Implementation("importance from agent, branch ewc", official=True),
    "importance_rwalk": Implementation("importance from agent, branch rwalk", official=True),
    "fedcl_official": Implementation("FedCL", official=True),
    "feddyn_official": Implementation("FedDyn", official=True),
    "fedfomo_official": Implementation("FedFomo", official=True),
    "fednova_official": Implementation("FedNova", official=True),
    "fedntd_repository": Implementation("FedNTD's repository"),
    "fedpac_official": Implementation("FedPAC", official=True),
    "moon_official": Implementation("MOON", official=True),
}
"""By the names of their files of numbers."""

OTHERWISE: Mapping[tuple[str, str], str] = {
    ("MOON", "pfllib"): "a client that first comes in a later round has an untrained model for its previous one",
    ("MOON", "fedntd_repository"): "a client that comes late has the first model for its previous one",
    (
        "MOON",
        "moon_official",
    ): "a client that comes late has an untrained model for its previous one; momentum is always 0.9",
    ("FedFomo", "pfllib"): "adds 1e-5 to a distance, so numbers agree to 1e-6",
    (
        "FedFomo",
        "fedfomo_official",
    ): "its `l2` is the square of a distance, so `--method.norm l1` is compared; divides affinities by "
    "their sum; tries averages of groups as models, too, and offers the last round's alone: both were left out",
    ("FedRoD", "pfllib"): "personal heads begin as the generic one; the comparison begins them at 0, as here",
    ("FedALA", "pfllib"): "clients outside the cohort mix, too, so all are in it",
    ("FedAvgM", "flower"): "no Nesterov",
    ("FedAvgM", "moon_official"): "`--method.dampening` is its beta",
    (
        "FedOpt",
        "flower",
    ): "v begins at 0 and FedAdam corrects the rate for its start, unlike Algorithm 2: both were set as in it; "
    "FedAdagrad has no beta1",
    ("FedNova", "fednova_official"): "momentum with a proximal term, which is refused here, is wrong",
    ("FedDyn", "feddyn_official"): "divides alpha by a client's share of the samples, so all have as many",
    ("FedDyn", "fedntd_repository"): "averages by numbers of samples, `--method.weights data`",
    ("Scaffold", "feddyn_official"): "weighs control variates by numbers of samples, so all have as many",
    ("Scaffold", "fedntd_repository"): "averages by numbers of samples, `--method.weights data`",
    ("FedNTD", "pfllib"): "averages uniformly, `--method.weights uniform`",
    (
        "FedCurv",
        "fedntd_repository",
    ): "a client is rid of the curvature of those before it in the round, too, so no two that have "
    "any meet; `--method.reduction batch_mean_sq`",
    ("FedPAC", "fedpac_official"): "fails where nobody of a cohort has samples of a class",
    ("FedProx", "importance_ewc"): "no penalty in the first round, in which these clients take one step",
    (
        "FisherAvg",
        "importance_ewc",
    ): "coordinates that nobody knows become 0, and a tensor of them NaN; here the plain mean counts",
    (
        "FisherAvg",
        "importance_rwalk",
    ): "the score is of a round's last step alone, so rounds of one step are compared; that of "
    "`rwalk.py` is another one, and its Fisher counts all batches but the first fourfold",
    (
        "FedCL",
        "fedcl_official",
    ): "the sum over a tensor counts for each of its coordinates: `per_tensor`; its `mas` takes a batch's "
    "gradient of a mean of squares, so it is compared on single samples and tensors of one number",
    ("FedCL", "continual_learning_si"): "importance may be negative, which the paper's own code rules out, as here",
    (
        "FedCurv",
        "openfl_fedcurv",
    ): "the Fisher information is of the last batch alone, so there is one; who comes back after a rest "
    "subtracts what the sums no longer hold, so nobody does",
    (
        "FedProx",
        "fednova_official",
    ): "with torch of today its sum of models is lost: the comparison gives one that is not",
    ("LwF", "facil"): "heads of earlier tasks are not trained, as they are in the paper; an argument changes that",
    ("LwF", "continual_learning"): "each earlier task has a softmax of its own, as in the paper: `--method.heads each`",
    (
        "OnlineEWC",
        "facil",
    ): "averages the old and the new Fisher information, by alpha and 1 - alpha; never holds heads",
    (
        "OnlineEWC",
        "continual_learning",
    ): "multiplies the penalty by gamma, too (Eq. 8), which here is a part of `lam`; divides the "
    "sum over n samples by n - 1 unless told where to end",
}
"""Of a method, by an implementation's file."""
