//! Salted digests: they prove later which content a call had, and say nothing about it once the salt is
//! erased.

use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

/// Length of each of the two salts of a call, in bytes.
const SALT_BYTES: usize = 16;

/// The salts of the arguments and of the result of one call.
#[derive(Clone, Copy)]
pub(crate) struct Salts([u8; 2 * SALT_BYTES]);

impl Salts {
    /// Returns random salts; `None` if the system has no random numbers.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; 2 * SALT_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self(bytes))
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
    fn two_calls_have_other_salts() {
        let first = Salts::random().expect("random numbers");
        let second = Salts::random().expect("random numbers");
        assert_ne!(first.bytes(), second.bytes());
    }
}
