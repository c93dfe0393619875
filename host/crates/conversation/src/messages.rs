//! Anthropic's Messages API, as its callers use it.

mod reply_writer;
mod request_reader;

pub use self::{
    reply_writer::{EventWriter, write_reply},
    request_reader::read_request,
};
