"""Accuracy on the clients' own test samples: of the model they receive, and of what each makes of it."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL

import fl_ddp
from fl_ddp.api import FedAvg, Group, Tensors, Upload
from fl_ddp.check.runs import SETTINGS, SOLO, play
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.lanes import ForEach, one_by_one
from fl_ddp.engine.samples import Samples
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.methods.ditto import Ditto
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.ranks.cohort import cohort
from fl_ddp.ranks.outputs import BATCH, WIDTH, Passes
from fl_ddp.ranks.own_tests import evaluate_clients, own_scores

ROWS = 2 * BATCH + 300
GENERATOR = torch.Generator().manual_seed(4)
SAMPLES = Samples(torch.randn(ROWS, 6, generator=GENERATOR), torch.randint(3, (ROWS,), generator=GENERATOR))
PARTS = [np.arange(5), np.arange(0), np.arange(3, 4), np.arange(7, ROWS), np.array([9, 2, 77])]


def model() -> FlatModel:
    return FlatModel(torch.nn.Linear(6, 3), 3, torch.zeros(1, 6))


def plain(
    network: FlatModel,
    theta: torch.Tensor,
    part: np.ndarray[tuple[int], np.dtype[np.int64]],
    samples: Samples = SAMPLES,
) -> float:
    rows = torch.from_numpy(part)
    return float((network.logits(theta, samples.x[rows]).argmax(1) == samples.y[rows]).double().mean())


def loss(
    network: FlatModel, theta: torch.Tensor, part: np.ndarray[tuple[int], np.dtype[np.int64]], samples: Samples
) -> float:
    rows = torch.from_numpy(part)
    return float(torch.nn.functional.cross_entropy(network.logits(theta, samples.x[rows]).double(), samples.y[rows]))


def test_a_clients_loss_has_the_same_bits_in_any_company() -> None:
    """Its lane is tested in batches of one width, whatever the others have."""
    network = model()
    theta = torch.stack([network.init() + 0.3 * torch.randn(network.num_params, generator=GENERATOR) for _ in PARTS])
    together = own_scores(network.logits, theta, SAMPLES, PARTS, network.dtype)
    nothing = [np.zeros(0, np.int64)] * len(PARTS)
    for lane, part in enumerate(PARTS):
        found = own_scores(network.logits, theta, SAMPLES, [*nothing[:lane], part, *nothing[lane + 1 :]], network.dtype)
        assert found.loss[lane] == together.loss[lane] and found.accuracy[lane] == together.accuracy[lane]


def test_padding_may_have_a_label_that_is_not_of_the_task() -> None:
    samples = SAMPLES._replace(y=torch.where(torch.arange(ROWS) == 0, -1, SAMPLES.y))
    network, part = model(), np.array([4, 5])
    theta = network.init()
    found = own_scores(network.logits, theta[None], samples, [part], network.dtype)
    assert found.loss.tolist() == pytest.approx([loss(network, theta, part, samples)], rel=1e-6)


def test_own_tests_are_of_one_width() -> None:
    """As kernels may sum in another order for another shape."""
    network, widths = model(), set[int]()

    def predict(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        widths.add(len(x))
        return network.logits(theta, x)

    for parts in ([PARTS[0]], [PARTS[2], PARTS[4]], [PARTS[3]]):
        own_scores(predict, network.init().expand(len(parts), -1), SAMPLES, parts, network.dtype)
    assert widths == {WIDTH}


def test_each_client_tests_the_model_on_its_own_samples() -> None:
    network = model()
    theta = network.init()
    predict = lambda x: network.logits(theta, x)  # noqa: E731
    expected = [plain(network, theta, part) if len(part) else np.nan for part in PARTS]
    found = evaluate_clients(predict, SAMPLES, PARTS, Passes(torch.float32, BATCH), SOLO)
    assert found.accuracy == pytest.approx(np.array(expected), abs=1e-15, nan_ok=True)
    losses = [loss(network, theta, part, SAMPLES) if len(part) else np.nan for part in PARTS]
    assert found.loss == pytest.approx(np.array(losses), rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("spread", [None, one_by_one], ids=["side by side", "apart"])
def test_each_lane_is_tested_on_its_own_samples_with_its_own_model(spread: ForEach | None) -> None:
    network = model()
    theta = torch.stack([network.init() + 0.3 * torch.randn(network.num_params, generator=GENERATOR) for _ in PARTS])
    # whatever a model takes the sample for that pads a part, it is right once
    for samples in (SAMPLES, *(SAMPLES._replace(y=torch.full_like(SAMPLES.y, label)) for label in range(3))):
        found = own_scores(network.logits, theta, samples, PARTS, network.dtype, spread)
        pairs = zip(theta, PARTS, strict=True)
        expected = [plain(network, t, part, samples) if len(part) else 0.0 for t, part in pairs]
        assert found.accuracy.tolist() == pytest.approx(expected, abs=1e-15)
        losses = [loss(network, t, part, samples) if len(part) else 0.0 for t, part in zip(theta, PARTS, strict=True)]
        assert found.loss.tolist() == pytest.approx(losses, rel=1e-6)


def test_a_run_reports_the_received_model_and_the_trained_ones() -> None:
    """What round 2's clients receive is what round 1 left; training on few classes raises a client's own accuracy."""
    kept = play({"rounds": 2, "personalise": "all"})
    federation = build_federation(from_mapping(SETTINGS), SOLO)
    after_one = play({"rounds": 1}).state.server["theta"]
    train = federation.worlds.at(0).train
    predict = lambda x: federation.model.logits(after_one, x)  # noqa: E731
    passes = Passes(torch.float32, BATCH)
    expected = evaluate_clients(predict, train, federation.local_test, passes, SOLO).accuracy
    first, second = kept.records
    ids = cohort(3, 1, np.arange(8), 6)
    assert len(ids) < len(expected)
    assert second.initial_accuracy == np.nanmean(expected)
    assert second.initial_accuracy_cohort == np.nanmean(expected[ids]) != second.initial_accuracy
    assert first.initial_accuracy is not None and first.personalised_accuracy is not None
    assert first.personalised_accuracy > first.initial_accuracy


@pytest.mark.parametrize("method", ["FedAvg", "Scaffold"])
def test_all_clients_may_train_to_be_tested_and_nothing_comes_of_it(method: str) -> None:
    """What a client that is not in the cohort makes of the model is what it makes of it in a cohort of all."""
    some = play({"rounds": 2, "method": method})
    tried = play({"rounds": 2, "method": method, "personalise": "all"})
    everybody = play({"rounds": 1, "method": method, "cohort": None, "participation": 1.0, "personalise": "all"})
    assert tried.state.unlike(some.state) == ""
    for ours, theirs in zip(tried.records, some.records, strict=True):
        unseen: dict[str, object] = {
            "initial_accuracy_cohort": None,
            "personalised_accuracy_all": None,
            "seconds": {},
            "wall": 0,
        }
        assert replace(ours, **unseen) == replace(theirs, **unseen)  # type: ignore[arg-type]
        assert theirs.initial_accuracy_cohort is None and theirs.personalised_accuracy_all is None
    (whole,) = everybody.records
    first = tried.records[0]
    assert whole.personalised_accuracy == whole.personalised_accuracy_all
    assert first.personalised_accuracy_all == pytest.approx(whole.personalised_accuracy, abs=1e-12)
    assert first.personalised_accuracy_all != first.personalised_accuracy


def test_own_test_samples_may_be_of_the_test_set() -> None:
    settings = {**SETTINGS, "local_test_from": "test", "local_test": 0.5, "rounds": 1}
    federation = build_federation(from_mapping(settings), SOLO)
    test = federation.worlds.at(0).tests[0].samples
    assert sum(map(len, federation.clients)) == len(federation.labels)  # nothing is kept aside
    for client, own in zip(federation.clients, federation.local_test, strict=True):
        wanted = np.rint(0.5 * np.bincount(federation.labels[client], minlength=10))
        there_are = np.bincount(test.y.numpy(), minlength=10)
        assert np.bincount(test.y[own].numpy(), minlength=10).tolist() == np.minimum(wanted, there_are).tolist()
    (record,) = play(settings).records
    model, theta = federation.model, federation.method.init()["theta"]
    right = [
        float((model.logits(theta, test.inputs(test.x[own], torch.float32)).argmax(1) == test.y[own]).double().mean())
        for own in federation.local_test
    ]
    assert record.initial_accuracy == pytest.approx(np.mean(right), abs=1e-12)
    assert record.initial_accuracy and record.personalised_accuracy
    assert record.personalised_accuracy > record.initial_accuracy


OWN = ("Ditto", "FedALA", "FedBN", "FedFomo", "FedPAC", "FedPer", "FedRep", "FedRoD", "LocalOnly")
"""Methods whose clients keep models, or parts of them, of their own."""
AT_ONCE = ("Ditto", "FedPAC", "FedRoD")
"""Those of the default suite: with a model in the client's memory, with a part at the server, and with more."""


