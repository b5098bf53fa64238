//! Serde over a [`Node`]: settings are plain structs, and their errors keep the place of the value.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{Fault, one_of};
use super::tree::{Entry, Node, Problem, Span, Value};

impl Node {
    /// Reads the whole of this node as a `T`.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        T::deserialize(self)
    }

    fn visit<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Problem> {
        match &self.value {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(integer) => visitor.visit_i64(*integer),
            Value::Float(float) => visitor.visit_f64(*float),
            Value::Boolean(boolean) => visitor.visit_bool(*boolean),
            Value::Datetime(text) => {
                Err(de::Error::invalid_type(Unexpected::Other(text), &visitor))
            }
            Value::Array(items) => visitor.visit_seq(Items { items, at: 0 }),
            Value::Table(table) => {
                visitor.visit_map(Entries { entries: table.iter(), current: None })
            }
        }
    }
}

impl<'de> Deserializer<'de> for &Node {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.visit(visitor).map_err(|problem| problem.or_at(self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let choice = match &self.value {
            Value::String(name) => Choice { name, content: None },
            Value::Table(table) if table.len() == 1 => {
                let (name, entry) = table.iter().next().expect("the table has one entry");
                Choice { name, content: Some(&entry.node) }
            }
            value => {
                let kind = Unexpected::Other(value.kind());
                return Err(Problem::invalid(kind, &"a string").or_at(self.span));
            }
        };
        visitor.visit_enum(choice).map_err(|problem| problem.or_at(self.span))
    }

    /// Fields have names: serde would take those of an array by their places.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.value {
            Value::Array(_) => Err(Problem::invalid(Unexpected::Seq, &"a table").or_at(self.span)),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'n> {
    items: &'n [Node],
    at: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Problem> {
        let Some(item) = self.items.get(self.at) else { return Ok(None) };
        let index = self.at;
        self.at += 1;
        seed.deserialize(item)
            .map(Some)
            .map_err(|problem| problem.or_found(&item.value).in_key(index.to_string()))
    }
}

struct Entries<'n> {
    entries: std::collections::btree_map::Iter<'n, String, Entry>,
    current: Option<(&'n String, &'n Entry)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Problem> {
        self.current = self.entries.next();
        let Some((name, entry)) = self.current else { return Ok(None) };
        let key: de::value::StrDeserializer<'_, Problem> = name.as_str().into_deserializer();
        seed.deserialize(key)
            .map(Some)
            .map_err(|problem| problem.or_at(entry.key).in_key(name.as_str()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        let (name, entry) = self.current.expect("serde asks for a key before its value");
        let is_table = matches!(entry.node.value, Value::Table(_));
        let span = if is_table { entry.key } else { entry.node.span };
        seed.deserialize(&entry.node).map_err(|mut problem| {
            // A missing key is shown at the name of its table: the table may be written in several parts.
            if matches!(*problem.fault, Fault::MissingKey { .. }) && problem.path.len() == 1 {
                problem.span = Some(span);
            }
            problem.or_found(&entry.node.value).or_at(span).in_key(name.as_str())
        })
    }
}

struct Choice<'n> {
    name: &'n str,
    content: Option<&'n Node>,
}

impl<'de, 'n> EnumAccess<'de> for Choice<'n> {
    type Error = Problem;
    type Variant = Content<'n>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'n>), Problem> {
        let name: de::value::StrDeserializer<'_, Problem> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content { name: self.name, node: self.content }))
    }
}

struct Content<'n> {
    name: &'n str,
    node: Option<&'n Node>,
}

