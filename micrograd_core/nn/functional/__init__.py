"""The functions of ``torch.nn.functional``: its names, arguments, keywords and defaults, over the op table.

``from micrograd_core.nn import functional as F``. The public functions of the modules below are the public names here;
a name that is missing says what to use in its place. All of them are in docs/functional.md.
"""

# ruff: noqa: F403

from __future__ import annotations

import typing as _typing  # whose names are not ours to offer

from micrograd_core.nn.functional.activations import *
from micrograd_core.nn.functional.arrangement import *
from micrograd_core.nn.functional.attention import *
from micrograd_core.nn.functional.classes import *
from micrograd_core.nn.functional.common import publish as _publish
from micrograd_core.nn.functional.convolution import *
from micrograd_core.nn.functional.convolution import MADE as _MADE
from micrograd_core.nn.functional.dropouts import *
from micrograd_core.nn.functional.embeddings import *
from micrograd_core.nn.functional.losses import *
from micrograd_core.nn.functional.normalization import *
from micrograd_core.suggestions import door

globals().update(_MADE)
_publish(globals())
door(globals())

if _typing.TYPE_CHECKING:  # it has more names than are written above

    def __getattr__(name: str) -> _typing.Any: ...
