//! The registry: every tool under one name, wherever it comes from.
//!
//! Sources publish their lists here; readers take a [`Snapshot`], which never changes, or the
//! [`View`] of one request. The catalog knows no kind of source and decides nothing about who may
//! call what: that is the [`door`](crate::door).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    door::{Filter, OwnTools, Provider, Source, View, VirtualKey},
    tool::{ClientName, Policy, Tool, ToolDefinition, ToolName},
};

/// The most tools that one client may publish; the rest is dropped and the operator told.
pub const MAX_TOOLS_PER_CLIENT: usize = 2_000;

/// A source of tools as it is right now.
#[derive(Clone)]
pub struct Client {
    /// Its name, the prefix of its tools.
    pub name: ClientName,
    /// What kind of source, as the configuration calls it: `stdio`, `http`, `wasm`, `internal`.
    pub connection_type: &'static str,
    /// What the operator lets its tools do.
    pub policy: Policy,
    /// Whether it can be called.
    pub state: State,
    /// Its tools, sorted by name. They stay while a source is away, so that a short break does not
    /// change what models see.
    pub tools: Arc<[Arc<Tool>]>,
    provider: Option<Arc<dyn Provider>>,
}

/// How a source is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Not there yet.
    Connecting,
    /// Ready to be called.
    Connected,
    /// Gone; someone is trying to get it back.
    Disconnected {
        /// What happened, without secrets.
        reason: String,
    },
    /// Not to be had as it is configured; it is looked at again from time to time.
    Failed {
        /// What happened, without secrets.
        reason: String,
    },
}

impl State {
    /// The state's name in the administrative API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected { .. } => "disconnected",
            Self::Failed { .. } => "error",
        }
    }

    /// Why it is not connected, if it is not.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Disconnected { reason } | Self::Failed { reason } => Some(reason),
            Self::Connecting | Self::Connected => None,
        }
    }
}

impl Client {
    /// Who runs its tools; none before the first connection.
    pub fn provider(&self) -> Option<&Arc<dyn Provider>> {
        self.provider.as_ref()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("name", &self.name)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Everything there is at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    clients: BTreeMap<ClientName, Arc<Client>>,
    meta_tools: Option<OwnTools>,
}

impl Snapshot {
    /// All clients, sorted by name.
    pub fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.values()
    }

    /// The tools that one request may see: those of sources that were connected at least once,
    /// which the operator's lists, the request's headers and its virtual key all permit.
    pub fn view(&self, filter: &Filter, key: Option<&VirtualKey>) -> View {
        let sources = self.clients().filter_map(|client| {
            let provider = client.provider.as_ref()?;
            Some(Source {
                client: &client.name,
                policy: &client.policy,
                tools: &client.tools,
                provider,
            })
        });
        View::new(sources, self.meta_tools.as_ref(), filter, key)
    }

    /// The meta-tools of code mode, if there is an executor.
    pub fn meta_tools(&self) -> Option<&OwnTools> {
        self.meta_tools.as_ref()
    }
}

/// The live list of clients and tools.
#[derive(Default)]
pub struct Catalog {
    current: ArcSwap<Snapshot>,
    /// Writers take turns; readers never wait.
    writing: Mutex<()>,
    changed: watch::Sender<()>,
}

impl Catalog {
    /// An empty catalog.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What there is right now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Wakes whenever something has changed.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds a client without tools, or replaces it.
    pub fn add_client(&self, name: &ClientName, connection_type: &'static str, policy: Policy) {
        let client = Client {
            name: name.clone(),
            connection_type,
            policy,
            state: State::Connecting,
            tools: Arc::default(),
            provider: None,
        };
        self.update(|next| {
            next.clients.insert(name.clone(), Arc::new(client));
        });
    }

    /// Installs the meta-tools of code mode.
    pub fn set_meta_tools(&self, meta_tools: OwnTools) {
        self.update(|next| next.meta_tools = Some(meta_tools));
    }

