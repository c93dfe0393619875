//! Calls that clients follow as tasks: of the legacy era (2025-11-25, section "Tasks"), and of the
//! modern extension for tasks.
//!
//! A modern client declares the extension, and a call of it becomes a task where the source makes a
//! task of it. A legacy client asks for a task with the call. The call continues in the background,
//! within its ordinary limits, and the client polls for its state:
//!
//! ```text
//! Working ─┬─► InputRequired ─► Working …     the client answers with `tasks/update`, or is asked
//!          │                                  while it waits in `tasks/result`
//!          ├─► Ended                          with the result of the call, or its error
//!          └─► Cancelled                      by the client
//! ```
//!
//! A task belongs to a tenant; for every other one it does not exist. Its identifier cannot be
//! guessed. Tasks and their results are in memory, bounded for each tenant and in all.

//!
//! | module | purpose |
//! |---|---|
//! | `task` | one task: its phases, and how clients see it |
//! | `store` | the tasks of all tenants, bounded |
//! | `deferral` | makes a task of a running call |

mod deferral;
mod store;
mod task;

pub(super) use self::{
    deferral::Deferral,
    store::Tasks,
    task::{MAX_INPUT_BYTES, OpenQuestions, Task, TaskPhase},
};
