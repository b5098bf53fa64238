//! Changes to good input, drawn from a seed: what the plain loop and the tests give a target.

use super::Target;

/// An endless sequence of bad inputs, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Mutations {
    corpus: Vec<Vec<u8>>,
    state: u64,
}

impl Mutations {
    /// Of the target's own seeds and `more`.
    pub fn new(target: &Target, more: Vec<Vec<u8>>, seed: u64) -> Self {
        let seeds = (target.seeds)().into_iter().map(|(_, bytes)| bytes);
        let corpus: Vec<_> = seeds.chain(more).collect();
        assert!(!corpus.is_empty(), "{} has a seed", target.name);
        let of_name = |state: u64, byte| state.wrapping_mul(31).wrapping_add(u64::from(byte));
        let state = target.name.bytes().fold(seed, of_name);
        Self { corpus, state }
    }

    /// The next input: one of the corpus with one to eight changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let which = self.below(self.corpus.len());
        let mut bytes = self.corpus[which].clone();
        for _ in 0..1 << self.below(4) {
            self.change(&mut bytes);
        }
        bytes.truncate(INPUT_BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let length = self.below(16.min(bytes.len() - at) + 1);
        match self.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + length)),
            2 => drop(bytes.splice(at..at, self.piece())),
            3 => drop(bytes.splice(at..at + length, self.piece())),
            4 => {
                let copy = bytes[at..at + length].to_vec();
                let to = self.below(bytes.len() + 1);
                drop(bytes.splice(to..to, copy));
            }
            5 => {
                let other = self.below(self.corpus.len());
                let other = &self.corpus[other];
                let tail = other.get(at..).unwrap_or(&[]).to_vec();
                bytes.truncate(at);
                bytes.extend(tail);
            }
            6 => {
                let value = EXTREMES[self.below(EXTREMES.len())].to_le_bytes();
                let width = 1 << self.below(4);
                let reversed = self.below(2) == 1;
                let place = bytes.iter_mut().skip(at).take(width);
                for (byte, index) in place.zip(0..width) {
                    *byte = value[if reversed { width - 1 - index } else { index }];
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
        }
    }

    /// A few bytes that mean something somewhere, or none.
    fn piece(&mut self) -> Vec<u8> {
        match self.below(3) {
            0 => PIECES[self.below(PIECES.len())].to_vec(),
            1 => (0..self.below(9)).map(|_| self.below(256) as u8).collect(),
            _ => vec![self.below(256) as u8; self.below(300)],
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

const INPUT_BYTES_MAX: usize = 1 << 14;

/// Where lengths, counts and exponents turn over.
const EXTREMES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    u64::MAX >> 1,
    u64::MAX,
];

/// Words and signs of the formats that are text, and longest numbers.
const PIECES: [&[u8]; 28] = [
    b"\n",
    b"\r\n",
    b"\t",
    b",",
    b"::",
    b":",
    b"#",
    b"\"",
    b"'''",
    b"[[",
    b"]]",
    b"{",
    b"}",
    b"=",
    b".",
    b"-",
    b"-0",
    b"1e308",
    b"1e-320",
    b"nan",
    b"inf",
    b"4294967296",
    b"9223372036854775808",
    b"99999999999999999999999",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1f\x8b\x08",
];
