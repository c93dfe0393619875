//! `governance.virtual_keys`.
//!
//! A key of a file needs no credential: the gateway makes one and keeps its digest in the store, see
//! [`ResolvedKeys::without_value`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use super::{
    client::OwnedClients,
    digest,
    file_env::FileEnv,
    limits::KeyIdentities,
    name::check_length,
    named_set::{self, NamedSets},
    resolved::{Problems, Resolved},
    row,
    same_variants::SameVariants,
    team::Groups,
    time,
};
use airlock_config_file::{
    env_text::EnvText,
    error::Problem,
    file,
    refused::{InvalidValue, NamedPart},
};
use airlock_core::{
    door::{
        CertificateDigest, Grants, Keys, Membership, ROLES_PREFIX, VirtualKey, credential_digest,
    },
    tool::ClientName,
};

/// Prefix of credentials, which distinguishes them from a provider's own keys.
pub(super) const PREFIX: &str = "sk-bf-";
/// Minimum length of a credential, in bytes, with its prefix. The other 14 have 83 bits if they are random letters and
/// digits; shorter ones could be guessed.
const MIN_CHARACTERS: usize = 20;
/// Maximum certificates of one key: caps `client_certificate_sha256`. They are those of the callers that share the key, and
/// their next ones; a service with more callers gives them keys of their own.
const MAX_CERTIFICATES: usize = 100;
/// Member that binds a key to certificates.
const CERTIFICATES: &str = "client_certificate_sha256";

/// Virtual keys that other parts of the file may name.
#[derive(Clone, Copy)]
pub(super) struct KnownKeys<'a> {
    pub(super) resolved: &'a ResolvedKeys,
    /// Names of other keys that may be named too.
    pub(super) absent: &'a BTreeSet<String>,
}

impl KnownKeys<'_> {
    pub(super) fn has(self, name: &str) -> bool {
        let ResolvedKeys { active, without_value, withheld } = self.resolved;
        active.named(name).is_some()
            || without_value.contains(name)
            || withheld.contains(name)
            || self.absent.contains(name)
    }
}

/// The keys that are not switched off.
#[derive(Default)]
pub(super) struct ResolvedKeys {
    /// Those that callers can use.
    pub(super) active: Keys,
    /// Names of those that have no credential yet.
    pub(super) without_value: BTreeSet<String>,
    /// Names of those whose role, environment, team or customer is taken away by an entry of the store. They are
    /// refused: it may have taken tools away, or have limits.
    pub(super) withheld: BTreeSet<String>,
}

/// Names of all keys, active or not. A key that is switched off for a while keeps what it has.
#[derive(Clone, Copy)]
pub(super) struct KeyNames<'a> {
    pub(super) present: &'a BTreeSet<String>,
    /// Names of other keys that may be named too.
    pub(super) absent: &'a BTreeSet<String>,
}

impl KeyNames<'_> {
    /// Refuses a list of owners that is empty or, unless it is one of the store, names a key that does not
    /// exist.
    pub(super) fn check_owners(self, names: &[String], is_of_store: bool) -> Resolved<()> {
        Resolved::new(|problems| {
            if names.is_empty() {
                problems.refuse_whole(
                    "names no key, so nobody could use it; leave it out, or name one",
                );
            }
            for (index, name) in names.iter().enumerate().filter(|_| !is_of_store) {
                if !self.present.contains(name) && !self.absent.contains(name) {
                    let known = self.present.iter().map(String::as_str);
                    let part = NamedPart::VirtualKeys;
                    problems.refuse(index, InvalidValue::unknown(part, "key", name, known));
                }
            }
        })
    }
}

/// Names and credentials of earlier keys of the list, which no other key may have.
#[derive(Default)]
struct Earlier {
    names: BTreeSet<String>,
    /// Names of the keys, by the digests of their credentials.
    digests: BTreeMap<[u8; 32], String>,
}

/// The credential before a rotation.
struct Previous {
    digest: [u8; 32],
    valid_until: SystemTime,
}

/// The parts of the file that keys name, and the clients that name keys.
pub(super) struct KeyContext<'a> {
    pub(super) clients: &'a BTreeSet<ClientName>,
    pub(super) sets: &'a NamedSets<'a>,
    pub(super) groups: &'a Groups<'a>,
    pub(super) identities: &'a KeyIdentities,
    /// Clients that belong to keys.
    pub(super) owned: &'a OwnedClients,
    /// True if the listener asks callers for certificates.
    pub(super) asks_for_certificates: bool,
    pub(super) env: FileEnv<'a>,
}

/// Returns the names of all keys, also of those that are not active.
pub(super) fn names(keys: &[file::VirtualKey]) -> BTreeSet<String> {
    keys.iter().map(|key| key.name.clone()).collect()
}

