"""What an operation *is*: one record that drives binding, composition, gradient, namespace, program and tests.

A record never computes by itself. Its functions are written against a kernel table ``k``:

- ``compose(k, *operands, **params)`` builds the operation from others, for devices without a kernel of that name;
- a gradient rule ``(k, g, out, *operands, **params)`` turns the cotangent `g` of the result `out` into that of one
  operand. It need not undo broadcasting: the sweep sums back to the operand's shape.

With ``k`` a device's raw `Kernels` they work on handles, which is the fast first-order path; with ``k`` the recorded
functions they work on tensors, and differentiating them again is ``create_graph=True``. Either way an operand has
``.shape`` and ``.dtype``, and a Python scalar stays a Python scalar.

A `Table` is the op table bound to something that can compute; a `Handle` is an array as far as the core knows it, with
``.shape`` and ``.dtype``; an `Operand` is that or a Python number. Type checkers have them from docs/stubs.py.

**What an interpreter must provide.** Its own kind of operand, with ``.shape`` and ``.dtype`` where it is an array;
a Python number is an operand, too, and stays one. Under the name of each operation that it covers, a function
``k.add(x, y)``, ``k.sum(x, axis=(0,), keepdims=False)``: operands by position, and by name the parameters as
`Op.parameters` makes them. It never changes an operand. And `dtype`. Compositions that no gradient goes through may
ask for ``constant``, ``upload``, ``to_host`` and ``device``, which only tables of a device and of batches have.

**What it gets for it.** Every operation that the op table composes of those; every gradient, as
``rule(k, g, out, *operands, **params)``; every tangent. So a table that records gives gradients of gradients, one
of batches `vmap`, one of floats `Value`, and one that writes down what it is asked for a compiled function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from micrograd_core.dtypes import DType
from micrograd_core.layout import Shape, resolve_axis

if TYPE_CHECKING:
    from micrograd_core.ops.operations import Handle as Handle, Operand as Operand, Table as Table, TypeIs as TypeIs
else:
    Handle = Operand = Table = TypeIs = Any

Rule = Callable[..., Any]

# Which kinds of dtype an operand may have.
ANY = frozenset({"bool", "signed integer", "unsigned integer", "real floating", "complex floating"})
NUMERIC = ANY - {"bool"}
REAL = NUMERIC - {"complex floating"}
FLOATING = frozenset({"real floating"})
COMPLEX = frozenset({"complex floating"})
INEXACT = FLOATING | COMPLEX
BITS = ANY - INEXACT
BOOLEAN = frozenset({"bool"})
INTEGER = BITS - BOOLEAN

SAME = "same"  # the result has the operands' common dtype
HALF, FULL = "half", "float32"  # what `autocast` casts operands to
CALL, APART, NEST = "call", "apart", "nest"  # what compilers make of a composition
DEAR, LONG = 4, 10  # the costs of what takes longer than a load, and of some fifty instructions

# Every device provides these kernels; everything else has a composition, or needs a capability.
CORE_KERNELS = frozenset(
    "reshape permute_dims broadcast_to getitem scatter add multiply divide pow maximum less equal bitwise_and "
    "bitwise_or bitwise_xor exp log sin sqrt floor astype where sum max".split()
)


class Array(NamedTuple):
    """A sample operand: its shape, and the interval its elements are drawn from."""

    shape: Shape
    low: float = -2.0
    high: float = 2.0
    dtype: str = ""  # default: that of the test
    # "dominant": matrices with `high` times 4, 8, 12 … added to their diagonals; "symmetric": such matrices, symmetric;
    # "turning": also with `high` times 8 added above the diagonal and -8 below, for complex eigenvalues.
    kind: str = ""  # or "ascending": in order


class Sample:
    """One call of an operation: operands (`Array`, just its shape, or a Python scalar) and keyword parameters."""

    def __init__(self, *operands: Array | Shape | float, **params: Any) -> None:
        self.operands: tuple[Array | float, ...] = tuple(
            Array(each) if isinstance(each, tuple) and not isinstance(each, Array) else each for each in operands
        )
        self.params = params

    def __repr__(self) -> str:
        parts = [str(o.shape) + o.dtype if isinstance(o, Array) else repr(o) for o in self.operands]
        return ", ".join(parts + [f"{name}={value}" for name, value in self.params.items()])


def _sentences(function: Any) -> str:
    """What the docstring of a function says, up to a section."""
    return " ".join((function.__doc__ or "").partition("Parameters\n")[0].split())


def _unwrapped(compose: Any) -> Any:
    """The function itself of a composition."""
    while hasattr(compose, "__wrapped__"):
        compose = compose.__wrapped__
    return compose


def settings(
    name: str, compose: Any, optional: int = 0, refuses: Callable[..., None] | None = None, **more: Any
) -> Callable[..., dict[str, Any]] | None:
    """The parameters of an operation whose composition has them by name: its defaults are the public ones.

    An integer ``axis`` may be given by position, too, and is counted from the first. `more` are those that the
    composition itself doesn't take, and their defaults. `refuses` is that of `Op`; the last operands, `optional` of
    them, may be left out.
    """
    compose = _unwrapped(compose)
    code, defaults = compose.__code__, {**(compose.__kwdefaults__ or {}), **more}
    operands, names = code.co_varnames[1 : code.co_argcount], code.co_varnames[code.co_argcount :]
    names = (*names[: code.co_kwonlyargcount], *more)
    if not operands or not (names or refuses):
        return None
    kinds = {**compose.__annotations__, **{each: type(value).__name__ for each, value in defaults.items()}}
    required, along = len(operands) - optional, [each for each in names if each == "axis" and kinds[each] == "int"]
    told = {each: f"{each}={defaults[each]!r}" if each in defaults else each for each in names}
    takes = [*operands[:required], "/", *(f"{each}=None" for each in operands[required:]), *map(told.pop, along)]
    takes += [*["*"] * bool(told), *told.values()]
    made_of = {each: f"{kinds[each]}({each})" for each in names if kinds.get(each) in ("bool", "float", "int")}
    made_of |= dict.fromkeys(along, f"resolve_axis({name!r}, axis, len({operands[0]}.shape))")
    given = [repr(name), *operands, *(f"{each}={each}" for each in names)]
    refused = "" if refuses is None else f"refuses({', '.join(given)}) or "
    gives = ", ".join(f"{each!r}: {made_of.get(each, each)}" for each in names)
    made: Callable[..., dict[str, Any]] = eval(
        f"lambda {', '.join(takes)}: {refused}{{{gives}}}", {"refuses": refuses, "resolve_axis": resolve_axis}
    )
    made.__annotations__ = {**dict.fromkeys((*operands, *names), "Any"), **{each: kinds[each] for each in defaults}}
    return made


def _all_numbers(xp: Any, *parts: Any) -> Any:
    """Those of all parts, one after the other, in the dtype of the first."""
    return xp.concat([xp.reshape(xp.astype(part, parts[0].dtype), (-1,)) for part in parts])


class Op:
    """One operation.

    Parameters
    ----------
    name : str
        The array API standard's name where it has one.
    doc : str
        Sentences for the generated docstring, with the source where it is not the standard. Left out: those of
        `parameters`, up to a section, or of the composition.
    operands : int, optional
        Number of positional operands; -1 for any number. Left out: as many as the composition takes, else 1.
    accepts : frozenset of str, or a tuple of them
        Dtype kinds of the operands that promote together, or of each operand.
    separate : tuple of int
        Operands that take no part in promotion (conditions, indices).
    fused : bool
        The gradient is that of a device's own kernel, which takes all at once; where there is none for a call, or a
        separate operand has a gradient, too, the composition is differentiated.
    optional : tuple of float
        The scalars that stand for the last operands where a call leaves them out, or gives ``None``. Their names are
        those in the signature of `parameters`.
    result : "same", a function ``(common dtype, parameters) -> DType`` of the result, or a tuple of them, for `parts`
    kind : "elementwise", "reduction", "source" or ""
        Elementwise: each element of the result is the same function of those at its place in the operands, which
        broadcast. A reduction combines elements over ``axis``, and leaves its length out or, with ``keepdims``, at 1.
        Of a source each element follows from its place alone, without memory.
    combine : str
        Of a reduction, the elementwise operation that combines two elements, if it can go on with the results of parts.
    lowering : "call", "apart", "nest" or ""
        What a compiler does where no line of a nest computes the operation. Default: it is composed, if primitives do
        all of that. Call: never, as kernels are faster, or have more digits. Apart: it is, kernel calls included.
        Nest: as by default, and devices that compile run it as one kernel where nothing is traced, too.
    collective : bool
        Several processes compute it together, those of its parameter ``group``; if ``group.is_on_stream``, in the order
        of a device's work alone. ``group.common(bits)``, those bits of a number below 2**512 that all give, is how they
        decide alike.
    cost : int
        About how many additions one element takes: 1, `DEAR` or `LONG`.
    shape : function or None
        ``(*operands, **params) -> Shape`` of the result, or of each of the `parts`; ``None`` where it depends on the
        elements. Left out: by `kind`, or the composition; without operands, the parameter ``shape``.
    cast : function or None
        The dtype operands are cast to before the kernel sees them (accumulators of integer sums).
    parameters : function or None
        ``(*operands, **as called) -> dict`` of validated, canonical kernel parameters. Its signature is the public one.
        Left out: those that the composition takes by name, with its defaults.
    refuses : function or None
        ``(name, *operands, **params)``: raises for what the operation isn't defined for. `parameters`, where they are
        left out, call it first.
    check : function or None
        ``(name, *shapes, **params)``: raises the sentence that explains why shapes do not fit. Called when a kernel has
        already refused, so that it costs nothing otherwise.
    gradient : tuple of rules, a function that gives them, or str
        ``None`` in the tuple: not differentiable in that operand. The function gets a boolean for each operand, whether
        it leads to something to differentiate by, and is called anew for each gradient: its rules may share what they
        compute. A string: the reason why there is no gradient at all. Left out: differentiate the composition.
    tangent : function or None
        How forward mode goes through the operation: see `micrograd_core.ops.tangents`, which has the usual ones. Left
        out: the gradient is transposed once more.
    compose : function or None
    batching : function or None
        What `vmap` does: see `micrograd_core.ops.batching`, which has the usual ones. Left out: by `kind`, a parameter
        ``axis``, or the composition.
    autocast : "half", "float32" or ""
        What float16, bfloat16 and float32 operands are cast to within `autocast`: its half type, or float32. Default:
        they stay as they come, and promotion makes the widest of them that of all.
    scalar : str
        The operation on Python floats, such as ``{} + {}``; a call, ``exp({})``, is of the function of that name in
        `math`. Default: scalars do not have it.
    extension : str
        The extension of the array API standard (``linalg``, ``fft``) whose namespace it lives in; default the main one.
    standard : bool
        The standard has a function of that name there, which does all that a kernel must with what a kernel receives.
    capability : str
        A word that a backend must claim (`micrograd_core.backend.CAPABILITIES`) to be asked for it. Only an operation
        that needs one may have neither a composition nor a place among the core kernels.
    parts : type or None
        The named tuple of its results, where there are several: rules then take and cotangents come as `Parts`.
    observe : function or None
        ``(xp, *parts)``: one array from the parts, without what they leave open (signs of eigenvectors), for tests;
        `xp` is the namespace of tensors, or NumPy. Left out: all numbers of all parts.
    undefined : str
        What is wrong, and what to do, when the kernel finds no answer for the numbers (a singular matrix).
    view : bool
        The result may share the first operand's memory.
    gradient_aliases : bool or tuple of int
        A rule, or those at these positions, may return its cotangent, or a view of it, rather than fresh memory.
    samples : sequence of Sample
    reference : function
        ``(np, *arrays, **params)``: the definition in NumPy, of what NumPy calls differently. Left out: ``np.<name>``,
        or that of the extension. What NumPy lacks `np` composes of its functions, as the composition says.
    """

    name: str
    doc: str
    operands: Any = None
    accepts: frozenset[str] | tuple[frozenset[str], ...] = NUMERIC
    separate: tuple[int, ...] = ()
    fused: bool = False
    optional: tuple[float, ...] = ()
    result: str | Callable[..., DType] | tuple[str | Callable[..., DType], ...] = SAME
    kind: str = ""
    combine: str = ""
    lowering: str = ""
    collective: bool = False
    cost: int = 1
    shape: Callable[..., Any] | None = None
    cast: Callable[[DType], DType] | None = None
    parameters: Any = None
    refuses: Callable[..., None] | None = None
    check: Callable[..., Any] | None = None
    gradient: Any = None
    tangent: Callable[..., Any] | None = None
    compose: Callable[..., Any] | None = None
    batching: Callable[..., Any] | None = None
    autocast: str = ""
    scalar: str = ""
    extension: str = ""
    standard: bool = False
    capability: str = ""
    parts: Any = None
    observe: Callable[..., Any] | None = None
    undefined: str = ""
    view: bool = False
    gradient_aliases: Any = ()
    samples: tuple[Sample, ...] = ()
    reference: Any = None

    def __init__(self, name: str, doc: str = "", **facts: Any) -> None:
        if unknown := facts.keys() - FACTS.keys():
            raise TypeError(f"{name}: a record has no {', '.join(sorted(unknown))}")
        vars(self).update(FACTS, **facts)
        own = _unwrapped(self.compose)
        self.name, self.doc = name, doc or _sentences(self.parameters) or _sentences(own)
        if self.operands is None:
            self.operands = 1 if own is None else own.__code__.co_argcount - 1
        if self.parameters is None and own is not None and self.operands:
            self.parameters = settings(name, own, len(self.optional), self.refuses)
        if self.parameters is not None and "<l" in self.parameters.__qualname__:
            self.parameters.__qualname__ = name  # Python's own complaints about arguments name the operation
        self.differentiable = not isinstance(self.gradient, str)
        if self.observe is None and self.parts is not None:
            self.observe = _all_numbers
        if self.gradient_aliases is True:
            self.gradient_aliases = range(sys.maxsize)
        path = f"{self.extension}.{name}" if self.extension else name
        self.reference = self.reference or (lambda np, *arrays, **params: attrgetter(path)(np)(*arrays, **params))

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def accepted(self, position: int) -> frozenset[str]:
        """Dtype kinds of one operand."""
        return self.accepts[position] if isinstance(self.accepts, tuple) else self.accepts


FACTS: dict[str, Any] = {name: vars(Op)[name] for name in Op.__annotations__ if name in vars(Op)}
"""What a record may say, and what is so where it does not."""
