//! Commitments to contents, from which a record proves what a call was about.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns the commitment to a content with this salt: both in hexadecimal, as records have them.
pub fn commitment(salt: &Value, content: &str) -> String {
    let salt = salt.as_str().expect("a salt");
    let bytes = (0..salt.len()).step_by(2).map(|at| u8::from_str_radix(&salt[at..at + 2], 16));
    let salt: Vec<u8> = bytes.collect::<Result<_, _>>().expect("hexadecimal");
    let digest = Sha256::new().chain_update(salt).chain_update(content).finalize();
    digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
