"""Tables from files and frames, as pyarrow has them; and where in them something stands, for errors."""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from micrograd_core.data.collating import comes_from
from micrograd_core.data.errors import DataError, listed
from micrograd_core.support.escaping import printable
from micrograd_train.dataset import Dataset
from micrograd_train.notices import DataWarning, nearest
from micrograd_train.tables import memory
from micrograd_train.tables.arrow import declared, messages

if TYPE_CHECKING:
    from micrograd_train.tables.preparation import Preparation

ALSO_MISSING = ("?", "-")
"""Cells that say nothing, beside those that pyarrow knows (empty ones, NA, NaN, null and the like)."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""How such files begin; spreadsheets write them as "Unicode text"."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
COPIES = 3
"""How often a text is in memory while it is read: as it is, and as one table or two."""
NO_NUMBER = r"^\s*(0\d+|\d{19,})\s*$"
"""Digits that a number would lose: of postal codes, of accounts. Columns with such are text."""


def read(
    data: Any,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf8",
    preparation: Preparation | None = None,
) -> Any:
    """Read a table from a file, or from another library's frame.

    Parameters
    ----------
    data : str, Path, or frame
        A file ``.csv``, ``.tsv`` (also compressed, ``.csv.gz``), ``.parquet``, ``.arrow``, ``.feather`` or ``.npz``; or
        a pandas, polars or pyarrow table, a dict of columns, a list with a dict for each row, a `Dataset`.
    delimiter : str, optional
        What separates cells of a text file; by default what its first line shows: a comma, a semicolon or a tab.
    decimal : str, optional
        What stands before the fraction of a number; by default a point, or in columns that are whole only so, where no
        comma separates cells, a comma.
    encoding : str, default "utf8"
        Of a text file; one that begins as UTF-16 is read as that.
    preparation : Preparation, optional
        One that the table is for: what was text when it was made is read as text, also where it looks like numbers.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    DataError
        When there is no such file, or no table in it, or an empty one.

    Examples
    --------
    >>> from micrograd_train import read
    >>> read({"length": [1.0, 2.0], "kind": ["a", "b"]}).column_names
    ['length', 'kind']
    """
    if not isinstance(data, (str, Path)):
        return _checked(_from_frame(pa, data), f"this {type(data).__name__}")
    path = Path(data)
    kind = _kind(path)
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; a table is one file, and a folder of images is for images(path)")
    if not path.exists():
        near = nearest(path.name, [each.name for each in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise DataError(f"there is no file {str(path)!r}{near}")
    if kind not in _READERS:
        raise DataError(
            f"{path.name!r} is not known as a table by its name; tables are {listed(_READERS)}. "
            "From a spreadsheet, save as CSV"
        )
    if not path.stat().st_size:
        raise DataError(f"{path.name!r} is empty")
    options = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "preparation": preparation}
    try:
        table, told = _READERS[kind](pa, path, **options)
    except DataError:
        raise
    except Exception as error:  # pyarrow's and NumPy's, of all kinds
        said = printable(str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
        raise DataError(f"{path.name!r} is not a table that can be read: {said}") from error
    known = json.dumps({"file": path.name, "lines": False, **told}).encode()
    return _checked(table.replace_schema_metadata({b"micrograd": known}), repr(path.name))


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in COMPRESSED), "")


class Fields(NamedTuple):
    """A text file as it is written: what separates its fields, the mark before fractions, and each field as text."""

    delimiter: str
    decimal: str
    table: Any


def fields(data: Any, table: Any) -> Fields | None:
    """The fields of the file that `read` made a table from, every one of them; None of what is no text file."""
    if not isinstance(data, (str, Path)) or _READERS.get(_kind(Path(data))) is not _text:
        return None
    told = json.loads(table.schema.metadata[b"micrograd"])
    raw = _raw(pa, Path(data), told["encoding"])
    return Fields(told["delimiter"], told["decimal"], _parsed(pa, raw, told["delimiter"]))


def place(table: Any, row: int, column: str) -> str:
    """Where a cell is: its row, counted from 1, its column, and its line where that is known."""
    told = json.loads((table.schema.metadata or {}).get(b"micrograd", b"{}"))
    file = told.get("file") and printable(told["file"])
    of = "" if file is None else f" (line {row + 2} of {file})" if told["lines"] else f" of {file}"
    return f"row {row + 1}{of}, column {column!r}"


def _checked(table: Any, name: str) -> Any:
    names = table.column_names
    twice = [each for i, each in enumerate(names) if each in names[:i]]
    if twice:
        raise DataError(f"{name} has more than one column {twice[0]!r}; give each a name of its own")
    if "" in names:
        warnings.warn(
            f"column {names.index('') + 1} of {name} has no name and is left out; are those numbers of rows?",
            DataWarning,
            stacklevel=3,
        )
        table = table.drop_columns([""])
    if not table.num_columns or not table.num_rows:
        rows = "rows" if table.num_columns else "columns"
        raise DataError(f"{name} is a table without {rows}; there is nothing to learn from")
    return table


def _from_frame(pa: Any, data: Any) -> Any:
    if isinstance(data, Dataset):
        return data.table()
    try:
        if comes_from(data, "pandas", "DataFrame"):
            data = data.rename(columns=str)
            twice = data.columns[data.columns.duplicated()]
            if len(twice):
                raise DataError(f"this DataFrame has more than one column {twice[0]!r}; give each a name of its own")
            return pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata()
        if comes_from(data, "polars", "LazyFrame"):
            data = data.collect()
        if comes_from(data, "polars", "DataFrame"):
            return data.to_arrow()
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
            data = {
                name: [row.get(name) for row in data] for name in dict.fromkeys(name for row in data for name in row)
            }
        if isinstance(data, Mapping):
            return pa.table({str(name): _column(pa, name, column) for name, column in data.items()})
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"this {type(data).__name__} is not a table: {printable(error).rstrip('.')}") from error
    raise DataError(
        "a table is the path of a file, a pandas, polars or pyarrow table, a dict of columns or a list of dicts; "
        f"got a {type(data).__name__}"
    )


def _column(pa: Any, name: str, column: Any) -> Any:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        return pa.array(column.numpy() if hasattr(column, "numpy") else column)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeError(f"in the column {name!r}, {str(error).rstrip('.')}") from error


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


def _raw(pa: Any, path: Path, encoding: str) -> Any:
    most, taken = memory.available() // COPIES, io.BytesIO()
    with pa.input_stream(str(path), compression="detect") as stream:
        while taken.tell() <= most and (piece := stream.read(1 << 24)):
            taken.write(piece)
    if taken.tell() > most:
        memory.refuse_larger(path, taken.tell() * COPIES)
    raw = taken.getvalue()
    return raw if encoding.lower().replace("-", "") == "utf8" else raw.decode(encoding).encode()


def _parsed(pa: Any, raw: bytes, delimiter: str, **how: Any) -> Any:
    """A table of what `raw` holds; of texts, as they are written, unless `how` says how columns become values."""
    read_options = csv.ReadOptions(use_threads=False)  # several do not count lines
    parse = {"delimiter": delimiter, "newlines_in_values": True}
    if not how:
        first = csv.open_csv(pa.BufferReader(raw), read_options, csv.ParseOptions(**parse)).schema.names
        how = {"column_types": dict.fromkeys(first, pa.string()), "null_values": [], "strings_can_be_null": False}
    handler = how.pop("invalid_row_handler", None)
    options = csv.ParseOptions(**parse, invalid_row_handler=handler)
    return csv.read_csv(pa.BufferReader(raw), read_options, options, csv.ConvertOptions(**how))


def _text(
    pa: Any, path: Path, delimiter: str | None, decimal: str | None, encoding: str, preparation: Preparation | None
) -> tuple[Any, dict[str, Any]]:
    """A text file, whether each line is a row, and how it is written."""
    with pa.input_stream(str(path), compression="detect") as stream:
        if stream.read(2) in UTF16:
            encoding = "utf-16"
    raw = _raw(pa, path, encoding)
    if b"\0" in raw[:4096]:
        raise DataError(f"{path.name!r} is not a table: it holds no text, whatever its name says")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path.name!r} is not UTF-8 text: line {line} has a byte {raw[error.start]:#x}; save it as UTF-8, or say "
            "which encoding it has, as in encoding='latin-1'"
        ) from error
    head = raw.lstrip(b"\r\n").partition(b"\n")[0]
    found = delimiter or max(",;\t", key=lambda each: head.count(each.encode()))
    wrong: list[Any] = []

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    how = {
        "null_values": [*csv.ConvertOptions().null_values, *ALSO_MISSING],
        "strings_can_be_null": True,
        "decimal_point": decimal or ".",
        "column_types": {} if preparation is None else dict.fromkeys(preparation.texts, pa.string()),
    }
    try:
        table = _parsed(pa, raw, found, invalid_row_handler=refuse, **how)
    except pa.ArrowInvalid as error:
        if not wrong:
            raise
        row = wrong[0]
        line = f"line {row.number} of " if row.number else ""
        raise DataError(
            f"{line}{printable(path.name)} has {row.actual_columns} cells, and the first line {row.expected_columns}: "
            f"{row.text[:80]!r}"
        ) from error
    if re.search(rb"(?<![^\s,;|\"])(0\d|\d{19})", raw):
        expected = () if preparation is None else preparation.numbers
        digits = [
            each.name
            for each in table.schema
            if (pa.types.is_integer(each.type) or pa.types.is_floating(each.type)) and each.name not in expected
        ]
        texts = _parsed(pa, raw, found, **{**how, "column_types": dict.fromkeys(digits, pa.string())})
        for name in digits if len(set(table.column_names)) == table.num_columns else []:
            if pc.any(pc.match_substring_regex(texts[name], NO_NUMBER)).as_py():
                table = table.set_column(table.column_names.index(name), name, texts[name])
    mark = decimal or "."
    if decimal is None and found != ",":
        commas = _with_commas(pa, table, preparation)
        mark, table = "." if commas is table else ",", commas
    ended = raw.rstrip(b"\r\n").count(b"\n")
    return table, {"lines": ended == table.num_rows, "delimiter": found, "decimal": mark, "encoding": encoding}


WHOLE = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d+)?\s*$"
"""A number with a comma before its fraction, and points between thousands."""
FRACTION = r",(\d{1,2}|\d{4,})\s*$"
"""A comma that cannot be one between thousands."""


def _with_commas(pa: Any, table: Any, preparation: Preparation | None) -> Any:
    """Columns of text that hold numbers with commas, as numbers.

    That commas stand before fractions one cell must show, in whichever column; or the preparation, to which these
    columns are numbers.
    """
    known = () if preparation is None else preparation.texts
    expected = () if preparation is None else preparation.numbers
    found = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name not in known
        and pa.types.is_string(column.type)
        and pc.all(pc.match_substring_regex(column, WHOLE)).as_py()
        and pc.any(pc.match_substring_regex(column, r"\d")).as_py()
    ]
    shown = any(pc.any(pc.match_substring_regex(table[name], FRACTION)).as_py() for name in found)
    for name in found if shown else [name for name in found if name in expected]:
        texts = pc.replace_substring(pc.replace_substring(table[name], ".", ""), ",", ".")
        texts = pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), ""), None, pc.utf8_trim_whitespace(texts))
        column = pc.cast(texts, pa.float64())
        table = table.set_column(table.column_names.index(name), name, column)
    return table


CODED = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
"""Encodings of texts in Parquet that pyarrow reads without unpacking what a dictionary repeats."""
WIDTHS = {"BOOLEAN": 0, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""Bytes of a value of Parquet, at least: of a text, those that say where the next one begins."""
ROWS = 1 << 20
"""Rows of Parquet that are read at once, at most."""


