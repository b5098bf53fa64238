//! MessagePack, as states, log entries and messages are written in it.
//!
//! [`rmp_serde`] encodes. It could decode as well, but its decoder is compiled anew, with every branch that reads a
//! number, for each type and each of its fields: a third of the machine code of this crate. Here one function that is
//! not generic reads the next value, and little is left that depends on the type.
//!
//! Decoded is what `rmp_serde::to_vec` writes: structs as arrays, a variant as its name or as a map of its name to its
//! content. Extension types do not occur.

use std::fmt::Display;

use rmp::Marker;
use serde::de::{self, Deserialize, DeserializeSeed, Unexpected, Visitor};
use serde::{Serialize, forward_to_deserialize_any};

/// Bytes that are not the MessagePack of the type that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessagePackError {
    /// The bytes end within a value.
    #[error("the bytes end within a value")]
    Truncated,
    /// Arrays and maps in each other, more deeply than any type here needs.
    #[error("arrays and maps are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// An array or a map holds more elements than the type.
    #[error("an array or map has {surplus} elements more than expected")]
    Surplus {
        /// The elements that the type has no place for.
        surplus: u32,
    },
    /// A variant with content is a map of one element.
    #[error("a variant is a map of {found} elements, expected 1")]
    NotAVariant {
        /// The elements of the map.
        found: u32,
    },
    /// A kind of value that is never written.
    #[error("the marker {marker:#04x} starts no value that is written here")]
    UnknownKind {
        /// The first byte of the value.
        marker: u8,
    },
    /// A value that the type does not take.
    #[error("{0}")]
    Unfit(String),
}

impl de::Error for MessagePackError {
    fn custom<T: Display>(problem: T) -> Self {
        Self::Unfit(problem.to_string())
    }
}

/// Encodes a value.
///
/// # Panics
/// If the value's own [`Serialize`] fails. Derived ones do not.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(value, &mut bytes);
    bytes
}

/// Encodes a value and appends it to `out`.
///
/// # Panics
/// As [`encode`].
pub fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    rmp_serde::encode::write(out, value).expect("a vector takes every value");
}

/// Decodes a value. Bytes that follow it are passed over.
///
/// # Errors
/// If the bytes do not start with a `T`.
pub fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, MessagePackError> {
    decode_first(bytes).map(|(value, _)| value)
}

/// Decodes the value at the start of `bytes`, and returns the bytes that follow it too.
///
/// Memory is allocated in proportion to the bytes there are, not to lengths that they claim.
///
/// # Errors
/// If the bytes do not start with a `T`.
pub fn decode_first<'de, T: Deserialize<'de>>(
    bytes: &'de [u8],
) -> Result<(T, &'de [u8]), MessagePackError> {
    let mut decoder = Decoder { rest: bytes, depth_left: DEPTH_MAX };
    let value = T::deserialize(&mut decoder)?;
    Ok((value, decoder.rest))
}

/// Arrays and maps in each other: no type here needs more than about ten, and each costs stack.
const DEPTH_MAX: u32 = 128;

struct Decoder<'de> {
    rest: &'de [u8],
    depth_left: u32,
}

/// One value, or the head of an array or a map.
enum Value<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Single(f32),
    Double(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    Array(u32),
    Map(u32),
}

