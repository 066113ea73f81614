"""Every public name of PyTorch, NumPy and JAX works where one types it, or says what to use, which is right."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import data, fft, linalg, nn, optim, random
from micrograd_core.nn import functional
from micrograd_core.suggestions import table, tables

MODULES: Final = sorted(tables().keys() - {"Tensor", "argument", "dtype"})
TENSORS: Final = table("Tensor")
NOTHING: Final = Path(__file__).with_name("names_of_nothing.txt")
"""Public names of which nothing is said, as there is nothing here like them: of each place a line."""
READ: Final = {"jax": (0, 10), "numpy": (2, 4), "torch": (2, 13)}
"""The newest versions whose names were read."""
TENSOR: Final = mg.Tensor([[1.0, 2.0], [3.0, 4.0]])
COUNTERPARTS: Final[dict[str, tuple[Any, ...]]] = {
    "torch.Tensor": (TENSOR,),
    "numpy.ndarray": (TENSOR,),
    "torch": (mg,),
    "torch.special": (mg,),
    "numpy": (mg,),
    "jax.numpy": (mg,),
    "jax.nn": (functional, nn),
    "torch.linalg": (linalg,),
    "numpy.linalg": (linalg,),
    "torch.fft": (fft,),
    "numpy.fft": (fft,),
    "torch.random": (random,),
    "numpy.random": (random,),
    "jax.random": (random,),
    "torch.optim": (optim,),
    "torch.optim.lr_scheduler": (optim,),
    "torch.nn": (nn,),
    "torch.nn.utils": (nn,),
    "torch.nn.functional": (functional,),
    "torch.utils.data": (data,),
}
"""Where its names are looked for here: works in one of these, or says something."""


def public(place: Any) -> list[str]:
    return [name for name in dir(place) if not name.startswith("_")]


def plain(ours: Any, names: list[str]) -> set[str]:
    """The names that neither work nor say anything."""
    found = set()
    for name in names:
        try:
            getattr(ours, name)
        except AttributeError as error:
            if not re.search(rf"\b{name}'?: \S.{{7}}", str(error)):
                found.add(name)
    return found


def place(name: str) -> Any:
    library = pytest.importorskip(name.partition(".")[0])
    known, here = READ[library.__name__], tuple(map(int, library.__version__.split(".")[:2]))
    if here > known:
        pytest.skip(f"{library.__name__} {library.__version__} may have names that {known} had not")
    home, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(home), last)


def nothing(name: str) -> set[str]:
    """Of the public names of a place, those that neither work nor say anything."""
    ours = COUNTERPARTS[name]
    return set.intersection(*(plain(each, public(place(name))) for each in ours))


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_every_public_name_works_or_says_what_to_use_or_there_is_nothing_like_it(name: str) -> None:
    lines = dict(line.split(": ", 1) for line in NOTHING.read_text(encoding="utf-8").splitlines())
    found = nothing(name)
    assert found <= set(lines.get(name, "").split())  # older versions have fewer names


def said_by(module: str) -> dict[str, str]:
    return table(module)


@pytest.mark.parametrize("module", MODULES)
def test_a_name_of_a_table_says_what_it_says(module: str) -> None:
    ours = importlib.import_module(module)
    for name, said in said_by(module).items():
        if name in TENSORS and name in ours.__all__:
            continue  # which only tensors have not
        assert name not in ours.__all__, name
        assert name not in dir(ours)
        if isinstance(getattr(ours, name, None), ModuleType):  # a room of the library
            with pytest.raises(TypeError) as refusal:
                getattr(ours, name)("cpu")
            assert str(refusal.value) == f"{module}.{name} is a module, not a function: {said}"
            continue
        with pytest.raises(AttributeError) as info:
            getattr(ours, name)
        assert str(info.value) == f"module {module!r} has no attribute {name!r}: {said}"


def test_a_tensor_says_what_its_table_says_and_seems_not_to_have_the_name() -> None:
    x = mg.Tensor([1.0])
    for name, said in TENSORS.items():
        with pytest.raises(AttributeError) as info:
            getattr(x, name)
        assert str(info.value) == f"Tensor has no {name}: {said}"
        assert not hasattr(x, name)
        assert name not in dir(x)


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────

SENTENCES: Final = [
    (module, name, said)
    for module, names in {**{module: said_by(module) for module in MODULES}, "Tensor": TENSORS}.items()
    for name, said in names.items()
]
PLACES: Final[dict[str, Any]] = {
    "mg": mg, "nn": nn, "optim": optim, "random": random, "linalg": linalg, "fft": fft, "data": data,
    "x": mg.Tensor([[1.0, 2.0], [3.0, 4.0]]), "numpy": np, "micrograd_core": mg, "math": math,
}  # fmt: skip


def test_what_is_to_be_used_is_there() -> None:
    for module, name, said in SENTENCES:
        for path in re.findall(
            r"(?<![\w.'])((?:mg|nn|optim|random|linalg|fft|data|x|numpy|micrograd_core)(?:\.\w+)+)", said
        ):
            first, *rest = path.split(".")
            if path.startswith("mg.") and (module, name) == ("micrograd_core", "mps"):
                continue
            functools.reduce(getattr, rest, PLACES[first])  # or an AttributeError names it


def code_of(said: str) -> str | None:
    """The expression of a sentence such as "use mg.f(x), or g", if it is one."""
    found = re.match(r"(?:write|use) (.+?)(?:, or .*|, which .*|, of .*|; .*|, with .*)?$", said)
    try:
        compile(found[1], "said", "eval") if found else None
    except SyntaxError:
        return None
    return found[1] if found else None


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, (tuple, list)) and not isinstance(ours, (bool, int)):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    a, b = np.asarray(ours), np.asarray(theirs)
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True)


NAMED: Final = """
absolute adjoint arccos arcsin arcsinh arctan arctanh around array_equal atleast_1d atleast_2d broadcast_tensors
cbrt cholesky clone conj_physical conjugate correlate deg2rad degrees det diag_embed diagflat dist div dot ediff1d
entr eq erfcx expit fabs fix flatnonzero fliplr flipud float_power fmax fmin frac gammaln ge ger gt hardshrink
heaviside i0e i1e intersect1d inverse isneginf isposinf ldexp le log_ndtr lt mm mod modified_bessel_i0
modified_bessel_i1 mul nanargmax nanargmin nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndtr ndtri
ne neg nuclear_norm pinverse power psi ptp rad2deg radians ravel rint rsub setdiff1d setxor1d sgn slogdet spacing
sub tril_indices_from triu_indices_from union1d unique_consecutive vdot vecmat xlog1py xlogy
""".split()
"""Names whose sentence is an expression of `x` and `y`, of numbers that torch or NumPy gives for them."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMED)
def test_what_is_to_be_written_gives_the_numbers_of_the_name(name: str) -> None:
    torch = pytest.importorskip("torch")
    code = code_of(table("micrograd_core")[name])
    assert code is not None
    rng = np.random.default_rng(0)
    compared = []
    for shape in ((3, 3), (3,)):
        x, y = rng.uniform(0.2, 0.9, shape), rng.uniform(1.1, 3, shape)
        x = x @ x.T + np.eye(3) if name == "cholesky" and len(shape) == 2 else x
        try:
            ours = eval(code, {**PLACES, "x": mg.asarray(x), "y": mg.asarray(y)})
        except (mg.errors.MicrogradError, ValueError, TypeError):
            continue  # of vectors or matrices only
        for home in (np, torch, torch.special, torch.Tensor, np.linalg):
            for args in ((x,), (x, y)):
                given = args if home in (np, np.linalg) else tuple(map(torch.tensor, args))
                try:
                    theirs = getattr(home, name)(*given)
                except (AttributeError, TypeError, RuntimeError, ValueError):
                    continue
                compared.append(same(ours, theirs))
    assert any(compared), code  # not all, as some mean something else by a second argument


