//! OpenAI's Responses API.
//!
//! | file | purpose |
//! |---|---|
//! | `request_reader` | the members of a request |
//! | `request_reader/items`, `request_reader/content`, `request_reader/reasoning` | `input` → items |
//! | `request_reader/settings`, `request_reader/tools` | everything but the input |
//! | `request_writer` | the members of a request |
//! | `request_writer/items`, `request_writer/content` | items → `input`, and the content of messages and results |
//! | `request_writer/tools` | tools, and the choice among them |
//! | `reply_reader` | the events of a stream, or a whole Response → deltas |
//! | `reply_reader/item` | the output items that are open |
//! | `usage` | tokens of a reply, in both directions |
//! | `error` | errors that a Response or a stream reports |

mod error;
mod reply_reader;
mod request_reader;
mod request_writer;
mod usage;

use crate::object_of;

pub use self::{
    reply_reader::ReplyReader,
    request_reader::{
        check_definition, is_own_id, is_own_reasoning, read_input, read_request, refuse_always,
        state_bytes, unavailable_tool,
    },
    request_writer::{write_content, write_items, write_request},
    usage::write as write_usage,
};