/// Resolves every active key. An inactive one is checked too, but its environment variable need not
/// exist.
pub(super) fn resolve(
    keys: Vec<file::VirtualKey>,
    context: &KeyContext<'_>,
) -> Resolved<ResolvedKeys> {
    let mut earlier = Earlier::default();
    let mut all = ResolvedKeys::default();
    let keys = Resolved::elements(keys, |problems, key| {
        let certificates = key.client_certificate_sha256.as_deref();
        let certificates =
            certificates.map(|list| certificates_of(list, context.asks_for_certificates));
        let certificates = certificates.map(|list| problems.take(CERTIFICATES, list));
        let name = key.name.clone();
        let is_active = key.is_active.0;
        let is_withheld = context.sets.lack_one_of(&key) || context.groups.lack_one_of(&key);
        let has_value = key.value.is_some() || key.value_sha256.is_some();
        if is_active && !has_value && context.env.is_file {
            all.without_value.insert(name.clone());
        }
        let key = resolve_one(problems, key, &mut earlier, context)?;
        if is_withheld {
            all.withheld.insert(name);
            return None;
        }
        Some(key.with_certificates(certificates.unwrap_or_default()))
    });
    keys.map(|active| ResolvedKeys { active: Keys::new(active), ..all })
}

fn resolve_one(
    problems: &mut Problems,
    key: file::VirtualKey,
    earlier: &mut Earlier,
    context: &KeyContext<'_>,
) -> Option<VirtualKey> {
    check_name(problems, &key.name, &mut earlier.names);
    let grants = problems.merge(grants(&key, context));
    let membership = membership(&key, context);
    let expires_at = key.expires_at.as_deref();
    let expires_at = expires_at.and_then(|at| problems.accept("expires_at", time::rfc3339(at)));
    let previous = problems.merge(previous(&key));
    let has_digest = key.value_sha256.is_some();
    let is_active = key.is_active.0;
    let digest =
        problems.merge(credential(key.value, key.value_sha256.as_deref(), is_active, context.env));
    let digest = digest.filter(|_| is_active)?;
    let value = if has_digest { "value_sha256" } else { "value" };
    claim(problems, value, digest, &key.name, &mut earlier.digests);
    if let Some(previous) = &previous {
        let member = "previous_value_sha256";
        claim(problems, member, previous.digest, &key.name, &mut earlier.digests);
    }
    // With `value`, what was stored before belongs to the credential.
    let id = key.id.filter(|id| has_digest && !id.is_empty());
    let mut resolved = VirtualKey::from_digest(key.name, digest, grants)
        .with_approval(key.approval.map(SameVariants::same))
        .with_expiry(expires_at)
        .with_membership(membership);
    if let Some(id) = id {
        resolved = resolved.with_id(&id);
    }
    if let Some(previous) = previous {
        resolved = resolved.with_previous(previous.digest, previous.valid_until);
    }
    Some(resolved)
}

/// Returns the identifiers under which the calls of a key are counted and recorded.
fn membership(key: &file::VirtualKey, context: &KeyContext<'_>) -> Membership {
    let [team, customer] = context.groups.identities(key);
    let identity = context.identities.id(&key.name).unwrap_or(&key.name);
    Membership {
        key: Some(identity.to_owned()),
        key_name: Some(key.name.clone()),
        team,
        customer,
        environment: key.environment.clone(),
    }
}

/// Returns the tools that a key opens: those of its rows and of its roles, within its environment.
fn grants(key: &file::VirtualKey, context: &KeyContext<'_>) -> Resolved<Grants> {
    let KeyContext { clients, sets, groups, owned, .. } = context;
    Resolved::new(|problems| {
        let team = key.team_id.as_deref().map(|text| groups.teams.referent(text));
        let team = team.and_then(|found| problems.accept("team_id", found)).flatten();
        let customer = key.customer_id.as_deref().map(|text| groups.customers.referent(text));
        customer.and_then(|found| problems.accept("customer_id", found));
        if key.team_id.is_some() && key.customer_id.is_some() {
            let message = "is beside `team_id`; a key belongs to a team or to a customer";
            problems.refuse("customer_id", message);
        }
        let mut grants = problems.take("mcp_configs", row::resolve(&key.mcp_configs, clients));
        for role in problems.take("roles", named_set::check_roles(&key.roles, &sets.roles)) {
            grants.add_rows(role);
        }
        let environment = key.environment.as_deref().map(|name| sets.environment(name));
        let environment =
            environment.and_then(|found| problems.accept("environment", found)).flatten();
        Grants { environment, owned: owned.for_key(&key.name, team), ..grants }
    })
}

/// Returns the certificates that a key is bound to.
fn certificates_of(
    digests: &[String],
    asks_for_certificates: bool,
) -> Resolved<BTreeSet<CertificateDigest>> {
    Resolved::new(|problems| {
        if digests.is_empty() {
            problems.refuse_whole("is empty; leave it out for a key that needs no certificate");
        }
        if digests.len() > MAX_CERTIFICATES {
            problems.refuse_whole(format_args!("has more than {MAX_CERTIFICATES} elements"));
        }
        if !asks_for_certificates {
            problems.refuse_whole(
                "needs `server.tls.client_ca`: without it, no caller can show a certificate and every request with the key would be refused",
            );
        }
        let digests = Resolved::elements(digests, |problems, text| {
            problems.accept_whole(digest::sha256(text)).map(CertificateDigest::from_bytes)
        });
        problems.merge(digests).into_iter().collect()
    })
}

