//! The gateway inside the test's process, for what only a caller in Rust can observe: fuel, the
//! pool's metrics, each poll of a call.

use std::time::Duration;

use airlock::{
    Gateway, GatewayBuilder,
    catalog::SourceState,
    config::Config,
    door::{Admitted, Budget, Caller, Filter, Origin, VirtualKey},
    sandbox::{Settings, Usage},
    tool::{Allowlist, CallError, Content, ToolOutput},
};

use crate::{Setup, wait};

/// Limits of a call if the operator sets none.
pub const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_mins(5),
    nested_calls: 64,
    depth: 4,
    in_flight: 8,
};
/// Usage of a pool with nothing in use.
const EMPTY: Usage = Usage { instances: 0, memories: 0, tables: 0, stacks: 0 };

/// A gateway that was started from a configuration and does not serve.
pub struct Embedded {
    gateway: Gateway,
    // Owns the directory of the components.
    _setup: Setup,
}

/// Outcome of one call.
#[derive(Debug)]
pub struct Ended {
    /// Result of the call.
    pub answer: Result<ToolOutput, CallError>,
    /// Fuel that it consumed, host calls included; `None` if no guest ran.
    pub fuel: Option<u64>,
}

impl Ended {
    /// Returns the text of a successful result, or the code of the error.
    pub fn text(&self) -> &str {
        match &self.answer {
            Ok(output) => output.content.iter().find_map(Content::as_text).unwrap_or_default(),
            Err(error) => error.code().as_str(),
        }
    }
}

impl Embedded {
    /// Starts a gateway.
    pub async fn start(setup: Setup) -> Self {
        Self::with(setup, |_| {}, |builder| builder).await
    }

    /// Starts a gateway with changed settings of the sandbox, or with tools of the embedding
    /// program.
    pub async fn with(
        setup: Setup,
        sandbox: impl FnOnce(&mut Settings),
        build: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
    ) -> Self {
        let mut config = Config::load(&setup.write()).expect("the configuration is valid");
        sandbox(&mut config.sandbox);
        let gateway = build(Gateway::builder(config)).start().await.expect("the gateway starts");
        Self { gateway, _setup: setup }
    }

    /// Returns the gateway itself.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns a caller that may call every tool.
    pub fn caller(&self) -> Caller {
        self.gateway.caller(Origin::Caller)
    }

    /// Returns the holder of a virtual key that permits every tool. The name distinguishes it from
    /// other holders.
    pub fn holder(&self, name: &str) -> Caller {
        self.holder_within(name, BUDGET)
    }

    /// Returns the same, with another budget for each call.
    pub fn holder_within(&self, name: &str, budget: Budget) -> Caller {
        let snapshot = self.gateway.catalog().snapshot();
        let rows = snapshot.clients().map(|client| (client.name.clone(), Allowlist::All)).collect();
        let key = VirtualKey::new(name, &format!("sk-bf-{name}"), rows);
        Caller::new(snapshot.view(&Filter::none(), Some(&key)), Origin::Caller, budget)
    }

    /// Admits a call without running it. Panics if the call is refused.
    pub fn admit(&self, tool: &str, arguments: &str) -> Admitted {
        self.caller().admit(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    /// Runs one call.
    pub async fn call(&self, tool: &str, arguments: &str) -> Ended {
        let caller = self.caller();
        let answer = match caller.admit(tool, arguments) {
            Ok(admitted) => admitted.run().await,
            Err(error) => Err(error),
        };
        let fuel = caller.ledger().records().first().and_then(|record| record.fuel);
        Ended { answer, fuel }
    }

    /// Returns the full reason why a source of tools could not be loaded; `None` if it was loaded.
    pub fn failure(&self, client: &str) -> Option<String> {
        let snapshot = self.gateway.catalog().snapshot();
        let client = snapshot
            .clients()
            .find(|known| known.name.as_str() == client)
            .expect("it is configured");
        match &client.state {
            SourceState::Failed { reason } => Some(reason.clone()),
            _ => None,
        }
    }

    /// Returns whether nothing of the pool is in use.
    pub fn is_empty(&self) -> bool {
        self.gateway.sandbox().usage().is_none_or(|usage| usage == EMPTY)
    }

    /// Waits until no guest is alive. The nested calls of a dropped call are aborted, and their
    /// tasks need a poll to end.
    pub async fn emptied(&self) {
        wait::until("the pool of sandboxes to be empty", async || self.is_empty().then_some(()))
            .await;
    }

    /// Stops the background tasks of the gateway.
    pub async fn stop(self) {
        self.gateway.stop().await;
    }
}
