//! Randomness: real for the call of a tool, and the same numbers for every guest that describes its
//! tools.
//!
//! The seeds of a guest's hash maps come from here too. With fixed seeds they iterate in the same
//! order, so that a guest whose descriptors depend on that order describes the same tools each time.

use wasmtime::{
    bail,
    component::{HasData, Linker},
};
use wasmtime_wasi::{
    p2::bindings::random::{insecure, insecure_seed, random},
    random::WasiRandomCtx,
};

/// Bytes of the longest random string that a guest may request at once. Bounds the work of one host
/// call, which costs the same fuel for any length. A key or a seed has tens of bytes.
pub(super) const MAX_BYTES: u64 = 4 << 10;
/// Seed of the fixed numbers. Each interface derives a different one from it, so that they
/// do not repeat each other.
const SEED: u64 = 0x6169_726c_6f63_6b00;

/// Seeded number generators, for a guest that describes its tools.
pub(super) struct SeededRandom {
    secure: SplitMix64,
    insecure: SplitMix64,
}

impl SeededRandom {
    pub(super) fn new() -> Self {
        Self { secure: SplitMix64(SEED), insecure: SplitMix64(SEED + 1) }
    }
}

/// The generator of Steele, Lea and Flood (Fast splittable pseudorandom number generators, 2014).
/// Its numbers are evenly distributed, unlike a repeated string: a guest that draws until a number
/// fits must not draw for ever.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > MAX_BYTES {
            bail!("{length} random bytes at once; the limit is {MAX_BYTES}");
        }
        let length = usize::try_from(length)?;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Randomness of a call: fixed numbers, or real ones if `seeded` is `None`.
pub(super) struct RandomSource<'a> {
    pub(super) real: &'a mut WasiRandomCtx,
    pub(super) seeded: Option<&'a mut SeededRandom>,
}

/// Links the three interfaces over those of wasmtime-wasi. `view` returns the randomness of a store.
pub(super) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> RandomSource<'_>,
) -> wasmtime::Result<()> {
    random::add_to_linker::<T, Randomness>(linker, view)?;
    insecure::add_to_linker::<T, Randomness>(linker, view)?;
    insecure_seed::add_to_linker::<T, Randomness>(linker, view)
}

/// Names the type that implements the generated traits.
struct Randomness;

impl HasData for Randomness {
    type Data<'a> = RandomSource<'a>;
}

impl random::Host for RandomSource<'_> {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        match &mut self.seeded {
            Some(seeded) => seeded.secure.bytes(length),
            None => self.real.get_random_bytes(length),
        }
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        match &mut self.seeded {
            Some(seeded) => Ok(seeded.secure.next()),
            None => self.real.get_random_u64(),
        }
    }
}

impl insecure::Host for RandomSource<'_> {
    fn get_insecure_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        match &mut self.seeded {
            Some(seeded) => seeded.insecure.bytes(length),
            None => self.real.get_insecure_random_bytes(length),
        }
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        match &mut self.seeded {
            Some(seeded) => Ok(seeded.insecure.next()),
            None => self.real.get_insecure_random_u64(),
        }
    }
}

impl insecure_seed::Host for RandomSource<'_> {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        match &self.seeded {
            Some(_) => Ok((SEED, !SEED)),
            None => self.real.insecure_seed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use insecure::Host as _;
    use insecure_seed::Host as _;
    use random::Host as _;

    use super::*;

    /// Returns the first draws of one call.
    fn draws(real_ones: bool) -> (Vec<u8>, u64, Vec<u8>, u64, (u64, u64)) {
        let mut real = WasiRandomCtx::default();
        let mut fixed = SeededRandom::new();
        let mut source =
            RandomSource { real: &mut real, seeded: (!real_ones).then_some(&mut fixed) };
        (
            source.get_random_bytes(33).expect("few"),
            source.get_random_u64().expect("one"),
            source.get_insecure_random_bytes(33).expect("few"),
            source.get_insecure_random_u64().expect("one"),
            source.insecure_seed().expect("one"),
        )
    }

    #[test]
    fn fixed_numbers_are_the_same_each_time_and_real_ones_are_not() {
        let fixed = draws(false);
        assert_eq!(fixed, draws(false));
        assert_ne!((&fixed.0, fixed.1), (&fixed.2, fixed.3), "the interfaces repeat each other");
        let one = draws(true);
        let other = draws(true);
        assert!(
            one.0 != other.0
                && one.1 != other.1
                && one.2 != other.2
                && one.3 != other.3
                && one.4 != other.4
        );
        assert_ne!(one.0, fixed.0);
    }

    #[test]
    fn a_random_string_beyond_the_limit_is_refused() {
        let mut numbers = SplitMix64(SEED);
        assert_eq!(numbers.bytes(MAX_BYTES).expect("at the edge").len() as u64, MAX_BYTES);
        assert!(numbers.bytes(MAX_BYTES + 1).is_err());
        assert!(numbers.bytes(u64::MAX).is_err());
        assert!(numbers.bytes(0).expect("none").is_empty());
    }
}
