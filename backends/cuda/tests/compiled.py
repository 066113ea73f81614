"""The table of compiled code in docs/cuda.md: what operations read, write and execute; run it to print one.

Counted as the PTX that NVRTC makes of the kernels runs on the host, launched as on a GPU. Instructions are of PTX, and
the machine's are about as many. They tell whether a kernel has grown and what it moves, not how long it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from counted import CountedRuntime, Counts, counts, numbers

Table = dict[str, Any]
Work = Callable[[Table, CountedRuntime], Callable[[], Any]]

BUDGET: Final = 9.5
"""Instructions that a GPU like the H100 executes while it moves a byte at 3 TB/s: 38 for an element of bfloat16 that is
read and written, 76 for one of float32."""


NORMED: Final = {"axis": (1,), "eps": 1e-5}
"""Of norms of rows."""


class Row(NamedTuple):
    """An operation on some elements of one dtype."""

    name: str
    elements: int
    work: Work


def elementwise(name: str, operands: int, dtype: str, **params: Any) -> Row:
    """On whole packs."""
    size = 1 << 15

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        given = [numbers(runtime, (size,), dtype, seed) for seed in range(operands)]
        return lambda: k[name](*given, **params)

    return Row(f"{name}, {dtype}", size, work)


def along_rows(name: str, operands: int, columns: int, dtype: str, count: int = 2, **params: Any) -> Row:
    """Of some rows."""

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        given = [numbers(runtime, (count, columns), dtype, seed) for seed in range(operands)]
        return lambda: k[name](*given, **params)

    kind = f" of {columns}" if count == 2 else f" of {count} rows"
    return Row(f"{name}{kind}, {dtype}", count * columns, work)


def attention(gradient: bool, features: int = 64) -> Row:
    """Of causal heads of 256 positions; or its gradients, after it."""
    shape = (1, 2, 256, features)

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        query, key, value, g = (numbers(runtime, shape, "bfloat16", seed) for seed in range(4))
        params = {"is_causal": True, "scale": 0.125}
        forward = lambda: k["scaled_dot_product_attention"](query, key, value, 0.0, **params)  # noqa: E731
        if not gradient:
            return forward
        out = forward()
        return lambda: k["attention_gradients"](g, out, query, key, value, 0.0, **params)

    name = "attention_gradients" if gradient else "scaled_dot_product_attention"
    return Row(f"{name}, bfloat16", math.prod(shape), work)


def decoding(heads: int = 12, positions: int = 1024) -> Row:
    """One target of each head, as where text is made word by word; elements are those of the keys."""
    shape = (1, heads, positions, 64)

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        key, value = (numbers(runtime, shape, "bfloat16", seed) for seed in range(2))
        query = numbers(runtime, (*shape[:2], 1, shape[-1]), "bfloat16", 2)
        return lambda: k["scaled_dot_product_attention"](query, key, value, 0.0, is_causal=False, scale=0.125)

    return Row("scaled_dot_product_attention of one target, bfloat16", math.prod(shape), work)


def of_images(name: str, operands: int, dtype: str, shape: tuple[int, ...], pooled: int = 1, **params: Any) -> Row:
    """Of a batch; of two operands the first is as large as what is pooled."""

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        small = (*shape[:2], *(n // pooled for n in shape[2:]))
        given = [numbers(runtime, small if i < operands - 1 else shape, dtype, i) for i in range(operands)]
        return lambda: k[name](*given, **params)

    kind = " of columns" if len(shape) == 2 else " of planes" if pooled == 1 else ""
    return Row(f"{name}{kind}, {dtype}", math.prod(shape), work)


def classes(columns: int, dtype: str, *, gradient: bool) -> Row:
    """The mean of two losses, or its gradient after it."""

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        x, targets, g = numbers(runtime, (2, columns), dtype), np.array([3, columns - 1]), numbers(runtime, (), dtype)
        forward = lambda: k["cross_entropy"](x, targets, 1.0, reduction="mean")  # noqa: E731
        if not gradient:
            return forward
        forward()
        return lambda: k["cross_entropy_gradient"](g, x, targets, 1.0, reduction="mean")

    return Row(f"cross_entropy{'_gradient' * gradient} of {columns}, {dtype}", 2 * columns, work)


def normed(dtype: str) -> Row:
    """The gradients of a layer norm of 64 rows: of its input, then of its weight, and with it that of its bias."""
    shape = (64, 1024)

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        g, x = (numbers(runtime, shape, dtype, seed) for seed in range(2))
        weight, params = numbers(runtime, shape[1:], dtype), NORMED
        gradient, of_weight = k["standardize_gradient"], k["layer_norm_weight_gradient"]
        return lambda: (gradient(g, x, weight, **params), of_weight(g, x, **params))

    return Row(f"all gradients of layer_norm of 64 rows, {dtype}", math.prod(shape), work)


def residual() -> Row:
    """What comes back of 64 rows of a residual network in halves, as a program asks for it.

    A norm's gradient, to which the residual's is added, that in halves, the sums of its columns, and those for weight
    and bias.
    """
    shape = (64, 1024)

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        x, added = (numbers(runtime, shape, "float32", seed) for seed in range(2))
        g, weight, params = numbers(runtime, shape, "bfloat16"), numbers(runtime, shape[1:], "float32"), NORMED

        def back() -> Any:
            out = k["standardize_gradient"](g, x, weight, added, **params, dtype=x.dtype, half=g.dtype)
            halves, sums = k["astype"](out, dtype=g.dtype), k["layer_norm_weight_gradient"](g, x, **params)
            return out, sums, k["sum"](halves, axis=(0,), keepdims=False)

        return back

    return Row("all gradients of layer_norm and of its residual, of 64 rows, bfloat16", math.prod(shape), work)


def embedding(hot: bool, dtype: str) -> Row:
    """The gradient of 1024 rows of 64 columns, of as many; all different, or all of one index."""
    count, columns = 1024, 64

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        g, indices = numbers(runtime, (count, columns), dtype), np.arange(count) * (not hot)
        return lambda: k["embedding_gradient"](g, indices, num_embeddings=count)

    return Row(f"embedding_gradient, {'one index' if hot else 'all different'}, {dtype}", count * columns, work)


def drawn(name: str, dtype: str) -> Row:
    """Random numbers, a whole number of blocks."""
    size = 1 << 13

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        native = numbers(runtime, (1,), dtype).dtype
        return lambda: k[name](shape=(size,), dtype=native, key=1, block=2)

    return Row(f"{name}, {dtype}", size, work)


def adam(dtype: str) -> Row:
    """One parameter's second step."""
    size = 1 << 14

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        given = [[abs(numbers(runtime, (size,), dtype, seed))] for seed in range(4)]
        kept = "float64" if dtype == "float64" else "float32"
        given[2:] = [[x.astype(kept)] for each in given[2:] for x in each]
        hyper = {"step": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0, "shrink": 1.0}
        return lambda: k["adam_step"](*given, **hyper)

    return Row(f"adam_step, {dtype}", size, work)


