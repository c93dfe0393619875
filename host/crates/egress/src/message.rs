//! What a caller sends and gets back, as plain data. Requests hold raw text: they are checked where
//! they are sent.

use std::time::Duration;

use airlock_core::tenant::Held;
use bytes::Bytes;

/// A request as its caller wants it.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `GET` and the like, in capitals. Neither CONNECT nor TRACE.
    pub method: String,
    /// An absolute URL without user and password, at most 8 KiB.
    pub url: String,
    /// At most 64, with at most 64 KiB together.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; GET and HEAD have none.
    pub body: Option<Bytes>,
    /// Time for the whole exchange where that is shorter than the bound.
    pub timeout: Option<Duration>,
    /// Most bytes of the response's body where that is less than the bound.
    pub max_response_bytes: Option<u64>,
    /// A credential to attach, by name.
    pub credential: Option<String>,
    /// What becomes of redirects.
    pub redirects: Redirects,
}

/// What becomes of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// They are followed, each after a decision of its own. To another origin go the body and those
    /// headers that are for anybody (`accept`, `content-type` and the like), and nothing at all if
    /// a credential's value is among it.
    #[default]
    Follow,
    /// They are the response.
    Return,
}

/// A response, whole.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers as they came, in lower case. Values of credentials in them are blotted out, as they
    /// are in the body.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body as it came, not decompressed.
    pub body: Vec<u8>,
    /// Where it came from, without any credential.
    pub final_url: String,
    /// The memory that the body counts as. It goes wherever the body goes.
    pub memory: Held,
}
