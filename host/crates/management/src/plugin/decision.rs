//! Decides about a component as a gateway would when it is accepted: the rights that it gets, and what
//! has changed since another component was accepted.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    change::ConfigState,
    refusal::{Result, busy},
    service::Service,
};
use airlock_config::{LeftOutReason, StoredComponents, environment};
use airlock_core::tool::{ClientName, Policy};
use airlock_lock::Lock;
use airlock_plugin::{Drift, Grant, Metadata, Rights};
use airlock_store::entries::{EntryKind, EntryValue};
use airlock_strings::visible_line;

/// Decision about a component.
#[derive(Debug, Default)]
pub(super) struct ComponentDecision {
    /// Reasons that it would not be loaded.
    pub(super) obstacles: Vec<String>,
    /// Grants without effect, optional requests that are not granted, and `entries`.
    pub(super) notes: Vec<String>,
    /// Stores that it would have with entries of an earlier plugin of this name, if none is accepted whose requests are
    /// known. They need consent.
    pub(super) entries: Vec<String>,
    /// Differences from the accepted component; `None` if there are none, or none is accepted.
    pub(super) drift: Option<Drift>,
}

/// The component that is accepted when another one is decided about.
#[derive(Debug, Clone, Copy)]
pub(super) enum EarlierComponent<'m> {
    /// None is accepted.
    Absent,
    /// It cannot be read or used any more, so its requests are unknown: every request of another one is wider.
    Unknown,
    /// It has this metadata.
    Known(&'m Metadata),
}

impl<'m> EarlierComponent<'m> {
    pub(super) fn new(is_accepted: bool, metadata: Option<&'m Metadata>) -> Self {
        match metadata {
            Some(metadata) => Self::Known(metadata),
            None if is_accepted => Self::Unknown,
            None => Self::Absent,
        }
    }
}

impl Service {
    /// Decides about a component, if `element` were the plugin's element and this component the accepted
    /// one. It is compared with the one that is accepted now, the `earlier` one.
    pub(super) async fn decide(
        &self,
        state: &ConfigState,
        name: &str,
        element: &Value,
        component: &Metadata,
        earlier: EarlierComponent<'_>,
    ) -> Result<ComponentDecision> {
        let (grant, policy) = match self.granted(state, name, element, component).await? {
            Ok(granted) => granted,
            Err(obstacles) => {
                return Ok(ComponentDecision { obstacles, ..ComponentDecision::default() });
            }
        };
        let entries = match earlier {
            EarlierComponent::Known(_) => Vec::new(),
            _ => self.earlier_entries(name, &grant).await?,
        };
        let unknown = Metadata::new(b"", Vec::new(), None, Vec::new());
        let accepted = match earlier {
            EarlierComponent::Absent => None,
            EarlierComponent::Unknown => Some(&unknown),
            EarlierComponent::Known(metadata) => Some(metadata),
        };
        let drift = accepted.and_then(|accepted| {
            // The configuration has this name.
            let client = ClientName::parse(name).ok()?;
            let lock = Lock::of_one(accepted.pin(&client));
            Drift::between(&lock, &client, component, &grant, &policy)
        });
        let manifest = component.manifest.clone();
        let rights = self.secret_readings.read(move || {
            Rights::intersect(manifest.as_ref(), &grant, &|source| source.read(&environment))
        });
        let rights = rights.await.ok_or_else(|| {
            busy(
                "secrets_unread",
                "a file with a secret that the plugin is granted is not read in time",
            )
        })?;
        Ok(match rights {
            Ok(rights) => {
                let notes = rights.notes.iter().map(|note| visible_line(note));
                let notes = notes.chain(entries.iter().cloned()).collect();
                ComponentDecision { obstacles: Vec::new(), notes, entries, drift }
            }
            Err(refusal) => {
                let reasons = refusal.reasons.iter();
                let obstacles = reasons.map(|reason| visible_line(&reason.to_string())).collect();
                ComponentDecision { obstacles, notes: entries.clone(), entries, drift }
            }
        })
    }

    /// Describes the entries in granted stores that a plugin with this name has left.
    async fn earlier_entries(&self, name: &str, grant: &Grant) -> Result<Vec<String>> {
        if grant.kv.is_empty() {
            return Ok(Vec::new());
        }
        let usage = self.database().await?.kv_usage().await?;
        let mut entries = BTreeMap::<&str, u64>::new();
        for usage in &usage {
            if usage.plugin == name && grant.kv.contains_key(&usage.name) {
                *entries.entry(&usage.name).or_default() += usage.entries;
            }
        }
        let left = entries.into_iter().filter(|(_, count)| *count > 0);
        Ok(left
            .map(|(store, count)| {
                format!(
                    "the store {store:?} has entries, {count} in all, of a plugin that was named {name:?} before"
                )
            })
            .collect())
    }

    /// Returns the grant and the policy that an element would give to a component, or the reasons for which
    /// the element is not valid.
    async fn granted(
        &self,
        state: &ConfigState,
        name: &str,
        element: &Value,
        component: &Metadata,
    ) -> Result<Result<(Grant, Policy), Vec<String>>> {
        let mut element = element.clone();
        element["disabled"] = false.into();
        let accepted = component.digest.parse().ok();
        StoredComponents { accepted, offered: None }.write(&mut element);
        let after = EntryValue {
            replaces: state.in_file(EntryKind::Client, name),
            document: Some(element.to_string()),
        };
        let _place = self.place().await;
        let merged = self.merged_with(state, EntryKind::Client, name, Some(after)).await?;
        let mut clients = merged.config.clients.iter();
        let client = clients.find(|client| client.name.as_str() == name);
        let grant = client.and_then(|client| merged.config.plugin(&client.name));
        if let (Some(client), Some(settings)) = (client, grant) {
            return Ok(Ok((settings.grant.clone(), client.policy.clone())));
        }
        let left_out = merged.left_out.iter().find(|left_out| left_out.name == name);
        Ok(Err(match left_out.map(|left_out| &left_out.reason) {
            Some(LeftOutReason::Invalid(problems)) => {
                problems.iter().map(|problem| visible_line(&problem.to_string())).collect()
            }
            _ => vec!["the configuration file was changed meanwhile; try again".to_owned()],
        }))
    }
}