# ── imports ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from micrograd_core import cat", "'cat': use mg.concat"),
        ("from micrograd_core import det", "'det': use mg.linalg.det"),
        ("from micrograd_core.nn import clip_grad_norm_", "'clip_grad_norm_': use nn.utils.clip_grad_norm_"),
        ("from micrograd_core.nn import relu", "'relu': use mg.nn.functional.relu"),
        ("from micrograd_core.optim import StepLR", "'StepLR': use optim.lr_scheduler.StepLR"),
        ("from micrograd_core.data import DataLoader", "'DataLoader': use data.batches"),
        ("import micrograd_core.nn.initializers", "'initializers': use nn.parameter"),
    ],
)
def test_an_import_says_it_too(line: str, said: str) -> None:
    with pytest.raises(ImportError, match=re.escape(said)):
        exec(line, {})


@pytest.mark.parametrize("line", ["from micrograd_core import nosuch", "from micrograd_core.nn import Linaer"])
def test_an_import_of_what_nobody_has_is_refused_as_ever(line: str) -> None:
    with pytest.raises(ImportError, match="cannot import name"):
        exec(line, {})
    assert importlib.util.find_spec("micrograd_core.nosuch") is None


def test_a_name_that_another_room_has_is_found_there() -> None:
    for ours, name, said in (
        (mg, "svdvals", "mg.linalg.svdvals"), (mg, "Linear", "mg.nn.Linear"), (mg, "Adam", "mg.optim.Adam"),
        (mg, "hardtanh_", "mg.nn.functional.hardtanh_"), (mg, "acos_", "x.acos_"), (mg, "narrow", "x.narrow"),
        (nn, "softplus", "mg.nn.functional.softplus"), (functional, "logsumexp", "mg.logsumexp"),
        (linalg, "kron", "mg.kron"),
    ):  # fmt: skip
        with pytest.raises(AttributeError) as info:
            getattr(ours, name)
        assert info.type is AttributeError
        assert str(info.value) == f"module {ours.__name__!r} has no attribute {name!r}: use {said}"
