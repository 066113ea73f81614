"""Tables from files and frames; what is none is refused in a sentence that says where."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micrograd_core.data import DataError
from micrograd_core.engine.ingest import memory as engine_memory
from micrograd_core.errors import MissingExtra
from micrograd_train import Preparation, read, sets
from micrograd_train.notices import DataWarning
from micrograd_train.tables import memory

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS: dict[str, list[Any]] = {
    "n": [1, 2, None], "x": [0.5, None, 2.5], "t": [True, False, None], "s": ["a", None, "ö, \"b\""],
}  # fmt: skip
CSV = 'n,x,t,s\n1,0.5,true,a\n2,NA,false,\n?,2.5,,"ö, ""b"""\n'


def write(folder: Path, name: str) -> Path:
    """The same table as a file of a kind."""
    path = folder / name
    table = pa.table(COLUMNS)
    kind = name.partition(".")[2]
    if kind == "csv":
        path.write_text(CSV)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(CSV.encode()))
    elif kind == "tsv":
        path.write_text('n\tx\tt\ts\n1\t0.5\ttrue\ta\n2\t\tfalse\t\n\t2.5\t\t"ö, ""b"""\n')
    elif kind == "parquet":
        pq.write_table(table, path)
    elif kind == "feather":
        import pyarrow.feather

        pyarrow.feather.write_feather(table, path)
    elif kind == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("name", ["a.csv", "ab.csv.gz", "a.tsv", "A.PARQUET", "a.parquet", "a.feather", "a.arrow"])
def test_files(name: str, tmp_path: Path) -> None:
    write(tmp_path, name.lower())
    (tmp_path / name.lower()).rename(tmp_path / name)
    assert read(tmp_path / name).to_pydict() == COLUMNS
    assert read(str(tmp_path / name)).to_pydict() == COLUMNS


def test_frames() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (pl.DataFrame(COLUMNS), pl.LazyFrame(COLUMNS), pa.table(COLUMNS), COLUMNS):
        assert read(frame).to_pydict() == COLUMNS
    assert read(pa.table(COLUMNS).to_batches()[0]).to_pydict() == COLUMNS
    frame = pd.DataFrame({0: [1, 2], "c": pd.Categorical(["x", "y"])}, index=["i", "j"])
    assert read(frame).to_pydict() == {"0": [1, 2], "c": ["x", "y"]}
    assert read({"a": np.arange(2), "b": pa.array([1, None])}).to_pydict() == {"a": [0, 1], "b": [1, None]}
    assert read(sets.load("iris")).column_names[-1] == "species"
    assert read([{"a": 1}, {"b": "x", "a": None}]).to_pydict() == {"a": [1, None], "b": [None, "x"]}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["01234", "90210"], ["01234", "90210"]),
        (["90210", ""], [90210, None]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["0", "10", "-5"], [0, 10, -5]),
        (["0.5", "00.5"], [0.5, 0.5]),
        (["2024-05-31", "2024-06-01"], None),
    ],
)
def test_digits_that_a_number_would_lose_stay_text(
    cells: list[str], expected: list[Any] | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,a\n" + "".join(f"x,{cell}\n" for cell in cells))
    found = read(path)["a"]
    assert found.to_pylist() == expected if expected else pa.types.is_date(found.type)
    preparation = Preparation.fit({"a": [1, 2]})  # to which it is a number
    if expected and "0" in str(cells[0])[:1]:
        assert not pa.types.is_string(read(path, preparation=preparation)["a"].type)


def test_arrays_of_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([[1.0, 2.0], [3.0, 4.0]]), y=np.array([0, 1]))
    assert read(tmp_path / "a.npz").to_pydict() == {"x_0": [1, 3], "x_1": [2, 4], "y": [0, 1]}


def test_what_separates_cells_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeffa;b\n1,5;x\n")
    assert read(path, decimal=",").to_pydict() == {"a": [1.5], "b": ["x"]}
    path.write_text("a|b\n1|2\n")
    assert read(path, delimiter="|").to_pydict() == {"a": [1], "b": [2]}
    path.write_bytes("a,b\nä,1\n".encode("latin-1"))
    assert read(path, encoding="latin-1").to_pydict() == {"a": ["ä"], "b": [1]}


def test_the_last_row_counts_for_the_type_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "1\n" * 600_000 + "x\n")
    table = read(path)
    assert (table.num_rows, table["a"][-1].as_py(), table["a"][0].as_py()) == (600_001, "x", "1")
    path.write_text("a,b\n" + '"two\nlines",1\n' * 100_000)
    assert read(path).num_rows == 100_000


