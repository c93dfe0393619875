//! One server, connected or not, and the calls of its tools.
//!
//! | module | purpose |
//! |---|---|
//! | `instance` | one of its processes or URLs, with the calls that run there |
//! | `access` | the ways to the instances, and the permits that its calls share |
//! | `choice` | chooses the instance that a call goes to |
//! | `state` | the server: its places, and what outlives its connections |
//! | `summary` | the state of a server with several instances |
//! | `sending` | sends one call to the server, in a task of its own |
//! | `call` | runs a call until it completes or requires input of its caller, and resumes it |

mod access;
mod call;
mod choice;
mod instance;
mod sending;
mod state;
mod summary;

pub(super) use self::{
    access::{Access, Attempted, NoLink, PerCall, UsedLink},
    call::Retry,
    choice::Linked,
    instance::Instance,
    sending::unavailable_before_sent,
    state::Server,
};
