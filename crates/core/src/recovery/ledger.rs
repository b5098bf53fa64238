//! Counts of the data frames of a link, kept at both ends. At the end of a run the two ends are compared.
//!
//! A ledger does not rely on the session that carries the frames. A frame is counted when one server cuts it, and when
//! the other applies it. Ledgers survive a restart, and replay counts frames again. So two ends agree only if a server
//! that was replayed equals the one that crashed.

use serde::{Deserialize, Serialize};

/// A count and a checksum of data frames in sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The number of frames.
    pub frames: u64,
    /// CRC-32 over all frames, each after its length in bytes (8 bytes, little endian).
    pub crc32: u32,
}

/// The data frames that a server has counted for one mirror since the two met, or since one of them lost its copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Frames cut for the mirror.
    pub cut: Account,
    /// Frames of the mirror that this server has applied.
    pub applied: Account,
}

impl Account {
    /// Counts the next frame.
    pub fn enter(&mut self, frame: &[u8]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.crc32);
        hasher.update(&(frame.len() as u64).to_le_bytes());
        hasher.update(frame);
        self.crc32 = hasher.finalize();
        self.frames += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(frames: &[&[u8]]) -> Account {
        let mut account = Account::default();
        frames.iter().for_each(|frame| account.enter(frame));
        account
    }

    #[test]
    fn a_frame_that_is_lost_doubled_changed_or_out_of_turn_is_told() {
        let cut = account(&[b"one", b"two", b"three"]);
        assert_eq!(cut, account(&[b"one", b"two", b"three"]));
        let others: [&[&[u8]]; 6] = [
            &[b"one", b"three"],
            &[b"one", b"two", b"two", b"three"],
            &[b"one", b"twp", b"three"],
            &[b"two", b"one", b"three"],
            &[b"onet", b"wo", b"three"],
            &[],
        ];
        for applied in others {
            assert_ne!(cut, account(applied), "{applied:?}");
        }
    }
}
