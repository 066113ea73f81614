"""Make the stubs: what type checkers and editors know of what is made from the op table when the core is imported.

::

    python docs/stubs.py           # writes them beside their modules; a second
    python docs/stubs.py --check   # only says which are not what this makes

A module whose source says everything has none. One that gets functions, methods or classes from the op table (or by
``setattr``) has a ``.pyi`` beside it, made from its source and the running module: what the source defines is taken
from there, without bodies; what only runs is taken from the op table, and from the signatures that `inspect` finds.
A stub without a module, ``ops/operations.pyi``, has each operation as rules and compositions call it, on their `Table`.
Nothing here names an operation: what is added to the table, or to the ``__all__`` of a public module, is found.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import math
import re
import sys
from collections.abc import Iterable, Iterator
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

from signatures import canonical, kernel_signature

import micrograd_core
from micrograd_core.array import manners
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.backend import Backend
from micrograd_core.dtypes import DType
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.nn.call import Call
from micrograd_core.ops import TABLE, Array, Op, shared
from micrograd_core.ops.arguments import advising

ROOT = Path(micrograd_core.__file__).parent.parent
HEAD = "# Made by docs/stubs.py from the source and the op table.\n"

ARGUMENTS = """
class HasArray(Protocol):
    \"\"\"What NumPy, and whatever it can read, offers.\"\"\"

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...

ArrayLike: TypeAlias = Tensor | complex | list[Any] | tuple[Any, ...] | HasArray | Buffer
Operand: TypeAlias = Tensor | complex | HasArray
MaybeNone: TypeAlias = Any  # ``None`` before the first sweep, which nobody wants to ask for in every line
Key: TypeAlias = SupportsIndex | slice | EllipsisType | None | list[Any] | tuple[Any, ...] | HasArray | Buffer | Tensor
"""
"""What operations take, in the stub of `Tensor`. A string is no array, though it is a sequence."""
HOME = "micrograd_core.array.tensor"
KNOWN = {
    **dict.fromkeys(("Any", "NamedTuple", "Protocol", "SupportsIndex", "TypeAlias"), "typing"),
    **dict.fromkeys(("Callable", "Iterable", "Iterator", "Mapping", "Sequence"), "collections.abc"),
    **dict.fromkeys(("ArrayLike", "Operand", "Tensor"), HOME),
    "Buffer": "typing_extensions",
    "EllipsisType": "types",
}
"""Where names in annotations come from that have no module of their own."""

ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "lt le gt ge eq ne".split()
SIGNS = "neg pos abs invert".split()
METHODS = {
    "Tensor": {
        "grad": "(self) -> Tensor | MaybeNone",
        "__getitem__": "(self, key: Key, /) -> Tensor",
        "__setitem__": "(self, key: Key, value: ArrayLike, /) -> None",
    }
}
"""What is said of members of a class in other words than the source's."""
CLASSES = {"Operators": ("Operand", "Tensor", "Tensor")}
"""Classes with operators: what these take, what arithmetic gives, and what comparisons do."""
TYPED = {"micrograd_core.scalar.value"}
"""Modules whose source says the types of what it takes from the op table."""


def operators(name: str) -> dict[str, str]:
    """The signatures of the operators of a class."""
    takes, gives, compares = CLASSES[name]
    arithmetic = [f"__{kind}{each}__" for each in ARITHMETIC for kind in ("", "r", "i")]
    single = [f"__{each}__" for each in SIGNS]
    return {
        **dict.fromkeys(arithmetic, f"(self, other: {takes}, /) -> {gives}"),
        **dict.fromkeys([f"__{each}__" for each in COMPARISONS], f"(self, other: {takes}, /) -> {compares}"),
        **dict.fromkeys(single, f"(self) -> {gives}"),
    }


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────


def written(parameters: Iterable[Parameter], returns: str) -> str:
    """A signature as text."""
    kept = []
    for each in parameters:
        if each.annotation is not each.empty:
            each = each.replace(annotation=Shown(str(each.annotation)))
        kept.append(each if each.default is each.empty or plain(each.default) else each.replace(default=Shown("...")))
    return f"{inspect.Signature(kept)} -> {returns}"


SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)


