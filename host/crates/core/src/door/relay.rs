//! Requests for resources, prompts and completions: the decision, and the permission that it makes.
//!
//! A source is asked only through a [`Relay`], and only [`RelayView::admit`] makes one. The rules
//! are those of tools: the operator's lists ∩ headers ∩ virtual key, denied by default. What is
//! hidden is not found, exactly like what does not exist.

mod claims;
mod mailbox;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

pub use self::{
    claims::Claims,
    mailbox::{Mailbox, Subscription},
};
use super::{Filter, Hearing, Provider, RelayRow, SessionId, ToolRules, ToolSwitch, VirtualKey};
use crate::{
    tenant::Tenant,
    tool::{
        Answers, Cause, ClientName, Exclusions, InputRequired, Offer, Offers, Policy, QuestionKinds,
    },
};

/// Resources and prompts one request may use. Cheap to clone. It does not change when the catalog
/// changes.
#[derive(Clone)]
pub struct RelayView {
    clients: Arc<BTreeMap<ClientName, Granted>>,
    tenant: Tenant,
    /// The switch of all tools, which requests ask again.
    switch: ToolSwitch,
}

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

/// A source of which at least one resource or prompt may be used, or whose instructions are passed
/// on.
struct Granted {
    /// The operator's lists.
    permitted: RelayRow,
    /// The key's lists; `None` without a key.
    key: Option<RelayRow>,
    instructions: bool,
    offers: Arc<Offers>,
    provider: Option<Arc<dyn Provider>>,
}

/// A request to a source, under the source's own names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayRequest {
    /// Reads a resource.
    Read {
        /// Its URI.
        uri: String,
    },
    /// Receives a notification for each change of a resource.
    Subscribe {
        /// Its URI.
        uri: String,
    },
    /// Gets a prompt.
    Prompt {
        /// Its name.
        name: String,
        /// Its arguments: the text of a JSON object.
        arguments: Option<String>,
    },
    /// Completes an argument.
    Complete {
        /// Owner of the argument.
        subject: Subject,
        /// The argument: the text of a JSON object.
        argument: String,
        /// Arguments that are known already: the text of a JSON object.
        context: Option<String>,
    },
}

/// Owner of an argument that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A prompt, by its name.
    Prompt(String),
    /// A template of resources, by its URI template.
    Template(String),
}

/// Reason that a request for a resource or a prompt has no result.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// It does not exist, or is hidden from the caller.
    #[error("it does not exist")]
    NotFound,
    /// The operator has switched all tools off, and resources and prompts with them.
    #[error("all tools of this gateway are switched off by its operator")]
    Disabled,
    /// The source has no such method.
    #[error("its server does not offer this")]
    Unsupported,
    /// Too many requests run or wait at the source.
    #[error("its server is busy; try again later")]
    Busy,
    /// The caller has too many subscriptions at the source.
    #[error("this caller has {limit} subscriptions at its server, as many as it may")]
    TooManySubscriptions {
        /// The limit.
        limit: usize,
    },
    /// The source cannot be reached. The cause is for the operator.
    #[error("its server is not available")]
    Unavailable(#[source] Cause),
    /// The request ran past its deadline.
    #[error("its server did not answer within {limit:?}")]
    Deadline {
        /// Time that the request had.
        limit: Duration,
    },
    /// The result is over a bound.
    #[error("the result is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The bound.
        limit_bytes: usize,
    },
    /// The result is not one of MCP.
    #[error("its server returned no valid result: {reason}")]
    Invalid {
        /// Reason, without text of the source.
        reason: &'static str,
    },
    /// The source asks the caller. The request is resumed with the answers.
    #[error("its server waits for answers of the caller")]
    InputRequired(Box<InputRequired>),
    /// No request waits for the answers.
    #[error(
        "no such request waits for these answers: they came too late, were given before, or belong to another request"
    )]
    NotWaiting,
    /// The source refused the request.
    #[error("{message}")]
    Refused {
        /// Code of JSON-RPC.
        code: i64,
        /// Text of the source; without secrets, and cut.
        message: String,
    },
}

