//! Anthropic's Messages API.
//!
//! | file | purpose |
//! |---|---|
//! | `request_reader` | requests of callers |
//! | `request_writer` | the members of a request to a provider |
//! | `request_writer/turns`, `request_writer/content`, `request_writer/media` | items → `system` and `messages`, and their blocks |
//! | `request_writer/settings` | settings → members of the request |
//! | `request_writer/tools` | tools, and the choice among them |
//! | `request_writer/place` | places of items in the caller's request, for errors |
//! | `reply_reader`, `reply_writer` | messages, streamed and whole |
//! | `seal` | proofs of reasoning as signatures of blocks |
//! | `error` | errors in OpenAI's form |

mod error;
mod reply_reader;
mod reply_writer;
mod request_reader;
mod request_writer;
mod seal;

use crate::object_of;

pub use self::{
    error::to_error,
    reply_reader::ReplyReader,
    reply_writer::{EventWriter, write_reply},
    request_reader::{OF_PAYER, read_request},
    request_writer::write_request,
};