class Shown:
    """A text, where `inspect` shows what is in a signature."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain(default: Any) -> bool:
    """Whether a default can be written down."""
    return default is None or isinstance(default, (int, str)) or (isinstance(default, float) and math.isfinite(default))


def typed(op: Op, parameters: Iterable[Parameter]) -> list[Parameter]:
    """The parameters of an operation with types: operands are whatever becomes a tensor."""
    found = []
    for i, each in enumerate(parameters):
        annotation = "Any" if each.annotation is each.empty else str(each.annotation)
        if op.operands == -1 and i == 0:
            annotation = "Sequence[ArrayLike]"
        elif i < op.operands or each.kind is each.VAR_POSITIONAL:
            annotation = "ArrayLike" if each.default is each.empty else "ArrayLike | None"
        found.append(each.replace(annotation=annotation))
    return found


def bound(parameters: list[Parameter]) -> list[Parameter]:
    """The parameters of a method."""
    alone = parameters and parameters[0].kind is Parameter.POSITIONAL_ONLY
    return [SELF.replace(kind=Parameter.POSITIONAL_ONLY) if alone else SELF, *parameters]


def spelled(parameters: Iterable[Parameter]) -> list[Parameter]:
    """Parameters with the other spellings of their names, one of which is to be given."""
    found = list(parameters)
    names = {each.name: each for each in found}
    others = [(other, names[own]) for other, own in sorted(shared.other_spellings(names).items())]
    kept: list[Parameter] = []
    for each in found:  # what is given by another name is left out, and what comes after it is given by name
        comes_after = bool(kept) and kept[-1].default is ... and each.kind <= Parameter.POSITIONAL_OR_KEYWORD
        may = comes_after or each in [own for _, own in others]
        kept.append(each.replace(default=...) if may and each.default is each.empty else each)
    last = [kept.pop()] if kept and kept[-1].kind is Parameter.VAR_KEYWORD else []
    more = [own.replace(name=other, kind=Parameter.KEYWORD_ONLY, default=...) for other, own in others]
    return [*kept, *more, *last]


def result(op: Op) -> str:
    """What an operation gives."""
    return "Tensor" if op.parts is None else str(op.parts.__name__)


def function(op: Op) -> str:
    """The function of an operation."""
    return written(spelled(typed(op, inspect.signature(FUNCTIONS[op.name]).parameters.values())), result(op))


def method(op: Op, running: Any) -> str:
    """The method of an operation: its own parameters, and for ``**others`` those that the function has beside them."""
    whole = {each.name: each for each in typed(op, inspect.signature(FUNCTIONS[op.name]).parameters.values())}
    own = list(inspect.signature(running).parameters.values())[1:]
    named = {each.name for each in own}
    parameters = [SELF]
    for each in own:
        if each.kind is each.VAR_KEYWORD:
            parameters += [x for x in list(whole.values())[op.operands :] if x.name not in named]
        else:
            annotation = str(whole.get(each.name, each).annotation)
            may = "" if each.default is not None or annotation == "Any" or "None" in annotation else " | None"
            parameters.append(each.replace(annotation=f"{annotation}{may}"))
    return written(spelled(parameters), result(op))


# ── a module ─────────────────────────────────────────────────────────────────────────────────────────────────


class Stub:
    """The stub of one module."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.path = module, Path(str(module.__file__)).with_suffix(".pyi")
        self.tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        self.public: list[str] = list(getattr(module, "__all__", ()))
        self.bound: set[str] = set()
        self.imports: dict[str, tuple[str, str]] = {}
        """Each imported name: the module, and what it is called there."""
        self.needed = False
        self.parts: dict[str, Any] = {}
        self.lines: list[str] = []

    def text(self) -> str | None:
        """The stub, or ``None`` where the source says everything."""
        for node in self.tree.body:
            self.take(node)
        for name in self.public:
            if name in self.imports and is_respelled(getattr(self.module, name)):
                del self.imports[name]  # its source does not say what else its arguments are called
            if name not in self.bound and name not in self.imports:
                self.make(name)
        if not self.needed:
            return None
        body = "\n".join(self.lines)
        if self.module.__name__ == HOME:
            body = ARGUMENTS + body
        if self.parts:
            body = "\n".join(map(tupled, self.parts.values())) + "\n" + body
        names = {name for name in self.public if name not in ("__all__",)}
        body = shadowed(body, names | self.bound)
        text = HEAD + "\n".join(self.import_lines(body)) + "\n" + body.rstrip() + "\n" + self.all_line()
        ast.parse(text)
        return text

    def take(self, node: ast.stmt) -> None:
        """A statement of the source."""
        match node:
            case ast.ImportFrom(module=home, names=names) if home and home != "__future__":
                self.imports |= {each.asname or each.name: (home, each.name) for each in names}
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                for each in node.body:
                    if not (isinstance(each, ast.FunctionDef) and each.name == "__getattr__"):
                        self.take(each)
            case ast.FunctionDef(name="__getattr__"):
                self.needed = True  # to checkers it would say that any name is there
            case ast.FunctionDef(name=name):
                if name not in ("__dir__",) and (name in self.public or not name.startswith("_")):
                    self.bound.add(name)
                    self.lines += ["", emptied(node)]
            case ast.ClassDef(name=name) if name in vars(self.module):
                self.bound.add(name)
                self.take_class(node, vars(self.module)[name])
            case ast.AnnAssign(target=ast.Name(id=name)):
                self.bound.add(name)
                told = ast.unparse(node.annotation)
                self.lines.append(f"{name}: {of_constant(vars(self.module).get(name)) if told == 'Final' else told}")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec"))):
                self.bound.add(name)
                self.lines.append(ast.unparse(node))
            case ast.Assign(targets=[ast.Name(id=name)]) if get_origin(vars(self.module).get(name)):  # a type
                self.bound.add(name)
                self.lines.append(f"{name}: TypeAlias = {ast.unparse(node.value)}")
            case ast.Assign(targets=[ast.Name(id=name)]) if name != "__all__" and name in vars(self.module):
                value = vars(self.module)[name]
                if not callable(value) and (name in self.public or not self.public):
                    self.bound.add(name)
                    self.lines.append(f"{name}: {of_constant(value)}")
            case _:
                pass

    def make(self, name: str) -> None:
        """A public name that the source does not bind, or binds to a function of the op table."""
        if name.startswith("__") and name not in vars(self.module):
            return
        self.needed = True
        value = getattr(self.module, name)
        home, decorated = getattr(value, "__module__", None), is_respelled(value)
        self.bound.add(name)
        if isinstance(value, ModuleType):
            self.imports[name] = (value.__name__.rpartition(".")[0], name)
        elif FUNCTIONS.get(name) is value:
            self.lines += ["", *self.operation(TABLE[name])]
        elif inspect.isclass(value) and home == self.module.__name__:
            self.lines += ["", *(of_call(value) if issubclass(value, Call) else of_class(value))]
        elif home and home != self.module.__name__ and not decorated and at_home(value):
            self.imports[name] = (home, value.__name__)
        elif inspect.isfunction(value):
            self.lines += ["", *self.untyped(name, value)]
        else:
            self.lines.append(f"{name}: {of_constant(value)}")

    def operation(self, op: Op) -> list[str]:
        """An operation as a function, with its sentence."""
        if op.parts is not None:
            self.parts[op.parts.__name__] = op.parts
        return [f"def {op.name}{function(op)}:", documented(op.doc)]

    def untyped(self, name: str, value: Any) -> list[str]:
        """A function that a decorator, or another function, has made."""
        inner = inspect.unwrap(value)
        signature = inspect.signature(inner)
        self.import_annotations(signature, inner)
        gives = signature.return_annotation
        text = written(spelled(signature.parameters.values()), "Any" if gives is signature.empty else str(gives))
        return [f"def {name}{text}: ..."]

    # ── classes ──────────────────────────────────────────────────────────────────────────────────────────────

    def take_class(self, node: ast.ClassDef, kind: type) -> None:
        """A class: its own source, or an operation as a module."""
        if issubclass(kind, Call) and not {"operation", "function"}.isdisjoint(vars(kind)) and kind is not Call:
            self.needed = True
            self.lines += ["", *of_call(kind)]
            return
        table = {**METHODS.get(node.name, {}), **(operators(node.name) if node.name in CLASSES else {})}
        decorators = [f"@{ast.unparse(each)}" for each in node.decorator_list]
        bases = ", ".join(map(ast.unparse, [*node.bases]))
        self.lines += ["", *decorators, f"class {node.name}{f'({bases})' if bases else ''}:"]
        seen: set[str] = set()
        body: list[str] = []
        for each in node.body:
            match each:
                case ast.FunctionDef(name="__getattr__"):  # it only words errors
                    seen.add("__getattr__")
                case ast.FunctionDef(name=name):
                    again = name in seen  # a setter
                    seen.add(name)
                    if name in table and not again:
                        body += [f"@{ast.unparse(decorator)}" for decorator in each.decorator_list]
                        body.append(f"def {name}{table[name]}: ...{override(name)}")
                    elif name == "__new__":
                        each.returns = ast.Name(node.name)
                        body += emptied(each).splitlines()
                    else:
                        body += emptied(each).splitlines()
                case ast.AnnAssign(target=ast.Name(id=name)):
                    seen.add(name)
                    body.append(f"{name}: {ast.unparse(each.annotation)}")
                case ast.If(test=ast.UnaryOp()):  # not for type checkers
                    seen |= {inner.name for inner in each.body if isinstance(inner, ast.FunctionDef)}
        members = {name: value for name, value in vars(kind).items() if name not in seen}
        for name, value in members.items():
            text = self.member(kind, name, value, table)
            self.needed = self.needed or bool(text)
            body += text
        inner = shadowed("\n".join(body or ["..."]), set(members) | seen)
        self.lines += [f"    {line}" for line in inner.splitlines()]

    def member(self, kind: type, name: str, value: Any, table: dict[str, str]) -> list[str]:
        """What only the running class has."""
        if isinstance(value, property) and inspect.isclass(value.fget):
            self.imports[value.fget.__name__] = (value.fget.__module__, value.fget.__name__)
            return ["@property", f"def {name}(self) -> {value.fget.__name__}: ..."]
        if not inspect.isfunction(value) or (name.startswith("_") and name not in table):
            return []
        if name in table:
            return [f"def {name}{table[name]}: ...{override(name)}"]
        own = list(inspect.signature(value).parameters.values())[1:]
        gives = "Tensor"
        if value.__qualname__ == f"{kind.__name__}.{value.__name__}":  # another name of a method
            own = spelled(own) if hasattr(value, "__wrapped__") else own
            signature = inspect.signature(value)
            self.import_annotations(signature, value)
            return [f"def {name}{written(bound(own), str(signature.return_annotation))}: ..."]
        if not own:
            text = TABLE[name].doc if name in TABLE else value.__doc__ or ""
            return [f"def {name}(self) -> {gives}:", documented(text)]
        if value.__name__ in TABLE and own[0].kind is not Parameter.VAR_POSITIONAL:
            return [f"def {name}{method(TABLE[value.__name__], value)}: ..."]
        if (
            own[0].kind is Parameter.VAR_POSITIONAL
        ):  # the function or the method of that name, with the rest of its arguments
            return self.forwarded(name, value, gives)
        signature = inspect.signature(value)
        self.import_annotations(signature, value)
        return [f"def {name}{written(bound(own), str(signature.return_annotation))}: ..."]

    def forwarded(self, name: str, value: Any, gives: str) -> list[str]:
        """A method that hands its arguments on: to the function of the package that it is named after, or a method."""
        target = value.__name__
        if target.endswith("_"):  # in place
            return self.member(micrograd_core.Tensor, name, getattr(micrograd_core.Tensor, target[:-1]), {})
        behind = getattr(manners if value.__qualname__.startswith("in_manner.") else micrograd_core, target)
        if FUNCTIONS.get(target) is behind:
            op = TABLE[target]
            if op.parts is not None:
                self.parts[op.parts.__name__] = op.parts
            parameters, gives = typed(op, inspect.signature(behind).parameters.values()), result(op)
        else:
            signature = inspect.signature(inspect.unwrap(behind))
            self.import_annotations(signature, inspect.unwrap(behind))
            parameters, gives = list(signature.parameters.values()), str(signature.return_annotation)
        return [f"def {name}{written(bound(spelled(parameters)[1:]), gives)}: ..."]

    # ── imports ──────────────────────────────────────────────────────────────────────────────────────────────

    def import_annotations(self, signature: inspect.Signature, used_by: Any) -> None:
        """What the annotations of a function of another module name."""
        for each in [*signature.parameters.values(), signature]:
            annotation = each.return_annotation if isinstance(each, inspect.Signature) else each.annotation
            if annotation is not inspect.Parameter.empty:
                self.import_names(str(annotation), used_by)

    def import_names(self, annotation: str, used_by: Any) -> None:
        """What an annotation of another module names."""
        for name in re.findall(r"[A-Za-z_]\w*", annotation):
            if name in KNOWN or hasattr(builtins, name) or name in self.imports or name in ("inspect", "builtins"):
                continue
            value = used_by.__globals__.get(name)
            home = value.__module__ if inspect.isclass(value) else used_by.__module__
            self.imports[name] = (home, name)

    def import_lines(self, body: str) -> Iterator[str]:
        """Imports of what the body, and who imports from the module, use."""
        used = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"""(.|\n)*?"""', "", body)))
        for name, home in KNOWN.items():
            if name in used and name not in self.bound and home != self.module.__name__:
                self.imports.setdefault(name, (home, name))
        if "builtins" in used:
            yield "import builtins"
        homes: dict[str, list[str]] = {}
        for name, (home, original) in sorted(self.imports.items()):
            if name in self.public:
                homes.setdefault(home, []).append(f"{original} as {name}")
            elif name in used:
                homes.setdefault(home, []).append(original if name == original else f"{original} as {name}")
        for home, names in sorted(homes.items()):
            yield f"from {home} import {', '.join(names)}"

    def all_line(self) -> str:
        """The public names, of modules that list them."""
        if not self.public:
            return ""
        return "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(self.public)) + "]\n"


