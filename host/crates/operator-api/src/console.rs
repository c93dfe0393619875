//! Requests of the page for operators beside the other APIs: events, live calls, runs of all callers and their replays,
//! calls of an operator, changed definitions, dry connections and reports.

use http::{Method, Request};

use super::{
    OperatorApi,
    definitions::{self, DefinitionsTarget},
    dry_run,
    operator::{OperatorAct, RequestOperator},
    operator_events, operator_runs, replays, reports, tries,
};
use airlock_core::request_memory::RequestCharge;
use airlock_http::respond::{self, ApiError, Reply};
use airlock_ingress::RequestBody;

/// Path of a run, before its identifier.
const RUNS: &str = "/api/runs/";

/// Part of the API that a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleTarget<'p> {
    /// Events as a stream.
    Events,
    /// The calls that run now.
    Calls,
    /// The runs of all callers.
    Runs,
    /// One run.
    Run(&'p str),
    /// Replays a run.
    Replay(&'p str),
    /// The changed definitions of a client.
    Definitions(DefinitionsTarget<'p>),
    /// Calls a tool.
    Try,
    /// Connects to a server that is not configured.
    DryRun,
    /// Reports of test suites.
    Reports,
}

impl<'p> ConsoleTarget<'p> {
    /// Returns the part that a path means; `None` for other paths.
    pub fn parse(path: &'p str) -> Option<Self> {
        Some(match path {
            "/api/events" => Self::Events,
            "/api/calls" => Self::Calls,
            "/api/runs" => Self::Runs,
            "/api/mcp/try" => Self::Try,
            "/api/mcp/clients/dry-run" => Self::DryRun,
            "/api/reports" => Self::Reports,
            path => {
                let Some(run) = path.strip_prefix(RUNS) else {
                    return DefinitionsTarget::parse(path).map(Self::Definitions);
                };
                let (id, rest) = run.split_once('/').unwrap_or((run, ""));
                match rest {
                    _ if id.is_empty() => return None,
                    "" if id.len() == run.len() => Self::Run(id),
                    "replay" => Self::Replay(id),
                    _ => return None,
                }
            }
        })
    }

    /// Returns the methods that the path takes.
    pub fn methods(self) -> &'static [Method] {
        match self {
            Self::Events => &[Method::GET],
            Self::Try | Self::DryRun | Self::Replay(_) => &[Method::POST],
            Self::Definitions(target) => target.methods(),
            Self::Calls | Self::Runs | Self::Run(_) | Self::Reports => &[Method::GET, Method::HEAD],
        }
    }

    /// Returns the act of an operator that the request is.
    pub fn act(self) -> OperatorAct {
        match self {
            Self::Events | Self::Calls => OperatorAct::WatchCalls,
            Self::Runs | Self::Run(_) => OperatorAct::ReadRuns,
            Self::Replay(_) => OperatorAct::ReplayRun,
            Self::Definitions(target) => target.act(),
            Self::Try => OperatorAct::TryTool,
            Self::DryRun => OperatorAct::TryServer,
            Self::Reports => OperatorAct::ReadReports,
        }
    }

    /// Returns whether a request waits for what happens.
    pub fn waits(self) -> bool {
        self == Self::Events
    }
}

/// Handles a request of an operator who may send it.
pub async fn run(
    api: &OperatorApi,
    actor: &RequestOperator,
    target: ConsoleTarget<'_>,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    match target {
        ConsoleTarget::Events => operator_events::open(api, actor, &request),
        ConsoleTarget::Calls => Ok(respond::json(&api.hooks.live_calls.describe())),
        ConsoleTarget::Runs => {
            let head = request.into_parts().0;
            operator_runs::list(api, head.uri.query().unwrap_or_default()).await
        }
        ConsoleTarget::Run(id) => operator_runs::show(api, actor, id, charge).await,
        ConsoleTarget::Replay(id) => replays::run(api, actor, id, charge).await,
        ConsoleTarget::Definitions(target) => {
            definitions::run(api, actor, target, request, charge).await
        }
        ConsoleTarget::Try => tries::run(api, actor, request, charge).await,
        ConsoleTarget::DryRun => dry_run::run(api, actor, request, charge).await,
        ConsoleTarget::Reports => reports::list(api, actor, charge).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_have_paths_of_their_own() {
        for (path, target) in [
            ("/api/events", Some(ConsoleTarget::Events)),
            ("/api/runs", Some(ConsoleTarget::Runs)),
            ("/api/runs/run_1", Some(ConsoleTarget::Run("run_1"))),
            ("/api/mcp/clients/dry-run", Some(ConsoleTarget::DryRun)),
            ("/api/runs/run_1/replay", Some(ConsoleTarget::Replay("run_1"))),
            (
                "/api/mcp/client/fs/definitions",
                Some(ConsoleTarget::Definitions(DefinitionsTarget::Show("fs"))),
            ),
            ("/api/runs/", None),
            ("/api/runs/run_1/", None),
            ("/api/runs//replay", None),
            ("/api/runs/run_1/approve", None),
            ("/api/mcp/client/fs", None),
            ("/api/mcp/clients", None),
            ("/api/eventsx", None),
        ] {
            assert_eq!(ConsoleTarget::parse(path), target, "{path}");
        }
    }
}
