//! The arrays of a decoded file as the columns that were asked for.

use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;

use super::columns::{Column, Content, Lists, NameColumn, Request};
use super::csv::{is_whole, push_number};
use super::pages::Found;
use crate::error::shown;
use crate::formats::name_index::NAME_BYTES_MAX;

/// Runs an expression for the array of numbers that another one is.
macro_rules! numbers {
    ($array:expr, $of:ident, [$($kind:ident => $type:ty),*], $other:expr) => {
        match $array.data_type() {
            $(DataType::$kind => $of::<$type>($array.as_primitive()),)*
            _ => $other,
        }
    };
}

/// Whether an array of a type can hold what is asked of it.
pub(super) fn accepts(content: Content, kind: &DataType) -> bool {
    match (content, kind) {
        (Content::Names, kind) => kind.is_integer() || *kind == DataType::Utf8View,
        (Content::Labels, kind) => {
            is_number(kind) || matches!(kind, DataType::Utf8View | DataType::Boolean)
        }
        (Content::Numbers, kind) => is_number(kind),
        (Content::NumberLists, DataType::List(item)) => is_number(item.data_type()),
        (Content::IndexLists, DataType::List(item)) => item.data_type().is_integer(),
        _ => false,
    }
}

fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

/// The values of an array of a type that [`accepts`] says yes to. Otherwise the row of the first value that cannot be used.
pub(super) fn column(request: &Request, array: &ArrayRef) -> Result<Column, (usize, Found)> {
    let in_column = |(row, (found, expected)): (usize, Found)| {
        (row, (format!("{found} in the column {}", shown(request.name.as_bytes())), expected))
    };
    let column = match request.content {
        Content::Names => names(array).map(Column::Names),
        Content::Labels => labels(array).map(Column::Names),
        Content::Numbers => floats(array).map(Column::Numbers),
        Content::NumberLists => lists(array, floats).map(Column::NumberLists),
        Content::IndexLists => lists(array, whole_numbers).map(Column::IndexLists),
    };
    column.map_err(in_column)
}

type Checked<T> = Result<T, (usize, Found)>;

/// Checks that there is no missing value.
fn check_no_null(array: &dyn Array, expected: &str) -> Checked<()> {
    match (array.null_count() > 0).then(|| (0..array.len()).find(|row| array.is_null(*row))) {
        Some(Some(row)) => Err((row, ("NULL".into(), expected.into()))),
        _ => Ok(()),
    }
}

fn floats(array: &ArrayRef) -> Checked<Vec<f32>> {
    fn all<T: ArrowPrimitiveType<Native: AsF32>>(array: &PrimitiveArray<T>) -> Vec<f32> {
        array.values().iter().map(|value| value.as_f32()).collect()
    }

    let expected = "a finite number of 32 bits";
    check_no_null(array, expected)?;
    let values = numbers!(
        array,
        all,
        [Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type, UInt8 => UInt8Type,
         UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type,
         Float32 => Float32Type, Float64 => Float64Type],
        array.as_primitive::<Float16Type>().values().iter().map(|value| value.to_f32()).collect()
    );
    if any(&values, |value| !value.is_finite()) {
        let row = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
        return Err((row, (values[row].to_string(), expected.into())));
    }
    Ok(values)
}

/// Whether something holds for any value. It looks at all values, as many at once as the processor can.
fn any<T: Copy>(values: &[T], holds: impl Fn(T) -> bool) -> bool {
    values.iter().fold(false, |any, value| any | holds(*value))
}

fn whole_numbers(array: &ArrayRef) -> Checked<Vec<u64>> {
    fn all<T: ArrowPrimitiveType<Native: AsU64>>(array: &PrimitiveArray<T>) -> Checked<Vec<u64>> {
        let values = array.values();
        if any(values, AsU64::is_below_zero) {
            let row = values.iter().position(|value| value.is_below_zero()).unwrap_or(0);
            let expected = format!("a whole number, 0 to {}", u64::MAX);
            return Err((row, (format!("{:?}", values[row]), expected)));
        }
        Ok(values.iter().map(|value| value.as_u64()).collect())
    }

    check_no_null(array, "a whole number")?;
    numbers!(
        array,
        all,
        [Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type, UInt8 => UInt8Type,
         UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type],
        Ok(Vec::new())
    )
}

