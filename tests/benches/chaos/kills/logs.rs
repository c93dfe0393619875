//! The call log and the audit logs, as operators read them.

use std::{collections::HashMap, fs, path::PathBuf};

use airlock_tests::{Gateway, OPERATOR, Setup, wait};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::effects::TOOL;

const LOGS: &str = "/api/mcp-logs";
/// Rows that are read at once.
const AT_ONCE: usize = 16;

/// Row of a call that was not refused.
pub(super) struct AdmittedRow {
    pub(super) id: String,
    pub(super) has_succeeded: bool,
    /// Commitment to the arguments, in hexadecimal.
    pub(super) commitment: String,
    /// Salt of the commitment, in hexadecimal.
    pub(super) salt: Value,
}

/// Rows of the call log.
pub(super) struct LoggedRows {
    /// Number of all rows.
    pub(super) count: u64,
    /// In the order of their calls.
    pub(super) admitted: Vec<AdmittedRow>,
}

impl LoggedRows {
    /// Reads the rows in a store, by a gateway that makes no calls.
    pub(super) async fn read(store: &str) -> Self {
        let operator =
            json!({"name": "tests", "role": "admin", "token": OPERATOR, "sees_payloads": true});
        let setup = Setup::new().set("/store", store);
        let gateway = setup.set("/management/operators", json!([operator])).serve().await;
        wait::until("the settings of the store to be read", async || {
            (gateway.get("/ready").await.status == 200).then_some(())
        })
        .await;
        let rows = list(&gateway).await;
        let mut ids: Vec<_> = rows
            .iter()
            .filter(|row| row["outcome"] != "refused")
            .map(|row| row["id"].as_str().expect("an identifier"))
            .collect();
        // Identifiers sort by time.
        ids.sort_unstable();
        let mut admitted = Vec::new();
        for ids in ids.chunks(AT_ONCE) {
            admitted.extend(join_all(ids.iter().map(|id| row(&gateway, id))).await);
        }
        gateway.terminate();
        gateway.ended().await;
        Self { count: rows.len() as u64, admitted }
    }
}

/// Returns all rows, without their salts.
async fn list(gateway: &Gateway) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("{LOGS}?tool_names={TOOL}&limit=1000{cursor}");
        let page = gateway.get(&path).await.ok();
        rows.extend_from_slice(page["logs"].as_array().expect("rows"));
        match page["pagination"]["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

async fn row(gateway: &Gateway, id: &str) -> AdmittedRow {
    let row = gateway.get(&format!("{LOGS}/{id}")).await.ok();
    AdmittedRow {
        id: id.to_owned(),
        has_succeeded: row["outcome"] == "success",
        commitment: row["arguments_digest"].as_str().expect("a commitment").to_owned(),
        salt: row["arguments_salt"].clone(),
    }
}

/// Admissions of calls in audit logs.
#[derive(Default)]
pub(super) struct AuditedCalls {
    /// Number of all admissions.
    pub(super) count: u64,
    /// Number of all lines.
    pub(super) lines: u64,
    /// Events that the logs count as lost.
    pub(super) lost: u64,
    /// Commitments to the arguments, by the identifiers of calls.
    commitments: HashMap<String, Vec<String>>,
}

impl AuditedCalls {
    /// Reads logs of gateways that have ended.
    pub(super) fn read(directories: &[PathBuf]) -> Self {
        let mut audited = Self::default();
        for directory in directories {
            let text = fs::read_to_string(directory.join("log.jsonl")).expect("the log");
            for line in text.lines() {
                audited.lines += 1;
                let line: Value = serde_json::from_str(line).expect("a line is JSON");
                audited.add(&line["event"]);
            }
        }
        audited
    }

    fn add(&mut self, event: &Value) {
        match event["kind"].as_str() {
            Some("call_admitted") if event["tool"] == TOOL => {
                self.count += 1;
                let call = event["call"].as_str().expect("an identifier").to_owned();
                let commitment = event["arguments"].as_str().expect("a commitment").to_owned();
                self.commitments.entry(call).or_default().push(commitment);
            }
            Some("events_lost") => self.lost += event["count"].as_u64().expect("a number"),
            _ => {}
        }
    }

    /// Returns the number of admissions of the call with this row.
    pub(super) fn admissions(&self, row: &AdmittedRow) -> usize {
        let commitments = self.commitments.get(&row.id);
        let same = commitments.into_iter().flatten();
        same.filter(|commitment| **commitment == row.commitment).count()
    }
}
