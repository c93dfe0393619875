//! Requests to a server, as JSON text.

use std::{any::Any, fmt::Write as _, sync::Arc};

use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::super::{
    agreed::Agreed,
    inbox::{LogMessages, Party, ResponseKind, Taker},
};
use airlock_core::tool::QuestionKinds;

/// Permits of a request. What they are is known to those that give them.
pub type HeldPermits = Arc<dyn Any + Send + Sync>;

/// A request to a server, before it has an identifier.
#[derive(Debug)]
pub struct Request {
    pub(super) method: &'static str,
    pub(super) name: Option<String>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) kind: ResponseKind,
    pub(super) is_cancellable: bool,
    params: Vec<(&'static str, String)>,
    /// Members of `_meta`, as JSON text.
    meta: Vec<String>,
    wants_progress: bool,
    pub(super) logs: LogMessages,
    /// Questions that the caller can answer.
    kinds: QuestionKinds,
    takes_tasks: bool,
    pub(super) questions: Option<Taker>,
    /// The caller whose request it is; `None` if it is the gateway's own.
    pub(super) caller: Option<Party>,
    /// Held until it is answered or the server has read its cancellation.
    pub(super) permits: Option<HeldPermits>,
}

impl Request {
    /// Creates a request without parameters.
    pub fn new(method: &'static str) -> Self {
        Self {
            method,
            name: None,
            headers: Vec::new(),
            kind: ResponseKind::Whole,
            is_cancellable: true,
            params: Vec::new(),
            meta: Vec::new(),
            wants_progress: false,
            logs: LogMessages::Dropped,
            kinds: QuestionKinds::NONE,
            takes_tasks: false,
            questions: None,
            caller: None,
            permits: None,
        }
    }

    /// Adds a parameter. `json` must be JSON text without line breaks.
    pub fn with(mut self, name: &'static str, json: impl Into<String>) -> Self {
        self.params.push((name, json.into()));
        self
    }

    /// Adds a member of `_meta`. `json` must be JSON text without line breaks.
    pub fn with_meta(mut self, name: &str, json: impl Into<String>) -> Self {
        self.meta.push(member(name, &json.into()));
        self
    }

    /// Adds members of `_meta` that are JSON text already.
    pub(crate) fn with_raw_meta(mut self, members: &str) -> Self {
        self.meta.push(members.to_owned());
        self
    }

    /// Names the tool, prompt or resource that the request is about, and passes it on as the
    /// parameter `member`.
    pub fn about(mut self, member: &'static str, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self.with(member, Value::from(name).to_string())
    }

    /// Sends headers with this request alone.
    pub fn with_headers(mut self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Asks for reports of progress.
    pub fn with_progress(mut self) -> Self {
        self.wants_progress = true;
        self
    }

    /// Makes it the request of a caller.
    pub fn with_caller(mut self, caller: Party) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Holds permits until the request is answered or, if it is abandoned, until the server has read the
    /// cancellation: what it reads late still takes its time from other callers.
    pub fn holding(mut self, permits: Option<HeldPermits>) -> Self {
        self.permits = permits;
        self
    }

    /// Sets what happens with log messages that the server sends meanwhile.
    pub fn with_logs(mut self, logs: LogMessages) -> Self {
        self.logs = logs;
        self
    }

    /// Permits the server to ask the caller. A modern one asks with its result; the questions of a
    /// legacy one are sent to `taker`.
    pub fn asking(mut self, kinds: QuestionKinds, taker: Option<Taker>) -> Self {
        self.kinds = kinds;
        self.questions = taker.filter(|_| !kinds.is_empty());
        self
    }

    /// Permits a modern server to respond with a task.
    pub fn taking_tasks(mut self) -> Self {
        self.takes_tasks = true;
        self
    }

    /// Keeps the response as received, because its items are read one by one.
    pub fn in_pages(mut self) -> Self {
        self.kind = ResponseKind::Pages;
        self
    }

    /// Makes an abandoned request end without `notifications/cancelled`, which `initialize` must
    /// not get (2025-11-25, section "Cancellation").
    pub(crate) fn uncancellable(mut self) -> Self {
        self.is_cancellable = false;
        self
    }

    /// Returns the message. In the modern era `_meta` names the revision and the gateway's
    /// capabilities.
    pub fn to_text(&self, id: i64, agreed: Option<&Agreed>) -> String {
        let mut params: Vec<String> =
            self.params.iter().map(|(name, json)| member(name, json)).collect();
        let mut meta = self.meta.clone();
        meta.extend(agreed.and_then(|agreed| agreed.request_meta(self.kinds, self.takes_tasks)));
        if self.wants_progress {
            meta.push(member("progressToken", &id.to_string()));
        }
        if !meta.is_empty() {
            params.push(member("_meta", &format!("{{{}}}", meta.join(","))));
        }
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}""#, self.method);
        if !params.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(text, r#","params":{{{}}}"#, params.join(","));
        }
        text.push('}');
        text
    }
}

fn member(name: &str, json: &str) -> String {
    format!("{}:{json}", Value::from(name))
}
