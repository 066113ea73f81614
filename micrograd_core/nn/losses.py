"""Losses as modules: one operation each, with its parameters, as in ``CrossEntropyLoss(label_smoothing=0.1)``."""

from __future__ import annotations

from micrograd_core.nn.module import Call


class MSELoss(Call):
    """`mse_loss`."""

    operation = "mse_loss"


class L1Loss(Call):
    """`l1_loss`."""

    operation = "l1_loss"


class HuberLoss(Call):
    """`huber_loss`."""

    operation = "huber_loss"


class CrossEntropyLoss(Call):
    """`cross_entropy`."""

    operation = "cross_entropy"


class NLLLoss(Call):
    """`nll_loss`."""

    operation = "nll_loss"


class BCEWithLogitsLoss(Call):
    """`binary_cross_entropy_with_logits`."""

    operation = "binary_cross_entropy_with_logits"


class KLDivLoss(Call):
    """`kl_div`."""

    operation = "kl_div"
