//! Digests of what a client sends back.
//!
//! Identifiers of calls are made by providers, and some use the same ones in every answer:
//! `call_0`. All users of a program may share a tenant and ask the same, so such an identifier would
//! find the calls of another conversation. It has no digest, and nothing is kept under it. A short
//! random identifier is enough: it would have to meet an equal one of the same tenant, with the same
//! tool and the same last message of the user, among the few thousand records of that tenant.

use sha2::{Digest as _, Sha256};

use airlock_core::tenant::Tenant;
use airlock_store::recall::Anchor;

/// Maximum number of calls or items of a request that are looked up, the newest first. Each is a
/// query in the database, and a request may have as many as its body has room for.
pub(super) const MAX_SITES: usize = 512;
/// Number of letters and digits from which an identifier counts as unique, whatever they are.
const UNIQUE_CHARACTERS: usize = 16;
/// Number of letters and digits of the shortest random word: Ollama's identifiers have one of 8 after
/// `call_`, Mistral's are one of 9.
const RANDOM_CHARACTERS: usize = 8;
/// Number of digits of LM Studio's identifiers, which are random numbers. A shorter number may be a
/// counter or a date, and a longer one a time.
const RANDOM_DIGITS: usize = 9;
/// Digits after letters that make a word a counter: few random words end so.
const COUNTER_DIGITS: usize = 4;
/// Words of at least [`RANDOM_CHARACTERS`], perhaps with a number, that name a kind of identifier.
const LABELS: [&str; 12] = [
    "assistant",
    "chatcmpl",
    "completion",
    "function",
    "functioncall",
    "functioncalls",
    "functions",
    "message",
    "response",
    "toolcall",
    "toolcalls",
    "tooluse",
];

/// The digests of one conversation, up to a position in it.
#[derive(Debug, Clone)]
pub(crate) struct ConversationDigests {
    scope: [u8; 32],
    /// Digest of the last message of the user so far.
    user: [u8; 32],
}

impl ConversationDigests {
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

/// Returns whether an identifier is unique among all conversations: without the name of the tool,
/// which some providers make it of, and without labels, it has [`UNIQUE_CHARACTERS`] or a random word.
pub(crate) fn is_unique(id: &str, name: &str) -> bool {
    let rest = if name.is_empty() { id.to_owned() } else { id.replacen(name, "", 1) };
    let words = rest.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut words: Vec<&str> = words.collect();
    let last = words.pop().filter(|word| !is_label(word));
    // Letters alone are a label, if something follows them.
    words.retain(|word| word.bytes().any(|byte| byte.is_ascii_digit()) && !is_label(word));
    words.extend(last);
    words.iter().map(|word| word.len()).sum::<usize>() >= UNIQUE_CHARACTERS
        || words.into_iter().any(is_random)
}

/// Returns whether a word of an identifier names its kind, perhaps with a number.
fn is_label(word: &str) -> bool {
    let label = word.trim_end_matches(|c: char| c.is_ascii_digit());
    LABELS.iter().any(|own| own.eq_ignore_ascii_case(label))
}

/// Returns whether a word of an identifier is random, and no counter. Letters alone may be random: one
/// in five of Mistral's identifiers has no digit.
fn is_random(word: &str) -> bool {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    if name.is_empty() {
        return word.len() == RANDOM_DIGITS && !word.starts_with('0');
    }
    let is_letters = name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_counter = is_letters && word.len() - name.len() >= COUNTER_DIGITS;
    word.len() >= RANDOM_CHARACTERS && !is_counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_tenant_user_identifier_and_name() {
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
            ConversationDigests::new(&key).call(c, "x"),
        ];
        assert!(all.iter().all(Option::is_some));
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    fn trail(tenant: &Tenant, user: &[&str]) -> ConversationDigests {
        let mut trail = ConversationDigests::new(tenant);
        trail.note_user(user.iter().copied());
        trail
    }

    #[test]
    fn an_identifier_that_other_conversations_may_have_has_no_digest() {
        for (id, is_good) in [
            ("call_0123456789abcdefghijklmn", true),
            ("toolu_01A09q90qw90lq917835lq9", true),
            ("chatcmpl-tool-0123456789abcdef", true),
            // Ollama, Mistral and LM Studio.
            ("call_4f7kq2xw", true),
            ("call_kqzwvbtx", true),
            ("D681PevKs", true),
            ("kVbTqXzWp", true),
            ("365174485", true),
            ("call_0", false),
            ("call_4f7kq2x", false),
            ("call_00000001", false),
            ("call_000000001", false),
            ("call_20260131", false),
            ("call_1769904000", false),
            ("functions.get_weather_of_a_city:0", false),
            ("function_call_12", false),
            ("functioncall12", false),
            ("tooluse0", false),
            ("function_call_1234", false),
            ("message_function_call_0", false),
            ("get_weather_information_0", false),
            ("invocation_0", false),
            ("call00001", false),
            ("toolu00000001", false),
            ("chatcmpl_tool_call_1", false),
            ("message0", false),
            ("assistant_0", false),
            ("response-1", false),
            ("", false),
        ] {
            assert_eq!(is_unique(id, "get_weather_of_a_city"), is_good, "{id}");
        }
    }
}
