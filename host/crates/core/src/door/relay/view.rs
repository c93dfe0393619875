//! The resources and prompts that one request may use, and the decision about each use.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Relay, RelayError, RelayRequest, RelayTarget, Subject, claims::Claims};
use crate::{
    door::{CallerCapabilities, RelayRow, ToolSwitch},
    tenant::Tenant,
    tool::{ClientName, Offer, Offers},
};

/// Resources and prompts one request may use. Cheap to clone. It does not change when the catalog
/// changes.
#[derive(Clone)]
pub struct RelayView {
    pub(super) clients: Arc<BTreeMap<ClientName, Granted>>,
    pub(super) tenant: Tenant,
    /// The switch of all tools, which requests ask again.
    pub(super) switch: ToolSwitch,
}

/// A source of which at least one resource or prompt may be used, or whose instructions are passed
/// on.
pub(super) struct Granted {
    /// The operator's lists.
    pub(super) permitted: RelayRow,
    /// The key's lists; `None` without a key.
    pub(super) key: Option<RelayRow>,
    pub(super) instructions: bool,
    pub(super) offers: Arc<Offers>,
    pub(super) target: Option<Arc<dyn RelayTarget>>,
}

impl RelayView {
    /// Sets the switch that requests ask.
    #[must_use]
    pub fn with_switch(self, switch: ToolSwitch) -> Self {
        Self { switch, ..self }
    }

    /// Returns whether resources of at least one client may be read.
    pub fn has_resources(&self) -> bool {
        self.clients.values().any(Granted::has_resources)
    }

    /// Returns whether resources of the client of a name may be read.
    pub fn has_resources_of(&self, client: &str) -> bool {
        self.clients.get(client).is_some_and(Granted::has_resources)
    }

    /// Returns whether prompts of at least one client may be got.
    pub fn has_prompts(&self) -> bool {
        self.clients.values().any(Granted::has_prompts)
    }

    /// Iterates over the instructions that are passed on, sorted by client.
    pub fn instructions(&self) -> impl Iterator<Item = (&ClientName, &str)> {
        let granted = self.clients.iter().filter(|(_, granted)| granted.instructions);
        granted
            .filter_map(|(client, granted)| Some((client, granted.offers.instructions.as_deref()?)))
    }

    /// Iterates over the listed resources, sorted by client.
    pub fn resources(&self) -> impl Iterator<Item = (&ClientName, &Offer)> {
        self.listed(|offers| &offers.resources, Granted::may_read)
    }

    /// Iterates over the listed templates of resources, sorted by client.
    pub fn templates(&self) -> impl Iterator<Item = (&ClientName, &Offer)> {
        self.listed(|offers| &offers.templates, Granted::may_expand)
    }

    /// Iterates over the listed prompts, sorted by client.
    pub fn prompts(&self) -> impl Iterator<Item = (&ClientName, &Offer)> {
        self.listed(|offers| &offers.prompts, Granted::may_get)
    }

    fn listed(
        &self,
        list: fn(&Offers) -> &[Offer],
        may_use: fn(&Granted, &str) -> bool,
    ) -> impl Iterator<Item = (&ClientName, &Offer)> {
        self.clients.iter().flat_map(move |(client, granted)| {
            let offers = list(&granted.offers).iter();
            offers
                .filter(move |offer| may_use(granted, offer.key()))
                .map(move |offer| (client, offer))
        })
    }

    /// Iterates over the clients that list a URI, or a template that may expand to it, as far as
    /// the caller may read it.
    pub fn owners<'a>(&'a self, uri: &'a str) -> impl Iterator<Item = &'a ClientName> {
        let owners = self
            .clients
            .iter()
            .filter(move |(_, granted)| granted.may_read(uri) && granted.offers.has_resource(uri));
        owners.map(|(client, _)| client)
    }

    /// Returns whether the caller may read a resource of a client, listed or not.
    pub fn may_read(&self, client: &ClientName, uri: &str) -> bool {
        self.clients.get(client).is_some_and(|granted| granted.may_read(uri))
    }

    /// Returns the templates of all clients, to look for those that may expand to the URIs of other
    /// clients.
    pub fn claims(&self) -> Claims<'_> {
        Claims::new(self)
    }

    /// Ends a request to a client that waits for answers under `token`, because no answer will come.
    pub fn forget(&self, client: &ClientName, token: &str) {
        let target = self.clients.get(client).and_then(|granted| granted.target.as_ref());
        if let Some(server) = target.and_then(|target| target.server()) {
            server.forget(token);
        }
    }

    /// Decides one request, which must end within `limit`. Fails if all tools are switched off, or if the
    /// resource or the prompt does not exist or is hidden. A resource need not be listed: a source may have more than it lists.
    pub fn admit(
        &self,
        client: &ClientName,
        request: RelayRequest,
        limit: Duration,
    ) -> Result<Relay, RelayError> {
        if self.switch.is_off() {
            return Err(RelayError::Disabled);
        }
        let granted = self.clients.get(client).filter(|granted| granted.admits(&request));
        let granted = granted.ok_or(RelayError::NotFound)?;
        // A client that was never connected has listed nothing.
        let target = granted.target.clone().ok_or(RelayError::NotFound)?;
        Ok(Relay {
            client: client.clone(),
            request,
            tenant: self.tenant.clone(),
            limit,
            deadline: Instant::now() + limit,
            capabilities: CallerCapabilities::default(),
            answers: None,
            target,
        })
    }
}

impl Granted {
    /// Lists that must all permit what is used.
    fn rows(&self) -> impl Iterator<Item = &RelayRow> {
        [&self.permitted].into_iter().chain(&self.key)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_resources() && !self.has_prompts() && !self.instructions
    }

    fn has_resources(&self) -> bool {
        self.rows().all(|row| !row.resources.is_empty())
    }

    fn has_prompts(&self) -> bool {
        self.rows().all(|row| !row.prompts.is_empty())
    }

    pub(super) fn may_read(&self, uri: &str) -> bool {
        self.rows().all(|row| row.resources.allows(uri))
    }

    fn may_expand(&self, template: &str) -> bool {
        self.rows().all(|row| row.resources.allows_template(template))
    }

    fn may_get(&self, prompt: &str) -> bool {
        self.rows().all(|row| row.prompts.allows(prompt))
    }

    fn admits(&self, request: &RelayRequest) -> bool {
        match request {
            RelayRequest::Read { uri } | RelayRequest::Subscribe { uri } => self.may_read(uri),
            RelayRequest::Prompt { name, .. } => self.admits_prompt(name),
            RelayRequest::Complete { subject, .. } => match subject {
                Subject::Prompt(name) => self.admits_prompt(name),
                Subject::Template(template) => {
                    self.may_expand(template) && lists(&self.offers.templates, template)
                        || self.may_read(template) && lists(&self.offers.resources, template)
                }
            },
        }
    }

    fn admits_prompt(&self, name: &str) -> bool {
        self.may_get(name) && lists(&self.offers.prompts, name)
    }
}

fn lists(offers: &[Offer], key: &str) -> bool {
    offers.iter().any(|offer| offer.key() == key)
}
