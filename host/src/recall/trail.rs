//! Digests of what a client sends back.
//!
//! Identifiers of calls are made by providers, and some use the same ones in every answer:
//! `call_0`. All users of a program may share a tenant and ask the same, so such an identifier would
//! find the calls of another conversation. It has no digest, and nothing is kept under it.

use sha2::{Digest as _, Sha256};

use crate::{store::recall::Anchor, tenant::Tenant};

/// Letters and digits of an identifier that no other conversation has.
const UNIQUE_CHARACTERS: usize = 16;

/// The digests of one conversation, up to a position in it.
#[derive(Debug, Clone)]
pub(crate) struct Trail {
    scope: [u8; 32],
    /// Digest of the last message of the user so far.
    user: [u8; 32],
}

impl Trail {
    /// Begins a conversation of a tenant.
    pub(crate) fn new(tenant: &Tenant) -> Self {
        Self { scope: tenant.scope(), user: [0; 32] }
    }

    /// Advances to a message of the user, of which these are the texts.
    pub(super) fn note_user<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) {
        let mut digest = Sha256::new();
        for text in texts {
            digest.update(text);
        }
        self.user = digest.finalize().into();
    }

    /// Returns the digest of a call of the caller's tool `name` at this position; `None` if other
    /// conversations may have the same identifier.
    pub(super) fn call(&self, id: &str, name: &str) -> Option<Anchor> {
        is_unique(id, name).then(|| self.digest(&[b"call", id.as_bytes(), name.as_bytes()]))
    }

    /// Returns the digest of a message of the model at this position, as for a call.
    pub(super) fn message(&self, id: &str) -> Option<Anchor> {
        is_unique(id, "").then(|| self.digest(&[b"message", id.as_bytes()]))
    }

    fn digest(&self, parts: &[&[u8]]) -> Anchor {
        let begun = Sha256::new().chain_update(self.scope).chain_update(self.user);
        let sum = parts.iter().fold(begun, |sum, part| {
            sum.chain_update((part.len() as u64).to_le_bytes()).chain_update(part)
        });
        sum.finalize().into()
    }
}

/// Returns whether the identifier of a call is unique among all conversations: it has
/// [`UNIQUE_CHARACTERS`] besides the name of the tool, which some providers make it of.
pub(crate) fn is_unique(id: &str, name: &str) -> bool {
    let rest = if name.is_empty() { id.to_owned() } else { id.replacen(name, "", 1) };
    rest.bytes().filter(u8::is_ascii_alphanumeric).count() >= UNIQUE_CHARACTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_tenant_user_identifier_and_name() {
        let trail = |tenant: &Tenant, user: &[&'static str]| {
            let mut trail = Trail::new(tenant);
            trail.note_user(user.iter().copied());
            trail
        };
        let key = Tenant::of_key([1; 32], "ann");
        let one = trail(&key, &["go"]);
        let c = "call_0123456789abcdef";
        let d = "call_0123456789abcdeg";
        assert_eq!(one.call(c, "x"), trail(&key, &["g", "o"]).call(c, "x"), "parts of a text");
        let all = [
            one.call(c, "x"),
            one.call(c, "y"),
            one.call(d, "x"),
            one.message(c),
            trail(&key, &["gone"]).call(c, "x"),
            trail(&Tenant::ANONYMOUS, &["go"]).call(c, "x"),
            Trail::new(&key).call(c, "x"),
        ];
        assert!(all.iter().all(Option::is_some));
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn an_identifier_that_other_conversations_may_have_has_no_digest() {
        for (id, is_good) in [
            ("call_0123456789abcdefghijklmn", true),
            ("toolu_01A09q90qw90lq917835lq9", true),
            ("chatcmpl-tool-0123456789abcdef", true),
            ("call_0", false),
            ("functions.get_weather_of_a_city:0", false),
            ("", false),
        ] {
            assert_eq!(is_unique(id, "get_weather_of_a_city"), is_good, "{id}");
        }
    }
}