def tupled(parts: Any) -> str:
    """The named tuple of an operation with several results."""
    return "\n".join(["", f"class {parts.__name__}(NamedTuple):", *(f"    {name}: Tensor" for name in parts._fields)])


def documented(text: str) -> str:
    """A docstring, indented."""
    return f'    """{" ".join(text.split())}"""'.replace("\\", "\\\\")


def override(name: str) -> str:
    """What tells checkers that `object` has it otherwise."""
    return "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""


ADVISED = advising(print).__code__  # type: ignore[attr-defined]


def is_respelled(value: Any) -> bool:
    """Whether a function takes more than its source says; one whose errors are worded takes no more."""
    if getattr(value, "__code__", None) is ADVISED:
        return bool(shared.other_spellings(shared.parameter_names(inspect.unwrap(value))))
    return hasattr(value, "__wrapped__")


def at_home(value: Any) -> bool:
    """Whether its module has it, or what is worded, by its name."""
    found = getattr(sys.modules.get(value.__module__), getattr(value, "__name__", ""), None)
    return found is not None and found in (value, inspect.unwrap(value))


def emptied(node: ast.FunctionDef) -> str:
    """A function without its body."""
    names = [ast.unparse(each) for each in node.decorator_list]
    own = ("both_spellings", "advising")
    decorators = [each for each, name in zip(node.decorator_list, names, strict=True) if name not in own]
    args = spelled_out(node.args) if "both_spellings" in names else node.args
    bare = ast.FunctionDef(
        name=node.name, args=args, body=[ast.Expr(ast.Constant(...))], decorator_list=decorators,
        returns=node.returns, type_comment=None, lineno=0, type_params=[],
    )  # fmt: skip
    return ast.unparse(bare).replace(":\n    ...", ": ...")


