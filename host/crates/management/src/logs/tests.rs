use airlock_store::call_log::{
    CallContents, CallStatus, LogProperty, LoggedModelCall, LoggedParty, LoggedToolCall,
};

use super::*;

const NOW_MS: i64 = 1_800_000_000_000;

fn parse(query: &str) -> Result<LogQuery, ManagementRefusal> {
    LogQuery::parse(LogKind::Tools, query, NOW_MS)
}

#[test]
fn parameters_have_the_names_of_bifrost_and_bounded_values() {
    let query =
        "tool_names=a,b&server_labels=notes&virtual_key_ids=k&status=error&period=1h&limit=7";
    let parsed = parse(query).expect("valid");
    assert_eq!(parsed.filter.names, ["a", "b"]);
    assert_eq!(parsed.filter.sources, ["notes"]);
    assert_eq!(parsed.filter.from_ms, NOW_MS - 3_600_000);
    assert_eq!(parsed.page.limit, 7);
    let of_user =
        parse("user_subject=cn%3Dann%2Cou%3Ddesk&user_issuer=https://id.test").expect("valid");
    assert_eq!(of_user.filter.user_subject.as_deref(), Some("cn=ann,ou=desk"));
    assert_eq!(of_user.filter.user_issuer.as_deref(), Some("https://id.test"));
    let long = parse(&format!("user_subject={}", "x".repeat(300))).expect("valid");
    assert_eq!(long.filter.user_subject.map(|subject| subject.len()), Some(256), "as rows have it");
    let failed = [CallStatus::Error, CallStatus::Refused, CallStatus::Cancelled];
    assert_eq!(parsed.filter.statuses, failed);
    let times = parse("start_time=2026-01-01T00:00:00Z&end_time=2026-01-02T00:00:00Z");
    let filter = times.expect("valid").filter;
    assert_eq!(filter.until_ms - filter.from_ms, 86_400_000);
    let many = vec!["x"; 17].join(",");
    for (query, words) in [
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("offset=-1", "from 0"),
        ("status=done", "processing, success"),
        ("sort_by=tool", "timestamp"),
        ("models=a", "unknown parameter \"models\""),
        ("content_search=x", "sealed"),
        ("start_time=yesterday", "2026-01-31T12:00:00Z"),
        ("period=0s", "24h"),
        ("user_issuer=https://id.test", "`user_subject`"),
        ("cursor=x", "earlier page"),
        ("origins=model,%00", "mcp_client"),
        ("cursor=1.a&offset=2", "without `offset`"),
        ("dimension=team", "unknown parameter \"dimension\""),
        (&*format!("tool_names={many}"), "at most 16 values"),
    ] {
        let refused = parse(query).expect_err("refused");
        assert_eq!(refused.status.as_u16(), 400);
        assert!(refused.message.contains(words), "{query}: {}", refused.message);
    }
}

#[test]
fn a_histogram_has_a_period_and_parts_that_fit_it() {
    let parsed = LogQuery::parse_histogram(LogKind::Models, "", NOW_MS).expect("valid");
    assert_eq!(parsed.filter.until_ms, NOW_MS + 1);
    assert_eq!(parsed.histogram().bucket_ms, 900_000, "96 parts of a day");
    let finest = "period=365d&bucket_size_seconds=1";
    let parsed = LogQuery::parse_histogram(LogKind::Models, finest, NOW_MS).expect("valid");
    assert!(parsed.histogram().bucket_ms >= 365 * 86_400_000 / 500);
}

