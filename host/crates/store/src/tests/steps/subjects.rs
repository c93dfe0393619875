//! One step: an operation of one subject.

use std::{convert::Infallible, fmt::Debug, time::Duration};

use airlock_core::run::{Called, Position};

use crate::{
    Database, OwnerId,
    approvals::NewDecision,
    entries::{EntryChange, EntryKind, EntryValue, RecordedChange},
    kv::{Holder, Opener, PluginStore},
    login::{LoginId, UpstreamLogin},
    operators::StoredOperator,
    recall::{NewRecord, RecallBounds},
    responses::{NewResponse, ResponseBounds, Responses, Texts},
    runs::{NewRun, RunBounds, RunDecision, RunStep, Runs, ScriptTools},
};

/// An operation. Numbers name owners, keys and identifiers, of which there are few, so that steps
/// meet.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Pass(Duration),
    KvSet { owner: u8, key: String, value: Vec<u8>, if_version: Option<u64>, ttl: Option<u64> },
    KvRead { owner: u8, keys: Vec<String>, max_bytes: usize },
    KvDelete { owner: u8, key: String },
    KvKeys { owner: u8, prefix: String, limit: u32 },
    KvTransfer { from: u8, to: u8 },
    KvSweep,
    Respond { owner: u8, id: u8, previous: Option<u8>, text: String },
    ReadResponse { owner: u8, id: u8 },
    DeleteResponse { owner: u8, id: u8 },
    Record { owner: u8, anchors: Vec<u8>, text: Option<String> },
    Recall { owner: u8, anchors: Vec<u8> },
    Run { owner: u8, id: u8, text: String, tools: u8, ends: bool },
    RunOn { owner: u8, id: u8, decides: bool, answer: String },
    Cancel { owner: u8, id: u8, outcome: String },
    Runs { owner: Option<u8>, id: u8 },
    Approval { owner: u8, call: u8, decides: Option<bool> },
    Pins { tool: String, is_first: bool },
    Login { token: String, is_removed: bool },
    Entry { name: String, is_key: bool, document: Option<String>, is_late: bool },
    Recorded { before: Option<u8>, limit: u32 },
    Operator { name: String, first_only: bool, is_removed: bool },
}

/// Returns a result as a text that is the same for both databases. An operation that the database
/// could not carry out is marked as failed, unless another one has used its identifier meanwhile.
fn shown<T: Debug, E: std::error::Error + 'static>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => {
            let causes = airlock_strings::with_causes(&error);
            let is_used = causes.contains("23505") || causes.contains("UNIQUE constraint");
            let has_failed = !is_used && std::error::Error::source(&error).is_some();
            if has_failed { format!("FAILED {causes}") } else { error.to_string() }
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn responses() -> ResponseBounds {
    ResponseBounds { expire_after: 5 * SECOND, owner_bytes: 1_600, total_bytes: 3_000 }
}

fn recall() -> RecallBounds {
    RecallBounds {
        expire_after: 3 * SECOND,
        owner_records: 4,
        owner_bytes: 1_200,
        total_bytes: 2_000,
    }
}

fn runs(database: &Database, owner: u8) -> Runs {
    let bounds = RunBounds {
        expire_after: 20 * SECOND,
        owner_runs: 2,
        owner_bytes: 6_000,
        total_bytes: 5_000,
        lease: SECOND,
        approval: 2 * SECOND,
    };
    database.runs([owner; 32], bounds)
}

fn owner_id(owner: u8) -> OwnerId {
    [owner; 32]
}

impl Step {
    /// Makes the step. Returns its result.
    pub(super) async fn take(&self, database: &Database) -> String {
        match self.clone() {
            Self::Pass(_) => String::new(),
            Self::KvTransfer { from, to } => {
                let from = Holder::Tenant(owner_id(from));
                let to = if to == 0 { Holder::Everyone } else { Holder::Tenant(owner_id(to)) };
                shown(database.transfer_kv("p\0", "s", from, to).await)
            }
            Self::KvSweep => shown(database.remove_expired_kv().await),
            Self::KvSet { owner, .. }
            | Self::KvRead { owner, .. }
            | Self::KvDelete { owner, .. }
            | Self::KvKeys { owner, .. } => {
                let store = database.kv("p\0", "s", Opener::Own(owner_id(owner)), 1_500);
                self.clone().take_kv(&store).await + &shown(database.kv_usage().await)
            }
            Self::Respond { owner, .. }
            | Self::ReadResponse { owner, .. }
            | Self::DeleteResponse { owner, .. } => {
                let responses = database.responses(owner_id(owner), responses());
                self.clone().take_response(&responses).await
            }
            Self::Record { owner, anchors, text } => {
                let anchors = anchors.into_iter().map(|anchor| [anchor; 32]).collect();
                let records = database.recall(owner_id(owner), recall());
                shown(records.put(NewRecord { anchors, text }).await)
            }
            Self::Recall { owner, anchors } => {
                let anchors = anchors.into_iter().map(|anchor| [anchor; 32]).collect();
                shown(database.recall(owner_id(owner), recall()).find(anchors, admit).await)
            }
            run => run.take_run(database).await,
        }
    }