    /// Replaces a client's tools and provider, and marks it connected. Definitions that cannot be
    /// used are left out, each with its reason; of two with one name the first wins.
    ///
    /// The definitions are checked on a thread that may block, which takes some 0.1 s for the
    /// largest lists. Dropping the future before it is ready publishes nothing.
    ///
    /// # Panics
    ///
    /// Panics if checking does, or if called outside a tokio runtime.
    pub async fn publish(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
        provider: Arc<dyn Provider>,
    ) -> Vec<String> {
        let name = client.clone();
        let adopted = tokio::task::spawn_blocking(move || adopt_all(&name, definitions)).await;
        let (tools, dropped) = adopted.unwrap_or_else(|lost| match lost.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and nobody reads the catalog any more.
            Err(_) => (Vec::new(), Vec::new()),
        });
        self.install(client, tools, provider);
        dropped
    }

    /// [`Catalog::publish`] on the calling thread, which it blocks: for few tools of known size.
    pub fn blocking_publish(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
        provider: Arc<dyn Provider>,
    ) -> Vec<String> {
        let (tools, dropped) = adopt_all(client, definitions);
        self.install(client, tools, provider);
        dropped
    }

    fn install(&self, client: &ClientName, tools: Vec<Arc<Tool>>, provider: Arc<dyn Provider>) {
        self.change(client, |entry| {
            entry.tools = tools.into();
            entry.provider = Some(provider);
            entry.state = State::Connected;
        });
    }

    /// Says how a client is doing. Its tools stay.
    pub fn set_state(&self, client: &ClientName, state: State) {
        self.change(client, |entry| entry.state = state);
    }

    fn change(&self, client: &ClientName, change: impl FnOnce(&mut Client)) {
        self.update(|next| {
            if let Some(entry) = next.clients.get_mut(client) {
                let mut changed = (**entry).clone();
                change(&mut changed);
                *entry = Arc::new(changed);
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        // A writer that panicked left the old snapshot in place, which is still whole.
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = (*self.current.load_full()).clone();
        change(&mut next);
        self.current.store(Arc::new(next));
        self.changed.send_replace(());
    }
}

fn adopt_all(
    client: &ClientName,
    definitions: Vec<ToolDefinition>,
) -> (Vec<Arc<Tool>>, Vec<String>) {
    let mut tools: BTreeMap<ToolName, Arc<Tool>> = BTreeMap::new();
    let mut dropped = Vec::new();
    for (count, definition) in definitions.into_iter().enumerate() {
        if count == MAX_TOOLS_PER_CLIENT {
            dropped.push(format!("more than {MAX_TOOLS_PER_CLIENT} tools; the rest is left out"));
            break;
        }
        match Tool::adopt(client, definition) {
            Ok(tool) if tools.contains_key(&tool.name) => {
                dropped.push(format!("a second tool named {:?}", tool.original))
            }
            Ok(tool) => {
                tools.insert(tool.name.clone(), Arc::new(tool));
            }
            Err(error) => dropped.push(error.to_string()),
        }
    }
    (tools.into_values().collect(), dropped)
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::{
        door::Admitted,
        tool::{CallError, ToolOutput},
    };

    struct Nobody;
    impl Provider for Nobody {
        fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async { Err(CallError::Cancelled) })
        }
    }

    fn definitions(json: serde_json::Value) -> Vec<ToolDefinition> {
        serde_json::from_value(json).expect("definitions")
    }

    #[test]
    fn one_bad_or_repeated_tool_does_not_cost_the_others() {
        let catalog = Catalog::new();
        let fs = ClientName::parse("fs").expect("a good name");
        catalog.add_client(&fs, "stdio", Policy::default());
        let dropped = catalog.blocking_publish(
            &fs,
            definitions(json!([
                {"name": "b", "inputSchema": {}},
                {"name": "bad", "inputSchema": 7},
                {"name": "a", "inputSchema": {}, "description": "first"},
                {"name": "a", "inputSchema": {}, "description": "second"},
            ])),
            Arc::new(Nobody),
        );
        let snapshot = catalog.snapshot();
        let client = snapshot.clients().next().expect("one client");
        let names: Vec<_> = client
            .tools
            .iter()
            .map(|tool| (tool.name.as_str(), tool.description.as_str()))
            .collect();
        assert_eq!(names, [("fs-a", "first"), ("fs-b", "")]);
        assert_eq!(dropped.len(), 2, "{dropped:?}");
    }

    #[test]
    fn a_snapshot_never_changes_and_a_lost_client_keeps_its_tools() {
        let catalog = Catalog::new();
        let fs = ClientName::parse("fs").expect("a good name");
        catalog.add_client(&fs, "stdio", Policy::default());
        let before = catalog.snapshot();
        catalog.blocking_publish(
            &fs,
            definitions(json!([{"name": "a", "inputSchema": {}}])),
            Arc::new(Nobody),
        );
        catalog.set_state(&fs, State::Disconnected { reason: "gone".into() });
        assert!(before.clients().all(|client| client.tools.is_empty()));
        let after = catalog.snapshot();
        let client = after.clients().next().expect("one client");
        assert_eq!((client.tools.len(), client.state.reason()), (1, Some("gone")));
    }
}
