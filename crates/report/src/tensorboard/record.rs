//! The framing of TensorBoard's event files, which is that of TensorFlow's records: the length of the data (8 bytes), its
//! checksum, the data, its checksum. Numbers are little-endian.

/// A record that holds these bytes.
pub(super) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(checksum(&length).to_le_bytes());
    record.extend(data);
    record.extend(checksum(data).to_le_bytes());
    record
}

/// A CRC-32C, rotated and offset: the CRC of bytes that hold CRCs would be weak.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The CRC of Castagnoli's polynomial, as RFC 3720 defines it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc: u32, byte| TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8))
}

/// The CRC of each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3720, B.4.
    #[test]
    fn the_crc_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    #[test]
    fn a_record_has_its_length_and_two_checksums() {
        let record = framed(b"abc");
        assert_eq!(record.len(), 8 + 4 + 3 + 4);
        assert_eq!((&record[..8], &record[12..15]), (&3_u64.to_le_bytes()[..], &b"abc"[..]));
        assert_eq!(record[8..12], checksum(&record[..8]).to_le_bytes());
        assert_eq!(record[15..], checksum(b"abc").to_le_bytes());
    }
}
