//! One server, connected or not, and the calls of its tools.
//!
//! | module | purpose |
//! |---|---|
//! | `instance` | one of its processes or URLs, with the calls that run there |
//! | `access` | the way to an instance |
//! | `permits` | what its calls share, and the permits within which they run |
//! | `choice` | chooses the instance that a call goes to |
//! | `state` | the server: its places, and what outlives its connections |
//! | `summary` | the state of a server with several instances |
//! | `attempt` | runs work with one instance after the other, until one has got the request |
//! | `sending` | sends one call to the server, in a task of its own |
//! | `unavailable` | reasons that the server could not be asked |
//! | `call` | runs a call until it completes or requires input of its caller, and resumes it |

mod access;
mod attempt;
mod call;
mod choice;
mod instance;
mod permits;
mod sending;
mod state;
mod summary;
mod unavailable;

pub(super) use self::{
    access::{PerCall, ServerAccess, UsedLink},
    attempt::{Attempted, NoLink},
    call::Retry,
    choice::Linked,
    instance::Instance,
    state::Server,
    unavailable::unavailable_before_sent,
};
