//! Fake tools and models for tests.

mod control;

pub use self::control::{RecordingControl, Told, WAIT};

use std::{
    fs,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};

use airlock_catalog::Catalog;
use airlock_core::{
    door::{Admitted, Budget, Origin, OwnTools, Progress, Provider},
    tool::{
        Allowlist, CallError, ClientName, Content, ContentBlock, ErrorKind, Policy, Tool,
        ToolDefinition, ToolError, ToolOutput, Trust,
    },
};
use airlock_model::{Kind, Models, Settings};

/// Bounds on the calls of a test.
pub const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 8,
    depth: 3,
    in_flight: 8,
};

/// Length of the result of the tool `large`, in bytes.
pub const LARGE: usize = 5_000;

/// Base64 of the image that the tool `look` returns.
pub static IMAGE: LazyLock<String> = LazyLock::new(|| "A".repeat(1_200));

/// Returns a catalog of three sources. The model sees the tools of `desk` and may call all but
/// `write` without approval. `files` is behind `executeToolCode`, which may call `read` but not
/// `write` without approval. `away` never connects.
pub fn catalog() -> (Arc<Catalog>, mpsc::UnboundedReceiver<&'static str>) {
    let (events, happened) = mpsc::unbounded_channel();
    let desk = Arc::new(FakeTools { events, meet: Notify::new() });
    let catalog = Catalog::new();
    let unasked =
        ["echo", "fail", "hang", "large", "meet_a", "meet_b", "panic", "busy", "report", "look"];
    add(&catalog, "desk", &[&unasked[..], &["write"]].concat(), &unasked, false, desk.clone());
    add(&catalog, "files", &["read", "write"], &["read"], true, desk.clone());
    catalog.add_client(
        &client("away"),
        airlock_catalog::SourceKind::Server("http"),
        Policy::default(),
    );
    // A server that was never listed has a provider, which reports its status.
    catalog.offer(&client("away"), desk.clone());
    let run = Tool::own(
        "executeToolCode",
        "Calls the tool that `code` names.",
        json!({"type": "object", "properties": {}}),
    );
    catalog.set_meta_tools(OwnTools { tools: vec![Arc::new(run)], provider: desk });
    (catalog, happened)
}

fn add(
    catalog: &Catalog,
    name: &str,
    tools: &[&str],
    auto: &[&str],
    code_mode: bool,
    provider: Arc<dyn Provider>,
) {
    let auto_execute = Allowlist::parse(auto).expect("no duplicates");
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute,
        code_mode,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let definitions = tools.iter().map(|tool| json!({"name": tool, "inputSchema": {}}));
    let definitions: Vec<ToolDefinition> = definitions
        .map(|definition| serde_json::from_value(definition).expect("a definition"))
        .collect();
    catalog.add_client(&client(name), airlock_catalog::SourceKind::Internal, policy);
    assert!(catalog.blocking_publish(&client(name), definitions, provider).is_empty());
}

fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a good name")
}

struct FakeTools {
    events: mpsc::UnboundedSender<&'static str>,
    meet: Notify,
}

impl Provider for FakeTools {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        self.run(call).boxed()
    }
}

impl FakeTools {
    async fn run(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        call.chain().meter().spend_fuel(7);
        match call.tool().original.as_str() {
            "fail" => return Err(CallError::from(ToolError::new(ErrorKind::Internal, "no luck"))),
            "busy" => return Err(CallError::busy()),
            "report" => report(&call),
            "look" => return look(&call),
            "panic" => panic!("a tool that panics"),
            "hang" => {
                let deadline = call.chain().deadline();
                let limit = deadline.saturating_duration_since(std::time::Instant::now());
                if tokio::time::timeout_at(deadline.into(), self.hang()).await.is_err() {
                    return Err(CallError::deadline(call.tool().name.clone(), limit));
                }
            }
            "meet_a" => self.meet.notified().await,
            "meet_b" => self.meet.notify_one(),
            "large" => return Ok(ToolOutput::text("x".repeat(LARGE))),
            "executeToolCode" => return run_code(&call).await,
            _ => {}
        }
        Ok(ToolOutput::text(format!("{} {}", call.tool().original, call.arguments().as_str())))
    }

    async fn hang(&self) {
        struct Dropped<'a>(&'a FakeTools);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                let _ = self.0.events.send("dropped");
            }
        }
        let _dropped = Dropped(self);
        let _ = self.events.send("started");
        std::future::pending::<()>().await;
    }
}

/// Returns an image, or an error with one if the arguments name one.
fn look(call: &Admitted) -> Result<ToolOutput, CallError> {
    let image = ContentBlock::Image { data: IMAGE.to_string(), mime_type: "image/png".into() };
    let content = vec![Content::text("a square"), image.into()];
    match call.arguments().to_object().get("error").and_then(Value::as_str) {
        None => Ok(ToolOutput { content, ..ToolOutput::default() }),
        Some(message) => {
            let error = ToolError::new(ErrorKind::Internal, message);
            Err(CallError::from(ToolError { content, ..error }))
        }
    }
}

/// Reports progress twice.
fn report(call: &Admitted) {
    for done in [1.0, 2.0] {
        call.chain().reporter().progress(Progress { done, total: None, message: None });
    }
}

/// Calls `files-read`, and then the tool that `code` names.
async fn run_code(call: &Admitted) -> Result<ToolOutput, CallError> {
    call.chain().admit(&Origin::Script, "files-read", "{}")?.run().await?;
    let arguments = call.arguments().to_object();
    let name = arguments.get("code").and_then(Value::as_str).unwrap_or_default();
    call.chain().admit(&Origin::Script, name, r#"{"path":"a"}"#)?.run().await
}

/// Returns a provider named `demo` that follows these turns.
///
/// # Panics
///
/// If the turns cannot be written to a temporary file, or are invalid.
pub fn scripted(turns: &Value) -> Models {
    let dir = TempDir::new().expect("a directory");
    let script = dir.path().join("script.json");
    fs::write(&script, json!({"turns": turns}).to_string()).expect("a file");
    let kind = Kind::Scripted { script };
    let settings = Settings { name: "demo".into(), kind, fallbacks: Vec::new() };
    Models::new(&[settings]).expect("a good script")
}
