//! One server, connected or not, and the calls of its tools.
//!
//! | module | purpose |
//! |---|---|
//! | `access` | the way to the server, and the permits that its calls share |
//! | `state` | the server: its places, and what outlives its connections |
//! | `sending` | sends one call to the server, in a task of its own |
//! | `call` | runs a call until it completes or requires input of its caller, and resumes it |

mod access;
mod call;
mod sending;
mod state;

pub(super) use self::{
    access::{Access, NoLink, PerCall, UsedLink},
    call::Retry,
    sending::unavailable_before_sent,
    state::Server,
};
