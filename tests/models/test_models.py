from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import jsonargparse
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torchvision.models import resnet18

from fl_ddp.engine.seeds import torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.models.cnn import FedCLCIFAR, FedCLMNIST, FedCurvCNN, FedKACNN, ImportanceCNN, LeNet5, PflCNN
from fl_ddp.models.filver import FilVerNet
from fl_ddp.models.layers import MaxPool
from fl_ddp.models.mlp import MLP
from fl_ddp.models.resnet import ResNet18, ResNet50

MNIST, CIFAR, SMALL = (1, 28, 28), (3, 32, 32), (1, 8, 8)
Model = Callable[..., nn.Module]
Options = dict[str, object]
MODELS: list[tuple[Model, tuple[int, ...], Options, int]] = [
    (MLP, MNIST, {}, 159_010),
    (MLP, MNIST, {"hidden": (200, 200)}, 199_210),
    (MLP, CIFAR, {}, 616_610),
    (MLP, (5,), {"hidden": ()}, 60),
    (ImportanceCNN, MNIST, {}, 1_663_370),
    (ImportanceCNN, CIFAR, {}, 2_156_490),
    (LeNet5, CIFAR, {}, 62_006),
    (FedCurvCNN, MNIST, {}, 431_080),
    (FedKACNN, CIFAR, {}, 878_538),
    (PflCNN, CIFAR, {}, 1_626_442),
    (FedCLMNIST, MNIST, {}, 1_663_370),
    (FedCLMNIST, MNIST, {"variant": "code"}, 1_630_602),
    (FedCLCIFAR, CIFAR, {}, 1_756_426),
    (FilVerNet, MNIST, {}, 4_702_608 + 1_268_010),
    (FilVerNet, MNIST, {"embedding": "ebr"}, 4_446_352 + 1_268_010),
    (ResNet18, CIFAR, {}, 11_173_962),
    (ResNet50, CIFAR, {}, 23_520_842),
]
# Small inputs and every kind of layer, for the tests that compute.
QUICK: list[tuple[Model, tuple[int, ...], Options]] = [
    (MLP, (2, 3), {"hidden": (5, 4)}),
    (MLP, (5,), {"hidden": ()}),
    (ImportanceCNN, SMALL, {}),
    (LeNet5, (3, 17, 16), {}),
    (FedCurvCNN, (1, 16, 16), {}),
    (FedKACNN, (3, 16, 18), {}),
    (PflCNN, SMALL, {"dropout": False}),
    (FedCLMNIST, (1, 9, 8), {"variant": "code", "dropout": 0.0}),
    (FedCLCIFAR, (3, 8, 8), {"dropout": 0.0}),
    (FilVerNet, SMALL, {"embedding_size": 6, "hidden": (7,)}),
    (FilVerNet, SMALL, {"embedding": "ebr", "embedding_size": 6}),
    (FilVerNet, SMALL, {"encoder_hidden": (), "embedding_size": 6}),
    (ResNet18, SMALL, {"groups": 2}),
]
AT_ONCE = (MLP, LeNet5)
"""Models that are compiled in the default suite."""


def name(value: object) -> str:
    return getattr(value, "__name__", str(value))


def make(
    model: Model, in_shape: tuple[int, ...], options: Options | None = None, *, seed: int = 0, num_classes: int = 10
) -> nn.Module:
    with torch_seed(seed):
        return model(in_shape=in_shape, num_classes=num_classes, **(options or {}))


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def nll(logits: Tensor, y: Tensor) -> Tensor:
    return (
        logits.logsumexp(-1) - torch.where(y[:, None] == torch.arange(logits.shape[-1]), logits, 0.0).sum(-1)
    ).mean()


@pytest.mark.parametrize(("model", "in_shape", "options", "count"), MODELS, ids=name)
def test_parameter_count_is_the_papers(model: Model, in_shape: tuple[int, ...], options: Options, count: int) -> None:
    module = make(model, in_shape, options)
    assert sum(parameter.numel() for parameter in module.parameters()) == count
    assert not list(module.buffers())


