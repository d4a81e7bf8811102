"""Multi-label classification: the binary cross-entropy of each label."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from fl_ddp.losses.choices import MEASURES
from fl_ddp.losses.criterion import ByOutput, Tested
from fl_ddp.protocol import Targets


@dataclass(frozen=True)
class BCE(ByOutput):
    """The mean over labels of their binary cross-entropies, as torch.nn.BCEWithLogitsLoss has it.

    A label is given to a sample where its logit is above 0.
    """

    name: ClassVar[str] = "bce"
    targets: ClassVar[Targets] = "binary"
    measures: ClassVar[tuple[str, ...]] = MEASURES["bce"]

    def of_samples(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        return F.binary_cross_entropy_with_logits(outputs, y.to(outputs.dtype), reduction="none").mean(-1)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        return (outputs.sigmoid() - y) / outputs.shape[-1]

    def tested(self, outputs: Tensor, y: Tensor) -> Tested:
        """Accuracy is the share of right decisions, exact_match that of samples whose labels are all right.

        F1 and the area under the ROC curve are means over the labels; the latter over those that some samples have and
        others have not, F1 with 0, as scikit-learn has it, for one that no sample has.
        """
        from sklearn.metrics import f1_score, roc_auc_score  # takes a second to import: only these runs pay for it

        given, right = outputs > 0, (outputs > 0) == (y > 0)
        known = [label for label in range(y.shape[1]) if y[:, label].amax() > y[:, label].amin()]
        finite = bool(outputs.isfinite().all())
        has, z = (y > 0).numpy(), outputs.numpy()
        areas = [float(roc_auc_score(has[:, label], z[:, label])) for label in known if finite]
        measures = {
            "exact_match": float(right.all(1).double().mean()),
            "f1": fmean(float(f1_score(a, b, zero_division=0)) for a, b in zip(has.T, given.numpy().T, strict=True)),
            "auc": fmean(areas) if areas else nan,
        }
        of_labels = tuple(right.double().mean(0).tolist())
        return Tested(float(self.of_samples(outputs, y).mean()), measures, self.own_score(outputs, y), of_labels)

    def own_score(self, outputs: Tensor, y: Tensor) -> float:
        """Share of right decisions, over samples and labels."""
        return float(((outputs > 0) == (y > 0)).double().mean())