    /// Makes a step in a store of keys and values.
    async fn take_kv(self, store: &PluginStore) -> String {
        match self {
            Self::KvSet { key, value, if_version, ttl, .. } => {
                shown(store.set(&key, value, if_version, ttl.map(Duration::from_millis)).await)
            }
            Self::KvRead { keys, max_bytes, .. } => shown(store.get_many(keys, max_bytes).await),
            Self::KvDelete { key, .. } => shown(store.delete(&key, None).await),
            Self::KvKeys { prefix, limit, .. } => shown(store.keys(&prefix, None, limit).await),
            other => panic!("{other:?} is another subject"),
        }
    }

    /// Makes a step about the responses of its owner.
    async fn take_response(self, responses: &Responses) -> String {
        match self {
            Self::Respond { owner, id, previous, text } => {
                let id = format!("{owner}-{id}");
                let previous = previous.map(|previous| format!("{owner}-{previous}"));
                let texts = Texts { input: text.clone(), output: text, body: String::new() };
                // An identifier that is there already is refused by the database.
                match responses.get(&id, admit).await {
                    Ok(_) => String::new(),
                    Err(_) => shown(responses.put(NewResponse { id, previous, texts }).await),
                }
            }
            Self::ReadResponse { owner, id } => {
                shown(responses.conversation(&format!("{owner}-{id}"), admit).await)
            }
            Self::DeleteResponse { owner, id } => {
                shown(responses.delete(&format!("{owner}-{id}")).await)
            }
            other => panic!("{other:?} is another subject"),
        }
    }

    /// Makes a step about runs.
    async fn take_run(self, database: &Database) -> String {
        match self {
            Self::Run { owner, id, text, tools, ends } => {
                let end = RunStep::End(format!("{{\"status\":\"s{tools}\"}}"));
                let steps = vec![
                    begin(&text, tools),
                    RunStep::Record(at(1), called(&text), text.as_str().into()),
                    RunStep::Ask(at(2), called(&text)),
                    RunStep::Intend(at(3), called(&text)),
                    if ends { end } else { RunStep::Suspend },
                ];
                let runs = runs(database, owner);
                let id = format!("{owner}-{id}");
                match runs.head(&id).await {
                    Ok(_) => String::new(),
                    Err(_) => shown(runs.step(&id, 1, steps).await),
                }
            }
            Self::RunOn { owner, id, decides, answer } => {
                run_on(&runs(database, owner), &format!("{owner}-{id}"), decides, &answer).await
            }
            Self::Cancel { owner, id, outcome } => {
                let outcome = format!("{{\"status\":null,\"text\":{outcome:?}}}");
                let id = format!("{owner}-{id}");
                shown(runs(database, owner).cancel(&id, &outcome).await)
            }
            Self::Runs { owner, id } => read_runs(database, owner, id).await,
            other => other.take_rest(database).await,
        }
    }

    /// Makes a step about approvals, pins or logins.
    async fn take_rest(self, database: &Database) -> String {
        match self {
            Self::Approval { owner, call, decides } => {
                let owner = owner_id(owner);
                let id = format!("{owner:?}-{call}");
                let asked = database
                    .ask_approval(owner, [call; 32], id.clone(), "é\0".into(), SECOND)
                    .await;
                let decided = match decides {
                    Some(approves) => {
                        let actor = "ann".to_owned();
                        let decision =
                            NewDecision { approves, actor, reason: None, needs_two: false };
                        shown(database.approvals(owner).decide(&id, decision).await)
                    }
                    None => shown(database.all_approvals().list(5, 0).await),
                };
                shown(asked.map(|asked| asked.verdict)) + &decided
            }
            Self::Pins { tool, is_first: true } => {
                shown(database.pin_first_list("c\0", vec![(tool, "{}".into())]).await)
            }
            Self::Pins { tool, is_first: false } => {
                let tools = vec![(tool.clone() + "x", tool.clone()), (tool.clone(), tool.clone())];
                shown(database.pin_later_tools("c\0", tools, vec![tool]).await)
            }
            Self::Login { token, is_removed: false } => {
                let put = database
                    .put_upstream_login(&LoginId::of_operator("c", "s\0"), login(token.clone()))
                    .await;
                let claimed =
                    database.claim_refresh(&LoginId::of_operator("c", "s\0"), &token, SECOND).await;
                let read = database.upstream_login(&LoginId::of_operator("c", "s\0")).await;
                let token =
                    read.as_ref().ok().and_then(Option::as_ref).map(|login| &login.access_token);
                shown(put) + &claimed.is_ok().to_string() + &format!("{token:?}")
            }
            Self::Login { .. } => shown(database.remove_upstream_logins("c").await),
            other => other.take_settings(database).await,
        }
    }