impl Content<'_> {
    fn node(&self) -> Result<&Node, Problem> {
        let lacking = || Problem::invalid(Unexpected::Str(self.name), &"a table with its settings");
        self.node.ok_or_else(lacking)
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        match self.node {
            None => Ok(()),
            Some(node) => Err(Problem::invalid(Unexpected::Map, &"only its name").or_at(node.span)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Problem> {
        seed.deserialize(self.node()?).map_err(|problem| problem.in_key(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Problem> {
        self.node()?.deserialize_any(visitor).map_err(|problem| problem.in_key(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let read = self.node()?.deserialize_struct("", fields, visitor);
        read.map_err(|problem| problem.in_key(self.name))
    }
}

impl Problem {
    fn or_at(mut self, span: Span) -> Self {
        self.span = self.span.or(Some(span));
        self
    }

    /// Names the value that was found, if whoever refused it has not: serde tries the forms of an untagged type one after
    /// another, and then no longer has it.
    fn or_found(mut self, value: &Value) -> Self {
        if let (Fault::Wrong { found, .. }, true) = (&mut *self.fault, self.path.is_empty())
            && found.is_empty()
        {
            *found = shown(value.as_unexpected());
        }
        self
    }

    fn invalid(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = plainly(&expected.to_string());
        let is_number =
            matches!(found, Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_));
        let help = (is_number && expected == "a string").then(|| {
            "quantities carry their unit: \"115 Mbit/s\", \"59.5 ms\", \"64 KiB\"".to_owned()
        });

        let expected = match found {
            Unexpected::Float(number) if expected.starts_with("a whole number") => {
                let digits =
                    if number.fract() == 0.0 { format!(": {number}") } else { String::new() };
                format!("{expected}, without a point and an exponent{digits}")
            }
            _ => expected,
        };
        let found = shown(found);
        Self { span: None, path: Vec::new(), fault: Fault::Wrong { found, expected, help }.into() }
    }
}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        // Types that refuse a value report "`found` is not what was expected".
        let parts = message.strip_prefix('`').and_then(|rest| rest.split_once("` is not "));
        let fault = match parts {
            Some((found, expected)) => {
                Fault::Wrong { found: found.to_owned(), expected: expected.to_owned(), help: None }
            }
            None => Fault::Wrong { found: String::new(), expected: message, help: None },
        };
        Self { span: None, path: Vec::new(), fault: fault.into() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid(found, expected)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown_name(variant, expected)
    }

    fn unknown_field(_field: &str, expected: &'static [&'static str]) -> Self {
        let expected = expected.iter().map(|&name| name.to_owned()).collect();
        Self { span: None, path: Vec::new(), fault: Fault::UnknownKey { expected }.into() }
    }

    fn missing_field(field: &'static str) -> Self {
        let fault =
            Fault::MissingKey { expected: format!("`{field}` here, since it has no default") };
        Self { span: None, path: vec![field.to_owned()], fault: fault.into() }
    }
}

impl Problem {
    /// A name that is not one of the known ones.
    pub(crate) fn unknown_name(found: &str, names: &[&str]) -> Self {
        let help =
            super::error::nearest(found, names).map(|name| format!("did you mean `{name}`?"));
        let fault = Fault::Wrong { found: found.to_owned(), expected: one_of(names), help };
        Self { span: None, path: Vec::new(), fault: fault.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {:?}", self.path.join("."), self.fault)
    }
}

impl std::error::Error for Problem {}

impl Value {
    fn as_unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::String(text) => Unexpected::Str(text),
            Self::Integer(integer) => Unexpected::Signed(*integer),
            Self::Float(float) => Unexpected::Float(*float),
            Self::Boolean(boolean) => Unexpected::Bool(*boolean),
            Self::Datetime(text) => Unexpected::Other(text),
            Self::Array(_) => Unexpected::Seq,
            Self::Table(_) => Unexpected::Map,
        }
    }
}

/// What was found, as an error says it.
fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) => format!("\"{text}\""),
        Unexpected::Other(text) => text.to_owned(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Float(number) => format!("{number:?}"),
        Unexpected::Bool(boolean) => boolean.to_string(),
        Unexpected::Map => "a table".into(),
        Unexpected::Seq => "an array".into(),
        other => other.to_string(),
    }
}

/// The expectation of serde, without names of Rust types.
fn plainly(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "an array".into(),
        "a map" => "a table".into(),
        other if other.starts_with("struct ") => "a table".into(),
        other if other.starts_with("string or map") => "a name".into(),
        other if other.starts_with("variant ") => "a name".into(),
        other => other.to_owned(),
    }
}