def test_text_stays_text_where_a_preparation_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("code,y\n" + "01,1.5\n02,2.5\nx,3.5\nx,1.25\n")
    preparation = Preparation.fit(read(path), "y")
    assert preparation.texts == ["code"]
    path.write_text("code,y\n01,1.5\n02,2.5\n")
    assert read(path)["code"].to_pylist() == ["01", "02"]
    path.write_text("code,y\n1,1.5\n2,2.5\n")
    assert read(path)["code"].to_pylist() == [1, 2]
    assert read(path, preparation=preparation)["code"].to_pylist() == ["1", "2"]
    path.write_text("code,y\n01,1.5\n02,2.5\n")
    table = read(path, preparation=preparation)
    assert table["code"].to_pylist() == ["01", "02"]
    assert preparation.apply(table)[0].tolist() == [[1, 0, 0], [0, 1, 0]]
    path.write_text("x,code\n1,01\n2,b\n")
    preparation = Preparation.fit(path, "code")
    path.write_text("x,code\n1,01\n")
    assert preparation.apply(read(path, preparation=preparation))[1].tolist() == [0]


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",a\n0,5\n1,6\n")
    with pytest.warns(DataWarning, match="column 1 of 'a.csv' has no name and is left out"):
        assert read(path).to_pydict() == {"a": [5, 6]}


FILES: list[tuple[str, bytes, str]] = [
    ("a.csv", b"", r"'a.csv' is empty"),
    ("a.csv", b"a,b\n", r"'a.csv' is a table without rows; there is nothing to learn from"),
    ("a.csv", b"a,a\n1,2\n", r"'a.csv' has more than one column 'a'; give each a name of its own"),
    ("a.csv", b"a,b\n1,2\n3\n", r"line 3 of a.csv has 1 cells, and the first line 2: '3'"),
    ("a.csv", b"a,b\n1,2,3\n", r"line 2 of a.csv has 3 cells, and the first line 2: '1,2,3'"),
    ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0", r"'a.csv' is not a table: it holds no text, whatever its name says"),
    ("a.csv", b"a,b\n1,\xe4\n", r"not UTF-8 text: line 2 has a byte 0xe4; save it as UTF-8, .* encoding='latin-1'"),
    ("a.parquet", b"PAR1 or not", r"'a.parquet' is not a table that can be read: .*[Pp]arquet"),
    ("a.feather", b"ARROW1", r"'a.feather' is not a table that can be read: "),
    ("a.arrow", b"words", r"'a.arrow' is not a table that can be read: "),
    ("a.npz", b"words", r"'a.npz' is not a table that can be read: "),
    ("a.csv.gz", b"words", r"'a.csv.gz' is not a table that can be read: "),
    ("a.xlsx", b"PK", r"'a.xlsx' is not known as a table by its name; .* From a spreadsheet, save as CSV"),
    ("a", b"a\n1", r"'a' is not known as a table by its name"),
]


@pytest.mark.parametrize("case", range(len(FILES)), ids=[sentence[:40] for *_, sentence in FILES])
def test_files_that_are_no_tables(case: int, tmp_path: Path) -> None:
    name, content, sentence = FILES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path / name)


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match=r"there is no file '.*nime.csv'\. Did you mean 'mine.csv'\?"):
        read(tmp_path / "nime.csv")
    with pytest.raises(DataError, match=r"there is no file '.*nowhere/a.csv'$"):
        read(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(DataError, match=r"is a folder; .* a folder of images is for images\(path\)"):
        read(tmp_path)


def test_arrays_that_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones((2, 3)), y=np.ones(4))
    with pytest.raises(DataError, match=r"as many rows as each other in a table; x_0 has 2, .* and y has 4"):
        read(path)
    np.savez(path, x=np.ones((2, 3, 3)))
    with pytest.raises(DataError, match=r"the array 'x' of 'a.npz' has 3 axes, .* give its arrays to data.batches"):
        read(path)
    np.savez(path, x=np.array([object()]))
    with pytest.raises(DataError, match=r"not a table that can be read: Object arrays"):
        read(path)


