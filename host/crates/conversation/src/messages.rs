//! Anthropic's Messages API, as its callers use it.

mod error;
mod reply_reader;
mod reply_writer;
mod request_reader;
mod seal;

use serde_json::Value;

use crate::Object;

pub use self::{
    error::to_error,
    reply_reader::ReplyReader,
    reply_writer::{EventWriter, write_reply},
    request_reader::{OF_PAYER, read_request},
};

/// Creates an object. Values are moved into it, because texts can be large.
fn object<const N: usize>(members: [(&str, Value); N]) -> Object {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