@pytest.mark.parametrize(("model", "in_shape", "options"), QUICK, ids=name)
def test_logits_are_the_last_linear_layer_of_the_features(
    model: Model, in_shape: tuple[int, ...], options: Options
) -> None:
    module = make(model, in_shape, options, num_classes=4).double()
    last = [m for m in module.modules() if isinstance(m, nn.Linear)][-1]
    features, logits = module(noise(3, *in_shape))
    assert features.shape == (3, last.in_features)
    assert logits.shape == (3, 4)
    assert torch.equal(logits, last(features))


@pytest.mark.parametrize(
    ("model", "in_shape", "options"),
    [each if each[0] in AT_ONCE else pytest.param(*each, marks=pytest.mark.slow) for each in QUICK],
    ids=name,
)
def test_stacked_models_in_one_graph_under_vmap_equal_each_model_alone(
    model: Model, in_shape: tuple[int, ...], options: Options
) -> None:
    modules = [make(model, in_shape, options, seed=seed, num_classes=4).double() for seed in (0, 1)]
    stacked, _ = stack_module_state(modules)
    x, y = noise(2, 2, *in_shape), torch.tensor([[0, 3], [2, 2]])

    def loss(theta: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        features, logits = functional_call(modules[0], theta, (x,))
        return nll(logits, y), (features, logits)

    torch.compiler.reset()  # to the compiler all steps are one function, which it compiles 8 times only
    step = torch.compile(vmap(grad(loss, has_aux=True)), fullgraph=True, dynamic=False, backend="eager")
    gradient, (features, logits) = step(stacked, x, y)
    for lane, module in enumerate(modules):
        own_features, own_logits = module(x[lane])
        torch.testing.assert_close(features[lane], own_features)
        torch.testing.assert_close(logits[lane], own_logits)
        parameters = dict(module.named_parameters())
        own = torch.autograd.grad(nll(own_logits, y[lane]), list(parameters.values()), materialize_grads=True)
        ours = {key: gradient[key][lane] for key in parameters}
        torch.testing.assert_close(ours, dict(zip(parameters, own, strict=True)))


@settings(max_examples=30, deadline=None)
@given(height=st.integers(3, 9), width=st.integers(3, 9), size=st.integers(1, 3), seed=st.integers(0, 99))
def test_max_pool_equals_torchs_and_so_does_its_gradient_after_relu(
    height: int, width: int, size: int, seed: int
) -> None:
    x = noise(2, 3, height, width, seed=seed)
    weight = noise(2, 3, height // size, width // size, seed=seed + 1)
    assert torch.equal(MaxPool(size)(x), F.max_pool2d(x, size))
    ours = grad(lambda x: (MaxPool(size)(x.relu()) * weight).sum())(x)
    theirs = grad(lambda x: (F.max_pool2d(x.relu(), size) * weight).sum())(x)
    assert torch.equal(ours, theirs)


def test_max_pool_with_ties_on_a_plain_background_gives_torchs_parameter_gradients() -> None:
    x = torch.zeros(2, 1, 24, 24, dtype=torch.float64)
    x[:, :, 9:15, 8:15] = noise(2, 1, 6, 7)

    def gradients(pool: Callable[[], nn.Module]) -> tuple[list[Tensor], Tensor]:
        with torch_seed(3):
            layers = [
                nn.Conv2d(1, 6, 5, padding=2),
                nn.ReLU(),
                pool(),
                nn.Conv2d(6, 5, 3, padding=1),
                nn.ReLU(),
                pool(),
            ]
            module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(180, 4)).double()
        pixels = x.clone().requires_grad_()
        loss = nll(module(pixels), torch.tensor([1, 2]))
        *parameters, of_pixels = torch.autograd.grad(loss, [*module.parameters(), pixels])
        return parameters, of_pixels

    (ours, our_pixels), (theirs, their_pixels) = gradients(lambda: MaxPool(2)), gradients(lambda: nn.MaxPool2d(2))
    assert not torch.allclose(our_pixels, their_pixels)  # there are ties at positive values
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their)


