//! The error of a tool. It does not depend on the protocol that carries it.

#[cfg(feature = "anyhow")]
mod causes;

use std::fmt;
use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::Content;

/// The error of a tool, as the model reads it.
///
/// The model reads the message, so it names the problem and the remedy. It must not contain
/// secrets; the host redacts and cuts it.
///
/// ```
/// use airlock_guest::{Error, ErrorKind};
/// use std::time::Duration;
///
/// let error = Error::new(ErrorKind::RateLimited, "ten searches a minute are allowed")
///     .with_code("search_quota")
///     .with_retry_after(Duration::from_secs(30));
/// assert_eq!(error.kind(), ErrorKind::RateLimited);
/// assert_eq!(error.to_string(), "ten searches a minute are allowed");
/// ```
// Boxed, so that a `Result` with a small value stays small.
#[derive(Debug, Clone, PartialEq)]
pub struct Error(Box<Parts>);

/// The members of an error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parts {
    pub(crate) kind: ErrorKind,
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) content: Vec<Content>,
    pub(crate) details: Option<Value>,
    pub(crate) meta: Option<Value>,
    pub(crate) extra: Option<Value>,
}

/// Kind of an error. The kinds are few and fixed; [`Error::code`] has the detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments are not valid; the message says what to change.
    InvalidInput,
    /// The arguments name something that does not exist, or that the caller may not see.
    NotFound,
    /// The present state does not permit the operation, such as a version that has changed. Read
    /// again, then try again.
    Conflict,
    /// The capability was not granted.
    Denied,
    /// A person must sign in first.
    AuthRequired,
    /// Too many requests in a period; [`Error::retry_after`] is the time until the next attempt.
    RateLimited,
    /// This call has used all that it may use of something, such as tool calls or fuel. Trying again
    /// in this call never helps.
    LimitReached,
    /// The host is too busy, or a service that the tool needs does not respond. Trying again later
    /// may help.
    Unavailable,
    /// The tool or the host cannot do this at all. Trying again never helps.
    Unsupported,
    /// The call took too long.
    Timeout,
    /// The caller has cancelled the call.
    Cancelled,
    /// The arguments or the result are larger than a limit.
    TooLarge,
    /// A fault of the tool.
    Internal,
    /// Any other kind; [`Error::code`] says which.
    Other,
}

/// Defines the constructors of the common kinds.
macro_rules! constructors {
    ($($name:ident $kind:ident,)+) => {$(
        #[doc = concat!("Creates an error of the kind [`ErrorKind::", stringify!($kind), "`].")]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    )+};
}

impl Error {
    /// Creates an error of a kind. The common kinds have shorter constructors, such as
    /// [`Error::invalid_input`].
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::from(Parts {
            kind,
            code: None,
            message: message.into(),
            retry_after: None,
            content: Vec::new(),
            details: None,
            meta: None,
            extra: None,
        })
    }

    constructors! {
        invalid_input InvalidInput,
        not_found NotFound,
        conflict Conflict,
        denied Denied,
        unavailable Unavailable,
        unsupported Unsupported,
        too_large TooLarge,
        internal Internal,
    }

    setters! {
        /// Sets a short, stable identifier for programs, such as `channel_not_found`. The prefix
        /// `airlock.` is that of the host's own errors; the host removes it from the code of a tool.
        with_code(code: String) => 0.code;
    }

    /// Sets the time until another attempt makes sense; it is sent in whole milliseconds.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.0.retry_after = Some(after);
        self
    }

    /// Adds a part for the model, such as a screenshot. The message is not repeated in the parts.
    #[must_use]
    pub fn with(mut self, part: impl Into<Content>) -> Self {
        self.0.content.push(part.into());
        self
    }

    /// Adds parts in their order.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Content>) -> Self {
        self.0.content.extend(parts);
        self
    }

    setters! {
        /// Sets data for scripts and the audit log.
        with_details(details: Value) => 0.details;
        /// Sets the vendor keys, a JSON object.
        with_meta(meta: Value) => 0.meta;
        /// Sets the other members of the MCP result that carries the error, a JSON object.
        with_extra(extra: Value) => 0.extra;
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the identifier for programs, if there is one.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Returns whether the host made the error of a called tool, and not the tool: its code begins
    /// with `airlock.`, such as `airlock.deadline`. The contract lists these codes, and whether the
    /// tool has run.
    pub fn is_from_host(&self) -> bool {
        self.code().is_some_and(|code| code.starts_with("airlock."))
    }

    /// Returns the message that the model reads.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the time until another attempt makes sense, if it is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the parts for the model, besides the message.
    pub fn content(&self) -> &[Content] {
        &self.0.content
    }

    /// Returns the additional data, if there is any.
    pub fn details(&self) -> Option<&Value> {
        self.0.details.as_ref()
    }

    /// Returns the vendor keys, if there are any.
    pub fn meta(&self) -> Option<&Value> {
        self.0.meta.as_ref()
    }

    /// Returns the other members of the MCP result, if there are any.
    pub fn extra(&self) -> Option<&Value> {
        self.0.extra.as_ref()
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn prepend(&mut self, parts: Vec<Content>) {
        self.0.content.splice(..0, parts);
    }

    pub(crate) fn into_parts(self) -> Parts {
        *self.0
    }
}

impl From<Parts> for Error {
    fn from(parts: Parts) -> Self {
        Self(Box::new(parts))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// Selects the kind that the model can act on. The message is that of the system, without a path: a
/// tool that knows the path from its caller adds it itself.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(kind_of(error.kind()), error.to_string())
    }
}

/// Text that is not JSON, or not the expected JSON, is invalid input: that of a response, a stored
/// value or a result of a tool is parsed by their own `json` and `decode`. A value that cannot be
/// serialized is a fault of the tool.
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        // Only parsed text has lines.
        let kind = match error.io_error_kind() {
            Some(kind) => kind_of(kind),
            None if error.line() == 0 => ErrorKind::Internal,
            None => ErrorKind::InvalidInput,
        };
        Self::new(kind, error.to_string()).with_code("json")
    }
}

