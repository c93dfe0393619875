mod indexes;

use super::*;
use crate::tests::home::{TestHome, on_both};

const DAY: Duration = Duration::from_hours(24);

fn call(id: &str, at_ms: i64, tool: &str) -> LoggedToolCall {
    LoggedToolCall {
        id: id.to_owned(),
        at_ms,
        status: CallStatus::Processing,
        tool: tool.to_owned(),
        client: Some("notes".to_owned()),
        origin: "model".to_owned(),
        decision: "automatic".to_owned(),
        decided_by: None,
        guards: None,
        sources: Some("[\"web\"]".to_owned()),
        party: LoggedParty {
            key_id: Some("key-1".to_owned()),
            key_name: Some("team".to_owned()),
            ..LoggedParty::default()
        },
        parent: None,
        run: None,
        code: None,
        duration_us: None,
        cost: None,
        fuel: None,
        memory_bytes: None,
        arguments_digest: Some([1; 32]),
        result_digest: None,
        salt: Some([7; 32]),
        erased_ms: None,
    }
}

fn ended(call: &LoggedToolCall, status: CallStatus, duration_us: i64) -> LoggedToolCall {
    let cost = Some(500);
    let memory_bytes = Some(1 << 20);
    let guards = Some("[]".to_owned());
    let duration_us = Some(duration_us);
    LoggedToolCall { status, guards, duration_us, cost, memory_bytes, ..call.clone() }
}

