//! OpenAI's chat completions.

mod reply_reader;
mod reply_writer;
mod request_reader;
mod request_writer;

pub use self::{
    reply_reader::ReplyReader,
    reply_writer::{ChunkWriter, write_reply},
    request_reader::read_request,
    request_writer::write_request,
};
