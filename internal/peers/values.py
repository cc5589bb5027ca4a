"""Prints what pyarrow reads of a Parquet file, column by column: its name, then each value in the form of digest (value_test.go), a line each.

Checksums of pages are verified. The statistics of each row group must be those of its values.
"""

import math
import struct
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def form(column):
    """Returns the values of a column as Python has them, and the function that writes one."""
    t = column.type
    if pa.types.is_boolean(t):
        return column, lambda v: "bool true" if v else "bool false"
    if pa.types.is_int64(t):
        return column, lambda v: f"int {v}"
    if pa.types.is_float64(t):
        return column, double
    if pa.types.is_string(t):
        return column, lambda v: "bytes " + v.encode().hex()
    if pa.types.is_timestamp(t) and t.tz == "UTC":
        return column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), lambda v: f"time {v}"
    if pa.types.is_date32(t):
        return column.cast(pa.int32()), lambda v: f"date {v}"
    raise TypeError(f"{t} is no type that Hindcast writes")


def double(v):
    bits = 0x7FF8000000000001 if math.isnan(v) else struct.unpack("<Q", struct.pack("<d", v))[0]
    return f"float {bits:016x}"


def check(name, column, s):
    """Holds a row group's statistics against its values."""
    values = [v for v in column.to_pylist() if v is not None]
    if not (isinstance(values[0], float)):
        assert s.has_min_max and (s.min, s.max) == (min(values), max(values)), f"{name}: the statistics have {s.min} to {s.max}"
    assert s.has_null_count and s.null_count == column.null_count, f"{name}: the statistics have {s.null_count} nulls"


file = pq.ParquetFile(sys.argv[1], page_checksum_verification=True)
table = file.read()
table.validate(full=True)
for g in range(file.num_row_groups):
    group = file.read_row_group(g)
    for i, name in enumerate(group.column_names):
        meta = file.metadata.row_group(g).column(i)
        assert meta.has_offset_index, f"{name} has no offset index"
        if not meta.has_column_index and sys.argv[1].endswith("taken.parquet"):  # of pages that were taken as they lay bounds may not be known
            assert not meta.statistics.has_min_max, f"{name} has bounds, and its pages have none"
            continue
        assert meta.has_column_index, f"{name} has no column index"
        check(name, group.column(i), meta.statistics)
for name in table.column_names:
    values, text = form(table.column(name))
    print(name)
    for v in values.to_pylist():
        print("null " if v is None else text(v))