def spelled_out(args: ast.arguments) -> ast.arguments:
    """The arguments of a function in its source, with the other spellings of their names."""
    listed = [*args.posonlyargs, *args.args]
    known = {each.arg: each for each in [*listed, *args.kwonlyargs]}
    others = sorted(shared.other_spellings(known).items())
    named = {own for _, own in others}
    without = listed[: len(listed) - len(args.defaults)]
    first = next((i for i, each in enumerate(without) if each.arg in named), len(without))
    missing: list[ast.expr] = [ast.Constant(...) for _ in without[first:]]
    return ast.arguments(
        posonlyargs=args.posonlyargs, args=args.args, vararg=args.vararg, kwarg=args.kwarg,
        kwonlyargs=[*args.kwonlyargs, *(ast.arg(other, known[own].annotation) for other, own in others)],
        kw_defaults=[*args.kw_defaults, *(ast.Constant(...) for _ in others)], defaults=[*missing, *args.defaults],
    )  # fmt: skip


def of_constant(value: Any) -> str:
    """The type of a constant."""
    known = isinstance(value, (bool, int, float, str, DType))
    return "None" if value is None else type(value).__name__ if known else "Any"


def of_class(kind: type) -> list[str]:
    """A class that another one made: it has the members of its bases."""
    return [
        f"class {kind.__name__}({', '.join(each.__name__ for each in kind.__bases__)}):",
        documented(kind.__doc__ or ""),
    ]