def test_methods_that_keep_models_are_known() -> None:
    known = registry.known("method").items()
    assert tuple(name for name, owner in known if getattr(owner, "own_model", None) is not FedAvg.own_model) == OWN


@pytest.mark.parametrize(
    "method", [each if each in AT_ONCE else pytest.param(each, marks=pytest.mark.slow) for each in OWN]
)
def test_before_they_train_clients_are_tested_with_what_they_have(method: str, tmp_path: Path) -> None:
    """For all clients, also those that never took part, what the checkpoint before has of them."""
    model = {"model": f"{__name__}.Normed"} if method == "FedBN" else {"model.hidden": 16}
    settings = {key: value for key, value in SMALL.items() if key != "model.hidden"} | model
    run = fl_ddp.simulate({**settings, "method": method, "cohort": 3, "local_test": 0.3, "out": str(tmp_path)})
    with (tmp_path / "run" / "clients.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["round"] == "3" and row["received_accuracy"]]
    assert len(rows) == 12 and len({row["received_accuracy"] for row in rows}) > 1
    for row in rows:
        _, _, x, y = run.own_samples(int(row["client"]))
        logits = run.own_logits(int(row["client"]), x, 2)
        right = (logits.argmax(1) == y).double().mean()
        assert float(row["received_accuracy"]) == pytest.approx(float(right), abs=1e-12)
        expected = torch.nn.functional.cross_entropy(logits, y)
        assert float(row["received_loss"]) == pytest.approx(float(expected), rel=1e-5)
    mean = np.mean([float(row["received_accuracy"]) for row in rows])
    assert run["initial_accuracy"] == pytest.approx(mean, abs=1e-12)


@dataclass(frozen=True)
class Halved(FedAvg):
    """Says that a client's own model is no vector."""

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> torch.Tensor:
        """The model as a matrix."""
        return server["theta"][:, None]


def test_what_is_no_model_of_a_client_is_told(tmp_path: Path) -> None:
    message = r"own_model of Halved: gives float32 \[\d+, 1\]; accepted: a vector as client_update has it in"
    with pytest.raises(ConfigError, match=message):
        fl_ddp.simulate({**SMALL, "method": Halved, "local_test": 0.3, "out": str(tmp_path)})


@dataclass(frozen=True)
class Careless(FedAvg):
    """Writes into what it is given, in a way that torch does not count."""

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> torch.Tensor:
        """Half of the model."""
        server["theta"].numpy()[:] *= 0.5
        return server["theta"]


def test_what_own_model_writes_into_is_no_runs(tmp_path: Path) -> None:
    settings = {**SMALL, "out": str(tmp_path), "local_test": 0.3}
    plain = fl_ddp.simulate({**settings, "method": FedAvg, "name": "plain"})
    careless = fl_ddp.simulate({**settings, "method": Careless, "name": "careless"})
    assert careless["parameters_sha256"] == plain["parameters_sha256"]
    counted = type("Counted", (Careless,), {"own_model": _counted, "__module__": __name__})
    globals()["Counted"] = counted
    with pytest.raises(ConfigError, match="own_model of Counted: writes into theta of the server's state"):
        fl_ddp.simulate({**settings, "method": counted, "name": "counted"})


def _counted(self: FedAvg, server: Tensors, memory: Tensors, client: int) -> torch.Tensor:
    return server["theta"].mul_(0.5)


@dataclass(frozen=True)
class OnceTrained(Ditto):
    """Ditto, whose clients have what they receive until they have a model of their own."""

    def init_client(self) -> Tensors:
        """The model v, and how often it was trained."""
        return super().init_client() | {"times": torch.zeros(())}

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Ditto's."""
        upload = super().client_update(group, server, memory)
        return replace(upload, memory={**upload.memory, "times": memory["times"] + 1})

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> torch.Tensor:
        """The model v, if there is one."""
        v, times = memory.values()
        return v if times > 0 else None  # type: ignore[return-value]


def test_clients_without_models_of_their_own_have_the_received_one(tmp_path: Path) -> None:
    settings = {**SMALL, "out": str(tmp_path), "local_test": 0.3, "cohort": 3, "method": OnceTrained}
    run = fl_ddp.simulate(settings)
    with (tmp_path / "run" / "clients.csv").open(newline="") as file:
        told = {
            int(row["client"]): float(row["received_accuracy"]) for row in csv.DictReader(file) if row["round"] == "3"
        }
    model, received = run.model, 0
    for client, accuracy in told.items():
        _, _, x, y = run.own_samples(client)
        try:
            weights = run.own_weights(client, 2)
        except ConfigError:
            weights, received = run.weights_after(2), received + 1
        model.load_state_dict(weights)
        assert float((model(x)[1].argmax(1) == y).double().mean()) == pytest.approx(accuracy, abs=1e-12)
    assert 0 < received < 12


@dataclass(frozen=True)
class KeepsOne(FedAvg):
    """Keeps the last local model, and nothing else that it would know of."""

    def init_client(self) -> Tensors:
        """The model."""
        return {"last": self.model.init()}

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """FedAvg's."""
        trained = group.train(server["theta"], self, server, {})
        return Upload(self.average(group, server, trained), trained.theta, memory={"last": trained.theta})

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> torch.Tensor:
        """The only one."""
        (last,) = memory.values()
        return last


def test_own_model_sees_what_the_method_keeps_alone(tmp_path: Path) -> None:
    settings = {**SMALL, "out": str(tmp_path), "local_test": 0.3, "optimizer.keep": True, "method": KeepsOne}
    run = fl_ddp.simulate(settings)
    assert run["initial_accuracy"] is not None and run.own_weights(0)


def test_fast_sums_tell_the_same_accuracies(tmp_path: Path) -> None:
    settings = {**SMALL, "out": str(tmp_path), "local_test": 0.3, "method": "FedPer", "rounds": 1}
    exact, fast = (fl_ddp.simulate({**settings, "reduction": each, "name": each}) for each in ("exact", "fast"))
    assert exact["initial_accuracy"] == fast["initial_accuracy"]


class Normed(torch.nn.Module):
    """A network with BatchNorm."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.body, self.norm = torch.nn.Linear(64, 12), torch.nn.BatchNorm1d(12)
        self.head = torch.nn.Linear(12, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.head(torch.relu(self.norm(self.body(x.flatten(1)))))
        return logits


def test_a_task_may_be_one_of_which_nobody_has_test_samples_of_its_own() -> None:
    nothing = [np.zeros(0, np.int64)] * 2
    found = evaluate_clients(lambda x: x, SAMPLES, nothing, Passes(torch.float32, BATCH), SOLO)
    assert np.isnan(found.accuracy).all() and np.isnan(found.loss).all()
    tasks = {"stream": "ClassGroups", "stream.tasks": 5, "stream.task_rounds": 1, "rounds": 5, "eval_every": 1}
    records = play({**tasks, "clients": 1, "cohort": None, "local_test": 0.003}).records
    tested = [record.initial_accuracy is not None for record in records[1:]]
    assert True in tested and False in tested and len(tested) == 5


def test_without_own_test_samples_nothing_is_reported() -> None:
    (record,) = play({"rounds": 1, "local_test": 0.0}).records
    assert record.initial_accuracy is None and record.personalised_accuracy is None


def test_the_mean_over_all_clients_is_over_those_that_are_enrolled(tmp_path: Path) -> None:
    (tmp_path / "enrolment.csv").write_text("1,1\n1,1\n0,1\n")
    tasks = {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1}
    own = {"local_test": 0.3, "stream.enrolment": str(tmp_path / "enrolment.csv"), "clients": 3, "cohort": 1}
    fl_ddp.simulate(**{**SMALL, **tasks, **own, "rounds": 2, "out": str(tmp_path)})  # type: ignore[arg-type]
    with (tmp_path / "run" / "clients.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["round"] == "1"]
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["round"] == "1")
    assert [each["client"] for each in rows] == ["0", "1"] and row["cohort"] == "1"
    assert float(row["initial_accuracy"]) == pytest.approx(np.mean([float(each["received_accuracy"]) for each in rows]))
