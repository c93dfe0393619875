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

    /// Adds a parameter, whose name must need no escapes. `json` must be JSON text without line breaks.
    pub fn with(mut self, name: &'static str, json: impl Into<String>) -> Self {
        self.params.push((name, json.into()));
        self
    }

    /// Adds a member of `_meta`, whose name must need no escapes. `json` must be JSON text without line breaks.
    pub fn with_meta(mut self, name: &'static str, json: impl Into<String>) -> Self {
        let mut text = String::new();
        push_member(&mut text, name, &json.into());
        self.meta.push(text);
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
        let agreed = agreed.filter(|agreed| agreed.version.is_modern());
        let bytes: usize = self.params.iter().map(|(_, json)| json.len()).sum();
        let mut text = String::with_capacity(bytes + OTHER_BYTES);
        // Writing to a string does not fail.
        let _ = write!(text, r#"{{"jsonrpc":"2.0","id":{id},"method":"{}""#, self.method);
        let mut params = MemberWriter::new(&mut text, r#","params":{"#);
        for (name, json) in &self.params {
            push_member(params.member(), name, json);
        }
        if self.wants_progress || agreed.is_some() || !self.meta.is_empty() {
            let mut meta = MemberWriter::new(params.member(), r#""_meta":{"#);
            for member in &self.meta {
                meta.member().push_str(member);
            }
            if let Some(agreed) = agreed {
                agreed.push_request_meta(meta.member(), self.kinds, self.takes_tasks);
            }
            if self.wants_progress {
                let _ = write!(meta.member(), r#""progressToken":{id}"#);
            }
            meta.end();
        }
        params.end();
        text.push('}');
        text
    }
}

/// Bytes of most messages besides their parameters.
const OTHER_BYTES: usize = 512;

/// An object that is written member by member. Nothing is written of one without members.
struct MemberWriter<'t> {
    text: &'t mut String,
    /// Text before the next member.
    separator: &'static str,
}

impl<'t> MemberWriter<'t> {
    fn new(text: &'t mut String, opening: &'static str) -> Self {
        Self { text, separator: opening }
    }

    /// Returns the text to which the next member is to be added.
    fn member(&mut self) -> &mut String {
        self.text.push_str(self.separator);
        self.separator = ",";
        self.text
    }

    fn end(self) {
        if self.separator == "," {
            self.text.push('}');
        }
    }
}

/// Adds a member, whose name must need no escapes.
fn push_member(text: &mut String, name: &str, json: &str) {
    text.push('"');
    text.push_str(name);
    text.push_str("\":");
    text.push_str(json);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreed::used;
    use airlock_wire::version::Version;

    fn agreed(version: Version) -> Agreed {
        Agreed {
            version,
            capabilities: used(None),
            software: String::new(),
            instructions: None,
            meta: r#""v":1"#.to_owned(),
        }
    }

    #[test]
    fn a_request_has_parameters_and_meta_only_if_there_are_some() {
        let bare = Request::new("ping");
        assert_eq!(bare.to_text(1, None), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let legacy = agreed(Version::LATEST_LEGACY);
        assert_eq!(bare.to_text(1, Some(&legacy)), bare.to_text(1, None));
        let full = Request::new("m").about("name", "a\"b").with("arguments", "{}").with_progress();
        assert_eq!(
            full.to_text(7, Some(&legacy)),
            r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"a\"b","arguments":{},"_meta":{"progressToken":7}}}"#
        );
    }

    #[test]
    fn the_meta_of_a_modern_request_has_its_own_members_first() {
        let request = Request::new("m").with_meta("x", "2").taking_tasks().with_progress();
        assert_eq!(
            request.to_text(3, Some(&agreed(Version::LATEST))),
            r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{"_meta":{"x":2,"v":1,"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":3}}}"#
        );
    }
}
