//! Rules by which a right covers another one of the same request, one for each kind. A text that
//! cannot be read covers only itself.

use std::{collections::BTreeSet, str::FromStr};

use serde::{
    Deserialize as _,
    de::{IntoDeserializer, value},
};

use crate::manifest::{CACHE, REVEALED};
use airlock_core::units::Size;
use airlock_egress::Rule;
use airlock_sandbox::DeclaredEffect;

/// Returns whether an accepted right covers another one of this kind.
pub(super) fn covers(kind: &str, accepted: &str, right: &str) -> bool {
    if accepted == right {
        return true;
    }
    match kind {
        "http" => both(accepted, right).is_some_and(|(was, is): (Rule, Rule)| was.contains(&is)),
        "effects" => both(accepted, right)
            .is_some_and(|(was, is): (DeclaredEffect, DeclaredEffect)| was.includes(&is)),
        "secret" => SecretUse::parse(accepted).covers(&SecretUse::parse(right)),
        "kv" | "files" | "scratch" => {
            both(accepted, right).is_some_and(|(was, is): (Space, Space)| was.covers(&is))
        }
        // Without its description a slot is the same.
        "slot" => right.is_empty(),
        _ => false,
    }
}

fn both<T: FromStr>(accepted: &str, right: &str) -> Option<(T, T)> {
    Some((accepted.parse().ok()?, right.parse().ok()?))
}

/// Returns the destinations for whose requests a secret is used.
pub(super) fn audience(right: &str) -> BTreeSet<&str> {
    SecretUse::parse(right).audience
}

/// Use of a secret: `in header x-key to api, web and shown to the plugin`.
struct SecretUse<'a> {
    inject: &'a str,
    audience: BTreeSet<&'a str>,
    is_revealed: bool,
}

impl<'a> SecretUse<'a> {
    fn parse(text: &'a str) -> Self {
        let (text, is_revealed) = without_end(text, REVEALED);
        // The last `to ` begins the audience, because no name in it has a space.
        let (inject, audience) = text.trim_end().rsplit_once("to ").unwrap_or((text, ""));
        let names = audience.split(',').map(str::trim).filter(|name| !name.is_empty());
        Self { inject: inject.trim(), audience: names.collect(), is_revealed }
    }

    fn covers(&self, other: &Self) -> bool {
        (other.inject.is_empty() || other.inject == self.inject)
            && self.audience.is_superset(&other.audience)
            && (self.is_revealed || !other.is_revealed)
    }
}

/// Space on disk or in a store: `read_write 1GiB 5 files`. An amount that is not stated leaves the
/// quota to the operator.
struct Space {
    may_write: bool,
    is_cache: bool,
    bytes: Option<u64>,
    files: Option<u64>,
}

impl Space {
    fn covers(&self, other: &Self) -> bool {
        let holds = self.may_write
            && is_within(self.bytes, other.bytes)
            && is_within(self.files, other.files);
        // A quota limits nothing that is only read.
        (holds || !other.may_write) && (self.is_cache || !other.is_cache)
    }
}

impl FromStr for Space {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (text, is_cache) = without_end(text, CACHE);
        let mut space = Self { may_write: true, is_cache, bytes: None, files: None };
        let mut words = text.split(' ').peekable();
        while let Some(word) = words.next() {
            match word {
                "read_only" => space.may_write = false,
                "read_write" => {}
                _ if words.next_if_eq(&"files").is_some() => {
                    space.files = Some(word.parse().map_err(drop)?);
                }
                _ => space.bytes = Some(size(word)?),
            }
        }
        Ok(space)
    }
}

fn is_within(most: Option<u64>, other: Option<u64>) -> bool {
    most.is_none_or(|most| other.is_some_and(|other| other <= most))
}

fn size(text: &str) -> Result<u64, ()> {
    let text = IntoDeserializer::<value::Error>::into_deserializer(text);
    Size::deserialize(text).map(|size| size.0).map_err(drop)
}

/// Returns a text without its end, and whether it had that end.
fn without_end<'a>(text: &'a str, end: &str) -> (&'a str, bool) {
    text.strip_suffix(end).map_or((text, false), |text| (text, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_shown_to_the_plugin_is_not_covered_by_one_that_is_not() {
        let hidden = "in header x-key to api";
        let revealed = format!("{hidden}{REVEALED}");
        assert!(SecretUse::parse(&revealed).is_revealed && covers("secret", &revealed, hidden));
        assert!(!covers("secret", hidden, &revealed));
    }
}
