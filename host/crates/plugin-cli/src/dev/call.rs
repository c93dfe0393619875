//! Calls a tool of a fresh build in this process, and prints what it reports.

use anyhow::bail;

use super::{build_uses::BuildUses, config::FreshBuild};
use airlock_core::{
    door::{Caller, CallerCapabilities, Event, Events, Origin, Progress},
    tool::{CallError, HostCode, ToolOutput},
};
use airlock_gateway::{Gateway, command_line};
use airlock_sandbox::UseRecorder;
use airlock_terminal::{
    output::{self, CommandFailure},
    session, spinner,
    tool_call::show,
};

/// Starts a gateway with the plugin and the clients that it can call, makes the calls one after
/// another, prints their outcomes, and adds the uses of requests to `uses`. `calls` are pairs of a
/// tool and its arguments.
pub(super) async fn run(
    build: &FreshBuild<'_>,
    calls: &[String],
    uses: &mut BuildUses,
) -> anyhow::Result<()> {
    let config = build.config()?;
    let recorder = UseRecorder::default();
    let budget = config.budget;
    let builder = Gateway::builder(config).on_compile(spinner::compiling);
    let builder = command_line::record_uses(builder, recorder.clone());
    let gateway = command_line::executor_on_demand(builder).start().await?;
    gateway.settled(session::SETTLE, |_| true).await;
    let done = async {
        if let Some(reason) = absent(&gateway, build) {
            bail!("{reason}");
        }
        for call in calls.chunks_exact(2) {
            if calls.len() > 2 {
                output::line(&format!("{}:", output::one_line(&call[0], 100)))?;
            }
            if let Some(reason) = unknown(build, &call[0]) {
                output::complain(&CommandFailure::new("not_found", reason));
                continue;
            }
            let view = gateway.caller(Origin::Caller).view().clone();
            let (caller, events) =
                Caller::with_events(view, Origin::Caller, budget, CallerCapabilities::default());
            let name = format!("{}-{}", build.client(), call[0]);
            let result = follow(&caller, &name, &call[1], events).await;
            if has_run(&result) {
                uses.add(&call[0], result.is_ok(), recorder.uses(&build.client()));
            }
            show(&result)?;
        }
        Ok(())
    };
    let done = done.await;
    gateway.stop().await;
    done
}

/// Returns the reason that a tool cannot be called, if the plugin does not have it.
fn unknown(build: &FreshBuild<'_>, tool: &str) -> Option<String> {
    let is_known = build.metadata.tools.iter().any(|known| known.name == tool);
    (!is_known).then(|| {
        let tool = output::one_line(tool, 100);
        format!("--call {tool}: the plugin has no such tool; it has {}", build.tool_names())
    })
}

/// Returns the reason that the plugin is not loaded, if it is not.
fn absent(gateway: &Gateway, build: &FreshBuild<'_>) -> Option<String> {
    let name = format!("{} ", build.client());
    session::absent_sources(gateway, |_| true).into_iter().find(|line| line.starts_with(&name))
}

/// Returns whether the plugin has run, so that the call shows which requests it uses.
fn has_run(result: &Result<ToolOutput, CallError>) -> bool {
    !matches!(
        result.as_ref().map_err(CallError::code),
        Err(HostCode::NotFound | HostCode::BadArguments | HostCode::Unavailable)
    )
}

/// Runs a call, and prints its progress and its parts as they come.
async fn follow(
    caller: &Caller,
    name: &str,
    arguments: &str,
    mut events: Events,
) -> Result<ToolOutput, CallError> {
    let call = async { caller.admit(name, arguments)?.run().await };
    tokio::pin!(call);
    let result = loop {
        tokio::select! {
            Some(event) = events.recv() => print(&event),
            result = &mut call => break result,
        }
    };
    while let Ok(event) = events.try_recv() {
        print(&event);
    }
    result
}

fn print(event: &Event) {
    output::hint(&line(event));
}

/// Formats an event for people, on one line.
fn line(event: &Event) -> String {
    match event {
        Event::Progress { progress: Progress { done, total, message }, .. } => {
            let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
            let message = message.as_deref().map(|message| format!(": {message}"));
            output::one_line(&format!("progress {done}{total}{}", message.unwrap_or_default()), 200)
        }
        Event::Partial { part, .. } => {
            output::one_line(&format!("part: {}", part.as_text().unwrap_or("not text")), 200)
        }
        Event::Log { log, .. } => output::one_line(&format!("log: {}", log.data), 200),
        Event::Deferred { .. } => "the source runs the call as a task".to_owned(),
    }
}
