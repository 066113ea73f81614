"""A traced function as one C file: `Lowered.export`. What it closes over and changes is state that C's caller keeps."""

from __future__ import annotations

import functools
import operator
from pathlib import Path
from typing import Any, Final

from micrograd_core.adapters.c_file import FILE, code, size_of
from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.languages import C
from micrograd_core.compiler.program import Program, short
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import float64, pack, uint64, unpack
from micrograd_core.errors import ProgramError
from micrograd_core.interpreters.host import index_of
from micrograd_core.ops.standard.random import PLACE, place_of
from micrograd_core.random import default_generator
from micrograd_core.support import files
from micrograd_core.transforms.codegen import Count
from micrograd_core.transforms.guards import Place
from micrograd_core.transforms.tracing import Result, entries_of

NUMBER: Final = TensorSpec((), float64)
FUNCTIONS: Final[dict[Any, str]] = {
    operator.add: "{0} + {1}", operator.sub: "{0} - {1}", operator.mul: "{0} * {1}", operator.truediv: "{0} / {1}",
    operator.pow: "pow({0}, {1})", operator.neg: "-{0}", operator.lt: "{0} < {1}", operator.le: "{0} <= {1}",
    operator.gt: "{0} > {1}", operator.ge: "{0} >= {1}", operator.eq: "{0} == {1}", bool: "{0} != 0",
}  # fmt: skip
"""How C computes with Python's numbers, which are float64 there."""


def _key(owner: Any) -> Any:
    """What tells a tensor of the state, or a place where one is held, apart from others."""
    return (*owner.identity, ()) if isinstance(owner, Place) else id(owner)


