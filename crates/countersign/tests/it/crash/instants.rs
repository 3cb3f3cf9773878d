//! Random instants that can be had again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::support::told;

pub struct Instants {
    pub seed: u64,
    state: u64,
    /// How long an undisturbed story takes.
    whole: Duration,
}

impl Instants {
    /// As it was told, or one that nobody has had.
    pub fn seed() -> u64 {
        let text = told("COUNTERSIGN_SEED").map(|text| text.into_string().unwrap());
        text.map_or_else(
            || RandomState::new().build_hasher().finish(),
            |text| text.parse().unwrap(),
        )
    }

    pub fn new(seed: u64, whole: Duration) -> Self {
        Self {
            seed,
            state: seed,
            whole,
        }
    }

    /// `SplitMix64`.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True once in `of` times.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.number().is_multiple_of(of)
    }

    /// Any instant of the story, each as likely as the other.
    pub fn next(&mut self) -> Duration {
        let nanos = u64::try_from(self.whole.as_nanos()).unwrap();
        Duration::from_nanos(self.number() % nanos.max(1))
    }
}
