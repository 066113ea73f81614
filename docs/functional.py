"""The page functional.md, which ``python docs/generate.py`` writes from the functions and the tables of names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from micrograd_core.nn import functional
from micrograd_core.nn.functional import (  # fmt: skip
    activations,
    arrangement,
    attention,
    classes,
    convolution,
    dropouts,
    embeddings,
    losses,
    normalization,
)
from micrograd_core.suggestions import table

PAGE = Path(__file__).with_suffix(".md")
FAMILIES = (
    activations, convolution, arrangement, normalization, dropouts, embeddings, attention, losses, classes,
)  # fmt: skip

HEAD = """# What one types

Who comes from PyTorch or NumPy types the names that stand there. This page says which of them work, and what to use in
the place of others. `python docs/generate.py` writes its tables out; the tests hold every function against PyTorch, in
value and in both gradients.

## torch.nn.functional

`micrograd_core.nn.functional` has the names of `torch.nn.functional`, with its arguments, in its order, with its
defaults. All of them compute on every device, and are differentiable to any order.

```python
>>> import micrograd_core as mg
>>> from micrograd_core.nn import functional as F
>>> image = mg.ones((3, 5, 6))  # without a batch
>>> F.conv2d(image, mg.ones((4, 3, 2, 3)), padding="same").shape
(4, 5, 6)
>>> F.interpolate(image[None], scale_factor=1.5, mode="bicubic").shape
(1, 3, 7, 9)
>>> values, places = F.max_pool2d(image, 2, ceil_mode=True, return_indices=True)
>>> values.shape
(3, 3, 3)
>>> F.np
Traceback (most recent call last):
AttributeError: module 'micrograd_core.nn.functional' has no attribute 'np': use numpy itself

```

Each is an operation of the [op table](operations.md) with PyTorch's arguments, or a few of them in a row. More than an
operation, and so functions only: what draws (the dropouts, `rrelu`, `gumbel_softmax`; fractional poolings, once they
have drawn, are one), what takes a function (`triplet_margin_with_distance_loss`), what reads numbers to know how to
compute (`ctc_loss` its lengths, `one_hot` the greatest class), what changes its arguments (`inplace`, running
statistics, `max_norm`), and `multi_head_attention_forward`, which gives two results of some twenty operations.

Where the two differ:

- Elements tied for a maximum share its gradient evenly; PyTorch gives it to one of them. With `return_indices` the
  first has it here, too.
- `ctc_loss` has the gradient of its own definition, by log-probabilities. PyTorch's is right of the logits before
  `log_softmax` only, of which both are the same.
- `embedding_bag` with `scale_grad_by_freq` divides a row's gradient by how often the row is named; PyTorch 2.13's
  on the cpu does not.
- What draws random numbers draws those of `micrograd_core.random`, the same on every device.
- `sparse=True` of the embeddings is refused: gradients are dense. `_stacklevel`, `options` and `inplace` of what is no
  activation change nothing.
"""

TYPED = """## Functions and methods

Functions of `micrograd_core` are called as the array API standard calls them; they take PyTorch's words for common
arguments too, an axis by its place, and lists wherever a tensor may stand.

```python
>>> x = mg.asarray([[1.0, 4.0, 2.0], [3.0, 0.0, 5.0]])
>>> mg.sum(x, 0), mg.sum(x, dim=0), mg.sum(x, axis=0)
(Tensor([4., 4., 7.]), Tensor([4., 4., 7.]), Tensor([4., 4., 7.]))
>>> x.mean(dim=1, keepdim=True).shape
(2, 1)
>>> mg.maximum(x, [2.0, 2.0, 2.0])
Tensor([[2., 4., 2.],
        [3., 2., 5.]])
>>> mg.cummax(x, 1).indices
Tensor([[0, 1, 1],
        [0, 0, 2]])
>>> x.unsqueeze(0).permute(2, 0, 1).shape
(3, 1, 2)
>>> mg.cat
Traceback (most recent call last):
AttributeError: module 'micrograd_core' has no attribute 'cat': use mg.concat([x, y], axis=axis)
>>> x.partition(1)
Traceback (most recent call last):
AttributeError: Tensor has no partition: use mg.sort(x), or mg.topk(x, k).values

```

NumPy's own functions take NumPy's arrays. Given a tensor, they say what to write.

