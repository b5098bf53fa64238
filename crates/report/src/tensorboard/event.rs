//! The messages of TensorBoard's event files: `Event` and `Summary` of its protocol buffers, as far as scalars need them.

/// A named figure of an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    tag: String,
    value: f64,
}

impl Scalar {
    pub(super) fn new(tag: String, value: f64) -> Self {
        Self { tag, value }
    }
}

/// The first event of a file.
pub(super) fn version() -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, WALL_TIME, 0.0);
    bytes(&mut event, FILE_VERSION, b"brain.Event:2");
    event
}

/// An event with scalars.
pub(super) fn scalars(time_s: f64, step: u64, scalars: &[Scalar]) -> Vec<u8> {
    let mut summary = Vec::new();
    for Scalar { tag, value } in scalars {
        let mut message = Vec::new();
        bytes(&mut message, TAG, tag.as_bytes());
        float(&mut message, SIMPLE_VALUE, *value as f32);
        bytes(&mut summary, VALUE, &message);
    }

    let mut event = Vec::new();
    double(&mut event, WALL_TIME, time_s);
    key(&mut event, STEP, VARINT);
    // The format has 63 bits for a step.
    varint(&mut event, step.min(i64::MAX as u64));
    bytes(&mut event, SUMMARY, &summary);
    event
}

fn double(message: &mut Vec<u8>, field: u64, value: f64) {
    key(message, field, EIGHT_BYTES);
    message.extend(value.to_le_bytes());
}

fn float(message: &mut Vec<u8>, field: u64, value: f32) {
    key(message, field, FOUR_BYTES);
    message.extend(value.to_le_bytes());
}

fn bytes(message: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(message, field, LENGTH_AND_BYTES);
    varint(message, value.len() as u64);
    message.extend(value);
}

fn key(message: &mut Vec<u8>, field: u64, wire_type: u64) {
    varint(message, field << 3 | wire_type);
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Fields of `Event`.
const WALL_TIME: u64 = 1;
const STEP: u64 = 2;
const FILE_VERSION: u64 = 3;
const SUMMARY: u64 = 5;

/// A field of `Summary`, and those of its values.
const VALUE: u64 = 1;
const TAG: u64 = 1;
const SIMPLE_VALUE: u64 = 2;

const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH_AND_BYTES: u64 = 2;
const FOUR_BYTES: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_bytes_of_its_protocol_buffer() {
        let event = scalars(1.5, 300, &[Scalar::new("a/b".into(), 0.5)]);
        let expect = [
            &[0x09][..],
            &1.5_f64.to_le_bytes(),
            &[0x10, 0xac, 0x02],
            &[0x2a, 12, 0x0a, 10, 0x0a, 3, b'a', b'/', b'b', 0x15],
            &0.5_f32.to_le_bytes(),
        ];
        assert_eq!(event, expect.concat());
        assert!(version().ends_with(b"\x1a\x0dbrain.Event:2"));
    }
}