impl<'de> Decoder<'de> {
    /// The next value. Not inlined: there shall be one copy of it and not one for each type.
    #[inline(never)]
    fn value(&mut self) -> Result<Value<'de>, MessagePackError> {
        let [marker] = self.array()?;
        Ok(match Marker::from_u8(marker) {
            Marker::Null => Value::Nil,
            Marker::True => Value::Bool(true),
            Marker::False => Value::Bool(false),

            Marker::FixPos(number) => Value::Unsigned(number.into()),
            Marker::U8 => Value::Unsigned(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Value::Unsigned(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Value::Unsigned(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Value::Unsigned(u64::from_be_bytes(self.array()?)),
            Marker::FixNeg(number) => Value::Signed(number.into()),
            Marker::I8 => Value::Signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Value::Signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Value::Signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Value::Signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Value::Single(f32::from_be_bytes(self.array()?)),
            Marker::F64 => Value::Double(f64::from_be_bytes(self.array()?)),

            Marker::FixStr(length) => Value::Text(self.text(length.into())?),
            Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = self.length(marker, Marker::Str8)?;
                Value::Text(self.text(length)?)
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let length = self.length(marker, Marker::Bin8)?;
                Value::Bytes(self.bytes(length)?)
            }

            Marker::FixArray(length) => Value::Array(length.into()),
            Marker::Array16 => Value::Array(u16::from_be_bytes(self.array()?).into()),
            Marker::Array32 => Value::Array(u32::from_be_bytes(self.array()?)),
            Marker::FixMap(length) => Value::Map(length.into()),
            Marker::Map16 => Value::Map(u16::from_be_bytes(self.array()?).into()),
            Marker::Map32 => Value::Map(u32::from_be_bytes(self.array()?)),

            _ => return Err(MessagePackError::UnknownKind { marker }),
        })
    }

    /// The length of a text or of bytes: 1, 2 or 4 bytes long, for the marker `of_one_byte` and the two that follow it.
    fn length(&mut self, marker: u8, of_one_byte: Marker) -> Result<u32, MessagePackError> {
        match marker - of_one_byte.to_u8() {
            0 => self.array().map(|bytes| u8::from_be_bytes(bytes).into()),
            1 => self.array().map(|bytes| u16::from_be_bytes(bytes).into()),
            _ => self.array().map(u32::from_be_bytes),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessagePackError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(MessagePackError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    fn bytes(&mut self, length: u32) -> Result<&'de [u8], MessagePackError> {
        let split = self.rest.split_at_checked(length as usize);
        let (bytes, rest) = split.ok_or(MessagePackError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self, length: u32) -> Result<&'de str, MessagePackError> {
        str::from_utf8(self.bytes(length)?).map_err(|_| MessagePackError::NotUtf8)
    }

    /// Enters an array or a map.
    fn enter(&mut self, left: u32) -> Result<Elements<'_, 'de>, MessagePackError> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(MessagePackError::TooDeep)?;
        Ok(Elements { decoder: self, left })
    }

    fn starts_with_nil(&self) -> bool {
        self.rest.first() == Some(&Marker::Null.to_u8())
    }
}

impl<'de> de::Deserializer<'de> for &mut Decoder<'de> {
    type Error = MessagePackError;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MessagePackError> {
        match self.value()? {
            Value::Nil => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Unsigned(value) => visitor.visit_u64(value),
            Value::Signed(value) => visitor.visit_i64(value),
            Value::Single(value) => visitor.visit_f32(value),
            Value::Double(value) => visitor.visit_f64(value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::Bytes(value) => visitor.visit_borrowed_bytes(value),

            Value::Array(length) => {
                let mut elements = self.enter(length)?;
                let value = visitor.visit_seq(&mut elements)?;
                elements.leave().map(|()| value)
            }
            Value::Map(length) => {
                let mut elements = self.enter(length)?;
                let value = visitor.visit_map(&mut elements)?;
                elements.leave().map(|()| value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MessagePackError> {
        if !self.starts_with_nil() {
            return visitor.visit_some(self);
        }
        self.rest = &self.rest[1..];
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, MessagePackError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MessagePackError> {
        let before = self.rest;
        match self.value()? {
            Value::Map(1) => visitor.visit_enum(Variant { decoder: self, has_content: true }),
            Value::Map(found) => Err(MessagePackError::NotAVariant { found }),
            _ => {
                self.rest = before;
                visitor.visit_enum(Variant { decoder: self, has_content: false })
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// What is left of an array or a map.
struct Elements<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    left: u32,
}

impl Elements<'_, '_> {
    /// Leaves it; all of it must have been read.
    fn leave(self) -> Result<(), MessagePackError> {
        self.decoder.depth_left += 1;
        match self.left {
            0 => Ok(()),
            surplus => Err(MessagePackError::Surplus { surplus }),
        }
    }
}

impl<'de> de::SeqAccess<'de> for Elements<'_, 'de> {
    type Error = MessagePackError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, MessagePackError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl<'de> de::MapAccess<'de> for Elements<'_, 'de> {
    type Error = MessagePackError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, MessagePackError> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, MessagePackError> {
        seed.deserialize(&mut *self.decoder)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// A variant: its name is next, and its content follows if it has one.
struct Variant<'d, 'de> {
    decoder: &'d mut Decoder<'de>,
    has_content: bool,
}

impl<'d, 'de> Variant<'d, 'de> {
    fn content(self, expected: &'static str) -> Result<&'d mut Decoder<'de>, MessagePackError> {
        if self.has_content {
            return Ok(self.decoder);
        }
        Err(de::Error::invalid_type(Unexpected::UnitVariant, &expected))
    }
}

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = MessagePackError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), MessagePackError> {
        let name = seed.deserialize(&mut *self.decoder)?;
        Ok((name, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = MessagePackError;

    fn unit_variant(self) -> Result<(), MessagePackError> {
        if self.has_content {
            return <()>::deserialize(self.decoder);
        }
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, MessagePackError> {
        seed.deserialize(self.content("a variant with a value")?)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, MessagePackError> {
        de::Deserializer::deserialize_any(self.content("a variant with values")?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MessagePackError> {
        de::Deserializer::deserialize_any(self.content("a variant with fields")?, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Newtype(u16);

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        Nothing,
        Wrapped(Option<Newtype>),
        Pair(i64, f32),
        Named { text: String, bytes: Bytes, time: Duration },
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Everything {
        flag: bool,
        unit: (),
        unsigned: u64,
        signed: i32,
        single: f32,
        double: f64,
        choices: Vec<Choice>,
        by_number: BTreeMap<Option<u16>, Option<Choice>>,
        set: BTreeSet<(u8, i8)>,
        nested: Option<Box<Self>>,
    }

    fn choice() -> impl Strategy<Value = Choice> {
        let named = (".{0,40}", vec(any::<u8>(), 0..300), any::<Duration>());
        prop_oneof![
            Just(Choice::Nothing),
            option::of(any::<u16>()).prop_map(|number| Choice::Wrapped(number.map(Newtype))),
            (any::<i64>(), -1e9f32..1e9).prop_map(|(whole, part)| Choice::Pair(whole, part)),
            named.prop_map(|(text, bytes, time)| Choice::Named { text, bytes: bytes.into(), time }),
        ]
    }

    fn everything() -> impl Strategy<Value = Everything> {
        let numbers = (any::<bool>(), any::<u64>(), any::<i32>(), -1e9f32..1e9, -1e9f64..1e9);
        let by_number =
            proptest::collection::btree_map(any::<Option<u16>>(), option::of(choice()), 0..20);
        let set = proptest::collection::btree_set(any::<(u8, i8)>(), 0..20);
        let flat = (numbers, vec(choice(), 0..20), by_number, set);
        let flat = flat
            .prop_map(|((flag, unsigned, signed, single, double), choices, by_number, set)| {
                let (unit, nested) = ((), None);
                Everything {
                    flag,
                    unit,
                    unsigned,
                    signed,
                    single,
                    double,
                    choices,
                    by_number,
                    set,
                    nested,
                }
            })
            .boxed();

        (flat.clone(), option::of(flat))
            .prop_map(|(outer, inner)| Everything { nested: inner.map(Box::new), ..outer })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_and_what_follows_is_left(value in everything(), rest in vec(any::<u8>(), 0..9)) {
            let mut bytes = encode(&value);
            prop_assert_eq!(&bytes, &rmp_serde::to_vec(&value).unwrap());
            bytes.extend(&rest);
            prop_assert_eq!(decode_first(&bytes), Ok((value, &rest[..])));
        }

        #[test]
        fn every_true_prefix_is_truncated(value in everything(), at in any::<prop::sample::Index>()) {
            let bytes = encode(&value);
            let cut = &bytes[..at.index(bytes.len())];
            prop_assert_eq!(decode::<Everything>(cut), Err(MessagePackError::Truncated));
        }

        #[test]
        fn damaged_bytes_are_decoded_as_by_the_library_or_refused(
            value in everything(),
            damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = encode(&value);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(here) = decode::<Everything>(&bytes) {
                let there = rmp_serde::from_slice::<Everything>(&bytes);
                prop_assert_eq!(format!("{here:?}"), format!("{:?}", there.unwrap()));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = decode::<Everything>(&bytes);
            let _ = decode::<Choice>(&bytes);
        }
    }

    #[test]
    fn errors_name_what_was_found() {
        let text = |problem: MessagePackError| problem.to_string();
        let refused = |bytes: &[u8]| text(decode::<Choice>(bytes).unwrap_err());

        assert_eq!(refused(&[]), "the bytes end within a value");
        assert_eq!(refused(&[0xa3, b'n', b'o']), "the bytes end within a value");
        assert_eq!(refused(&[0xa1, 0xff]), "a text is not UTF-8");
        assert_eq!(refused(&[0x82]), "a variant is a map of 2 elements, expected 1");
        assert_eq!(refused(&[0xc1]), "the marker 0xc1 starts no value that is written here");
        assert_eq!(
            refused(b"\xa4pair"),
            "invalid type: unit variant, expected a variant with values"
        );
        assert_eq!(
            text(decode::<(u8, u8)>(&[0x93, 1, 2, 3]).unwrap_err()),
            "an array or map has 1 elements more than expected"
        );
        assert_eq!(
            text(decode::<u8>(&encode(&300)).unwrap_err()),
            "invalid value: integer `300`, expected u8"
        );
    }

    #[test]
    fn arrays_within_arrays_are_followed_only_so_deep() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Nest(Vec<Self>);

        let nested = |depth: usize| [vec![0x91; depth - 1], vec![0x90]].concat();
        assert!(decode::<Nest>(&nested(DEPTH_MAX as usize)).is_ok());
        let deeper = decode::<Nest>(&nested(DEPTH_MAX as usize + 1));
        assert_eq!(deeper, Err(MessagePackError::TooDeep));
    }

    #[test]
    fn a_length_that_the_bytes_do_not_have_allocates_little() {
        let claims_4_gib = [0xdd, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(decode::<Vec<u64>>(&claims_4_gib), Err(MessagePackError::Truncated));
    }
}