/// Whole numbers as text.
fn written(array: &ArrayRef) -> Checked<Lists<u8>> {
    fn all<T: ArrowPrimitiveType<Native: Display>>(array: &PrimitiveArray<T>) -> Lists<u8> {
        let mut names = Lists::new();
        array.values().iter().for_each(|value| push_number(&mut names, value));
        names
    }

    check_no_null(array, "a whole number")?;
    Ok(numbers!(
        array,
        all,
        [Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type, UInt8 => UInt8Type,
         UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type],
        Lists::new()
    ))
}

fn names(array: &ArrayRef) -> Checked<NameColumn> {
    if *array.data_type() != DataType::Utf8View {
        return whole_numbers(array).map(NameColumn::Numbers);
    }

    let expected = format!("text of 1 to {NAME_BYTES_MAX} bytes");
    check_no_null(array, &expected)?;
    let mut names = Lists::new();
    for (row, name) in array.as_string_view().iter().flatten().enumerate() {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err((row, (shown(name.as_bytes()), expected)));
        }
        names.push(name.as_bytes());
    }
    Ok(NameColumn::Text(names))
}

/// Adds numbers that are whole, as text.
fn push_whole<T: Copy + Into<f64>>(names: &mut Lists<u8>, values: &[T]) -> Checked<()> {
    for (row, value) in values.iter().enumerate() {
        let value: f64 = (*value).into();
        if !is_whole(value) {
            return Err((row, (value.to_string(), WHOLE.into())));
        }
        push_number(names, value as i64);
    }
    Ok(())
}

/// What is expected of a label.
const WHOLE: &str = "a whole number";

fn labels(array: &ArrayRef) -> Checked<NameColumn> {
    let mut names = Lists::new();
    match array.data_type() {
        DataType::Utf8View => return self::names(array),
        DataType::Boolean => {
            check_no_null(array, "a truth value")?;
            let values = array.as_boolean().iter().flatten();
            values.for_each(|value| names.push(value.to_string().as_bytes()));
        }
        // A number of 32 bits does not hold each whole number that one of 64 does.
        DataType::Float64 => {
            check_no_null(array, WHOLE)?;
            push_whole(&mut names, array.as_primitive::<Float64Type>().values())?;
        }
        DataType::Float16 | DataType::Float32 => push_whole(&mut names, &floats(array)?)?,
        _ => names = written(array)?,
    }
    Ok(NameColumn::Untyped(names))
}

/// The lists of an array, whose values `read` takes from the array of their items.
fn lists<T: Copy>(
    array: &ArrayRef,
    read: impl FnOnce(&ArrayRef) -> Checked<Vec<T>>,
) -> Checked<Lists<T>> {
    check_no_null(array, "a list")?;
    let array = array.as_list::<i32>();
    let ends: Vec<usize> = array.value_offsets().iter().map(|end| *end as usize).collect();
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    let items: ArrayRef = array.values().slice(first, last - first);
    let values = read(&items)
        .map_err(|(item, found)| (ends.partition_point(|end| *end <= first + item) - 1, found))?;

    let mut lists = Lists::new();
    for ends in ends.windows(2) {
        lists.push(&values[ends[0] - first..ends[1] - first]);
    }
    Ok(lists)
}

/// A number as 32 bits, rounded. Too large ones are infinite.
trait AsF32: Copy {
    fn as_f32(self) -> f32;
}

macro_rules! as_f32 {
    ($($kind:ty),*) => {$(
        impl AsF32 for $kind {
            fn as_f32(self) -> f32 {
                self as f32
            }
        }
    )*};
}

as_f32!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// A whole number that may be one from 0.
trait AsU64: Copy {
    fn is_below_zero(self) -> bool;

    fn as_u64(self) -> u64;
}

macro_rules! as_u64 {
    ($($kind:ty),*) => {$(
        impl AsU64 for $kind {
            #[allow(unused_comparisons, reason = "some kinds have no sign")]
            fn is_below_zero(self) -> bool {
                self < 0
            }

            fn as_u64(self) -> u64 {
                self as u64
            }
        }
    )*};
}

as_u64!(i8, i16, i32, i64, u8, u16, u32, u64);
