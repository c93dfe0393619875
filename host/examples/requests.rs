//! Requests of a program that embeds the gateway: a policy, an approval, a tool that comes later.
//!
//! `cargo run -p airlock --example requests` prints what becomes of two calls and stops.

use std::sync::Arc;

use airlock::{
    CallReply, Gateway, NativeTool, ToolContext,
    config::Config,
    door::{CallPolicy, PolicyVerdict, ProposedCall},
    schemars::JsonSchema,
    tool::{Allowlist, Policy, ToolError},
};
use anyhow::bail;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The store has the calls that wait.
    let directory = tempfile::tempdir()?;
    let config = json!({"store": directory.path().join("airlock.db")}).to_string();
    let config = Config::parse(&config, "embedded", &|_| None)?;
    let policy =
        Policy { execute: Allowlist::All, auto_execute: Allowlist::All, ..Policy::default() };
    let gateway = Gateway::builder(config)
        .native_policy(policy)
        .with_policy(Arc::new(Thrift))
        .start()
        .await?;
    gateway.tools().register(NativeTool::typed("pay", "Pays an amount.", pay)).await?;

    let request = gateway.request().tools(["internal-*"]).open()?;
    for tool in request.tools().await? {
        println!("{}: {}", tool.name, tool.description);
    }
    let reply = request.call("internal-pay", Payment { amount: 20 }).await?;
    let CallReply::NeedsApproval(pending) = reply else { bail!("it needs an approval") };
    println!("waits: {} {}", pending.calls[0].tool, pending.calls[0].arguments);
    // A person decides, who was shown the call. The operator is one who decides for all callers.
    gateway.request().as_operator().open()?.approve(&pending.id).await?;
    let CallReply::Done(output) = request.resume(&pending.id).await? else {
        bail!("it was approved")
    };
    println!("done: {}", output.to_text());
    if let Err(refused) = request.call("internal-pay", Payment { amount: 2_000 }).await {
        println!("{}: {refused}", refused.code());
    }
    gateway.tools().remove("pay").await?;
    gateway.stop().await;
    Ok(())
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct Payment {
    amount: u64,
}

async fn pay(payment: Payment, context: ToolContext) -> Result<String, ToolError> {
    Ok(format!("{} paid {}", context.tenant(), payment.amount))
}

/// Has a person approve what is paid, up to a limit.
struct Thrift;

impl CallPolicy for Thrift {
    fn narrow(&self, call: &ProposedCall<'_>) -> PolicyVerdict {
        if call.tool.name.as_str() != "internal-pay" {
            return PolicyVerdict::Unchanged;
        }
        // The arguments were not checked against the schema yet.
        match call.arguments.to_object().get("amount").and_then(Value::as_u64) {
            Some(0..=100) => PolicyVerdict::RequireApproval,
            _ => PolicyVerdict::Refuse { reason: "at most 100 is paid at once".to_owned() },
        }
    }
}
