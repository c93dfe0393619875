//! Gemini's `generateContent`, as the gateway uses it.
//!
//! | file | purpose |
//! |---|---|
//! | `request_writer` | the members of a request |
//! | `request_writer/contents` | items → `contents` and `systemInstruction` |
//! | `request_writer/media` | images, sounds and documents → parts |
//! | `request_writer/config` | settings → `generationConfig` |
//! | `request_writer/tools` | tools, and the choice among them |
//! | `reply_reader` | a response, or the events of a stream → deltas |
//! | `reply_reader/outcome` | reasons of an end, tokens and probabilities |
//! | `error` | errors in OpenAI's form |

mod error;
mod reply_reader;
mod request_writer;

pub use self::{
    error::{INVALID_KEY, read_error},
    reply_reader::ReplyReader,
    request_writer::write_request,
};

use super::object_of;

/// Member of a part with the signature of a thought.
const THOUGHT_SIGNATURE: &str = "thoughtSignature";