def test_what_is_no_frame() -> None:
    pd = pytest.importorskip("pandas")
    for data, sentence in (
        (3, r"a table is the path of a file, .* a dict of columns or a list of dicts; got a int"),
        ([], r"a table is the path of a file, .* got a list"),
        ([1, 2], r"a table is the path of a file, .* got a list"),
        ({}, r"this dict is a table without columns"),
        ({"a": []}, r"this dict is a table without rows"),
        ({"a": [1], "b": [1, 2]}, r"this dict is not a table: .*length"),
        ({"a": [1, "x"]}, r"this dict is not a table: in the column 'a', .*'x'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"this DataFrame has more than one column 'a'"),
        (pd.DataFrame({"a": [1, "x"]}), r"this DataFrame is not a table: .*column a"),
    ):
        with pytest.raises(DataError, match=sentence):
            read(data)


def test_what_is_not_installed_is_said() -> None:
    program = """
import sys
for name in ("pyarrow", "numpy", "sklearn", "PIL", "pandas"):
    sys.modules[name] = None
from micrograd_core import asarray, data
class Foreign(list):
    __array_interface__ = {}
try:
    data.batches({"a": Foreign()}, 3)
except ImportError as error:
    print(type(error).__name__, error)
with __import__("micrograd_core").use_device("rawbuffer"):
    for x, y in data.batches(([[1.0], [2.0]], asarray([3, 4])), 2, shuffle=False):
        print(x.tolist(), y.tolist())
    print(next(iter(data.batches([(asarray([1.0]), 5)], 1)))[0].tolist())
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == (
        "MissingExtra an array needs numpy; install it with: pip install 'micrograd-core[cpu]'\n"
        "[[1.0], [2.0]] [3, 4]\n[[1.0]]\n"
    )
    assert issubclass(MissingExtra, ImportError)


# ── files that unpack to more than they are ──────────────────────────────────────────────────────────────────


ZEROS, TEXTS = pa.array(np.zeros(1_000_000)), ["eight ch" * 100] * 10_000
CODED = pa.DictionaryArray.from_arrays(np.zeros(10_000, np.int32), ["eight ch" * 100])
PARQUET = {
    "zeros": (ZEROS, {}),
    "texts": (pa.array(TEXTS), {}),
    "bytes": (pa.array(TEXTS, pa.binary()), {}),
    "views": (pa.array(TEXTS, pa.string_view()), {}),
    "lists": (pa.array([[each] for each in TEXTS]), {}),
    "structs": (pa.array([{"a": each} for each in TEXTS]), {}),
    "fixed": (pa.array([b"eight ch" * 100] * 10_000, pa.binary(800)), {}),
    "coded": (CODED, {}),
    "prefixes": (
        pa.array(10 * TEXTS),
        {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}, "data_page_size": 1 << 30},
    ),
}
"""Columns of Parquet that take 8 MB or more, and how they are written."""
ARROW = {
    "zeros": ZEROS,
    "texts": pa.array(TEXTS),
    "coded": CODED,
    "views": pa.Array.from_buffers(  # length, first four bytes, number and offset of the buffer that all of them share
        pa.string_view(),
        10_000,
        [None, pa.py_buffer((b"\x20\x03\0\0eigh" + bytes(8)) * 10_000), pa.py_buffer(b"eight ch" * 100)],
    ),
    "dictionary": pa.DictionaryArray.from_arrays(np.zeros(10, np.int32), ZEROS),
}
BOMBS = ["x.npz", "x.csv.gz", *[f"{each}.parquet" for each in PARQUET]]
BOMBS += [f"{each}-{kind}.arrow" for each in ARROW for kind in ("file", "stream")]


def bomb(name: str, place: Path) -> Path:
    """A small file of 8 MB: zeros, or one text many times."""
    path = place / name
    if name == "x.npz":
        np.savez_compressed(path, x=np.zeros(1_000_000))
    elif name.endswith(".parquet"):
        column, how = PARQUET[path.stem]
        pq.write_table(pa.table({"x": column}), path, **how)
    elif name.endswith(".arrow"):
        column, kind = path.stem.split("-")
        table = pa.table({"x": ARROW[column]})
        options = ipc.IpcWriteOptions(compression="zstd")
        with {"file": ipc.new_file, "stream": ipc.new_stream}[kind](path, table.schema, options=options) as file:
            file.write_table(table)
    else:
        path.write_bytes(gzip.compress(b"x\n" + b"0.00000\n" * 1_000_000))
    assert path.stat().st_size < 100_000
    return path


POOLS = [pa.default_memory_pool()]
"""Where pyarrow takes memory; they must outlive what is in them."""


@pytest.mark.parametrize("name", BOMBS)
def test_what_unpacks_to_more_than_the_memory_is_refused_before(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bomb(name, tmp_path)
    monkeypatch.setattr(memory, "available", lambda: 7_900_000)
    POOLS.append(pool := pa.proxy_memory_pool(POOLS[0]))  # which counts from here on
    pa.set_memory_pool(pool)
    with pytest.raises(
        DataError, match=rf"'{name}' has [\d,]+ bytes and unpacks to [\d,]+ or more, and 7,900,000 bytes"
    ):
        read(path)
    assert pool.max_memory() < {"prefixes.parquet": 20_000_000}.get(
        name, 800_000
    )  # these are read until it is too much
    pa.set_memory_pool(POOLS[0])
    monkeypatch.setattr(memory, "available", lambda: 300_000_000)
    assert read(path).num_rows in (10, 10_000, 100_000, 1_000_000)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_arrow_files_of_polars_are_read(compression: str, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")  # whose files are no streams
    frame = pl.DataFrame({**COLUMNS, "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical)})
    frame.write_ipc(tmp_path / "t.arrow", compression=compression)
    frame.write_ipc_stream(tmp_path / "s.arrow", compression=compression)
    for name in ("t.arrow", "s.arrow"):
        assert read(tmp_path / name).to_pydict() == frame.to_dict(as_series=False)


def test_memory_that_is_available_is_no_more_than_there_is() -> None:
    assert 0 < memory.available() <= engine_memory()
