//! One run: the gateway, the servers and the model of a case under one configuration.

use std::{fs, path::Path, sync::Arc};

use airlock_tests::{
    Airlock, Client, Gateway, Service, Setup, binary,
    lab::{Case, LabFailure, ObedientModel, Received, Server},
    service::completion,
};
use serde_json::{Value, json};

use super::{configurations::Configuration, user::User};

/// File to which all servers append the calls that they receive.
const LOG: &str = "calls.jsonl";
/// File that makes servers list their later tools once it exists.
const LATER: &str = "later";

/// Observations of a run.
pub(crate) struct Played {
    pub(crate) received: Received,
    /// Calls that were refused.
    pub(crate) refused: Vec<LabFailure>,
    /// Anything that a run should not have, such as a call that fails for another reason than a
    /// refusal.
    pub(crate) trouble: Vec<String>,
}

/// Runs a case.
pub(crate) async fn play(case: &Case, configuration: &Configuration) -> Played {
    let model = Arc::new(ObedientModel::new(case.clone()));
    let answering = model.clone();
    let service =
        Service::start(move |asked| (200, completion(&answering.respond(&asked.body)))).await;
    let setup = configuration.setup(case, |setup, server| client(case, setup, server));
    let setup = setup.openai("lab", service.base_url());
    let mut trouble = Vec::new();
    if configuration.accepts_definitions {
        trouble.extend(accept(&setup).await);
    }
    let mut gateway = setup.serve_connected().await;
    let mut user = User::default();
    for turn in &case.turns {
        if turn.later {
            fs::write(gateway.directory().join(LATER), "").expect("a file");
        }
        if turn.restart {
            gateway = gateway.kill().await.serve_connected().await;
        } else if turn.later {
            trouble.extend(list_again(case, &gateway).await);
        }
        trouble.extend(user.take(&gateway, turn).await);
    }
    let calls = calls(gateway.directory());
    gateway.terminate();
    // In a task of its own: dropping a gateway fails unless it has ended well.
    if tokio::spawn(gateway.ended()).await.is_err() {
        trouble.push("the gateway did not end well".to_owned());
    }
    let (refused, others) = user.into_failures().into_iter().partition(LabFailure::is_refusal);
    trouble.extend(accidents(others));
    Played { received: Received { calls, read: model.take_read() }, refused, trouble }
}

/// Describes the calls that have failed for a reason that says nothing about the attack.
fn accidents(failures: Vec<LabFailure>) -> Vec<String> {
    let accidents = failures.into_iter().filter(LabFailure::is_accident);
    let described = accidents.map(|LabFailure { tool, code, message, .. }| {
        format!("{tool} failed and was not refused: {code}: {message}")
    });
    described.collect()
}

/// Returns the client of a server.
fn client(case: &Case, setup: &Setup, server: &Server) -> Client {
    let [log, later] = [LOG, LATER].map(|name| setup.directory().join(name).display().to_string());
    let arguments = [case.file().display().to_string(), server.name.clone(), log, later];
    Client::stdio(&server.name, binary("lab-server"), arguments)
}

/// Accepts the definitions of all servers, as an operator does who does not read them. Returns a trouble.
async fn accept(setup: &Setup) -> Option<String> {
    let accept = Airlock::new().arg("upstream").arg("accept").arg("--all").arg("--yes");
    let accept = accept.arg("--config").arg(setup.write()).run().await;
    (accept.code != Some(0)).then(|| format!("the definitions are not accepted: {accept}"))
}

/// Has the gateway read the lists of all servers again.
async fn list_again(case: &Case, gateway: &Gateway) -> Vec<String> {
    let mut trouble = Vec::new();
    for server in &case.servers {
        let path = format!("/api/mcp/client/{}/refresh-tools", server.name);
        let reply = gateway.post(&path, &json!({})).await;
        if reply.status != 200 {
            trouble.push(format!("{} is not listed again: {}", server.name, reply.text));
        }
    }
    trouble
}

/// Reads the calls that the servers have received.
fn calls(directory: &Path) -> Vec<(String, Value)> {
    let text = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
    text.lines().map(call).collect()
}

fn call(line: &str) -> (String, Value) {
    let mut line: Value = serde_json::from_str(line).expect("a server writes JSON");
    let tool = line["tool"].as_str().unwrap_or_default().to_owned();
    (tool, line["arguments"].take())
}
