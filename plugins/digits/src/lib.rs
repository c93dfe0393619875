//! Numbers with check digits in texts: payment cards and bank accounts. Guards search for them, each for a purpose of its
//! own. Nothing here is exported to the gateway.

pub mod checksum;
mod numbers;
pub mod words;

pub use self::numbers::{COUNTRIES, card, iban};
