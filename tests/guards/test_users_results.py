"""What a user's hook gives and nobody can use ends in one line that names the hook's, before anything comes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from launching import failed
from users_method import said, written

RESULTS: Mapping[str, tuple[str, str]] = {
    "penalty_of_a_shape": (
        """
        def penalty(self, theta, server, mine):
            return theta.square()
        """,
        r"{file}:13: penalty of Mine: gives a tensor \[.*\] for one client; accepted: a tensor \[\] of floats",
    ),
    "loss_of_a_shape": (
        """
        def loss(self, theta, batch, server, mine):
            return self.model.nll(theta, batch.x, batch.y)
        """,
        r"{file}:13: loss of Mine: gives a tensor \[20\] for one client; accepted: a tensor \[\] of floats",
    ),
    "a_name_of_the_engines": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, sums=upload.sums | {"trained": group.n})
        """,
        r"{file}:13: client_update of Mine: gives a sum or row named trained, which is the engine's own; give it",
    ),
    "the_optimizers_memory": (
        """
        def init_client(self):
            return {"optimizer_m": torch.zeros(3)}
        """,
        r"{file}:13: init_client of Mine: gives optimizer_m, as the engine calls what a client's optimizer remembers; "
        r"accepted: another name",
    ),
    "the_statistics_memory": (
        """
        def init_client(self):
            return {"running_statistics": torch.zeros(3)}
        """,
        r"{file}:13: init_client of Mine: gives running_statistics, as the engine calls a client's own of BatchNorm; "
        r"accepted: another name",
    ),
    "no_upload": (
        """
        def client_update(self, group, server, memory):
            super().client_update(group, server, memory)
        """,
        r"{file}:13: client_update of Mine: gives NoneType; accepted: an Upload",
    ),
    "another_memory": (
        """
        def init_client(self):
            return {"c": torch.zeros(3)}
        """,
        r".*fedavg.py:\d+: client_update of Mine: keeps a memory of nothing; accepted: c, as init_client gives",
    ),
    "no_theta": (
        """
        def server_update(self, server, total, info):
            return {"model": server["theta"]}
        """,
        r"{file}:13: server_update of Mine: gives a state of model; accepted: one of theta, as init gives",
    ),
    "state_of_another_type": (
        """
        def server_update(self, server, total, info):
            return {"theta": server["theta"] + self.mean_delta(total)}
        """,
        r"{file}:13: server_update of Mine: gives theta as float64 \[1210\]; accepted: float32 \[1210\], as init gives",
    ),
    "state_that_is_a_number": (
        """
        def server_update(self, server, total, info):
            return {"theta": 1.0}
        """,
        r"{file}:13: server_update of Mine: gives theta as float; accepted: float32 \[1210\], as init gives",
    ),
    "memory_of_another_shape": (
        """
        def init_client(self):
            return {"c": torch.zeros(3)}
        def client_update(self, group, server, memory):
            return replace(super().client_update(group, server, memory), memory={"c": memory["c"].mean(0)})
        """,
        r"{file}:15: client_update of Mine: keeps c as float32 \[3\]; "
        r"accepted: float32 \[4, 3\], one of init_client's for each lane",
    ),
    "penalty_that_is_a_number": (
        """
        def penalty(self, theta, server, mine):
            return 0.0
        """,
        r"{file}:13: penalty of Mine: gives float for one client; accepted: a tensor \[\] of floats",
    ),
    "theta_that_is_a_number": (
        """
        def init(self):
            return {"theta": 3}
        """,
        r"{file}:13: init of Mine: gives theta as int; accepted: a tensor",
    ),
    "memory_that_is_a_number": (
        """
        def init_client(self):
            return {"c": 3}
        """,
        r"{file}:13: init_client of Mine: gives c as int; accepted: a tensor",
    ),
    "writes_into_the_state": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            server["theta"][0] += 1
            return upload
        """,
        r"{file}:13: client_update of Mine: writes into theta of the server's state; accepted: to write into copies",
    ),
    "writes_behind_torchs_back": (
        """
        def client_update(self, group, server, memory):
            server["theta"].data.mul_(0.9)
            return super().client_update(group, server, memory)
        """,
        r"{file}:13: client_update of Mine: writes into theta of the server's state; accepted: to write into copies",
    ),
    "writes_into_its_array": (
        """
        def client_update(self, group, server, memory):
            server["theta"].numpy()[3] = np.nan
            return super().client_update(group, server, memory)
        """,
        r"{file}:13: client_update of Mine: writes into theta of the server's state; accepted: to write into copies",
    ),
    "no_weight": (
        """
        def client_update(self, group, server, memory):
            trained = group.train(server["theta"], self, server, memory)
            return Upload({"delta": Term(trained.theta, minus=server["theta"])}, trained.theta)
        """,
        r"{file}:13: client_update of Mine: gives delta, and weight is asked for",
    ),
    "a_row_that_nobody_gives": (
        """
        def server_update(self, server, total, info):
            return server | {"theta": server["theta"] + total.rows["change"].mean(0)}
        """,
        r"{file}:14: 'change': is nothing that clients hand over; accepted: own_accuracy, own_loss$",
    ),
    "a_tensor_that_nobody_sends": (
        """
        def init(self):
            return super().init() | {"c": torch.zeros(1)}
        def penalty(self, theta, server, mine):
            return server["c"].sum() * theta.square().sum()
        """,
        r"{file}:16: Mine: 'c' is none of the tensors that it is given; accepted: theta of the server's \(those that "
        r"`broadcast` names\), nothing of the client's",
    ),
    "a_loss_with_a_branch": (
        """
        def loss(self, theta, batch, server, mine):
            loss = self.model.loss(theta, batch)
            return loss if loss > 1 else 2 * loss
        """,
        r"{file}:15: Mine: depends on values outside of tensors \(such as .item\(\), if, .*\); use torch.where",
    ),
    "a_penalty_that_draws": (
        """
        def penalty(self, theta, server, mine):
            return (torch.rand_like(theta) * theta).sum()
        """,
        r"{file}:14: Mine: draws random numbers that no seed .*; use uniform\(\) or normal\(\) of batch.key",
    ),
    "a_correction_by_numpy": (
        """
        def correct(self, g, theta, server, mine):
            return torch.from_numpy(g.numpy() * 2)
        """,
        r"{file}:14: Mine: turns tensors into numbers or numpy arrays; use torch's functions of tensors alone",
    ),
    "nothing_to_broadcast": (
        """
        broadcast = ("theta", "c")
        """,
        r".*fedavg.py:\d+: init of Mine: gives a state of theta, without c; accepted: theta and whatever `broadcast`",
    ),
    "wide_prediction": (
        """
        def predict(self, theta, x):
            return self.model.features(theta, x)
        """,
        r"{file}:13: predict of Mine: gives float32 \[\d+, 16\] for (\d+) samples; accepted: logits \[\1, 10\]",
    ),
    "prediction_of_a_class": (
        """
        def predict(self, theta, x):
            return super().predict(theta, x).argmax(1)
        """,
        r"{file}:13: predict of Mine: gives int64 \[(\d+)\] for \1 samples; accepted: logits \[\1, 10\]",
    ),
    "correction_of_no_shape": (
        """
        def correct(self, g, theta, server, mine):
            return g.mean()
        """,
        r"{file}:13: correct of Mine: gives a tensor \[\] for a leaf \[16, 64\]; accepted: a tensor of its shape",
    ),
    "projection_to_a_length": (
        """
        def project(self, new, old, server, mine):
            return new.norm()
        """,
        r"{file}:13: project of Mine: gives a tensor \[\] for a leaf \[16, 64\]; accepted: a tensor of its shape",
    ),
    "a_prior_without_others": (
        """
        def priors(self, server, mine):
            return Quadratic(server["theta"], server["theta"])
        """,
        r"{file}:13: priors of Mine: gives Quadratic; accepted: a tuple of Quadratic",
    ),
    "a_trace_of_no_shape": (
        """
        def client_update(self, group, server, memory):
            start = {"path": torch.zeros_like(server["theta"])}
            trained = group.train(server["theta"], self, server, memory, trace=start)
            return Upload(self.average(group, server, trained), trained.theta)
        def track(self, trace, old, new, g, step):
            return {"path": (new - old).norm()}
        """,
        r"{file}:17: track of Mine: gives a tensor \[\] for a leaf \[16, 64\]; accepted: a tensor of its shape",
    ),
    "gradients_of_no_shape": (
        """
        def gradient(self, theta, batch, server, mine):
            leaves, loss = super().gradient(theta, batch, server, mine)
            return tuple(leaf.sum() for leaf in leaves), loss
        """,
        r"{file}:13: gradient of Mine: gives a tensor \[\] for a leaf \[16, 64\]; accepted: a tensor of its shape",
    ),
    "loss_of_nothing": (
        """
        def loss(self, theta, batch, server, mine):
            return self.model.loss(theta, batch).detach()
        """,
        r"{file}:13: loss of Mine: gives a number that no parameter has a part in; accepted: one made of theta",
    ),
    "a_sum_over_the_lanes": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, sums=upload.sums | {"s": upload.theta.mean(0)})
        """,
        r"{file}:13: client_update of Mine: gives s as float32 \[1210\]; accepted: a tensor \[4, ...\], of each",
    ),
    "a_row_for_all": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, rows={"r": group.n.sum()})
        """,
        r"{file}:13: client_update of Mine: gives r as float32 \[\]; accepted: a tensor \[4, ...\], of each",
    ),
    "a_model_for_all": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, theta=upload.theta.mean(0))
        """,
        r"{file}:13: client_update of Mine: gives theta as float32 \[1210\]; accepted: a tensor \[4, ...\], of each",
    ),
    "a_sum_of_some": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            some = {"s": group.n} if 0 in group.client else {}
            return replace(upload, sums=upload.sums | some)
        """,
        r"{file}:13: client_update of Mine: gives weight \[\], delta \[1210\], loss \[\].* for some clients, and",
    ),
    "a_measure_over_the_lanes": (
        """
        proxy = 0.5
        def measures(self, round_index):
            return True
        def measure(self, group, server):
            return {"n": group.n.sum()}
        def measured(self, server, total):
            return server
        """,
        r"{file}:16: measure of Mine: gives n as float32 \[\]; accepted: a tensor \[\d+, ...\], of each of \d+ lanes",
    ),
    "sent_as_a_word": (
        """
        def sent(self, in_round):
            return "theta"
        """,
        r"{file}:13: sent of Mine: gives str; accepted: a tuple of names among theta",
    ),
    "an_own_model_of_another_type": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, theta=upload.theta.double())
        """,
        r"{file}:13: client_update of Mine: gives theta as float64 \[1210\]; accepted: float32 \[1210\], as the "
        r"network has it, or a predict\(\) that takes it",
    ),
    "memory_that_diverges": (
        """
        def init_client(self):
            return {"best": torch.tensor(torch.inf), "v": torch.zeros(3)}
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, memory=memory | {"v": memory["v"] / 0})
        """,
        r"round 1, client \d+: 'v' in its memory, finite at first, is not finite; a smaller --lr usually helps",
    ),
    "a_kept_model_that_is_too_short": (
        """
        def init_client(self):
            return {"own": self.model.init()}
        def client_update(self, group, server, memory):
            return replace(super().client_update(group, server, memory), memory=memory)
        def own_model(self, server, memory, client):
            return memory["own"][:10]
        """,
        r"{file}:17: own_model of Mine: gives a model as float32 \[10\]; accepted: float32 \[1210\], as the network",
    ),
}