@pytest.mark.parametrize(
    ("model", "in_shape", "accepted"),
    [
        (LeNet5, (64,), "(channels, height, width)"),
        (ResNet18, (784,), "(channels, height, width)"),
        (FilVerNet, (28, 28), "(channels, height, width)"),
        (LeNet5, SMALL, "at least 16 x 16"),
        (FedKACNN, (3, 32, 15), "at least 16 x 16"),
        (PflCNN, (3, 5, 32), "at least 6 x 6"),
        (ImportanceCNN, (1, 3, 8), "at least 4 x 4"),
        (FedCLCIFAR, (3, 0, 0), "at least 1 x 1"),
        (ResNet50, (3, 7, 9), "at least 8 x 8"),
    ],
    ids=name,
)
def test_input_a_network_cannot_work_on_is_refused(model: Model, in_shape: tuple[int, ...], accepted: str) -> None:
    with pytest.raises(ConfigError) as error:
        make(model, in_shape)
    message = str(error.value)
    assert f"--model {name(model)}: " in message
    assert accepted in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("model", "side"), [(LeNet5, 16), (PflCNN, 6), (ImportanceCNN, 4), (FedCLCIFAR, 1), (ResNet18, 8)], ids=name
)
def test_smallest_accepted_images_work(model: Model, side: int) -> None:
    assert make(model, (1, side, side))(torch.zeros(1, 1, side, side))[1].shape == (1, 10)


@pytest.mark.parametrize(
    ("model", "options", "key"),
    [
        (MLP, {"hidden": 0}, "--model.hidden"),
        (MLP, {"hidden": (20, -1)}, "--model.hidden"),
        (FedCLMNIST, {"variant": "papr"}, "--model.variant"),
        (FedCLMNIST, {"dropout": 1.0}, "--model.dropout"),
        (FedCLCIFAR, {"dropout": math.nan}, "--model.dropout"),
        (FedCLCIFAR, {"init": "glorot"}, "--model.init"),
        (FilVerNet, {"embedding": "vae"}, "--model.embedding"),
        (FilVerNet, {"embedding_size": 0}, "--model.embedding_size"),
        (ResNet18, {"groups": 0}, "--model.groups"),
        (ResNet18, {"groups": 48}, "--model.groups"),
        (ResNet18, {"stem": "big"}, "--model.stem"),
    ],
    ids=str,
)
def test_impossible_option_is_refused_by_its_key(model: Model, options: Options, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key}: .*accepted: [^\n]+$"):
        make(model, CIFAR, options)


@pytest.mark.parametrize(
    ("model", "words", "options"),
    [
        (MLP, ["--model.hidden", "200"], {"hidden": 200}),
        (MLP, ["--model.hidden", "[200,100]"], {"hidden": (200, 100)}),
        (MLP, ["--model.hidden=[]"], {"hidden": ()}),
        (LeNet5, [], {}),
        (PflCNN, ["--model.dropout", "false"], {"dropout": False}),
        (FedCLMNIST, ["--model.init", "xavier"], {"variant": "paper", "dropout": 0.2, "init": "xavier"}),
        (
            FilVerNet,
            ["--model.hidden", "[9]"],
            {
                "embedding": "ver",
                "embedding_size": 256,
                "hidden": (9,),
                "channels": (32, 64),
                "encoder_hidden": (1000, 1000),
            },
        ),
        (ResNet18, ["--model.groups", "2", "--model.stem", "small"], {"norm": "group", "groups": 2, "stem": "small"}),
    ],
    ids=str,
)
def test_options_are_read_from_the_command_line(model: type[nn.Module], words: list[str], options: Options) -> None:
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(nn.Module, "model", skip={"in_shape", "num_classes"}, required=True)
    parsed = parser.parse_args(["--model", f"{model.__module__}.{model.__name__}", *words])
    given = parsed.model.get("init_args")
    assert (given.as_dict() if given else {}) == options


def test_dropout_sits_behind_the_layers_the_papers_name() -> None:
    def rates(module: nn.Module) -> list[tuple[str, float]]:
        layers = list(module.get_submodule("body").children())
        return [(type(before).__name__, d.p) for before, d in pairwise(layers) if isinstance(d, nn.Dropout)]

    assert rates(make(PflCNN, CIFAR)) == [("Flatten", 0.25), ("ReLU", 0.5)]
    assert rates(make(PflCNN, CIFAR, {"dropout": False})) == []
    assert rates(make(FedCLMNIST, MNIST)) == [("ReLU", 0.2)]
    assert rates(make(FedCLCIFAR, CIFAR, {"dropout": 0.3})) == [("ReLU", 0.3), ("ReLU", 0.3)]