class Export:
    """A function in C: its `lines`, those at its `ends`, and what its arrays are `about`."""

    def __init__(self, replay: Any) -> None:
        self.replay, self.index, self.types, self.now = replay, dict[Any, str](), dict[str, TensorSpec](), list[bytes]()
        self.lines, self.ends, self.about, self.outputs = list[str](), list[str](), list[str](), 0
        outputs, types = replay.program.outputs[: replay.width], replay.program.types
        self.functions, lines, names, live = code(Program(replay.taken, replay.program.steps, outputs, types))
        self.values = [*zip(names, [types[x.number] for x in outputs], strict=True)]
        made = [each for *_, x in replay.changes for each in (x if isinstance(x, list) else [x])]
        read = {index_of(x) for _, given, _ in replay.host.entries for x in given}
        read |= {x.what for x in (*made, *replay.results) if x.kind == "host"}
        read |= {source[1] for source in replay.sources if source[0] == "host"}
        for i, entry in enumerate(replay.host.entries):
            if i in read or not isinstance(entry[0], Count):
                self.number(i, *entry)
        for i, source in enumerate(replay.sources[: replay.taken]):
            self.input(f"v{i}", types[i], *source)
        self.lines += lines
        for i, x in enumerate(replay.results):
            if x.kind in ("tensor", "host"):
                (value, type), place = self.value(x), f"out[{self.outputs}]"
                self.about.append(f"{place}: {short(type)}, result {i}")
                self.ends.append(f"if ({place}) memcpy({place}, {value}, {size_of(type)});")
                self.outputs += 1
        for kind, owner, x in replay.changes:
            if kind == "kept":
                for path, each in entries_of(owner[1](x)):
                    if each.kind != "entry":
                        self.change((*owner[0].identity, path), f"{owner[0].key}{[*path]} of an optimiser", each)
            elif kind != "grad":
                self.change(_key(owner), repr(getattr(owner, "key", "a tensor")), x)
        drawn = [(self.index[key], blocks) for key, (_, blocks) in replay._draws.items() if key in self.index]
        self.ends += [f"advance({place}, {blocks}, {place});" for place, blocks in drawn]
        self.ends += [f"free({name});" for name in live]

    # ── what is read ─────────────────────────────────────────────────────────────────────────────────────────

    def state(self, about: str, type: TensorSpec, now: Any, *keys: Any) -> str:
        """The place of an array of the state, which there may be already; `now` are its bytes."""
        if keys[0] not in self.index:
            place = f"state[{len(self.now)}]"
            self.index |= dict.fromkeys(keys, place)
            self.about.append(f"{place}: {short(type)}, {about}")
            self.types[place] = type
            self.now.append(bytes(now))
        return self.index[keys[0]]

    def kept(self, type: TensorSpec, owner: Any, attribute: str, *paths: Any) -> str:
        """That of an entry of what an optimiser keeps; of all `paths` it is one."""
        found = functools.reduce(operator.getitem, paths[0], getattr(owner, attribute))
        now = pack([float(found)], float64) if type is NUMBER else self.replay.kernels.to_host(found)
        keys = [(id(vars(owner)), attribute, path) for path in paths]
        return self.state(f"{attribute}{[*paths[0]] or ''} of {owner.__class__.__name__}", type, now, *keys)

    def number(self, i: int, function: Any, given: tuple[Any, ...], expected: bool | None) -> None:
        """One of Python's numbers that change from call to call."""
        if isinstance(function, Count):
            text = f"*(const double *){self.kept(NUMBER, function.owner, function.attribute, *function.paths)}"
        elif function in FUNCTIONS:
            texts = [f"n{index_of(x)}" if index_of(x) is not None else C.number(float(x), float64) for x in given]
            text = FUNCTIONS[function].format(*texts)
        else:
            raise ProgramError(f"export: {function.__qualname__} changes numbers of Python; call it outside")
        self.lines.append(f"const double n{i} = {text};")
        self.lines += [f"if ({'!' * expected}n{i}) return 2;"] if expected is not None else []

    def input(self, name: str, type: TensorSpec, kind: str, owner: Any, *rest: Any) -> None:
        """Where an input of the program is."""
        to_host, c_type = self.replay.kernels.to_host, C.types[type.dtype.name]
        if kind == "place":
            drawn = self.replay._draws[id(owner)][0] or default_generator()
            now = pack(place_of(*drawn.state[:2]), uint64)
            place = self.state("a generator's place in its stream", type, now, id(owner))
            self.lines.append(f"word {name}[{PLACE}]; advance({place}, {rest[0]}, {name});")
            return
        if kind == "host":
            text = f"&({c_type}){{({c_type})n{owner}}}"
        elif kind == "constant":
            numbers = ", ".join([C.number(x, type.dtype) for x in unpack(to_host(owner), type.dtype)])
            text = f"(const {c_type}[]){{{numbers or '0'}}}"
        elif kind == "kept":
            text = self.kept(type, owner, *rest)
        elif owner.__class__ is int:
            self.about.append(f"in[{owner}]: {short(type)}, argument {owner}")
            text = f"in[{owner}]"
        elif isinstance(owner, (Tensor, Place)):
            x = owner.held() if isinstance(owner, Place) else owner
            found = [each.label(i) for each in self.replay.guards for i, y in enumerate(each.places) if y.held() is x]
            about = next((each for each in found if not each.startswith("entry")), "a tensor")
            text = self.state(about, type, to_host(x._handle), _key(owner))
        else:
            raise ProgramError(f"export: it reads {owner if kind == 'draw' else 'an old gradient'}; pass that to it")
        self.lines.append(f"const {c_type} *{name} = {text};")

    # ── what is written ──────────────────────────────────────────────────────────────────────────────────────

    def value(self, x: Result) -> tuple[str, TensorSpec]:
        """Where a result is, and its type."""
        n = x.what + self.replay.written * (x.kind == "tensor")
        return (f"&n{n}", NUMBER) if x.kind == "host" else self.values[n]

    def change(self, key: Any, about: str, x: Result) -> None:
        """A new value of an array of the state."""
        value, type = self.value(x) if x.kind in ("value", "tensor", "host") else ("", None)
        if type is None or key not in self.index or self.types[self.index[key]] != type:
            raise ProgramError(
                f"export: the function changes {about}, which is no array that it has read before; return what it "
                "computes, and call a function that makes the state of an optimiser once before lower()"
            )
        self.ends.append(f"memcpy({self.index[key]}, {value}, {size_of(type)});")


def exported(replay: Any, path: str | Path, name: str, blas: bool) -> list[bytes]:
    """Write a traced function as a C file; the state as it is now."""
    name = name or Path(path).stem
    if not hasattr(replay, "host") or not (name.isidentifier() and name.isascii()):
        raise ProgramError(f"export: {name!r} must be a name in C, as of export(path, name='step'), and take tensors")
    found = Export(replay)
    text = FILE.substitute(
        name=name, about="\n".join(f"   {each}" for each in found.about), inputs=replay._given, states=len(found.now),
        outputs=found.outputs, bytes="".join(f"{len(each)}, " for each in found.now), preamble=C.preamble,
        functions="\n".join(found.functions), body="\n    ".join([*found.lines, *found.ends]), blas=int(blas),
    )  # fmt: skip
    files.write({Path(path): text.encode()})
    return found.now
