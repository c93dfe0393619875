//! The grants and the records of a host. They know the types of the contract, and not the functions of the SDK above.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::requested::Requested;
use super::store::Contents;
use crate::bindings::airlock::host::http;
use crate::log::Level;
use crate::{Content, Error, Output};

/// Reason of every refusal without a host.
pub(super) const NO_HOST: &str =
    "there is no host outside a gateway; tests have `airlock_guest::testing::Host`";

/// Responds to requests, in the types of the contract.
pub(super) type HttpResponder =
    Rc<dyn Fn(&http::Request) -> Result<http::Response, http::HttpError>>;
/// Responds to calls of a tool.
type ToolFunction = Rc<dyn Fn(Value) -> Result<Output, Error>>;

thread_local! {
    /// The host whose functions the code of this thread calls.
    pub(super) static CURRENT: RefCell<Option<Rc<State>>> = const { RefCell::new(None) };
}

/// A handle on the running call.
#[derive(Debug)]
pub(crate) struct CallContext(pub(super) Rc<State>);

/// One report of a tool's progress.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Work that is done.
    pub done: f64,
    /// All work, if it is known.
    pub total: Option<f64>,
    /// Message for people.
    pub message: Option<String>,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Importance of the line.
    pub level: Level,
    /// The message, formatted.
    pub message: String,
    /// Names and values, in their order.
    pub fields: Vec<(String, String)>,
}

/// The grants and the records of a host.
#[derive(Default)]
pub(super) struct State {
    /// The requests of the crate's `plugin.toml`; `None` if it has none.
    pub(super) requested: Option<Requested>,
    pub(super) config: RefCell<Map<String, Value>>,
    pub(super) server: RefCell<Option<HttpResponder>>,
    pub(super) stores: RefCell<BTreeMap<String, Rc<RefCell<Contents>>>>,
    pub(super) secrets: RefCell<BTreeMap<String, Secret>>,
    pub(super) tools: RefCell<BTreeMap<String, ToolFunction>>,
    pub(super) remaining: RefCell<Option<Duration>>,
    pub(super) progress: RefCell<Vec<Progress>>,
    pub(super) lines: RefCell<Vec<Line>>,
    pub(super) parts: RefCell<Vec<Content>>,
}

/// A granted secret.
pub(super) struct Secret {
    pub(super) value: Vec<u8>,
    pub(super) is_revealed: bool,
}

/// Returns the host of this thread; `None` outside of [`Host::run`](super::Host::run).
pub(super) fn current() -> Option<Rc<State>> {
    CURRENT.with_borrow(Clone::clone)
}

impl fmt::Debug for State {
    /// Leaves out the grants: closures cannot be shown, and secrets must not be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("progress", &self.progress)
            .field("lines", &self.lines)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}
