"""Convolutional networks of two stages, as federated-learning papers use them."""

from __future__ import annotations

from typing import ClassVar, Literal

from fl_ddp.bounds import BelowOne, check
from fl_ddp.models.layers import Classifier, Stage, convnet, xavier_

Init = Literal["standard", "xavier"]
Variant = Literal["paper", "code"]


class _ConvNet(Classifier):
    """Convolution stages and hidden linear layers that a paper fixes, without options.

    Args:
        in_shape: (channels, height, width).
        num_classes: number of classes.

    Raises:
        ConfigError: the input is no image or too small.
    """

    stages: ClassVar[tuple[Stage, ...]]
    hidden: ClassVar[tuple[int, ...]]

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__(*convnet(type(self).__name__, in_shape, self.stages, self.hidden), num_classes)


class ImportanceCNN(_ConvNet):
    """McMahan et al.'s CNN, also the importance paper's: two padded 5x5 convolutions and a hidden layer of 512.

    1,663,370 parameters on MNIST, 2,156,490 on CIFAR-10.

    Source: McMahan et al. 2017 (arXiv:1602.05629); Kim et al. 2020, whose text gives no hidden layer.
    """

    stages = (Stage(32, padding=2), Stage(64, padding=2))
    hidden = (512,)


class LeNet5(_ConvNet):
    """LeNet with ReLU and max pooling, which the importance paper's code trains on CIFAR-10.

    62,006 parameters on CIFAR-10.

    Source: LeCun et al. 1998, in the form of PyTorch's CIFAR-10 tutorial.
    """

    stages = (Stage(6), Stage(16))
    hidden = (120, 84)


class FedCurvCNN(_ConvNet):
    """FedCurv's network, PyTorch's MNIST example of October 2019: two 5x5 convolutions and a hidden layer of 500.

    431,080 parameters on MNIST.

    Source: Shoham et al. 2019 (arXiv:1910.07796).
    """

    stages = (Stage(20), Stage(50))
    hidden = (500,)


class FedKACNN(_ConvNet):
    """FedKA's t-CNN, elsewhere called FedAvgCNN: two 5x5 convolutions and a hidden layer of 512.

    878,538 parameters on CIFAR-10.

    Source: Chen et al. 2023 (arXiv:2312.02416), appendix; padding as in PFLlib, on which the authors' code builds.
    """

    stages = (Stage(32), Stage(64))
    hidden = (512,)


class PflCNN(Classifier):
    """The CIFAR-10 network of pfl-research's benchmark: two 3x3 convolutions, one pool and a hidden layer of 128.

    1,626,442 parameters on CIFAR-10. Weights start after Glorot and biases at 0, as in the TensorFlow model it follows.

    Args:
        in_shape: (channels, height, width).
        num_classes: number of classes.
        dropout: drop 0.25 of the pooled pixels and 0.5 of the hidden units.

    Raises:
        ConfigError: the input is no image or too small.

    Source: Granqvist et al. 2024 (arXiv:2404.06430), benchmarks/model/pytorch/cnn.py.
    """

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, dropout: bool = True) -> None:
        stages = (Stage(32, kernel=3, pool=None), Stage(64, kernel=3))
        after_stages, after_hidden = (0.25, 0.5) if dropout else (0.0, 0.0)
        body = convnet(type(self).__name__, in_shape, stages, (128,), dropout=after_hidden, stage_dropout=after_stages)
        super().__init__(*body, num_classes)
        xavier_(self)


class FedCLMNIST(Classifier):
    """FedCL's network for MNIST: two convolutions and a hidden layer of 512 with dropout.

    1,663,370 parameters as the paper describes it, 1,630,602 as its code has it.

    Args:
        in_shape: (channels, height, width).
        num_classes: number of classes.
        variant: paper has 5x5 convolutions and 2x2 pools, code a second convolution of 3x3 and overlapping 3x3 pools.
        dropout: probability of dropping a hidden unit; 0.2 is the code's, the paper gives none.
        init: standard is PyTorch's, xavier the code's.

    Raises:
        ConfigError: the input is no image or too small, or an option has an impossible value.

    Source: Yao and Sun 2020 (FedCL), Section 4; github.com/thu-media/FedCL, model/mnist_models.py.
    """

    def __init__(
        self,
        *,
        in_shape: tuple[int, ...],
        num_classes: int,
        variant: Variant = "paper",
        dropout: BelowOne = 0.2,
        init: Init = "standard",
    ) -> None:
        check(FedCLMNIST, {"variant": variant, "dropout": dropout, "init": init}, "--model.")
        if variant == "paper":
            stages = (Stage(32, padding=2), Stage(64, padding=2))
        else:
            stages = (Stage(32, padding=2, pool="3x3/2"), Stage(64, kernel=3, padding=1, pool="3x3/2"))
        super().__init__(*convnet(type(self).__name__, in_shape, stages, (512,), dropout=dropout), num_classes)
        if init == "xavier":
            xavier_(self)


class FedCLCIFAR(Classifier):
    """FedCL's network for CIFAR-10: two 5x5 convolutions, overlapping pools, hidden layers of 384 and 192 with dropout.

    1,756,426 parameters on CIFAR-10.

    Args:
        in_shape: (channels, height, width).
        num_classes: number of classes.
        dropout: probability of dropping a hidden unit; 0.2 is the code's, the paper gives none.
        init: standard is PyTorch's, xavier the code's.

    Raises:
        ConfigError: the input is no image or too small, or an option has an impossible value.

    Source: Yao and Sun 2020 (FedCL), Section 4; padding as in github.com/thu-media/FedCL, model/cifar_models.py.
    """

    def __init__(
        self, *, in_shape: tuple[int, ...], num_classes: int, dropout: BelowOne = 0.2, init: Init = "standard"
    ) -> None:
        check(FedCLCIFAR, {"dropout": dropout, "init": init}, "--model.")
        stages = (Stage(64, padding=2, pool="3x3/2"), Stage(64, padding=2, pool="3x3/2"))
        super().__init__(*convnet(type(self).__name__, in_shape, stages, (384, 192), dropout=dropout), num_classes)
        if init == "xavier":
            xavier_(self)
