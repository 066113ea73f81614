"""Networks: modules that hold parameters, from layers to losses. `docs/networks.md` shows them at work.

What the modules below list as their public names are the public names here.
"""

# ruff: noqa: F403

from __future__ import annotations

import typing as _typing  # whose names are not ours to offer

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.nn import functional as functional, init as init, initialization as initialization, utils as utils
from micrograd_core.nn.attention import *
from micrograd_core.nn.call import *
from micrograd_core.nn.containers import *
from micrograd_core.nn.functional.common import publish as _publish
from micrograd_core.nn.initialization import parameter as parameter
from micrograd_core.nn.layers import *
from micrograd_core.nn.mlp import *
from micrograd_core.nn.module import *
from micrograd_core.nn.recurrent import *
from micrograd_core.nn.stateless import *
from micrograd_core.nn.summaries import *
from micrograd_core.nn.transformers import *
from micrograd_core.suggestions import door

mse_loss = FUNCTIONS["mse_loss"]
cross_entropy = FUNCTIONS["cross_entropy"]

_publish(globals(), "cross_entropy", "functional", "init", "initialization", "mse_loss", "utils")
door(globals(), functional)

if _typing.TYPE_CHECKING:  # it has more names than are written above

    def __getattr__(name: str) -> _typing.Any: ...