fn model_call(id: &str, at_ms: i64, model: &str, tokens: Option<LoggedTokens>) -> LoggedModelCall {
    LoggedModelCall {
        id: id.to_owned(),
        at_ms,
        status: CallStatus::Success,
        model: model.to_owned(),
        provider: Some("openai".to_owned()),
        served_model: None,
        guards: tokens.map(|_| r#"[{"guard":"g"}]"#.to_owned()),
        party: LoggedParty::default(),
        is_streamed: true,
        code: None,
        duration_us: Some(2_000),
        cost: Some(30),
        tokens,
        tool_tokens: tokens.map(|_| r#"{"definitions":7}"#.to_owned()),
    }
}

fn batch(tools: Vec<LoggedToolCall>) -> LogBatch {
    LogBatch { tools, ..LogBatch::default() }
}

fn contents(arguments: &str) -> CallContents {
    CallContents { arguments: Some(arguments.to_owned()), result: Some("{}".to_owned()) }
}

fn all() -> LogFilter {
    LogFilter { until_ms: i64::MAX, ..LogFilter::default() }
}

async fn write(database: &Database, batch: LogBatch) {
    database.write_call_log("a", Arc::new(batch)).await.expect("written");
}

async fn ids(database: &Database, filter: LogFilter, page: LogPage) -> Vec<String> {
    let calls = database.logged_tool_calls(filter, page).await.expect("read");
    calls.into_iter().map(|call| call.id).collect()
}

fn page() -> LogPage {
    LogPage { limit: 10, ..LogPage::default() }
}

async fn groups(
    database: &Database,
    kind: LogKind,
    filter: &LogFilter,
    grouping: LogGrouping,
) -> Vec<GroupSums> {
    database.log_groups(kind, filter.clone(), grouping).await.expect("read")
}

on_both! {
    a_call_that_has_ended_stays_as_it_is_however_often_it_is_written,
    a_batch_of_any_size_is_written_whole_with_one_row_for_each_call,
    contents_and_salts_are_erased_and_the_rest_stays,
    filters_select_rows_and_pages_follow_each_other,
    sums_and_histograms_count_each_row_once,
    percentiles_are_durations_of_rows,
    requests_to_models_have_tokens_and_sums_by_property,
    old_rows_are_removed_and_calls_of_ended_gateways_are_cancelled,
}

async fn a_call_that_has_ended_stays_as_it_is_however_often_it_is_written(home: TestHome) {
    let database = home.open().await;
    let decided_by = Some("operator \"ann\", operator \"bob\"".to_owned());
    let begun = LoggedToolCall { decided_by, ..call("1", 1_000, "notes-add") };
    write(&database, batch(vec![begun.clone()])).await;
    let found = database.logged_tool_call("1").await.expect("read");
    assert_eq!(found, Some(begun.clone()));
    let done = ended(&begun, CallStatus::Success, 40);
    write(&database, batch(vec![done.clone()])).await;
    write(&database, batch(vec![begun.clone(), ended(&begun, CallStatus::Error, 9)])).await;
    assert_eq!(database.logged_tool_call("1").await.expect("read"), Some(done));
    assert_eq!(database.logged_tool_call("2").await.expect("read"), None);
}

async fn a_batch_of_any_size_is_written_whole_with_one_row_for_each_call(home: TestHome) {
    let database = home.open().await;
    // Rows of each statement, and more contents than are looked up at once.
    let begun: Vec<_> = (0..71).map(|number| call(&format!("b{number}"), 1_000, "a")).collect();
    let ended: Vec<_> = begun.iter().map(|call| ended(call, CallStatus::Success, 40)).collect();
    let more = (0..107).map(|number| call(&format!("c{number}"), 1_000, "a"));
    let more: Vec<_> = more.collect();
    let contents = ended.iter().chain(&more).map(|call| (call.id.clone(), contents(&call.id)));
    let written = LogBatch {
        tools: [begun.clone(), ended.clone(), begun, more.clone()].concat(),
        contents: contents.collect(),
        models: (0..37).map(|number| model_call(&number.to_string(), 1_000, "m", None)).collect(),
    };
    write(&database, written.clone()).await;
    write(&database, written).await;
    let whole = LogPage { limit: 1_000, ..LogPage::default() };
    let mut found = database.logged_tool_calls(all(), whole.clone()).await.expect("read");
    found.sort_by(|one, other| one.id.cmp(&other.id));
    let mut expected = [ended, more].concat();
    expected.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(found, expected);
    assert_eq!(database.logged_model_calls(all(), whole).await.expect("read").len(), 37);
    for id in ["b0", "b70", "c28", "c29", "c106"] {
        let kept = database.logged_contents(id).await.expect("read");
        assert_eq!(kept.and_then(|contents| contents.arguments).as_deref(), Some(id));
    }
}

/// Returns the requests so far of the connection that writes the call log.
async fn requests(database: &Database) -> u32 {
    let counted = database.write_log(Subject::call_log("a"), |sql| Ok(sql.requests()));
    counted.await.expect("counted")
}

#[tokio::test]
async fn a_batch_takes_as_many_requests_to_a_server_whatever_its_size() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    for size in [1, 71] {
        let calls = (0..size).map(|number| call(&number.to_string(), 1_000, "a"));
        let calls: Vec<_> = calls.collect();
        let contents = calls.iter().map(|call| (call.id.clone(), contents("{}"))).collect();
        let written = LogBatch { tools: calls, contents, models: Vec::new() };
        // The first time also prepares the statements.
        write(&database, written.clone()).await;
        let before = requests(&database).await;
        write(&database, written).await;
        // The end of the first count, the begin of the second, and of the batch: its begin and its end, its rows, the
        // look-up of erased contents, and the contents.
        assert_eq!(requests(&database).await - before, 2 + 5, "{size} calls");
    }
}

async fn contents_and_salts_are_erased_and_the_rest_stays(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    let secret = "{\"password\":\"hunter2\"}";
    let done = ended(&call("1", 1_000, "notes-add"), CallStatus::Success, 40);
    let kept = ended(&call("2", 1_000, "notes-add"), CallStatus::Success, 40);
    let written = LogBatch {
        tools: vec![done.clone(), kept.clone()],
        contents: vec![
            ("1".to_owned(), contents(secret)),
            ("2".to_owned(), contents(secret)),
            ("no such call".to_owned(), contents(secret)),
        ],
        models: Vec::new(),
    };
    write(&database, written).await;
    if home.server.is_none() {
        assert!(!home.has_bytes(b"hunter2"), "they are sealed");
    }
    let found = database.logged_contents("1").await.expect("read");
    assert_eq!(found, Some(contents(secret)));
    let wanted = vec!["1".to_owned(), "unknown".to_owned()];
    assert_eq!(database.erase_logged(LogKind::Tools, wanted.clone()).await.expect("erased"), 1);
    assert_eq!(database.logged_contents("1").await.expect("read"), None);
    let left = database.logged_tool_call("1").await.expect("read").expect("the metadata stays");
    assert!(left.salt.is_none() && left.erased_ms.is_some());
    assert_eq!(left.arguments_digest, done.arguments_digest);
    assert_eq!(database.logged_tool_call("2").await.expect("read"), Some(kept));
    // What arrives later is not kept either.
    write(
        &database,
        LogBatch { contents: vec![("1".to_owned(), contents(secret))], ..LogBatch::default() },
    )
    .await;
    assert_eq!(database.logged_contents("1").await.expect("read"), None);
    assert_eq!(database.erase_logged(LogKind::Tools, wanted).await.expect("again"), 1);
    assert_eq!(database.logged_contents("no such call").await.expect("read"), None);
}

async fn filters_select_rows_and_pages_follow_each_other(home: TestHome) {
    let database = home.open().await;
    let mut calls: Vec<_> = (0..6).map(|number| call(&number.to_string(), number, "a")).collect();
    calls[2].tool = "b".to_owned();
    calls[3] = ended(&calls[3], CallStatus::Refused, 70);
    calls[4].client = None;
    calls[5] = LoggedToolCall { parent: Some("0".to_owned()), ..calls[5].clone() };
    let [ann, other_ann] = ["https://a", "https://b"].map(|issuer| LoggedParty {
        user_issuer: Some(issuer.to_owned()),
        user_subject: Some("ann".to_owned()),
        ..LoggedParty::default()
    });
    calls[1].party = ann;
    calls[2].run = Some("run_1".to_owned());
    calls[4].party = LoggedParty { key_id: Some("key-1".to_owned()), ..other_ann };
    let subject = Some("ann".to_owned());
    let issuer = Some("https://a".to_owned());
    write(&database, batch(calls)).await;
    let key = vec!["key-1".to_owned()];
    for (filter, expected) in [
        (LogFilter { keys: key.clone(), ..all() }, vec!["5", "4", "3", "2", "0"]),
        (LogFilter { names: vec!["b".to_owned(), "c".to_owned()], ..all() }, vec!["2"]),
        (LogFilter { statuses: vec![CallStatus::Refused], ..all() }, vec!["3"]),
        (LogFilter { sources: vec!["notes".to_owned()], from_ms: 3, ..all() }, vec!["5", "3"]),
        (LogFilter { parents: vec!["0".to_owned()], ..all() }, vec!["5"]),
        (LogFilter { runs: vec!["run_1".to_owned()], ..all() }, vec!["2"]),
        (LogFilter { origins: vec!["script".to_owned()], ..all() }, vec![]),
        (LogFilter { user_subject: subject.clone(), ..all() }, vec!["4", "1"]),
        (LogFilter { user_subject: subject, user_issuer: issuer, ..all() }, vec!["1"]),
        (LogFilter { user_subject: Some("an".to_owned()), ..all() }, vec![]),
        (LogFilter { min_us: Some(70), max_us: Some(70), ..all() }, vec!["3"]),
        (LogFilter { from_ms: 1, until_ms: 3, keys: key, ..all() }, vec!["2"]),
    ] {
        assert_eq!(ids(&database, filter.clone(), page()).await, expected, "{filter:?}");
    }
    let first = LogPage { limit: 2, ..LogPage::default() };
    assert_eq!(ids(&database, all(), first.clone()).await, ["5", "4"]);
    let after = Some(LogCursor { at_ms: 4, id: "4".to_owned() });
    assert_eq!(ids(&database, all(), LogPage { after, ..first.clone() }).await, ["3", "2"]);
    assert_eq!(ids(&database, all(), LogPage { offset: 4, ..first.clone() }).await, ["1", "0"]);
    let slowest = LogPage { sort: LogSort::Latency, ..first.clone() };
    assert_eq!(ids(&database, all(), slowest).await[0], "3");
    let oldest = LogPage { order: LogOrder::Ascending, ..first };
    assert_eq!(ids(&database, all(), oldest).await, ["0", "1"]);
}

async fn sums_and_histograms_count_each_row_once(home: TestHome) {
    let database = home.open().await;
    let calls = vec![
        ended(&call("1", 1_000, "a"), CallStatus::Success, 100),
        ended(&call("2", 1_999, "a"), CallStatus::Error, 300),
        ended(&call("3", 2_000, "b"), CallStatus::Success, 200),
        call("4", 3_500, "a"),
    ];
    write(&database, batch(calls)).await;
    let filter = LogFilter { from_ms: 1_000, until_ms: 4_000, ..LogFilter::default() };
    let sums = database.log_sums(LogKind::Tools, filter.clone()).await.expect("read");
    let expected = LogSums {
        count: 4,
        successes: 2,
        errors: 1,
        timed: 3,
        duration_us: 600,
        longest_us: 300,
        cost: 1_500,
        ..LogSums::default()
    };
    assert_eq!(sums, expected);
    let histogram = Some(Histogram::new(&filter, 1_000));
    let parts = LogGrouping { histogram, ..LogGrouping::default() };
    let parts = groups(&database, LogKind::Tools, &filter, parts).await;
    let parts = parts.into_iter().map(|part| (part.start_ms, part.sums.count));
    assert_eq!(parts.collect::<Vec<_>>(), [(1_000, 2), (2_000, 1), (3_000, 1)]);
    let top = LogGrouping { property: Some(LogProperty::Name), most: 1, ..LogGrouping::default() };
    let top = groups(&database, LogKind::Tools, &filter, top).await;
    assert_eq!(top.len(), 1);
    assert_eq!((top[0].value.as_str(), top[0].sums.count, top[0].start_ms), ("a", 3, 1_000));
    let values = database.log_values(LogKind::Tools, filter).await.expect("read");
    assert_eq!(values.names, ["a", "b"]);
    assert_eq!(values.sources, ["notes"]);
    assert_eq!(values.keys, [("key-1".to_owned(), "team".to_owned())]);
    let empty = database.log_sums(LogKind::Models, all()).await.expect("read");
    assert_eq!(empty, LogSums::default());
}

#[test]
fn a_histogram_has_a_bounded_number_of_parts() {
    let filter = LogFilter { from_ms: 0, until_ms: 1_000_000, ..LogFilter::default() };
    assert_eq!(Histogram::new(&filter, 60_000).bucket_ms, 60_000);
    let finest = Histogram::new(&filter, 0).bucket_ms;
    assert!((1_000_000 + finest - 1) / finest <= MAX_BUCKETS, "{finest}");
    let reversed = LogFilter { from_ms: 5, until_ms: 1, ..LogFilter::default() };
    assert_eq!(Histogram::new(&reversed, 0).bucket_ms, 1);
}

async fn percentiles_are_durations_of_rows(home: TestHome) {
    let database = home.open().await;
    // A hundred durations in no order, and one call that has none.
    let calls = (0..100).map(|number| {
        let begun = call(&number.to_string(), 1_000, "a");
        ended(&begun, CallStatus::Success, (number * 37) % 100 + 1)
    });
    let mut calls: Vec<_> = calls.collect();
    calls.push(call("running", 1_000, "a"));
    calls.push(ended(&call("other", 1_000, "b"), CallStatus::Success, 7_000));
    calls.push(ended(&call("later", 2_000, "a"), CallStatus::Success, 9_000));
    write(&database, batch(calls)).await;
    let filter = LogFilter { from_ms: 1_000, until_ms: 3_000, ..LogFilter::default() };
    let sorted = LogGrouping {
        histogram: Some(Histogram::new(&filter, 1_000)),
        property: Some(LogProperty::Name),
        most: 10,
        has_percentiles: true,
    };
    let found = groups(&database, LogKind::Tools, &filter, sorted).await;
    let found = found.iter().map(|group| (group.value.as_str(), group.sums.percentiles_us));
    let expected = [("a", [90, 95, 99]), ("b", [7_000; 3]), ("a", [9_000; 3])];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let unsorted = LogGrouping { has_percentiles: false, ..sorted };
    let found = groups(&database, LogKind::Tools, &filter, unsorted).await;
    assert!(found.iter().all(|group| group.sums.percentiles_us == [0; 3]));
}

async fn requests_to_models_have_tokens_and_sums_by_property(home: TestHome) {
    let database = home.open().await;
    let tokens = LoggedTokens { input: 10, cached: 4, output: 5, reasoning: 1 };
    let mut models = vec![
        model_call("1", 1_000, "openai/a", Some(tokens)),
        model_call("2", 1_500, "openai/a", Some(tokens)),
        model_call("3", 2_500, "openai/b", None),
    ];
    models[1].party.team = Some("red".to_owned());
    models[2].provider = None;
    let written = LogBatch { models: models.clone(), ..LogBatch::default() };
    write(&database, written.clone()).await;
    write(&database, written).await;
    assert_eq!(database.logged_model_call("1").await.expect("read").as_ref(), Some(&models[0]));
    let listed = database.logged_model_calls(all(), page()).await.expect("read");
    assert_eq!(listed, [models[2].clone(), models[1].clone(), models[0].clone()]);
    let filter = LogFilter { from_ms: 1_000, until_ms: 3_000, ..LogFilter::default() };
    let parts = LogGrouping {
        histogram: Some(Histogram::new(&filter, 1_000)),
        most: 1,
        ..LogGrouping::default()
    };
    let sums = groups(&database, LogKind::Models, &filter, parts).await;
    let sums: Vec<_> = sums.into_iter().map(|part| part.sums).collect();
    assert_eq!((sums[0].input, sums[0].cached, sums[0].output), (20, 8, 10));
    assert_eq!((sums[0].generating_us, sums[1].generating_us), (4_000, 0));
    assert_eq!((sums[1].count, sums[1].input, sums[1].output), (1, 0, 0));
    for (property, value, count) in [
        (LogProperty::Name, "openai/a", 2),
        (LogProperty::Source, "openai", 2),
        (LogProperty::Team, "red", 1),
    ] {
        let by = LogGrouping { property: Some(property), ..parts };
        let found = groups(&database, LogKind::Models, &filter, by).await;
        assert_eq!(found.len(), 1, "of the value with the most rows alone: {found:?}");
        assert_eq!((found[0].value.as_str(), found[0].sums.count), (value, count));
    }
    for property in [LogProperty::Key, LogProperty::Customer, LogProperty::User] {
        let by = LogGrouping { property: Some(property), ..parts };
        assert_eq!(groups(&database, LogKind::Models, &filter, by).await, []);
    }
    let removed = database.erase_logged(LogKind::Models, vec!["1".to_owned()]).await;
    assert_eq!(removed.expect("removed"), 1);
    assert_eq!(database.logged_model_call("1").await.expect("read"), None);
}

async fn old_rows_are_removed_and_calls_of_ended_gateways_are_cancelled(home: TestHome) {
    let database = home.open().await;
    let done = ended(&call("1", 1_000_000, "a"), CallStatus::Success, 1);
    let running = call("2", 1_000_000, "a");
    let model = model_call("m", 1_000_000, "x", None);
    let written = LogBatch {
        tools: vec![done.clone(), running],
        contents: vec![("1".to_owned(), contents("{}"))],
        models: vec![model],
    };
    write(&database, written).await;
    let swept = database.sweep_call_log("a", 30 * DAY).await.expect("swept");
    assert_eq!(swept, Some(SweepOutcome::default()));
    home.clock.pass(2 * DAY);
    database.sweep_call_log("a", 30 * DAY).await.expect("swept");
    let running = database.logged_tool_call("2").await.expect("read").expect("it stays");
    assert_eq!(running.status, CallStatus::Cancelled);
    assert_eq!(running.code.as_deref(), Some("gateway_ended"));
    assert_eq!(database.logged_tool_call("1").await.expect("read"), Some(done));
    home.clock.pass(30 * DAY);
    let swept = database.sweep_call_log("a", 30 * DAY).await.expect("swept");
    assert_eq!(swept, Some(SweepOutcome { removed: 3, has_more: false }));
    assert_eq!(ids(&database, all(), page()).await, Vec::<String>::new());
    assert_eq!(database.logged_contents("1").await.expect("read"), None);
}

#[test]
fn a_page_with_a_cursor_is_of_the_rows_before_it_and_not_of_the_newest_ones() {
    let filter = LogFilter { from_ms: 10, until_ms: 1_000, ..LogFilter::default() };
    let after = LogCursor { at_ms: 500, id: "b".to_owned() };
    let mut page = LogPage { limit: 1, after: Some(after), ..LogPage::default() };
    // With those of the cursor's own time, of which some follow it.
    let before = LogFilter { until_ms: 501, ..filter.clone() };
    assert_eq!(query::filter_of_page(&filter, &page), before);
    page.order = LogOrder::Ascending;
    assert_eq!(query::filter_of_page(&filter, &page), filter);
    page = LogPage { after: None, ..LogPage::default() };
    assert_eq!(query::filter_of_page(&filter, &page), filter);
}
