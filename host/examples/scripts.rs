//! Untrusted scripts inside a program, with functions of the program as tools.
//!
//! `cargo run -p airlock --example scripts` runs a script that a model could have written, asks before it pays, and prints
//! the value as JSON.

use std::error::Error;

use airlock::runner::{
    Function, FunctionCall, FunctionError, Functions, PendingRun, RunDump, RunRequest, RunState,
    Runner, RunnerSettings, ScriptLanguage,
};
use serde_json::{Value, json};

const SCRIPT: &str = "\
total = 0
for name in customers:
    total += balance(name)['owed']
print('they owe', total)
receipt = pay('rent', total)
{'total': total, 'receipt': receipt}";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runner = Runner::new(RunnerSettings::default())?;
    let functions = functions()?;
    let request = RunRequest::new(ScriptLanguage::Python, SCRIPT)
        .with_input("customers", json!(["Ada", "Grace"]))
        .with_functions(functions.clone())
        .with_on_print(|line| eprintln!("script: {line}"));
    let mut state = runner.run(request).await?;
    // The script stops at each call that needs an approval.
    while let RunState::Pending(run) = state {
        // Bytes, which another process may load as well.
        let bytes = run.dump()?.into_bytes();
        let mut run = PendingRun::load(&RunDump::from_bytes(bytes)?, functions.clone())?;
        decide(&mut run)?;
        state = runner.resume(run).await?;
    }
    if let RunState::Finished(run) = state {
        println!("{}", run.value.unwrap_or_default());
    }
    Ok(())
}

fn functions() -> Result<Functions, Box<dyn Error>> {
    let name = json!({"properties": {"name": {"type": "string"}}, "required": ["name"]});
    let payment = json!({
        "properties": {"purpose": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}},
        "required": ["purpose", "amount"],
    });
    Ok(Functions::new([
        Function::new("balance", "Returns what a customer owes.", name, balance).read_only(),
        Function::new("pay", "Pays an amount.", payment, pay).needs_approval(),
    ])?)
}

async fn balance(call: FunctionCall) -> Result<Value, FunctionError> {
    match call.arguments()["name"].as_str() {
        Some("Ada") => Ok(json!({"owed": 30})),
        Some("Grace") => Ok(json!({"owed": 12})),
        _ => Err(FunctionError::new("no such customer").with_code("unknown_customer")),
    }
}

async fn pay(call: FunctionCall) -> Result<Value, FunctionError> {
    let amount = &call.arguments()["amount"];
    let purpose = call.arguments()["purpose"].as_str().unwrap_or_default();
    Ok(json!(format!("paid {amount} for {purpose}")))
}

/// Approves payments below a hundred. A program would ask a person.
fn decide(run: &mut PendingRun) -> Result<(), Box<dyn Error>> {
    for call in run.calls().to_vec() {
        if call.arguments["amount"].as_i64().is_some_and(|amount| amount < 100) {
            run.approve(call.id)?;
        } else {
            run.deny(call.id, "too much")?;
        }
    }
    Ok(())
}