    /// Makes a step about entries or operators.
    async fn take_settings(self, database: &Database) -> String {
        match self {
            Self::Entry { name, is_key, document, is_late } => {
                let entries = match database.entries().await {
                    Ok(entries) => entries,
                    failed => return shown(failed),
                };
                let change = EntryChange {
                    actor: name.clone(),
                    action: "set".to_owned(),
                    kind: if is_key { EntryKind::VirtualKey } else { EntryKind::Client },
                    name,
                    after: (document.as_deref() != Some(""))
                        .then_some(EntryValue { replaces: None, document }),
                    components: Vec::new(),
                    revision: entries.revision - i64::from(is_late),
                };
                let documents = entries.entries.into_iter().map(|entry| entry.document);
                format!("{:?}", documents.collect::<Vec<_>>())
                    + &shown(database.change_entry(change).await)
            }
            Self::Recorded { before, limit } => {
                let changes = database.recorded_changes(before.map(i64::from), limit).await;
                shown(changes.map(|changes| changes.iter().map(recorded).collect::<Vec<_>>()))
            }
            Self::Operator { name, is_removed: true, .. } => {
                shown(database.remove_operator(&name, "a").await)
            }
            Self::Operator { name, first_only, .. } => {
                let added = database.add_operator(operator(name), first_only, "a").await;
                shown(added) + &shown(database.operators().await)
            }
            other => panic!("{other:?} is another subject"),
        }
    }
}

/// Returns a change with its documents, which its `Debug` does not show.
fn recorded(change: &RecordedChange) -> String {
    let values = [&change.before, &change.after].into_iter().flatten().flatten();
    let documents: Vec<_> = values.map(|value| &value.document).collect();
    format!("{change:?} {documents:?}")
}

fn operator(name: String) -> StoredOperator {
    StoredOperator {
        id: name.clone(),
        role: name.clone(),
        name,
        sees_payloads: true,
        digest: [1; 32],
        created_ms: 1,
        expires_ms: None,
    }
}

// The reader of a real request refuses what has no room.
#[expect(clippy::unnecessary_wraps)]
fn admit(_bytes: u64) -> Result<(), Infallible> {
    Ok(())
}

fn at(block: u32) -> Position {
    Position { block, branch: 0 }
}

fn called(arguments: &str) -> Called {
    Called {
        tool: "t".into(),
        arguments: arguments.into(),
        definition: "d".into(),
        is_repeatable: arguments.len().is_multiple_of(2),
        written: None,
        sources: None,
        asked_by: None,
    }
}

fn begin(script: &str, tools: u8) -> RunStep {
    RunStep::Begin(NewRun {
        language: "l".into(),
        script: script.into(),
        tools: ScriptTools::new(move || ("x".repeat(100 * usize::from(tools)), [tools; 32])),
        clock_ms: None,
        trace: None,
        sources: None,
    })
}

/// Claims a run, decides about its calls, or answers one.
async fn run_on(runs: &Runs, id: &str, decides: bool, answer: &str) -> String {
    if decides {
        let denial = RunDecision::Deny(Some(answer.to_owned()));
        let decisions = vec![(at(2), denial), (at(3), RunDecision::Skip(answer.to_owned()))];
        return shown(runs.decide(id, None, decisions).await);
    }
    let claimed = match runs.claim(id).await {
        Ok(claimed) => claimed,
        refused => return shown(refused.map(|_| ())),
    };
    // The epoch is random.
    let steps = vec![RunStep::Answer(at(3), 1, answer.into()), RunStep::Suspend];
    format!("{:?}", claimed.calls) + &shown(runs.step(id, claimed.lease.epoch, steps).await)
}

async fn read_runs(database: &Database, owner: Option<u8>, id: u8) -> String {
    let listed = match owner {
        Some(owner) => runs(database, owner).list(3).await,
        None => database.any_runs(3).await,
    };
    let listed = listed.map(|listed| {
        let heads = listed.into_iter().map(|run| (run.id, run.bytes, run.pending, run.outcome));
        heads.collect::<Vec<_>>()
    });
    let shown_run = database.show_any_run(&format!("1-{id}")).await;
    shown(listed) + &shown(shown_run.map(|shown| (shown.bytes(), shown.calls)))
}

fn login(access_token: String) -> UpstreamLogin {
    UpstreamLogin {
        holder: None,
        issuer: String::new(),
        client_id: "id".to_owned(),
        client_secret: None,
        authentication: "none".to_owned(),
        token_endpoint: "e".to_owned(),
        resource: "r".to_owned(),
        scopes: String::new(),
        wanted: String::new(),
        refresh_token: Some(access_token.clone()),
        access_token,
        obtained_ms: 1,
        expires_ms: None,
    }
}
