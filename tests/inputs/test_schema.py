"""What a column holds is read once, from the name of its type."""

import numpy as np
import pytest

from locuscore._inputs.schema import ColumnKind, Schema, column_kinds, kind_of


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ColumnKind.FLOAT, ["Float64", "Float32", "float64", "float16"]),
        (ColumnKind.INTEGER, ["Int64", "UInt8", "int32", "uint64", "Int128"]),
        (ColumnKind.DECIMAL, ["Decimal", "Decimal(precision=10, scale=2)"]),
        (ColumnKind.TRUTH, ["Boolean", "bool"]),
        (ColumnKind.TEXT, ["String", "<U5", "|S3"]),
        (ColumnKind.CATEGORY, ["Categorical", "Enum(categories=['a', 'b'])"]),
        (ColumnKind.DATE, ["Date"]),
        (ColumnKind.TIME, ["Datetime(time_unit='ns', time_zone=None)", "datetime64[ns]"]),
        (ColumnKind.ZONED_TIME, ["Datetime(time_unit='us', time_zone='Europe/Berlin')"]),
        (ColumnKind.DURATION, ["Duration(time_unit='us')", "timedelta64[s]"]),
        (ColumnKind.OBJECT, ["Object", "object"]),
        (ColumnKind.UNKNOWN, ["Unknown"]),
        (ColumnKind.OTHER, ["List(Int64)", "Struct({'a': Int64})", "Binary", "Time", "complex128"]),
    ],
)
def test_every_type_has_its_kind(kind, names):
    assert {kind_of(name) for name in names} == {kind}


@pytest.mark.extra
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_libraries_agree_on_the_kinds_of_a_frame(library):
    from frames_for_tests import frame_of_all_kinds, to_arrow, to_polars

    change = {"pandas": lambda frame, _: frame, "polars": to_polars, "pyarrow": to_arrow}[library]
    schema = Schema.of(change(frame_of_all_kinds(), None))
    assert [kind.value for kind in schema.kinds] == [
        "float",
        "float",
        "integer",
        "truth",
        "text",
        "category",
        "time",
        "zoned time",
    ]
    assert schema.zones == (None,) * 7 + ("Europe/Berlin",)


@pytest.mark.extra
def test_types_of_pandas_are_read_as_narwhals_reads_them():
    import narwhals as nw
    import pandas as pd

    values = {
        "float": np.ones(2, dtype=np.float32),
        "whole": np.ones(2, dtype=np.uint8),
        "truth": np.ones(2, dtype=bool),
        "time": np.array(["2020-01-01"] * 2, dtype="M8[s]"),
        "duration": np.array([1, 2], dtype="m8[s]"),
        "levels": pd.Categorical(["a", "b"]),
        "ordered": pd.Categorical(["a", "b"], ordered=True),
        "text": ["a", "b"],
        "objects": pd.Series([{}, {}], dtype=object),
        "nullable": pd.array([1, None], dtype="Int64"),
        "arrow": pd.array(["a", "b"], dtype="string[pyarrow]"),
    }
    frame = nw.from_native(pd.DataFrame(values), eager_only=True)
    read = column_kinds(frame, range(len(values)))
    assert read == [kind_of(str(dtype)) for dtype in frame.schema.values()]
    assert column_kinds(frame, [5, 0]) == [ColumnKind.CATEGORY, ColumnKind.FLOAT]


def test_an_array_has_one_kind():
    assert Schema.of(np.ones((2, 3), dtype=np.int16)).kinds == (ColumnKind.INTEGER,) * 3