def of_call(kind: type[Call]) -> list[str]:
    """An operation or a function as a module: what it is made with, and what it is called with."""
    if kind.function is not None:
        known = [*inspect.signature(kind.function).parameters.values()]
        called = [each.replace(kind=each.POSITIONAL_ONLY) for each in [SELF, *known[: kind.inputs]]]
        more = Parameter("others", Parameter.VAR_KEYWORD, annotation="Any")
        gives = str(inspect.signature(kind.function).return_annotation).replace("Any", "Tensor")  # unless one asks
        return [
            f"class {kind.__name__}(Call):",
            documented(inspect.getdoc(kind) or ""),
            "",
            f"    def __init__{written([SELF, *inspect.signature(kind).parameters.values()], 'None')}: ...",
            f"    def forward{written([*called, more], gives)}: ...",
        ]
    op = TABLE[kind.operation]
    required = op.operands - len(op.optional)
    parameters = typed(op, inspect.signature(FUNCTIONS[op.name]).parameters.values())
    made = [each.replace(kind=each.POSITIONAL_OR_KEYWORD) for each in parameters[required:]]
    called = [each.replace(kind=each.POSITIONAL_ONLY) for each in [SELF, *parameters[:required]]]
    return [
        f"class {kind.__name__}(Call):",
        documented(op.doc),
        "",
        f"    def __init__{written([SELF, *made], 'None')}: ...",
        f"    def forward{written(called, result(op))}: ...",
    ]