fn kind_of(kind: io::ErrorKind) -> ErrorKind {
    use io::ErrorKind as Io;
    match kind {
        Io::NotFound => ErrorKind::NotFound,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::InvalidInput
        | Io::InvalidData
        | Io::InvalidFilename
        | Io::IsADirectory
        | Io::NotADirectory
        | Io::UnexpectedEof => ErrorKind::InvalidInput,
        Io::AlreadyExists | Io::DirectoryNotEmpty => ErrorKind::Conflict,
        Io::Unsupported => ErrorKind::Unsupported,
        Io::TimedOut => ErrorKind::Timeout,
        Io::FileTooLarge | Io::ArgumentListTooLong => ErrorKind::TooLarge,
        Io::ConnectionRefused
        | Io::ConnectionReset
        | Io::ConnectionAborted
        | Io::NotConnected
        | Io::AddrNotAvailable
        | Io::HostUnreachable
        | Io::NetworkUnreachable
        | Io::NetworkDown
        | Io::BrokenPipe
        | Io::ResourceBusy
        | Io::StorageFull
        | Io::QuotaExceeded
        | Io::WouldBlock => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_gets_the_kind_that_the_model_can_act_on() {
        assert_eq!(kind_of_io(io::ErrorKind::NotFound), ErrorKind::NotFound);
        assert_eq!(kind_of_io(io::ErrorKind::PermissionDenied), ErrorKind::Denied);
        assert_eq!(kind_of_io(io::ErrorKind::IsADirectory), ErrorKind::InvalidInput);
        assert_eq!(kind_of_io(io::ErrorKind::AlreadyExists), ErrorKind::Conflict);
        assert_eq!(kind_of_io(io::ErrorKind::Unsupported), ErrorKind::Unsupported);
        assert_eq!(kind_of_io(io::ErrorKind::StorageFull), ErrorKind::Unavailable);
        assert_eq!(kind_of_io(io::ErrorKind::Other), ErrorKind::Internal);
    }

    fn kind_of_io(kind: io::ErrorKind) -> ErrorKind {
        Error::from(io::Error::from(kind)).kind()
    }

    #[test]
    fn text_that_is_not_json_is_invalid_input_and_a_value_that_is_none_is_internal() {
        let parsed = serde_json::from_str::<u8>("\"x\"").unwrap_err();
        insta::assert_snapshot!(Error::from(parsed), @r#"invalid type: string "x", expected u8 at line 1 column 3"#);
        let parsed = serde_json::from_str::<u8>("{").unwrap_err();
        assert_eq!(Error::from(parsed).kind(), ErrorKind::InvalidInput);
        let keys_are_lists = std::collections::BTreeMap::from([(vec![1], 2)]);
        let written = serde_json::to_string(&keys_are_lists).unwrap_err();
        assert_eq!(Error::from(written).kind(), ErrorKind::Internal);
    }

    #[test]
    fn an_error_of_the_host_is_known_by_its_code() {
        assert!(Error::internal("m").with_code("airlock.deadline").is_from_host());
        assert!(!Error::internal("m").with_code("deadline").is_from_host());
        assert!(!Error::internal("m").is_from_host());
    }

    #[test]
    fn a_result_with_an_error_stays_small() {
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }
}