```python
>>> import numpy as np
>>> np.exp(x)
Traceback (most recent call last):
TypeError: np.exp takes NumPy's arrays; write mg.exp(x), with mg for micrograd_core, or np.exp(x.detach().numpy())

```

Methods that end in ``_`` write into their tensor, by the rules of ``x += y``: a leaf that records refuses, unless under
`no_grad` or as `x.data.normal_()`. What would change the shape, such as `x.squeeze_()`, says what to write.

Where tensors differ from PyTorch's or NumPy's:

| what one types | what it is here |
|---|---|
| `x.size()`, `x.size(0)` | work, too; without brackets `x.size` is the number of elements, as the array API has it |
| `x.var()`, `x.std()` | divide by n and warn, unless `correction=` is given; with `dim=`, `unbiased=` by n - 1 |
| `x.max(0)`, `x.min(0)`, `x.median(0)` | values alone, and warn; with `dim=0` PyTorch's pair, with `axis=0` NumPy's |
| `x.nonzero()` | an array for each axis, and warns unless `as_tuple=` is given |
| `x.numpy()` | a copy; of a tensor that records `x.detach().numpy()` |
| `dtype="float"`, `"double"`, `"long"` | refused with the name to write; `x.double()` and its like are PyTorch's |
| `mg.random.normal(0, 1, size)` | the shape comes first: `mg.random.normal(shape, 0, 1)` |
| `mg.array(data)`, `mg.device("cpu")` | `mg.asarray(data)`, `mg.Device("cpu")` |

Beside the [operations](operations.md) there are functions that give pieces, read elements (`histogram` the extremes,
`masked_select` the mask, `allclose` the answer), or call an operation with PyTorch's arguments:
"""

OTHERWISE = """### What is called otherwise

A name that is not there says what to use, also in ``from micrograd_core.nn import …``. Beside the names of these tables
it is found in whatever room has it: `mg.det` says `mg.linalg.det`.
"""
ROOMS = ("LINALG", "FFT", "RANDOM", "NN", "OPTIM", "DATA")

BESIDE = ("selection", "composed")


def first_line(text: str | None) -> str:
    """Of a docstring, in Markdown."""
    return (text or "").strip().partition("\n")[0].replace("``", "`").replace("|", "\\|")


def row(name: str, function: Any) -> str:
    """One line of a table: how it is called, and what it computes."""
    parameters = ", ".join(
        each.name if each.default is each.empty else f"{each.name}={each.default!r}"
        for each in inspect.signature(function).parameters.values()
    )
    text = "" if function.__doc__ is None else first_line(function.__doc__)
    return f"| `{name}({parameters})` | {text} |"


def of(family: ModuleType) -> list[str]:
    """The public names of a family."""
    own = vars(family).get("MADE", {})
    return [
        name
        for name in functional.__all__
        if name in own or getattr(vars(family).get(name), "__module__", "") == family.__name__
    ]


def title(module: ModuleType) -> str:
    """What a module is for, in a few words."""
    return first_line(module.__doc__).rstrip(".").partition(". ")[0].partition(":")[0]


def elsewhere_table(names: Mapping[str, str]) -> list[str]:
    """Names and what to use."""
    rows = [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in sorted(names.items())]
    return ["| name | |", "|---|---|", *rows]


def page() -> str:
    """The whole page."""
    from importlib import import_module

    import micrograd_core

    parts = [HEAD]
    for family in FAMILIES:
        rows = [row(name, getattr(functional, name)) for name in of(family)]
        parts += ["", f"### {title(family)}", "", "| function | |", "|---|---|", *rows]
    parts += ["", "### Names that are not there", "", *elsewhere_table(table(functional.__name__)), "", TYPED]
    parts += ["| function | |", "|---|---|"]
    for module in BESIDE:
        names = micrograd_core.LATER[f"array.{module}"].split()
        home = import_module(f"micrograd_core.array.{module}")
        parts += [row(name, getattr(home, name)) for name in names]
    parts += ["", OTHERWISE, "Of tensors:", "", *elsewhere_table(table("Tensor"))]
    own = dict(table("micrograd_core").items() - table("Tensor").items())
    parts += ["", "Of the package, beside those:", "", *elsewhere_table(own)]
    for name in ROOMS:
        parts += ["", f"Of `{name.lower()}`:", "", *elsewhere_table(table(f"micrograd_core.{name.lower()}"))]
    return "\n".join(parts) + "\n"
