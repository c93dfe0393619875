//! `governance.virtual_keys`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use super::{
    digest,
    file_env::FileEnv,
    refused::{InvalidValue, NamedPart, Referent},
    resolved::{Problems, Resolved},
    time,
};
use crate::{env_text::EnvText, file};
use airlock_core::{
    door::{ApprovalChoice, Keys, RelayRow, VirtualKey, credential_digest},
    tool::{Allowlist, ClientName, INTERNAL_CLIENT, UriList, with_internal_client},
};

/// Prefix of credentials, which distinguishes them from a provider's own keys.
pub(super) const PREFIX: &str = "sk-bf-";
/// Minimum length of a credential. Shorter ones could be guessed.
const MIN_CHARACTERS: usize = 20;

/// Virtual keys that other parts of the file may name.
#[derive(Clone, Copy)]
pub(super) struct KnownKeys<'a> {
    pub(super) active: &'a Keys,
    /// Names of other keys that may be named too.
    pub(super) absent: &'a BTreeSet<String>,
}

impl KnownKeys<'_> {
    pub(super) fn has(self, name: &str) -> bool {
        self.active.named(name).is_some() || self.absent.contains(name)
    }
}

/// Names and credentials of earlier keys of the list, which no other key may have.
#[derive(Default)]
struct Earlier {
    names: BTreeSet<String>,
    ids: BTreeSet<String>,
    /// Names of the keys, by the digests of their credentials.
    digests: BTreeMap<[u8; 32], String>,
}

/// The credential before a rotation.
struct Previous {
    digest: [u8; 32],
    valid_until: SystemTime,
}

/// Resolves every active key. An inactive one is checked too, but its environment variable need not
/// exist.
pub(super) fn resolve(
    keys: Vec<file::VirtualKey>,
    clients: &BTreeSet<ClientName>,
    env: FileEnv<'_>,
) -> Resolved<Keys> {
    let mut earlier = Earlier::default();
    let keys = Resolved::elements(keys, |problems, key| {
        resolve_one(problems, key, &mut earlier, clients, env)
    });
    keys.map(Keys::new)
}

fn resolve_one(
    problems: &mut Problems,
    key: file::VirtualKey,
    earlier: &mut Earlier,
    clients: &BTreeSet<ClientName>,
    env: FileEnv<'_>,
) -> Option<VirtualKey> {
    check_name(problems, &key.name, &mut earlier.names);
    let rows = problems.take("mcp_configs", rows(&key.mcp_configs, clients));
    let expires_at = key.expires_at.as_deref();
    let expires_at = expires_at.and_then(|at| problems.accept("expires_at", time::rfc3339(at)));
    let previous = problems.merge(previous(&key));
    let has_digest = key.value_sha256.is_some();
    let is_active = key.is_active.0;
    let digest = problems.merge(credential(key.value, key.value_sha256.as_deref(), is_active, env));
    let digest = digest.filter(|_| is_active)?;
    let value = if has_digest { "value_sha256" } else { "value" };
    claim(problems, value, digest, &key.name, &mut earlier.digests);
    if let Some(previous) = &previous {
        let member = "previous_value_sha256";
        claim(problems, member, previous.digest, &key.name, &mut earlier.digests);
    }
    // With `value`, what was stored before belongs to the credential.
    let id = key.id.filter(|id| has_digest && !id.is_empty());
    if id.as_ref().is_some_and(|id| !earlier.ids.insert(id.clone())) {
        problems.refuse("id", "another key has this identifier already");
    }
    let relayed = rows.iter().map(|(client, (_, row))| (client.clone(), row.clone())).collect();
    let tools = rows.into_iter().map(|(client, (tools, _))| (client, tools)).collect();
    let mut resolved = VirtualKey::from_digest(key.name, digest, tools)
        .with_relayed(relayed)
        .with_approval(key.approval.map(ApprovalChoice::from))
        .with_expiry(expires_at);
    if let Some(id) = id {
        resolved = resolved.with_id(&id);
    }
    if let Some(previous) = previous {
        resolved = resolved.with_previous(previous.digest, previous.valid_until);
    }
    Some(resolved)
}

fn check_name(problems: &mut Problems, name: &str, taken: &mut BTreeSet<String>) {
    if name.trim().is_empty() {
        problems.refuse("name", "is empty");
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

/// Returns the tools, resources and prompts of each client that a key opens.
fn rows(
    rows: &[file::KeyRow],
    clients: &BTreeSet<ClientName>,
) -> Resolved<BTreeMap<ClientName, (Allowlist, RelayRow)>> {
    let mut seen = BTreeSet::new();
    let rows = Resolved::elements(rows, |problems, row| {
        let tools = Allowlist::parse(&row.tools_to_execute);
        let resources = UriList::parse(&row.resources_to_read);
        let prompts = Allowlist::parse(&row.prompts_to_get);
        let tools = problems.accept("tools_to_execute", tools).unwrap_or_default();
        let relayed = RelayRow {
            resources: problems.accept("resources_to_read", resources).unwrap_or_default(),
            prompts: problems.accept("prompts_to_get", prompts).unwrap_or_default(),
        };
        let client = client(&row.mcp_client_name, clients);
        let client = problems.accept("mcp_client_name", client)?;
        if !seen.insert(client.clone()) {
            let message = format_args!("there is another row for {client:?}");
            problems.refuse("mcp_client_name", message);
        }
        Some((client, (tools, relayed)))
    });
    rows.map(BTreeMap::from_iter)
}

fn client(name: &str, clients: &BTreeSet<ClientName>) -> Result<ClientName, InvalidValue> {
    let full_name = with_internal_client(name);
    if full_name == INTERNAL_CLIENT {
        // Registered at run time by the embedding program.
        return Ok(ClientName::internal());
    }
    clients.get(&*full_name).cloned().ok_or_else(|| {
        let clients = Referent::ElementOf(NamedPart::Clients);
        InvalidValue::absent(clients, format_args!("no client is named {name:?}"))
    })
}

/// Returns whether `text` is a valid credential. Blanks are invalid because they cannot be sent in
/// a header, for example the line break at the end of a file of secrets.
fn is_credential(text: &str) -> bool {
    text.starts_with(PREFIX)
        && text.len() >= MIN_CHARACTERS
        && text.chars().all(|c| c.is_ascii_graphic())
}