@pytest.mark.parametrize(
    ("model", "in_shape", "options"),
    [(FedCLMNIST, MNIST, {"init": "xavier"}), (FedCLCIFAR, CIFAR, {"init": "xavier"}), (PflCNN, CIFAR, {})],
    ids=name,
)
def test_xavier_draws_weights_up_to_glorots_bound_and_zero_biases(
    model: Model, in_shape: tuple[int, ...], options: Options
) -> None:
    for layer in make(model, in_shape, options).modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            assert layer.bias is not None
            assert not layer.bias.any()
            fan_out, fan_in = layer.weight.shape[0] * layer.weight[0, 0].numel(), layer.weight[0].numel()
            bound = math.sqrt(6 / (fan_in + fan_out))
            # The largest of some hundred uniform draws comes within a few per cent of their bound.
            assert 0.95 * bound < layer.weight.abs().max() <= bound


def test_standard_initialisation_is_pytorchs() -> None:
    module = make(FedCLCIFAR, CIFAR, seed=5)
    with torch_seed(5):
        first = nn.Conv2d(3, 64, 5, padding=2)
    assert torch.equal(module.get_parameter("body.0.weight"), first.weight)
    assert first.bias is not None
    assert torch.equal(module.get_parameter("body.0.bias"), first.bias)


def test_resnet_18_equals_torchvisions_with_group_norm() -> None:
    module = make(ResNet18, (3, 64, 65), {"groups": 8}, num_classes=7)
    theirs = resnet18(num_classes=7, norm_layer=lambda channels: nn.GroupNorm(8, channels))
    renamed = {k.replace("head.", "fc.").removeprefix("body."): v for k, v in module.state_dict().items()}
    theirs.load_state_dict(renamed)
    x = torch.rand(2, 3, 64, 65, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(module(x)[1], theirs(x))


@pytest.mark.parametrize(
    ("side", "stem", "kernel"), [(63, "auto", 3), (64, "auto", 7), (64, "small", 3), (32, "imagenet", 7)]
)
def test_resnet_takes_the_small_stem_under_64_pixels_unless_told(side: int, stem: str, kernel: int) -> None:
    convolution = make(ResNet18, (1, side, 64), {"stem": stem}).get_submodule("body.conv1")
    assert isinstance(convolution, nn.Conv2d)
    assert convolution.kernel_size == (kernel, kernel)
    assert convolution.in_channels == 1


def test_fil_ver_classifies_the_mean_embedding() -> None:
    module = make(FilVerNet, SMALL, {"embedding_size": 6, "hidden": (7,)}).double()
    assert isinstance(module, FilVerNet)
    x = noise(3, *SMALL)
    mu, log_sigma = module.encode(x)
    assert mu.shape == log_sigma.shape == (3, 6)
    assert not torch.equal(mu, log_sigma)
    for ours, apart in zip(module(x), module.classifier(mu), strict=True):
        assert torch.equal(ours, apart)


def test_fil_ver_deterministic_embeddings_are_points() -> None:
    module = make(FilVerNet, SMALL, {"embedding": "ebr", "embedding_size": 6})
    assert isinstance(module, FilVerNet)
    mu, log_sigma = module.encode(torch.zeros(2, *SMALL))
    assert torch.equal(mu + log_sigma.exp() * torch.ones_like(mu), mu)


@pytest.mark.parametrize(("embedding", "count"), [("ver", 4_702_608), ("ebr", 4_446_352)])
def test_fil_ver_parts_have_the_papers_sizes(embedding: str, count: int) -> None:
    module = make(FilVerNet, MNIST, {"embedding": embedding})
    sizes = {part: sum(p.numel() for p in child.parameters()) for part, child in module.named_children()}
    assert sizes == {"encoder": count, "classifier": 1_268_010}
