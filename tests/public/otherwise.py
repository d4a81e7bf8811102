"""Who wrote the public code that methods are compared with, and what it does otherwise than a run of this program."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "pfllib": "PFLlib",
    "fl_bench": "FL-bench",
    "fluke_fl": "fluke",
    "flower": "Flower",
    "openfl_fedcurv": "OpenFL",
    "facil": "FACIL",
    "pycil": "PyCIL",
    "continual_learning": "van de Ven's library",
    "continual_learning_si": "van de Ven's library",
    "mas_official": "MAS's own code",
    "importance_ewc": "FisherAvg's own code",
    "importance_rwalk": "FisherAvg's own code, with RWalk",
    "fedcl_official": "FedCL's own code",
    "feddyn_official": "FedDyn's own code",
    "fedfomo_official": "FedFomo's own code",
    "fednova_official": "FedNova's own code",
    "fedntd_repository": "FedNTD's own code",
    "fedpac_official": "FedPAC's own code",
    "moon_official": "MOON's own code",
    "tpfl": "a later work of FedKA's author",
}
"""By the names of their files of numbers."""

LATE = "a client that comes late has an untrained model for its previous one, so all are there in the first round"
ZERO = "v begins at 0, unlike in Algorithm 2; it was set as in it"
OTHERWISE: Mapping[tuple[str, str], str] = {
    ("FedALA", "pfllib"): "clients outside the cohort mix, too, so all are in it",
    ("FedAvgM", "flower"): "no Nesterov",
    ("FedAvgM", "moon_official"): "`dampening` is as large as `beta`",
    ("FedCL", "continual_learning_si"): "importance may be negative, which the paper's own code rules out, as here",
    (
        "FedCL",
        "fedcl_official",
    ): "`mas` takes a batch's gradient, of a mean over outputs, summed over a tensor; so it is "
    "compared on single samples and tensors of one number",
    (
        "FedCurv",
        "fedntd_repository",
    ): "a client is rid of the curvature of those before it in its round, too, so no two that have any meet",
    (
        "FedCurv",
        "openfl_fedcurv",
    ): "the Fisher information is of the last batch alone, so there is one batch; who comes back "
    "after a rest subtracts what the sums no longer hold, so nobody does",
    ("FedDyn", "feddyn_official"): "divides alpha by a client's share of the samples, so all have as many",
    ("FedDyn", "fl_bench"): "weight decay has to be alpha, and gradients are clipped, which was left out",
    (
        "FedFomo",
        "fedfomo_official",
    ): "`l2` is the square of a distance; averages of groups are candidates, too, which were left "
    "out, and of the models the last round's alone",
    ("FedFomo", "pfllib"): "adds 1e-5 to a distance, so numbers agree to 1e-6",
    ("FedKA", "tpfl"): "none of FedKA but a function for its loss, of who has one dominant class; anchors were given",
    ("FedOpt", "fl_bench"): ZERO,
    (
        "FedOpt",
        "flower",
    ): f"{ZERO}, and so was FedAdam's rate, which is corrected for the start; FedAdagrad has no beta1",
    ("FedPAC", "fedpac_official"): "fails where nobody of a cohort has samples of a class",
    ("FedPer", "fl_bench"): "a newcomer begins with the mean of the others' heads, so all are in every round",
    ("FedProx", "fednova_official"): "with torch of today the sum of models is lost, so another was given",
    ("FedProx", "importance_ewc"): "no penalty in the first round, in which clients take one step here",
    (
        "FedRoD",
        "fl_bench",
    ): "personal losses train the base, too, and do not add the generic logits, so the base is fixed; "
    "clients do not receive the server's model, whose names are others, which was mended",
    ("FedRoD", "pfllib"): "personal heads begin as the generic one; they were set to 0",
    (
        "FisherAvg",
        "importance_ewc",
    ): "coordinates that nobody knows become 0, and a tensor of them NaN; without `compat_eps` "
    "the plain mean counts here",
    (
        "FisherAvg",
        "importance_rwalk",
    ): "the score is of a round's last step, so rounds of one step are compared; that of "
    "`rwalk.py` is another one, and its Fisher information counts all batches but the first fourfold",
    (
        "LwF",
        "facil",
    ): "heads of earlier tasks are not trained, as they are in the paper; its base class's optimizer does",
    ("MOON", "fedntd_repository"): LATE,
    ("MOON", "moon_official"): LATE,
    ("MOON", "pfllib"): LATE,
    (
        "OnlineEWC",
        "continual_learning",
    ): "the penalty is multiplied by gamma, too (Eq. 8), which is a part of `lam` here",
    ("OnlineEWC", "facil"): "the old and the new Fisher information are averaged; heads are never held",
    ("Scaffold", "feddyn_official"): "weighs control variates by numbers of samples, so all have as many",
    ("Scaffold", "fluke_fl"): "with momentum it divides by other steps, so there is none",
}
"""Of a method, by an implementation's file of numbers."""

NOT_COMPARED: Mapping[str, str] = {
    "FilVer": "no public code of it was found",
    "LocalOnly": "it is local training and nothing else",
}
"""Methods that nothing public was run for, and why."""