#[test]
fn contents_and_salts_are_for_who_may_see_them() {
    let call = LoggedToolCall {
        id: "1".to_owned(),
        at_ms: NOW_MS,
        status: CallStatus::Refused,
        tool: "notes-add".to_owned(),
        client: None,
        origin: "model".to_owned(),
        decision: "person".to_owned(),
        decided_by: Some("operator \"ann\"".to_owned()),
        guards: Some(r#"[{"guard":"g"}]"#.to_owned()),
        sources: Some(r#"["web"]"#.to_owned()),
        party: LoggedParty::default(),
        parent: None,
        run: None,
        code: Some("airlock.limit_reached".to_owned()),
        duration_us: Some(1_500),
        cost: Some(2_000_000),
        fuel: None,
        memory_bytes: Some(1 << 20),
        arguments_digest: Some([1; 32]),
        result_digest: None,
        salt: Some([7; 32]),
        erased_ms: None,
    };
    let contents = CallContents { arguments: Some("{\"a\": 1}".to_owned()), result: None };
    let shown = entry::whole_tool_call(&call, Some(&contents), true);
    assert_eq!(shown["arguments"], "{\"a\": 1}");
    assert_eq!(shown["arguments_salt"], "07".repeat(16));
    assert_eq!((&shown["status"], &shown["outcome"]), (&json!("error"), &json!("refused")));
    assert_eq!((&shown["latency"], &shown["cost"]), (&json!(1.5), &json!(2.0)));
    assert_eq!(
        (&shown["decided_by"], &shown["memory_bytes"]),
        (&json!("operator \"ann\""), &json!(1 << 20))
    );
    assert_eq!(shown["guards"], json!([{"guard": "g"}]));
    assert_eq!(shown["sources"], json!(["web"]));
    let hidden = entry::whole_tool_call(&call, None, false);
    assert_eq!(hidden["contents"], "hidden");
    assert!(hidden.get("arguments_salt").is_none() && hidden.get("arguments").is_none());
    assert_eq!(hidden["arguments_digest"], "01".repeat(32));
    let erased = LoggedToolCall { erased_ms: Some(NOW_MS), salt: None, ..call };
    assert_eq!(entry::whole_tool_call(&erased, None, true)["contents"], "erased");
}

#[test]
fn a_request_to_a_model_shows_the_decisions_of_guards() {
    let mut call = LoggedModelCall {
        id: "1".to_owned(),
        at_ms: NOW_MS,
        status: CallStatus::Error,
        model: "openai/a".to_owned(),
        provider: None,
        served_model: None,
        guards: Some(r#"[{"guard":"g"}]"#.to_owned()),
        party: LoggedParty::default(),
        is_streamed: false,
        code: Some("guard_denied".to_owned()),
        duration_us: None,
        cost: None,
        tokens: None,
        tool_tokens: None,
    };
    let shown = entry::model_call(&call);
    assert_eq!(shown["guards"], json!([{"guard": "g"}]));
    assert_eq!(shown["error_details"]["code"], "guard_denied");
    call.guards = None;
    assert_eq!(entry::model_call(&call)["guards"], Value::Null);
}

#[test]
fn an_identifier_of_a_row_is_no_longer_than_those_that_are_recorded_in_full() {
    assert!(is_id("0190a8c2-6d1b-7c60-8000-3f5c1f7a2b10"));
    for text in ["", "a b", "a\n", &"a".repeat(37)] {
        assert!(!is_id(text), "{text}");
    }
}

#[test]
fn a_dimension_is_named_with_and_without_its_suffix() {
    for (text, property) in [
        ("team_id", LogProperty::Team),
        ("virtual_key", LogProperty::Key),
        ("provider", LogProperty::Source),
        ("model", LogProperty::Name),
    ] {
        let query = format!("dimension={text}");
        let parsed = LogQuery::parse(LogKind::Models, &query, NOW_MS).expect("valid");
        let dimension = parsed.dimension().expect("it is there");
        assert_eq!((dimension.text.as_str(), dimension.property), (text, property));
    }
    let other = LogQuery::parse(LogKind::Models, "dimension=tool", NOW_MS).expect_err("refused");
    assert_eq!(other.status.as_u16(), 400);
    let none = LogQuery::parse(LogKind::Models, "", NOW_MS).expect("valid");
    assert_eq!(none.dimension().expect_err("it is missing").status.as_u16(), 400);
}
