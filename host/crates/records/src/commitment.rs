//! Salted digests: they prove later which content a call had, and say nothing about it once the salt is
//! erased.

use std::{cell::RefCell, mem};

use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

/// Length of each of the two salts of a call, in bytes.
const SALT_BYTES: usize = 16;
/// Random bytes that a thread reads from the system at once: the salts of 32 calls. Those of one call take the system
/// 0.6 µs, most of it for the change to the kernel.
const POOL_BYTES: usize = 64 * SALT_BYTES;

thread_local! {
    static POOL: RefCell<RandomPool> = const { RefCell::new(RandomPool::new()) };
}

/// The salts of the arguments and of the result of one call.
#[derive(Clone, Copy)]
pub(crate) struct Salts([u8; 2 * SALT_BYTES]);

/// Random bytes of a thread, each of which is used once and then overwritten.
struct RandomPool {
    bytes: [u8; POOL_BYTES],
    /// Number of bytes that were used.
    used: usize,
}

impl RandomPool {
    const fn new() -> Self {
        Self { bytes: [0; POOL_BYTES], used: POOL_BYTES }
    }

    /// Returns the next bytes; `None` if the system has no random numbers.
    fn take(&mut self) -> Option<[u8; 2 * SALT_BYTES]> {
        if self.used == POOL_BYTES {
            SystemRandom::new().fill(&mut self.bytes).ok()?;
            self.used = 0;
        }
        let next = self.bytes[self.used..].first_chunk_mut::<{ 2 * SALT_BYTES }>()?;
        self.used += next.len();
        Some(mem::take(next))
    }
}

impl Salts {
    /// Returns random salts; `None` if the system has no random numbers.
    pub(crate) fn random() -> Option<Self> {
        POOL.with_borrow_mut(RandomPool::take).map(Self)
    }

    /// Both salts, as the call log has them.
    pub(crate) fn bytes(&self) -> &[u8; 2 * SALT_BYTES] {
        &self.0
    }

    /// Returns the commitment to arguments.
    pub(crate) fn of_arguments(&self, arguments: &str) -> [u8; 32] {
        commitment(&self.0[..SALT_BYTES], arguments)
    }

    /// Returns the commitment to a result.
    pub(crate) fn of_result(&self, result: &str) -> [u8; 32] {
        commitment(&self.0[SALT_BYTES..], result)
    }
}

fn commitment(salt: &[u8], content: &str) -> [u8; 32] {
    Sha256::new().chain_update(salt).chain_update(content).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_commitment_is_the_digest_of_salt_and_content() {
        let salts = Salts(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        let expected: [u8; 32] =
            Sha256::digest([&salts.bytes()[..16], &b"{\"a\":1}"[..]].concat()).into();
        assert_eq!(salts.of_arguments("{\"a\":1}"), expected);
        assert_ne!(salts.of_result("{\"a\":1}"), expected, "each has a salt of its own");
    }

    #[test]
    fn no_two_calls_have_the_same_salts() {
        let calls = 4 * POOL_BYTES / (2 * SALT_BYTES);
        let salts = (0..calls).map(|_| *Salts::random().expect("random numbers").bytes());
        let salts: HashSet<_> =
            salts.flat_map(|both| both.as_chunks::<SALT_BYTES>().0.to_vec()).collect();
        assert_eq!(salts.len(), 2 * calls, "nor is the salt of a result that of arguments");
    }

    #[test]
    fn random_bytes_that_were_used_are_overwritten() {
        let mut pool = RandomPool::new();
        let first = pool.take().expect("random numbers");
        assert_ne!(first, [0_u8; 2 * SALT_BYTES]);
        assert_eq!(pool.bytes[..first.len()], [0_u8; 2 * SALT_BYTES]);
    }
}
