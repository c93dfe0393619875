//! The sources of a view: computes which resources and prompts of each a request may use.

use std::sync::Arc;

use super::{
    McpServer, RelayTarget,
    view::{Granted, RelayView},
};
use crate::{
    door::{Filter, Provider, RelayRow, ToolRules, ToolSwitch, VirtualKey},
    tenant::Tenant,
    tool::{ClientName, Exclusions, Offers, Policy},
};

/// One source, as a view needs it.
#[derive(Clone, Copy)]
pub struct RelaySource<'s> {
    /// Name of the client.
    pub client: &'s ClientName,
    /// Requests that the operator permits.
    pub policy: &'s Policy,
    /// Its lists.
    pub offers: &'s Arc<Offers>,
    /// Runs the requests; `None` before the first connection.
    pub provider: Option<&'s Arc<dyn Provider>>,
    /// True if the operator has switched all tools off.
    pub is_switched_off: bool,
}

impl RelayView {
    /// Computes the view of one request. Without a key, the configuration of the clients and the
    /// filter decide. A filter that names single tools of a client hides its resources and prompts.
    pub fn new<'s>(
        sources: impl IntoIterator<Item = RelaySource<'s>>,
        filter: &Filter,
        key: Option<&VirtualKey>,
    ) -> Self {
        let admitted = sources.into_iter().filter(|source| {
            ToolRules::new(source.client, source.policy, filter, key)
                .switched_off(source.is_switched_off)
                .may_relay()
        });
        let clients = admitted
            .map(|source| (source.client.clone(), Granted::new(&source, filter, key)))
            .filter(|(_, granted)| !granted.is_empty());
        Self {
            clients: Arc::new(clients.collect()),
            tenant: key.map_or(Tenant::ANONYMOUS, |key| key.tenant().clone()),
            switch: ToolSwitch::default(),
        }
    }
}

impl Granted {
    fn new(source: &RelaySource<'_>, filter: &Filter, key: Option<&VirtualKey>) -> Self {
        let RelaySource { client, policy, offers, provider, .. } = *source;
        let grants = key.map(|key| &key.grants);
        // Instructions tell of a client's tools, so they are for those who may use one.
        let knows = grants.is_none_or(|grants| {
            grants.knows(client, policy)
                && grants.rows.get(client).is_none_or(|row| !row.is_empty())
        });
        let are_excluded = policy.exclude.covers_all()
            || filter.excludes_all_of(client)
            || grants.is_some_and(|grants| {
                grants.excludes_all(client)
                    || grants.taken_away(client).is_some_and(Exclusions::covers_all)
            });
        Self {
            permitted: RelayRow {
                resources: policy.resources.clone(),
                prompts: policy.prompts.clone(),
            },
            key: grants.map(|grants| grants.relayed(client, policy)),
            instructions: policy.relays_instructions && knows && !are_excluded,
            offers: offers.clone(),
            target: provider.map(|provider| Arc::new(provider.clone()) as Arc<dyn RelayTarget>),
        }
    }
}

impl RelayTarget for Arc<dyn Provider> {
    fn server(&self) -> Option<&dyn McpServer> {
        Provider::server(&**self)
    }
}
