//! Three gateways on one store, a server of `PostgreSQL`, all of which are killed under load.
//!
//! Callers call a tool whose effects are counted, with a key whose limit permits a part of the calls. Meanwhile
//! each gateway in turn, and sometimes the server, is killed and started again with the same files. The effects are
//! then compared with the limit, the call log and the audit logs.
//!
//! A seed determines what is killed, and after how many calls. Not more calls than that are made before the next
//! kill, so the load between two kills does not depend on the speed of the machine.
//!
//! `make chaos CHAOS=--kills` is the long run. A test in `tests/it/killed.rs` is a short one.

#[path = "kills/callers.rs"]
mod callers;
#[path = "../../src/bin/chaos_server/dice.rs"]
#[expect(dead_code, reason = "the server that misbehaves uses the rest")]
mod dice;
#[path = "kills/effects.rs"]
mod effects;
#[path = "kills/gateways.rs"]
mod gateways;
#[path = "kills/logs.rs"]
mod logs;
#[path = "kills/outcome.rs"]
mod outcome;

use airlock_test_postgres::TestServer;
use airlock_tests::bench::report::Report;

use self::{
    callers::CallerTasks,
    dice::Dice,
    effects::EffectServer,
    gateways::{GATEWAYS, GatewayGroup},
    logs::{AuditedCalls, LoggedRows},
    outcome::KilledRun,
};

/// Extent of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KillEffort {
    pub(crate) seed: u64,
    pub(crate) calls: u64,
    /// Calls that the key may make in an hour.
    pub(crate) limit: u64,
    /// Callers of each gateway.
    pub(crate) callers: usize,
    /// Kills of gateways, each in turn.
    pub(crate) gateway_kills: u64,
    /// Kills of the server of the store.
    pub(crate) store_kills: u64,
}

/// A kill that is planned.
struct PlannedKill {
    /// Number of calls that were begun before.
    at: u64,
    victim: Victim,
}

/// Process that is killed.
enum Victim {
    /// The gateway with this number.
    Gateway(usize),
    /// The server of the store, with all its processes.
    Store,
}

/// Makes all calls and all kills. Returns the counts and the checks; `None` if `PostgreSQL` is not installed.
pub(crate) async fn run(effort: KillEffort) -> Option<Report> {
    // A kill may leave a page of a table that is written in part, which the server then restores.
    let mut store = TestServer::start_with(&["full_page_writes=on"], |_| {})?;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = EffectServer::start().await;
    let mut gateways =
        GatewayGroup::start(&store.url(), server.url(), effort.limit, directory.path()).await;
    let callers = CallerTasks::start(&gateways.addresses(), effort.callers, effort.calls);
    let plan = plan(&effort);
    for (index, kill) in plan.iter().enumerate() {
        let next = plan.get(index + 1).map_or(effort.calls, |next| next.at);
        callers.turns().permit(next);
        callers.turns().until_begun(kill.at).await;
        match kill.victim {
            Victim::Gateway(number) => gateways.kill(number).await,
            Victim::Store => {
                store.kill();
                store.resume();
            }
        }
    }
    callers.turns().permit(effort.calls);
    let fates = callers.end().await;
    let logs = gateways.stop().await;
    let happened = server.end().await;
    let run = KilledRun {
        effort,
        fates,
        happened,
        rows: LoggedRows::read(&store.url()).await,
        audited: AuditedCalls::read(&logs.ended),
        logs: logs.count(),
        invalid: logs.invalid().await,
    };
    Some(run.report())
}

/// Plans all kills in the first three quarters of the calls, each at a random point of its part of them.
fn plan(effort: &KillEffort) -> Vec<PlannedKill> {
    let mut dice = Dice::new(effort.seed);
    let count = effort.gateway_kills + effort.store_kills;
    let part = effort.calls * 3 / 4 / count;
    let mut numbers = (0..GATEWAYS).cycle();
    let mut stores_left = effort.store_kills;
    let kills = (0..count).map(|index| {
        let at = index * part + 1 + dice.below(part);
        let victim = if dice.below(count - index) < stores_left {
            stores_left -= 1;
            Victim::Store
        } else {
            Victim::Gateway(numbers.next().expect("it repeats"))
        };
        PlannedKill { at, victim }
    });
    kills.collect()
}
