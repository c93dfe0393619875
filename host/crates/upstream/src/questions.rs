//! Questions of a server to the caller of a request that is running.
//!
//! A modern server asks with the result of a request, which is sent once more with the answers. A
//! legacy server sends requests of its own while the request runs. In both cases the request ends for
//! its caller as [`InputRequired`](airlock_core::tool::InputRequired), and is resumed when the caller sends
//! answers; [`parked`] keeps what waits until then.
//!
//! | module | purpose |
//! |---|---|
//! | `conversation` | one running call of a legacy server, and its questions |
//! | `parked` | requests that wait for answers, bounded and expiring |

mod conversation;
mod parked;

pub(super) use self::{
    conversation::{ServerConversation, conversation},
    parked::{Bound, Parked, ParkedRequest},
};
pub(super) use airlock_mcp_client::{
    Refused, RequiredInput, ResumedRequest, TASK, read_required_input,
};

/// Response of a server to a request.
pub(super) enum ServerResponse<T> {
    /// Its result.
    Complete(T),
    /// A modern server requires input of the caller first.
    InputRequired(RequiredInput),
}