def of(case: str, folder: Path, prefix: str = "") -> dict[str, object]:
    """Settings of a run with a mistake."""
    return written(RESULTS[case][0], folder / f"{prefix}{case}.py")


def matches(case: str, lines: list[str], prefix: str = "") -> bool:
    return len(lines) == 1 and bool(
        re.match("fl_ddp: error: " + RESULTS[case][1].format(file=rf"{prefix}{case}\.py"), lines[0])
    )


# each is a run of its own: half of them do for the default suite, CI makes all
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (i % 2)) for i, case in enumerate(RESULTS)]
)
def test_it_is_refused_with_its_place(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    code, lines = said(of(case, tmp_path), capfd)
    assert matches(case, lines) and code == (1 if case == "memory_that_diverges" else 2), lines


def test_what_has_a_gradient_is_handed_over_without(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = """
    def client_update(self, group, server, memory):
        trained = group.train(server["theta"], self, server, memory)
        trained.theta.requires_grad_()
        return Upload(self.average(group, server, trained), trained.theta)
    """
    assert said(written(body, tmp_path / "with_gradients.py"), capfd) == (0, [])


@pytest.mark.parametrize("case", ["correction_of_no_shape", "loss_of_nothing", "a_loss_with_a_branch"])
def test_so_it_is_where_the_step_is_compiled(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    code, lines = said({**of(case, tmp_path, "compiled_"), "compile": True}, capfd)
    assert matches(case, lines, "compiled_") and code == 2, lines


@pytest.mark.slow
@pytest.mark.parametrize("case", ["writes_into_the_state", "a_sum_of_some"])
def test_so_it_is_on_two_ranks(tmp_path: Path, case: str) -> None:
    ended = failed({**of(case, tmp_path, "two_"), "lanes": 6}, 2, tmp_path)
    assert matches(case, ended.ours, "two_"), ended.err
