//! The record of each call, decision and change.
//!
//! ```text
//! door ─ CallControl ───┐                ┌─► queue ─► writer ─► audit log: one line an event, one flush a batch
//! models ─ ModelControl ├─ RecordEvent ──┤
//! people ─ Acts ────────┘                └─► queue ─► writer ─► call log: rows in the store, one transaction a batch
//!                 ▲                                     │
//!                 └───────────── admitted ◄─────────────┘ a call with effects runs once its admission is in both
//! ```
//!
//! The path of a call hands over plain data and does not format it: the threads of the writers render lines and
//! rows, and compute the commitments to arguments and results. A writer whose log cannot be written keeps its batch
//! and tries again; its queue has a bounded size, and events without room are counted. Neither log waits for the
//! other. Of events that no limit bounds, only the first ones of each caller in a minute have records of their own.
//! `docs/records.md` says what operators can rely on.
//!
//! | module | purpose |
//! |---|---|
//! | [`settings`](RecordSettings) | which logs there are, and what happens without them |
//! | `recorder` | [`Recorder`]: the controls of calls and of requests to models |
//! | `event` | events as plain data |
//! | `queues`, `queue` | the bounded queue of each log |
//! | `counted` | bound on the recorded refusals and questions of one caller, and the number of the others |
//! | `writer` | the thread that writes the batches of a log |
//! | `audit_log`, `call_log` | the two logs, as their writers see them |
//! | `lines`, `rows` | event → line of the audit log, rows of the call log |
//! | `commitment` | salted digests of contents |
//! | `metrics` | what was written, and what was not |

mod audit_log;
mod call_log;
mod commitment;
mod counted;
mod event;
mod lines;
mod metrics;
mod queue;
mod queues;
mod recorder;
mod rows;
mod settings;
#[cfg(test)]
mod testing;
mod writer;

pub use self::{
    audit_log::PostCheckpoint,
    recorder::{CallPrice, Recorder},
    settings::{
        AuditPlace, CallLogSettings, CheckpointPlace, OnFailure, RecordSettings, SigningKeySource,
    },
};
