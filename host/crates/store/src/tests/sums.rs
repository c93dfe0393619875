//! Sums that statements keep, compared with what they are the sums of.

use crate::Database;
use airlock_database::sql::first;

/// Statements that count the rows with a wrong sum, each with the name of the sum.
const WRONG: [(&str, &str); 8] = [
    (
        "a store",
        "SELECT count(*) FROM kv_store s WHERE \
         s.bytes <> (SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM kv_entry WHERE store = s.id) \
         OR s.entries <> (SELECT count(*) FROM kv_entry WHERE store = s.id)",
    ),
    (
        "a conversation",
        "SELECT count(*) FROM response_conversation c WHERE c.bytes <> \
         (SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM response WHERE conversation = c.id)",
    ),
    (
        "an owner of responses",
        "SELECT count(*) FROM response_owner o WHERE o.bytes <> \
         (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM response_conversation WHERE owner = o.id)",
    ),
    (
        "an owner of records",
        "SELECT count(*) FROM recall_owner o WHERE \
         o.bytes <> (SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM recall_record WHERE owner = o.id) \
         OR o.records <> (SELECT count(*) FROM recall_record WHERE owner = o.id)",
    ),
    (
        "a run",
        "SELECT count(*) FROM run WHERE bytes <> 512 + tools_bytes + octet_length(script) \
         + coalesce(octet_length(outcome), 0) + (SELECT CAST(coalesce(sum(256 + octet_length(arguments) \
         + coalesce(octet_length(answer), 0)), 0) AS BIGINT) FROM run_call WHERE run = number)",
    ),
    (
        "an owner of runs",
        "SELECT count(*) FROM run_owner o WHERE \
         o.bytes <> (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM run WHERE scope = o.scope) \
         OR o.runs <> (SELECT count(*) FROM run WHERE scope = o.scope)",
    ),
    (
        "an owner without a row",
        "SELECT count(*) FROM run WHERE scope NOT IN (SELECT scope FROM run_owner)",
    ),
    (
        "tools that several runs count",
        "SELECT count(*) FROM run_tools t WHERE \
         (SELECT count(*) FROM run WHERE tools = t.id AND tools_bytes > 0) > 1",
    ),
];

/// Fails if a sum is wrong.
pub(crate) async fn check(database: &Database) {
    for (name, count) in WRONG {
        let wrong = database.read(move |sql| sql.one(count, &[], first::<i64>)).await;
        assert_eq!(wrong.expect("read"), 0, "{name}");
    }
}

/// Fails if tools have no run, or if no run counts them. Changes that run at the same time may leave
/// such tools.
pub(crate) async fn check_tools(database: &Database) {
    let count = "SELECT count(*) FROM run_tools t WHERE octet_length(bindings) <> \
                 (SELECT CAST(coalesce(sum(tools_bytes), -1) AS BIGINT) FROM run WHERE tools = t.id)";
    let wrong = database.read(move |sql| sql.one(count, &[], first::<i64>)).await;
    assert_eq!(wrong.expect("read"), 0);
}