def _parquet(pa: Any, path: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    free, takes, rows = memory.available(), 0, ROWS
    with parquet.ParquetFile(path) as file:
        told, leaves, schema = file.metadata, file.schema, file.schema_arrow
    coded = []
    for i in range(told.num_columns):
        chunks = [told.row_group(group).column(i) for group in range(told.num_row_groups)]
        leaf, sizes = leaves.column(i), [chunk.total_uncompressed_size for chunk in chunks]
        width = WIDTHS.get(leaf.physical_type, leaf.length)
        takes += max(sum(sizes), width * sum(chunk.num_values for chunk in chunks))  # runs and dictionaries are packed
        if leaf.physical_type == "BYTE_ARRAY":
            if all(CODED.issuperset(chunk.encodings) for chunk in chunks):
                coded.append(leaf.path)  # their texts are unpacked by the cast below
            else:  # each text may repeat all of its chunk
                rows = min(rows, max(1, free // max(sizes)))
    memory.refuse_larger(path, takes, free)
    pieces, takes = [], 0
    with parquet.ParquetFile(path, read_dictionary=coded) as file:
        for piece in file.iter_batches(rows):
            pieces.append(piece)
            takes += sum(map(_unpacked, piece.columns))
            memory.refuse_larger(path, takes, free)
    for i, each in enumerate(schema):
        if pa.types.is_string_view(each.type):  # to which pyarrow casts no dictionary
            schema = schema.set(i, each.with_type(pa.large_string()))
    return (pa.Table.from_batches(pieces).cast(schema) if pieces else schema.empty_table()), {}


def _unpacked(array: Any) -> int:
    """Bytes of the values of an array, where texts that a dictionary or a view repeats count as often as they occur."""
    if isinstance(array, pa.StructArray):
        return sum(map(_unpacked, array.flatten()))
    if isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        return _unpacked(array.flatten())
    if isinstance(array, pa.DictionaryArray):
        lengths = _lengths(array.dictionary)
        return array.nbytes if lengths is None else pc.sum(lengths.take(array.indices)).as_py() or 0
    lengths = _lengths(array) if isinstance(array, (pa.StringViewArray, pa.BinaryViewArray)) else None
    return array.nbytes if lengths is None else pc.sum(lengths).as_py() or 0


def _lengths(array: Any) -> Any:
    """Bytes of each text of an array; None of an array of something else."""
    if isinstance(array, (pa.StringViewArray, pa.BinaryViewArray)):  # 16 bytes each, which begin with the length
        views = np.frombuffer(array.buffers()[1], np.int32)[::4]
        return pa.array(views[array.offset : array.offset + len(array)])
    texts = isinstance(array, (pa.StringArray, pa.LargeStringArray, pa.BinaryArray, pa.LargeBinaryArray))
    return pc.binary_length(array) if texts else None


def _arrow(pa: Any, path: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    with pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        memory.refuse_larger(path, sum(map(declared, messages(file, is_file))))
        file.seek(0)
        table = (ipc.open_file(file) if is_file else ipc.open_stream(file)).read_all()
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    memory.refuse_larger(path, max(table.num_rows, sum(map(_unpacked, chunks))))
    return table, {}


def _npz(pa: Any, path: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Arrays by their names; one with two axes gives a column for each of its columns."""
    columns: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive:  # which gives no more of a member than it declares
        memory.refuse_larger(path, sum(each.file_size for each in archive.infolist()))
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            array = file[name]
            if array.ndim not in (1, 2):
                raise DataError(
                    f"the array {name!r} of {path.name!r} has {array.ndim} axes, and a column of a table has one; "
                    "load it with numpy.load, and give its arrays to data.batches"
                )
            parts = {name: array} if array.ndim == 1 else {f"{name}_{i}": part for i, part in enumerate(array.T)}
            columns.update(parts)
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        told = listed(f"{name} has {length:,}" for name, length in lengths.items())
        raise DataError(f"the arrays of {path.name!r} have as many rows as each other in a table; {told}")
    return pa.table({name: pa.array(array) for name, array in columns.items()}), {}


_READERS: dict[str, Callable[..., tuple[Any, dict[str, Any]]]] = {
    ".csv": _text,
    ".tsv": _text,
    ".txt": _text,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".npz": _npz,
}
