"""What is in a file of weights; and the same network in another format."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core import nn
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.checkpoints import CheckpointError
from micrograd_core.device import Device
from micrograd_core.support.escaping import aligned
from micrograd_core.tools import arguments as common
from micrograd_train import options as own
from micrograd_train.learning.inputs import Inputs
from micrograd_train.using.trained import described, found, load_predictor


def sample(inputs: Inputs, rows: int, device: Device, seed: int = 0) -> Tensor:
    """Random examples of the shape that a network takes."""
    import numpy as np

    random = np.random.RandomState(seed)
    if inputs.tokens:
        return asarray(random.randint(0, inputs.tokens, (rows, *inputs.shape)).astype("int64"), device=device)
    return asarray(random.standard_normal((rows, *inputs.shape)).astype("float32"), device=device)


def inspect(path: str, own: str | None = None) -> dict[str, Any]:
    """All that a file says: of a network that ``micrograd train`` wrote, its layers too."""
    checkpoint = found(path)
    tensors: dict[str, Any] = {
        name: {"dtype": str(dtype), "shape": list(shape)} for name, (dtype, shape) in checkpoint.tensors.items()
    }
    result: dict[str, Any] = {
        "file": str(checkpoint.path),
        "version": checkpoint.version,
        "device": checkpoint.device,
        "parts": list(checkpoint.parts),
        "parameters": sum(math.prod(each["shape"]) for name, each in tensors.items() if "/" not in name),
        "tensors": tensors,
    }
    known, meta = described(checkpoint), checkpoint.meta
    if known is None:
        return {**result, "meta": meta if meta is None or isinstance(meta, (dict, list, str)) else str(meta)}
    meta, inputs = known
    result |= {"meta": {name: x for name, x in meta.items() if name != "inputs"}, "inputs": meta["inputs"]}
    try:
        trained = load_predictor(path, device="cpu", model=own)
        rows = nn.summary(trained.model, sample(inputs, 1, trained.device)).rows
        result["layers"] = [row._asdict() for row in rows]
    except CheckpointError as error:  # a network of the user's own
        result["layers"] = []
        result["note"] = str(error)
    return result


def told(result: dict[str, Any]) -> str:
    """What a file says, as text for a terminal."""
    head = f"{result['file']}: {result['parameters']:,} parameters"
    head += f", written by micrograd-core {result['version']} on {result['device']}" if result["version"] else ""
    parts = [head]
    meta = result.get("meta")
    if "inputs" in result and isinstance(meta, dict):
        inputs = Inputs.from_json(result["inputs"])
        figures = ", ".join(
            f"{name} {value:,.4g}" if isinstance(value, float) else f"{name} {value:,}"
            for name, value in meta["figures"].items()
        )
        parts.append(
            f"{meta['model']} for {inputs.task} of {inputs.target!r}, trained on {meta['data']}\n"
            f"on the {meta['judged_on']} rows: {figures}"
        )
        if result["layers"]:
            rows = [
                (each["name"], each["kind"], each["output"], f"{each['parameters']:,}") for each in result["layers"]
            ]
            parts.append(aligned([("layer", "kind", "output", "parameters"), *rows]))
        if inputs.classes:
            parts.append(f"classes: {', '.join(map(str, inputs.classes[:40]))}")
        if inputs.preparation is not None:
            prepared = [("column", "becomes")]
            prepared += [(each.name, _becomes(each)) for each in inputs.preparation.columns]
            parts.append(aligned(prepared))
            parts += [f"left out: {name}: {own.as_options(why)}" for name, why in inputs.preparation.left_out.items()]
        if "note" in result:
            parts.append(result["note"])
    else:
        listed = [
            (name, each["dtype"], " × ".join(map(str, each["shape"]))) for name, each in result["tensors"].items()
        ]
        parts.append(aligned([("tensor", "dtype", "shape"), *listed]))
    if "inputs" not in result and meta is not None:
        parts.append(f"meta: {common.json_text(meta)}")
    return "\n\n".join(parts)


def _becomes(column: Any) -> str:
    if not hasattr(column, "values"):
        return f"a number: (x − {column.center:.6g}) / {column.scale:.6g}"
    shown = ", ".join(map(str, column.values[:6]))
    return f"{len(column.values)} categories: {shown}{' …' * (len(column.values) > 6)}"