/// A request that may be sent. The value is the permission to send the request once.
#[must_use = "an admitted request does nothing until it is run"]
pub struct Relay {
    client: ClientName,
    request: RelayRequest,
    tenant: Tenant,
    limit: Duration,
    deadline: Instant,
    hearing: Hearing,
    answers: Option<Answers>,
    provider: Arc<dyn Provider>,
}

impl Relay {
    /// Sets what the caller takes: the source may ask it questions of these kinds.
    pub fn hearing(self, hearing: Hearing) -> Self {
        Self { hearing, ..self }
    }

    /// Makes the request the continuation of one that waits for answers.
    pub fn answering(self, answers: Answers) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// Questions that the caller can answer.
    pub fn questions(&self) -> QuestionKinds {
        self.hearing.questions
    }

    /// Session of the caller; `None` if the request belongs to none.
    pub fn session(&self) -> Option<SessionId> {
        self.hearing.session
    }

    /// Takes the answers, if the request is the continuation of one that waits for them.
    pub fn take_answers(&mut self) -> Option<Answers> {
        self.answers.take()
    }

    /// The client that is asked.
    pub fn client(&self) -> &ClientName {
        &self.client
    }

    /// The request.
    pub fn request(&self) -> &RelayRequest {
        &self.request
    }

    /// The tenant that the request is accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Instant by which the request must have ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time that the request had in all.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Runs the request. Returns the result of the source as the text of a JSON object. Dropping
    /// the future cancels the request.
    pub async fn run(self) -> Result<String, RelayError> {
        let provider = self.provider.clone();
        provider.server().ok_or(RelayError::Unsupported)?.relay(self).await
    }

    /// Subscribes to the changes of the resource that the request names: each puts `label` into
    /// `mailbox`, until the returned value is dropped.
    pub fn subscribe(
        self,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        let provider = self.provider.clone();
        provider.server().ok_or(RelayError::Unsupported)?.subscribe(self, mailbox, label)
    }
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

    /// Sets the switch that requests ask.
    #[must_use]
    pub fn with_switch(self, switch: ToolSwitch) -> Self {
        Self { switch, ..self }
    }

    /// Returns whether resources of at least one client may be read.
    pub fn has_resources(&self) -> bool {
        self.clients.values().any(Granted::has_resources)
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

    /// Returns the templates of all clients, to look for those that may expand to the URIs of other
    /// clients.
    pub fn claims(&self) -> Claims<'_> {
        Claims::new(self)
    }

    /// Ends a request to a client that waits for answers under `token`, because no answer will come.
    pub fn forget(&self, client: &ClientName, token: &str) {
        let provider = self.clients.get(client).and_then(|granted| granted.provider.as_ref());
        if let Some(server) = provider.and_then(|provider| provider.server()) {
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
        let provider = granted.provider.clone().ok_or(RelayError::NotFound)?;
        Ok(Relay {
            client: client.clone(),
            request,
            tenant: self.tenant.clone(),
            limit,
            deadline: Instant::now() + limit,
            hearing: Hearing::default(),
            answers: None,
            provider,
        })
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
            provider: provider.cloned(),
        }
    }

    /// Lists that must all permit what is used.
    fn rows(&self) -> impl Iterator<Item = &RelayRow> {
        [&self.permitted].into_iter().chain(&self.key)
    }

    fn is_empty(&self) -> bool {
        !self.has_resources() && !self.has_prompts() && !self.instructions
    }

    fn has_resources(&self) -> bool {
        self.rows().all(|row| !row.resources.is_empty())
    }

    fn has_prompts(&self) -> bool {
        self.rows().all(|row| !row.prompts.is_empty())
    }

    fn may_read(&self, uri: &str) -> bool {
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

#[cfg(test)]
mod tests;
