//! Gemini's `generateContent`, as the gateway uses it.

mod reply_reader;
mod request_writer;

pub use self::{reply_reader::ReplyReader, request_writer::write_request};
