//! The datagrams between mirrors that are not QUIC's.
//!
//! Every packet of QUIC has the second bit of its first byte set, since endpoints here do not grease it (RFC 9287). In these
//! datagrams it is clear, so that both share a socket (as in RFC 9443).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | 0x20, a datagram on a detour |
//! | 1 | 2 | the data center that has sent it |
//! | 3 | 2 | the data center that it is for |
//! | 5 | 8 | the token that the process which receives this datagram has for the one that sends it on |
//! | 13 | – | the datagram: a packet of QUIC, or a report |
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | 0x21, a report |
//! | 1 | 1 | flags: 1 datagrams of the receiver arrive directly, 2 the sender waits for an answer, 4 reports of the receiver arrive on a detour |
//! | 2 | 2 | the data center that has sent it |
//! | 4 | 2 | the data center of that detour, or 0 |
//! | 6 | 2 | the number of the report |
//! | 8 | 2 | the number of the last report of the receiver that the sender has received |
//! | 10 | 8 | the token that the sender has for the receiver |
//! | 18 | 8 | the token that the receiver has for the sender, as far as the sender knows it |
//!
//! Numbers are little-endian. Data centers are numbered as in the topology. Each process draws a token for each mirror at random. A
//! report counts only with the token of its receiver, which a host that does not see the packets between the two cannot know.

use gaia_core::types::DcId;

/// A datagram that is not QUIC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Datagram<'a> {
    Detoured { header: Header, inner: &'a [u8] },
    Report(PathReport),
}

/// What precedes a datagram on a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) from: DcId,
    pub(super) to: DcId,
    /// The token that the process which receives this datagram has for the one that sends it on.
    pub(super) token: u64,
}

/// What an end of a path knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathReport {
    pub(super) from: DcId,
    /// Whether datagrams of the receiver arrive directly.
    pub(super) receives: bool,
    /// Whether the sender waits for a report of the receiver.
    pub(super) wants_answer: bool,
    /// The data center over which reports of the receiver arrive.
    pub(super) receives_over: Option<DcId>,
    pub(super) number: u16,
    /// The number of the last report of the receiver.
    pub(super) answers: u16,
    /// The token that the sender has for the receiver.
    pub(super) token: u64,
    /// The token that the receiver has for the sender, as far as the sender knows it.
    pub(super) to_token: u64,
}

/// Whether a datagram is none of QUIC's, by its first byte.
pub(super) fn is_detour_datagram(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(&(DETOURED | REPORT)))
}

/// Reads a datagram. `None` if it is of QUIC, or malformed.
pub(super) fn read(datagram: &[u8]) -> Option<Datagram<'_>> {
    let (kind, rest) = datagram.split_first()?;
    match *kind {
        DETOURED => {
            let (header, inner) = rest.split_at_checked(HEADER_BYTES - 1)?;
            let (from, to, token) = (u16_at(header, 0)?, u16_at(header, 2)?, u64_at(header, 4)?);
            let header = Header { from: DcId(from), to: DcId(to), token };
            (!inner.is_empty()).then_some(Datagram::Detoured { header, inner })
        }
        REPORT if datagram.len() == REPORT_BYTES && datagram[1] & !ALL_FLAGS == 0 => {
            let flags = datagram[1];
            Some(Datagram::Report(PathReport {
                from: DcId(u16_at(datagram, 2)?),
                receives: flags & RECEIVES != 0,
                wants_answer: flags & WANTS_ANSWER != 0,
                receives_over: match flags & RECEIVES_OVER {
                    0 => None,
                    _ => Some(DcId(u16_at(datagram, 4)?)),
                },
                number: u16_at(datagram, 6)?,
                answers: u16_at(datagram, 8)?,
                token: u64_at(datagram, 10)?,
                to_token: u64_at(datagram, 18)?,
            }))
        }
        _ => None,
    }
}

impl Header {
    /// Puts the header before a datagram.
    pub(super) fn before(self, inner: &[u8]) -> Vec<u8> {
        let mut all = Vec::with_capacity(HEADER_BYTES + inner.len());
        all.push(DETOURED);
        all.extend_from_slice(&self.from.0.to_le_bytes());
        all.extend_from_slice(&self.to.0.to_le_bytes());
        all.extend_from_slice(&self.token.to_le_bytes());
        all.extend_from_slice(inner);
        all
    }
}

impl PathReport {
    pub(super) fn encode(self) -> Vec<u8> {
        let flags = (RECEIVES * u8::from(self.receives))
            | (WANTS_ANSWER * u8::from(self.wants_answer))
            | (RECEIVES_OVER * u8::from(self.receives_over.is_some()));
        let over = self.receives_over.map_or(0, |over| over.0);
        let mut all = vec![REPORT, flags];
        for number in [self.from.0, over, self.number, self.answers] {
            all.extend_from_slice(&number.to_le_bytes());
        }
        for token in [self.token, self.to_token] {
            all.extend_from_slice(&token.to_le_bytes());
        }
        all
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The size of the header of a datagram on a detour, in bytes.
pub(super) const HEADER_BYTES: usize = 13;
const REPORT_BYTES: usize = 26;

const DETOURED: u8 = 0x20;
const REPORT: u8 = 0x21;

const RECEIVES: u8 = 1;
const WANTS_ANSWER: u8 = 2;
const RECEIVES_OVER: u8 = 4;
const ALL_FLAGS: u8 = RECEIVES | WANTS_ANSWER | RECEIVES_OVER;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(receives: bool, wants_answer: bool, receives_over: Option<DcId>) -> PathReport {
        let (number, answers, token, to_token) = (7, 0xff01, 1 << 63, 5);
        let from = DcId(2);
        PathReport { from, receives, wants_answer, receives_over, number, answers, token, to_token }
    }

    #[test]
    fn datagrams_are_read_as_they_were_written() {
        for receives_over in [None, Some(DcId(0)), Some(DcId(300))] {
            for (receives, asks) in [(false, false), (true, false), (false, true), (true, true)] {
                let report = report(receives, asks, receives_over);
                assert_eq!(read(&report.encode()), Some(Datagram::Report(report)));
                assert!(is_detour_datagram(&report.encode()));
            }
        }
        let header = Header { from: DcId(1), to: DcId(513), token: u64::MAX - 1 };
        let whole = header.before(&[0x40, 7]);
        assert_eq!(read(&whole), Some(Datagram::Detoured { header, inner: &[0x40, 7] }));
        assert!(is_detour_datagram(&whole));
    }

    #[test]
    fn packets_of_quic_and_malformed_datagrams_are_left_alone() {
        for first in 0..=u8::MAX {
            assert!(
                first & 0x40 == 0 || !is_detour_datagram(&[first, 0, 0, 0, 0, 0]),
                "{first:#x}"
            );
        }
        let report = report(true, false, None).encode();
        let (short, long) = (&report[..25], [&report[..], &[0]].concat());
        let mut unknown = report.clone();
        unknown[1] = 8;
        let empty = Header { from: DcId(0), to: DcId(1), token: 0 }.before(&[]);
        for wrong in [&[][..], short, &long, &unknown, &empty, &empty[..2], &[0x40; 26]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