fn check_name(problems: &mut Problems, name: &str, taken: &mut BTreeSet<String>) {
    if name.trim().is_empty() {
        problems.refuse("name", "is empty");
        return;
    }
    if !check_length(problems, "name", name) {
        return;
    }
    if name.starts_with(ROLES_PREFIX) {
        problems.refuse("name", format_args!(
            "must not begin with {ROLES_PREFIX:?}, as the names of senders with an access token do; found {name:?}"
        ));
    } else if !taken.insert(name.to_owned()) {
        problems.refuse("name", format_args!("another key is named {name:?} already"));
    }
}

/// Notes that a key has a credential. Refuses one that another key has.
fn claim(
    problems: &mut Problems,
    member: &str,
    digest: [u8; 32],
    name: &str,
    taken: &mut BTreeMap<[u8; 32], String>,
) {
    if let Some(first) = taken.insert(digest, name.to_owned()) {
        problems.refuse(member, format_args!("is the same as that of the key {first:?}"));
    }
}

/// Returns the digest of the credential. `value` of an inactive key is not looked up.
fn credential(
    value: Option<EnvText>,
    sha256: Option<&str>,
    is_active: bool,
    env: FileEnv<'_>,
) -> Resolved<Option<[u8; 32]>> {
    Resolved::new(|problems| match (value, sha256) {
        (Some(_), Some(_)) => {
            let message = "is beside `value`; exactly one of both is needed";
            problems.refuse("value_sha256", message);
            None
        }
        // The gateway makes one.
        (None, None) if env.is_file => None,
        (None, None) => {
            let message =
                "is required, unless `value_sha256` is set; exactly one of both is needed";
            problems.refuse("value", message);
            None
        }
        (None, Some(text)) => problems.accept("value_sha256", digest::sha256(text)),
        (Some(_), None) if !is_active => None,
        (Some(value), None) => problems.take("value", written_credential(value, env)),
    })
}

fn written_credential(value: EnvText, env: FileEnv<'_>) -> Resolved<Option<[u8; 32]>> {
    Resolved::new(|problems| {
        let value = problems.accept_whole(env.text(value))?;
        if !is_credential(value.expose()) {
            problems.refuse_whole(format_args!(
                "must start with {PREFIX:?} and have at least {MIN_CHARACTERS} characters, without spaces"
            ));
        }
        Some(credential_digest(value.expose()))
    })
}

/// Returns the credential before a rotation; `None` if there is none.
fn previous(key: &file::VirtualKey) -> Resolved<Option<Previous>> {
    Resolved::new(|problems| {
        let (digest, valid_until) = match (&key.previous_value_sha256, &key.previous_valid_until) {
            (Some(digest), Some(valid_until)) => (digest, valid_until),
            (None, None) => return None,
            (Some(_), None) => {
                problems.refuse("previous_value_sha256", "needs `previous_valid_until` beside it");
                return None;
            }
            (None, Some(_)) => {
                problems.refuse("previous_valid_until", "needs `previous_value_sha256` beside it");
                return None;
            }
        };
        let digest = problems.accept("previous_value_sha256", digest::sha256(digest));
        let valid_until = problems.accept("previous_valid_until", time::rfc3339(valid_until));
        Some(Previous { digest: digest?, valid_until: valid_until? })
    })
}

/// Checks the digests and the time of a credential of the store.
pub(crate) fn check_stored(value: &file::KeyValue) -> Result<(), Vec<Problem>> {
    let checked = Resolved::new(|problems| {
        problems.accept("value_sha256", digest::sha256(&value.value_sha256));
        let previous = value.previous_value_sha256.as_deref().map(digest::sha256);
        let until = value.previous_valid_until.as_deref().map(time::rfc3339);
        if previous.is_some() != until.is_some() {
            let message = "is beside `previous_valid_until`; both are needed";
            problems.refuse("previous_value_sha256", message);
        }
        previous.and_then(|digest| problems.accept("previous_value_sha256", digest));
        until.and_then(|until| problems.accept("previous_valid_until", until));
    });
    let ((), problems) = checked.into_parts();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.into_iter().map(Problem::from).collect())
    }
}

/// Returns whether `text` is a valid credential. Blanks are invalid because they cannot be sent in
/// a header, for example the line break at the end of a file of secrets.
fn is_credential(text: &str) -> bool {
    text.starts_with(PREFIX)
        && text.len() >= MIN_CHARACTERS
        && text.chars().all(|c| c.is_ascii_graphic())
}
