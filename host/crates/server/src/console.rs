//! Requests of the page for operators beside the other APIs: events, live calls, runs of all callers, calls of an
//! operator, dry connections and reports.

use http::{Method, Request};

use super::{
    App, dry_run,
    ingress::Ingress,
    memory::RequestCharge,
    operator::{OperatorAct, RequestOperator},
    operator_events, operator_runs, reports,
    request_body::RequestBody,
    respond::{self, ApiError, Reply},
    tries,
};

/// Path of a run, before its identifier.
const RUNS: &str = "/api/runs/";

/// Part of the API that a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsoleTarget<'p> {
    /// Events as a stream.
    Events,
    /// The calls that run now.
    Calls,
    /// The runs of all callers.
    Runs,
    /// One run.
    Run(&'p str),
    /// Calls a tool.
    Try,
    /// Connects to a server that is not configured.
    DryRun,
    Reports,
}

impl<'p> ConsoleTarget<'p> {
    /// Returns the part that a path means; `None` for other paths.
    pub(super) fn parse(path: &'p str) -> Option<Self> {
        Some(match path {
            "/api/events" => Self::Events,
            "/api/calls" => Self::Calls,
            "/api/runs" => Self::Runs,
            "/api/mcp/try" => Self::Try,
            "/api/mcp/clients/dry-run" => Self::DryRun,
            "/api/reports" => Self::Reports,
            path => {
                let id = path.strip_prefix(RUNS)?;
                let is_one = !id.is_empty() && !id.contains('/');
                return is_one.then_some(Self::Run(id));
            }
        })
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Events => &[Method::GET],
            Self::Try | Self::DryRun => &[Method::POST],
            Self::Calls | Self::Runs | Self::Run(_) | Self::Reports => &[Method::GET, Method::HEAD],
        }
    }

    pub(super) fn act(self) -> OperatorAct {
        match self {
            Self::Events | Self::Calls => OperatorAct::WatchCalls,
            Self::Runs | Self::Run(_) => OperatorAct::ReadRuns,
            Self::Try => OperatorAct::TryTool,
            Self::DryRun => OperatorAct::TryServer,
            Self::Reports => OperatorAct::ReadReports,
        }
    }

    /// Returns whether a request waits for what happens.
    pub(super) fn waits(self) -> bool {
        self == Self::Events
    }
}

/// Handles a request of an operator who may send it.
pub(super) async fn run(
    app: &App,
    actor: &RequestOperator,
    target: ConsoleTarget<'_>,
    ingress: Ingress,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    match target {
        ConsoleTarget::Events => operator_events::open(app, actor, ingress, &request),
        ConsoleTarget::Calls => Ok(respond::json(&app.hooks.live_calls.describe())),
        ConsoleTarget::Runs => {
            let head = request.into_parts().0;
            operator_runs::list(app, head.uri.query().unwrap_or_default()).await
        }
        ConsoleTarget::Run(id) => operator_runs::show(app, actor, id, charge).await,
        ConsoleTarget::Try => tries::run(app, actor, request, charge).await,
        ConsoleTarget::DryRun => dry_run::run(app, actor, request, charge).await,
        ConsoleTarget::Reports => reports::list(app, charge).await,
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
            ("/api/runs/", None),
            ("/api/runs/run_1/approve", None),
            ("/api/mcp/clients", None),
            ("/api/eventsx", None),
        ] {
            assert_eq!(ConsoleTarget::parse(path), target, "{path}");
        }
    }
}