def squares(dtype: str) -> Row:
    """Of four gradients."""
    size = 1 << 14

    def work(k: Table, runtime: CountedRuntime) -> Callable[[], Any]:
        given = [numbers(runtime, (size,), dtype, seed) for seed in range(4)]
        return lambda: k["global_norm"](*given)

    return Row(f"global_norm, {dtype}", 4 * size, work)


def rows() -> Iterator[Row]:
    """Those that count most."""
    for dtype in ("float32", "bfloat16"):
        yield elementwise("add", 2, dtype)
        yield elementwise("relu", 1, dtype)
        yield elementwise("exp", 1, dtype)
        yield elementwise("gelu", 1, dtype, approximate="none")
        yield elementwise("gelu_gradient", 2, dtype, approximate="none")
        for columns in (4096, 50_257):
            yield along_rows("softmax", 1, columns, dtype, axis=1)
            yield along_rows("softmax_gradient", 2, columns, dtype, axis=1)
            yield classes(columns, dtype, gradient=False)
            yield classes(columns, dtype, gradient=True)
        yield along_rows("attention_weights", 1, 512, dtype, 512, is_causal=True)
        yield along_rows("attention_weights_gradient", 2, 512, dtype, 512, is_causal=True)
        yield along_rows("standardize", 1, 4096, dtype, axis=(1,), eps=1e-5)
        yield along_rows("standardize_gradient", 2, 4096, dtype, axis=(1,), eps=1e-5)
        for shape in ((1024, 256), (16, 4, 32, 32)):
            axis = (0, *range(2, len(shape)))
            yield of_images("standardize", 1, dtype, shape, axis=axis, eps=1e-5)
            yield of_images("standardize_gradient", 2, dtype, shape, axis=axis, eps=1e-5)
        halved = {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
        yield of_images("max_pool2d", 1, dtype, (4, 4, 32, 32), 2, **halved)
        yield of_images("max_pool2d_gradient", 2, dtype, (4, 4, 32, 32), 2, **halved)
        yield along_rows("sum", 1, 1 << 19, dtype, axis=None, keepdims=False)
        yield along_rows("sum", 1, 256, dtype, 256, axis=(0,), keepdims=False)
        yield along_rows("relu_gradient", 2, 256, dtype, 256)
        yield along_rows("gelu_gradient", 2, 256, dtype, 256, approximate="none")
        yield normed(dtype)
        yield embedding(False, dtype)
        yield embedding(True, dtype)
        yield drawn("random_uniform", dtype)
        yield drawn("random_normal", dtype)
        yield adam(dtype)
        yield squares(dtype)
    yield residual()
    yield attention(False)
    yield decoding()
    yield attention(True)


HEAD: Final = (
    "| operation | launches | instructions | budget | bytes read | bytes written | registers | bytes spilled |",
    "|---|---|---|---|---|---|---|---|",
)


def line(row: Row, found: Counts) -> str:
    """In Markdown; instructions and bytes of one element."""
    executed, read, written = (x / row.elements for x in (found.instructions, found.read, found.written))
    budget = BUDGET * (read + written)
    cells = f"{executed:.1f}", f"{budget:.0f}", f"{read:.2f}", f"{written:.2f}"
    return f"| {' | '.join((row.name, str(found.launches), *cells, str(found.registers), str(found.spilled)))} |"


def table() -> list[str]:
    """In Markdown."""
    return [*HEAD, *(line(row, counts(row.work)) for row in rows())]


if __name__ == "__main__":
    print(*table(), sep="\n")
