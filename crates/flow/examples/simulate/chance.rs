//! Repeatable randomness: the same seed and the same key give the same numbers.

/// A `SplitMix64` generator: small, good enough, and without a dependency.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Returns a stream of its own for each key, so that extra draws of one way do not shift
    /// another's.
    pub fn of(seed: u64, words: &[u64]) -> Self {
        let mut chance = Self(seed);
        for word in words {
            chance.0 = chance.next() ^ word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns true in `per_mille` of 1000 cases.
    pub fn hits(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    /// Returns 0 to `most`, each with the same probability.
    pub fn up_to(&mut self, most: u64) -> u64 {
        self.next() % (most + 1)
    }

    /// Returns a small count with the mean `per_mille` / 1000: the hits of a few independent draws.
    pub fn count(&mut self, per_mille: u64) -> u64 {
        const TRIES: u64 = 8;
        (0..TRIES).filter(|_| self.hits(per_mille / TRIES)).count() as u64
    }

    /// Returns invented words. Two of them have hardly anything in common.
    pub fn words(&mut self, count: u64) -> String {
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        for _ in 0..4 {
            for letters in [&b"bdfgklmnprstvz"[..], b"aeiou"] {
                let most = letters.len() as u64 - 1;
                let at = usize::try_from(self.up_to(most)).unwrap_or_default();
                word.push(letters.get(at).copied().map_or('x', char::from));
            }
        }
        word
    }
}
