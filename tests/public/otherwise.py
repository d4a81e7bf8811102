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

EQUAL = "by a client's share of the samples, so all have as many"
HEADS = "personal heads begin as the generic one; they were set to 0"
LATE = "a client that comes late has an untrained model for its previous one, so all are there in the first round"
ZERO = "v begins at 0, unlike in Algorithm 2, and was set as in it"
END = "the Fisher information is of the model that a task ends with; it was measured where it is here, a round before"
OTHERWISE: Mapping[str, Mapping[str, str]] = {
    "FedALA": {
        "pfllib": "clients outside the cohort mix, too, so all are in it",
    },
    "FedAvgM": {
        "flower": "no Nesterov",
        "moon_official": "`dampening` is as large as `beta`",
    },
    "FedCL": {
        "continual_learning_si": "importance may be negative, which the paper's own code rules out, as here",
        "fedcl_official": (
            "a number for each tensor, so that where tensors are of one number all readings are alike; `mas` "
            "takes a batch's gradient of a mean over outputs, so it is compared on single samples"
        ),
    },
    "FedCurv": {
        "fedntd_repository": (
            "a client is rid of the curvature of those before it in its round, too, so no two that have any meet"
        ),
        "openfl_fedcurv": (
            "the Fisher information is of the last batch alone, so there is one batch; who comes back after a "
            "rest subtracts what the sums no longer hold, so nobody does"
        ),
    },
    "FedDyn": {
        "feddyn_official": f"alpha is divided {EQUAL}",
        "fl_bench": "weight decay has to be alpha; gradients are clipped, which was left out",
    },
    "FedFomo": {
        "fedfomo_official": (
            "`l2` is the square of a distance; averages of groups are candidates, too, which were left out, and "
            "of the models the last round's alone"
        ),
        "pfllib": "1e-5 is added to a distance, so numbers agree to 1e-6",
    },
    "FedKA": {
        "tpfl": "a function for its loss, of who has one dominant class, and no more of it: all else was given",
    },
    "FedOpt": {
        "fl_bench": ZERO,
        "flower": f"{ZERO}; FedAdam's rate is corrected for the start, which was left out; no beta1 in FedAdagrad",
    },
    "FedPAC": {
        "fedpac_official": "fails where nobody of a cohort has samples of a class",
    },
    "FedPer": {
        "fl_bench": "a newcomer begins with the mean of the others' heads, so all are in every round",
    },
    "FedProx": {
        "fednova_official": "with torch of today the sum of models is lost, so another was given",
        "importance_ewc": "no penalty in the first round, in which clients take one step here",
    },
    "FedRoD": {
        "fl_bench": (
            "the generic head alone is compared: personal losses train the base, too, and clients do not "
            "receive the server's model, whose names are others; the base was fixed and the names were mended"
        ),
        "fluke_fl": HEADS,
        "pfllib": HEADS,
    },
    "FisherAvg": {
        "importance_ewc": (
            "coordinates that nobody knows become 0, and a tensor of them NaN; without `compat_eps` the plain "
            "mean counts here"
        ),
        "importance_rwalk": (
            "the score is of a round's last step, so one round of one step is compared, and then the penalty; "
            "`rwalk.py` has another score, and counts the gradients of all Fisher batches but the first twice"
        ),
    },
    "LwF": {
        "facil": (
            "heads of earlier tasks are not trained, as they are in the paper: its base class's optimizer was "
            "taken; an epsilon in cross-entropy, an argument, was 0"
        ),
    },
    "MOON": {
        "fedntd_repository": LATE,
        "moon_official": LATE,
        "pfllib": LATE,
    },
    "OnlineEWC": {
        "continual_learning": (
            f"{END}; the penalty is multiplied by gamma, too (Eq. 8), which is a part of `lam` here; a sum over "
            "n samples is divided by n - 1 unless told where to end, as it was"
        ),
        "facil": f"{END}; the old and the new are averaged; heads are never held",
    },
    "Scaffold": {
        "feddyn_official": f"control variates are weighed {EQUAL}",
        "fluke_fl": "with momentum it divides by other steps, so there is none",
    },
}
"""Of a method, by an implementation's file of numbers."""

NOT_COMPARED: Mapping[str, str] = {
    "FilVer": "no public code of it was found",
    "LocalOnly": "it is local training and nothing else",
}
"""Methods that nothing public was run for, and why."""
