//! Settings of one server.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    connector::Connector,
    limits::{
        DEFAULT_RUNNING, DEFAULT_WAITING, FIRST_RETRY, HEARTBEAT, LAST_RETRY, MEMORY_CHECK,
        STABLE_AFTER, STARTUP_TIMEOUT,
    },
};
use airlock_core::tool::{ClientName, QuestionKinds};

/// Definitions of a server's tools that are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pinning {
    /// Those that the server sends. Nothing is pinned.
    Off,
    /// Those of the first list, and accepted ones. A tool that is added later needs an approval for
    /// every call until it is accepted.
    #[default]
    TrustOnFirstUse,
    /// Accepted ones.
    Strict,
}

/// Settings for one MCP server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The client's name.
    pub name: ClientName,
    /// Transport to the server.
    pub transport: Arc<dyn Connector>,
    /// Transports to further instances of the server, which have the same tools; see
    /// [`Self::instances`].
    pub others: Vec<Arc<dyn Connector>>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Restarts after failures.
    pub restart: Restart,
    /// Life cycle of the connection.
    pub lifecycle: Lifecycle,
    /// Limits on calls.
    pub bounds: Bounds,
    /// Interval at which the list of tools is read again, besides the reports of the server; `None`
    /// for no interval.
    pub sync_interval: Option<Duration>,
    /// Definitions of its tools that are used.
    pub pin: Pinning,
    /// Questions that it may ask the callers of its tools.
    pub questions: QuestionKinds,
    /// Eras of the protocol that are tried.
    pub protocol: Protocol,
    /// Framing of messages to a process.
    pub framing: Framing,
    /// Replacement of its process while it runs.
    pub renewal: Renewal,
}

impl Settings {
    /// Creates settings with the default time limits, restarts and life cycle.
    pub fn new(name: ClientName, transport: impl Connector) -> Self {
        Self {
            name,
            transport: Arc::new(transport),
            others: Vec::new(),
            timeouts: Timeouts::default(),
            restart: Restart::default(),
            lifecycle: Lifecycle::default(),
            bounds: Bounds::default(),
            sync_interval: None,
            pin: Pinning::default(),
            questions: QuestionKinds::NONE,
            protocol: Protocol::default(),
            framing: Framing::default(),
            renewal: Renewal::default(),
        }
    }

    /// Iterates over the settings of each instance of the server: one, unless calls are balanced over
    /// several.
    pub fn instances(&self) -> impl Iterator<Item = Self> {
        let transports = std::iter::once(&self.transport).chain(&self.others);
        transports.map(|transport| Self {
            transport: transport.clone(),
            others: Vec::new(),
            ..self.clone()
        })
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            name,
            transport,
            others,
            timeouts,
            restart,
            lifecycle,
            bounds,
            sync_interval,
            pin,
            questions,
            protocol,
            framing,
            renewal,
        } = self;
        transport.is_same(&*other.transport)
            && others.len() == other.others.len()
            && others.iter().zip(&other.others).all(|(one, other)| one.is_same(&**other))
            && *name == other.name
            && *timeouts == other.timeouts
            && *restart == other.restart
            && *lifecycle == other.lifecycle
            && *bounds == other.bounds
            && *sync_interval == other.sync_interval
            && *pin == other.pin
            && *questions == other.questions
            && *protocol == other.protocol
            && *framing == other.framing
            && *renewal == other.renewal
    }
}

/// Time limits of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time for starting the server and the handshake. A package runner may have to download the
    /// server first.
    pub startup: Duration,
    /// Time for one call, if that is less than the call has; `None` for no other limit than the
    /// call's own.
    pub request: Option<Duration>,
    /// Interval between checks of an idle server; `None` for no checks.
    pub heartbeat: Option<Duration>,
    /// Time without a single byte from the server after which it is restarted, even during a call;
    /// `None` for no limit.
    pub stale: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { startup: STARTUP_TIMEOUT, request: None, heartbeat: Some(HEARTBEAT), stale: None }
    }
}