def shadowed(body: str, names: set[str]) -> str:
    """Built-in types by their full names where a module has other things of these names."""
    hidden = [each for each in ("bool", "complex", "float", "int", "slice", "str", "tuple", "list") if each in names]
    for name in hidden:  # where an annotation has them
        body = re.sub(rf"((?:: |> |\| |, |\[)){name}\b(?=[\[\],|):= ]|$)", rf"\1builtins.{name}", body, flags=re.M)
    return body


# ── what rules and compositions compute with ─────────────────────────────────────────────────────────────────


ARRAYS = """
class Handle(Protocol):
    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> Any: ...

Operand = Handle | bool | int | float | complex
"""


def operations() -> str:
    """The operations as methods of a kernel table: operands by position, canonical parameters by name."""
    helpers = (Kernels.constant, Kernels.upload, Backend.to_host)
    signatures = {each.__name__: plain_signature(each) for each in helpers} | {
        op.name: called(op) for op in TABLE.values()
    }
    methods = "\n".join(["device: Any", *(f"def {name}{text}: ..." for name, text in signatures.items())])
    lines = [
        HEAD + "from collections.abc import Sequence",
        "from typing import Any, Protocol",
        "import builtins",
        "from micrograd_core.dtypes import DType",
        "from micrograd_core.layout import Shape",
        "from typing_extensions import TypeIs as TypeIs",
        ARRAYS,
        "class Table(Protocol):",
        "    def dtype(self, x: Any) -> DType: ...",
        *(f"    {line}" for line in shadowed(methods, set(TABLE)).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def plain_signature(function: Any) -> str:
    """A signature as the source has it."""
    signature = inspect.signature(function)
    return written(signature.parameters.values(), "Any" if function is Backend.to_host else "Handle")


def called(op: Op) -> str:
    """How an operation is called on a kernel table."""
    names = re.findall(r"[^ ,()]+", kernel_signature(op).partition("(")[2])
    count = names.index("*") if "*" in names else max(op.operands, 0) or len(names)
    known, seen = annotated(op), types_in_samples(op)
    takes: list[Parameter] = [SELF.replace(kind=Parameter.POSITIONAL_ONLY)]
    for i, name in enumerate(each for each in names if each != "*"):
        told, default = known.get(name, ("Any", Parameter.empty))
        if name.startswith("*"):
            takes.append(Parameter(name[1:], Parameter.VAR_POSITIONAL, annotation=taken(op, 0)))
        elif i < op.operands:
            takes.append(Parameter(name, Parameter.POSITIONAL_ONLY, annotation=taken(op, i)))
        else:
            kind = Parameter.POSITIONAL_ONLY if i < count and op.operands == 0 else Parameter.KEYWORD_ONLY
            annotation = told if told != "Any" else seen.get(name, "Any")
            takes.append(
                Parameter(name, kind, default=... if default is not Parameter.empty else default, annotation=annotation)
            )
    gives = "Handle" if op.parts is None else f"tuple[{', '.join(['Handle'] * len(op.parts._fields))}]"
    return written(takes, gives)


def taken(op: Op, position: int) -> str:
    """What an operand may be: a number where there is another one beside it, or where a sample has one."""
    drawn = [each.operands[position] for each in op.samples if position < len(each.operands)]
    numbers = not all(isinstance(each, Array) for each in drawn) or position >= op.operands - len(op.optional)
    return "Operand" if numbers or (op.kind == "elementwise" and op.operands > 1) else "Handle"


def annotated(op: Op) -> dict[str, tuple[str, Any]]:
    """What the source says of parameters, by their names: the types and defaults of the composition or the rules."""
    rules = op.gradient if isinstance(op.gradient, tuple) else ()
    found: dict[str, tuple[str, Any]] = {}
    for function in (op.compose, *rules):
        if function is not None:
            for each in inspect.signature(function).parameters.values():
                told = "Any" if each.annotation is each.empty else str(each.annotation)
                if found.get(each.name, ("Any", None))[0] == "Any":
                    found[each.name] = (told, each.default if function is op.compose else each.empty)
    return found


def types_in_samples(op: Op) -> dict[str, str]:
    """The types of the parameters that kernels receive."""
    kinds: dict[str, set[str]] = {}
    for sample in op.samples:
        for name, value in canonical(op, sample).items():
            kinds.setdefault(name, set()).add(kind_of(value))
    return {name: union(found) for name, found in kinds.items()}


def union(kinds: set[str]) -> str:
    """Any of these types; what is only ever ``None`` in samples may be something else."""
    kept = kinds - {"int"} if "float" in kinds else kinds
    return (
        "Any"
        if "Any" in kinds or kinds == {"None"}
        else " | ".join(sorted(kept, key=lambda kind: (kind == "None", kind)))
    )


def kind_of(value: Any) -> str:
    """The type of a parameter's value; a dtype may be the device's own."""
    if value is None or type(value) in (bool, int, float, complex, str):
        return "None" if value is None else type(value).__name__
    return "Shape" if isinstance(value, tuple) and all(type(each) is int for each in value) else "Any"


# ── all modules ──────────────────────────────────────────────────────────────────────────────────────────────


def doors(module: ModuleType = micrograd_core) -> list[ModuleType]:
    """The public modules: what ``__all__`` leads to."""
    inner = [getattr(module, name) for name in getattr(module, "__all__", ())]
    return [module, *(each for x in inner if isinstance(x, ModuleType) for each in doors(x))]


def homes() -> list[ModuleType]:
    """Public modules, and those where public classes are defined."""
    found = {each.__name__ for each in doors()}
    for module in doors():
        for name in module.__all__:
            value = getattr(module, name)
            for each in inspect.getmro(value) if inspect.isclass(value) else (value,):
                if str(getattr(each, "__module__", "")).startswith("micrograd_core."):
                    found.add(each.__module__)
    return [importlib.import_module(name) for name in sorted(found - TYPED)]


def stubs() -> dict[Path, str]:
    """Each stub by its path."""
    made = {stub.path: stub.text() for stub in map(Stub, homes())}
    made[ROOT / "micrograd_core" / "ops" / "operations.pyi"] = operations()
    return {path: text for path, text in made.items() if text is not None}


def differences() -> list[str]:
    """Stubs that are missing, too many, or other than what is made now."""
    made, there = stubs(), set((ROOT / "micrograd_core").rglob("*.pyi"))
    changed = [path for path, text in made.items() if path not in there or path.read_text(encoding="utf-8") != text]
    return sorted(str(path.relative_to(ROOT)) for path in {*changed, *(there - made.keys())})


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit("\n".join(differences()))
    made, there = stubs(), set((ROOT / "micrograd_core").rglob("*.pyi"))
    for path in there - made.keys():
        path.unlink()
    for path, text in made.items():
        if path not in there or path.read_text(encoding="utf-8") != text:  # who reads it meanwhile finds it whole
            path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
