//! The values of arrays as fields of text.

use std::fmt::{Display, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;

/// The values of one array.
pub(super) struct Field<'a> {
    array: &'a ArrayRef,
    write: WriteRow<'a>,
}

/// Adds the value of a row to a text.
type WriteRow<'a> = Box<dyn Fn(usize, &mut String) + 'a>;

/// Whether values of a type can be written.
pub(super) fn is_writable(kind: &DataType) -> bool {
    kind.is_integer()
        || matches!(kind, DataType::Float32 | DataType::Float64 | DataType::Boolean)
        || matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

impl<'a> Field<'a> {
    /// The values of an array of a type that [`is_writable`] says yes to.
    pub(super) fn of(array: &'a ArrayRef) -> Self {
        let write: WriteRow<'a> = match array.data_type() {
            DataType::Int8 => whole::<Int8Type>(array.as_primitive()),
            DataType::Int16 => whole::<Int16Type>(array.as_primitive()),
            DataType::Int32 => whole::<Int32Type>(array.as_primitive()),
            DataType::Int64 => whole::<Int64Type>(array.as_primitive()),
            DataType::UInt8 => whole::<UInt8Type>(array.as_primitive()),
            DataType::UInt16 => whole::<UInt16Type>(array.as_primitive()),
            DataType::UInt32 => whole::<UInt32Type>(array.as_primitive()),
            DataType::UInt64 => whole::<UInt64Type>(array.as_primitive()),
            // The shortest digits that are read as the same value.
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                text(move |row| format!("{:?}", values[row]))
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                text(move |row| format!("{:?}", values[row]))
            }
            DataType::Boolean => text(|row| array.as_boolean().value(row)),
            DataType::Utf8 => text(|row| array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => text(|row| array.as_string::<i64>().value(row)),
            DataType::Utf8View => text(|row| array.as_string_view().value(row)),
            other => unreachable!("no file is begun with a column of type {other}"),
        };
        Self { array, write }
    }

    /// Adds the value of a row to a text, nothing where it is missing.
    pub(super) fn write(&self, row: usize, into: &mut String) {
        if self.array.is_valid(row) {
            (self.write)(row, into);
        }
    }
}

fn whole<'a, T: ArrowPrimitiveType<Native: Display>>(array: &'a PrimitiveArray<T>) -> WriteRow<'a> {
    text(|row| array.value(row))
}

fn text<'a, V: Display>(value: impl Fn(usize) -> V + 'a) -> WriteRow<'a> {
    Box::new(move |row, into| {
        let _always = write!(into, "{}", value(row));
    })
}