/// Restarts after failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// Starts in a row that may fail. After the last one the server stays failed until the operator
    /// reconnects it. `None` for no limit.
    pub max_attempts: Option<u32>,
    /// Delay before the second start. Each further one waits twice as long, with jitter.
    pub backoff: Duration,
    /// Longest delay.
    pub max_backoff: Duration,
    /// Time after which a connection counts as stable, which resets the attempts.
    pub stable_after: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            max_attempts: None,
            backoff: FIRST_RETRY,
            max_backoff: LAST_RETRY,
            stable_after: STABLE_AFTER,
        }
    }
}

/// Replacement of the process of a server that is connected: the new one is started and lists its tools
/// before the old one gets no more calls. It concerns processes of this machine alone, and not those of single
/// calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Time from the start of a process until it is replaced; `None` for no limit.
    pub max_age: Option<Duration>,
    /// Resident memory of a process with all that it has started, in bytes, beyond which it is replaced; `None`
    /// for no limit. Only Linux tells it.
    pub max_memory_bytes: Option<u64>,
    /// Interval at which the memory is looked at.
    pub memory_check: Duration,
}

impl Default for Renewal {
    fn default() -> Self {
        Self { max_age: None, max_memory_bytes: None, memory_check: MEMORY_CHECK }
    }
}

/// Eras of the protocol that are tried with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Both: the legacy one first if the server may ask questions, else the modern one.
    #[default]
    Auto,
    /// The legacy one, with `initialize`.
    Legacy,
    /// The modern one, with `server/discover`.
    Modern,
}

/// Framing of messages to a process. Its own messages are read in either one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// Lines; `Content-Length` after two starts on which the process wrote nothing.
    #[default]
    Auto,
    /// One message for each line, as MCP demands.
    Lines,
    /// A header `Content-Length` before each message, as the Language Server Protocol has it.
    ContentLength,
}

/// Life cycle of the connection to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// Connected for as long as the gateway runs.
    #[default]
    Persistent,
    /// Stopped after this time without calls, and started again by the next call.
    Idle(Duration),
    /// One connection for each call, besides the one that lists the tools.
    PerCall,
}

/// Limits on the calls of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Calls that run at the same time.
    pub running: usize,
    /// Calls that wait for others to end; a further call fails as busy.
    pub waiting: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { running: DEFAULT_RUNNING, waiting: DEFAULT_WAITING }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpServer, HttpTransport, Process};
    use airlock_core::secret::Secret;
    use airlock_mcp_oauth::HttpSettings;

    fn process(command: &str, secret: &str) -> Settings {
        let name = ClientName::parse("up").expect("a good name");
        let env = [("TOKEN".to_owned(), Secret::new(secret))].into();
        Settings::new(name, Process { command: command.to_owned(), env, ..Process::default() })
    }

    #[test]
    fn settings_are_equal_only_if_their_transports_are() {
        assert_eq!(process("a", "x"), process("a", "x"));
        assert_ne!(process("a", "x"), process("b", "x"));
        assert_ne!(process("a", "x"), process("a", "y"), "a secret");
        let changed = Settings { pin: Pinning::Strict, ..process("a", "x") };
        assert_ne!(changed, process("a", "x"));
        let sse = http(HttpTransport::Sse, "http://h/mcp");
        assert_eq!(sse, http(HttpTransport::Sse, "http://h/mcp"));
        assert_ne!(sse, http(HttpTransport::Streamable, "http://h/mcp"));
        assert_ne!(sse, http(HttpTransport::Sse, "http://h/other"));
        assert_ne!(sse, process("a", "x"), "another transport");
        let mut several = process("a", "x");
        several.others.push(several.transport.clone());
        assert_ne!(several, process("a", "x"), "another number of instances");
        assert_eq!(several.instances().collect::<Vec<_>>(), [process("a", "x"), process("a", "x")]);
    }

    fn http(transport: HttpTransport, url: &str) -> Settings {
        let name = ClientName::parse("up").expect("a good name");
        Settings::new(name, HttpServer { transport, settings: HttpSettings::new(url) })
    }
}
