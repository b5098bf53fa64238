//! The indexes that an announcement holds: no values come with them to say how many there can be.

use gaia_core::codec::{decode_indexes, encode_indexes};

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "announcement", check, seeds };

fn check(data: &[u8]) {
    let Some((&which, bytes)) = data.split_first() else { return };
    let parameters = PARAMETERS[usize::from(which) % PARAMETERS.len()];
    let mut indexes = Vec::new();
    if decode_indexes(bytes, parameters, &mut indexes).is_err() {
        return;
    }
    assert!(indexes.is_sorted_by(|a, b| a < b), "indexes ascend");
    assert!(indexes.last().is_none_or(|last| (*last as usize) < parameters));
    let (mut again, mut decoded) = (Vec::new(), Vec::new());
    encode_indexes(&indexes, &mut again);
    assert_eq!(decode_indexes(&again, parameters, &mut decoded), Ok(()));
    assert_eq!(decoded, indexes);
}

fn seeds() -> Vec<Seed> {
    let encoded = |indexes: Vec<u32>| {
        let mut bytes = vec![THOUSANDS];
        encode_indexes(&indexes, &mut bytes);
        bytes
    };
    // A square is as good as any other way to strew.
    let strewn = |modulus: u32, below: u32| move |at: &u32| at.wrapping_mul(*at) % modulus < below;
    vec![
        ("none", encoded(vec![])),
        ("even", encoded((0..300).map(|at| at * 50 + 20).collect())),
        ("rows", encoded((0..9000).filter(|at| at / 16 % 5 == 2).collect())),
        ("words", encoded((0..2000).filter(strewn(11, 4)).collect())),
        ("strewn", encoded((0..20_000).filter(strewn(9973, 70)).collect())),
    ]
}

/// Parameters of the shard, by the first byte.
const PARAMETERS: [usize; 5] = [0, 1, 130, 20_000, 1 << 20];
const THOUSANDS: u8 = 3;
