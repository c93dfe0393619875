//! Guests compiled from Rust: ordinary code that exceeds one of its limits.

use super::{
    Guest::Compiled,
    LITTLE_FUEL,
    LimitValue::{Count, Text},
    Misdeed,
};

const fn misdeed(
    name: &'static str,
    does: &'static str,
    tool: &'static str,
    arguments: &'static str,
    ends_with: &'static [&'static str],
) -> Misdeed {
    Misdeed { name, does, guest: Compiled(tool, arguments), limits: &[], grants: "", ends_with }
}

/// More fuel than any of these guests consumes before another limit ends it.
const MUCH_FUEL: (&str, super::LimitValue) = ("fuel", Count(900_000_000_000));

pub(super) const ALL: &[Misdeed] = &[
    misdeed("spin_fuel", "computes for ever, with little fuel", "spin", "{}", &["out_of_fuel"])
        .within(&[LITTLE_FUEL]),
    misdeed("spin_cpu", "computes for ever, with 50 ms of CPU time", "spin", "{}", &["cpu_time"])
        .within(&[MUCH_FUEL, ("cpu_time", Text("50ms"))]),
    misdeed(
        "spin_deadline",
        "computes for ever, with 50 ms until its deadline",
        "spin",
        "{}",
        &["deadline"],
    )
    .within(&[MUCH_FUEL, ("cpu_time", Text("10s")), ("deadline", Text("50ms"))]),
    misdeed("hoard", "takes memory until there is no more", "hoard", "{}", &["memory"]),
    misdeed("recurse", "recurses without an end", "recurse", "{}", &["stack_overflow"]),
    misdeed("panic", "panics", "trap", "{}", &["trap"]),
    misdeed("leave", "ends the program instead of answering", "leave", "{}", &["trap"]),
    misdeed(
        "huge_result",
        "answers with 2 MiB",
        "huge_result",
        r#"{"bytes":2097152}"#,
        &["result_too_large"],
    ),
    misdeed(
        "flood_host",
        "asks the host without an end",
        "flood_host",
        r#"{"times":4000000}"#,
        &["budget"],
    ),
    misdeed(
        "scribble",
        "fills its scratch directory and goes on writing",
        "scribble",
        "{}",
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL])
    .granted(r#"{"scratch":{"max_bytes":"1MiB","max_files":10}}"#),
    misdeed(
        "ask_silence",
        "asks a server that never answers",
        "fetch",
        r#"{"url":"http://SIGRANTED/"}"#,
        &["deadline", "tool_error"],
    )
    .within(&[("deadline", Text("100ms"))])
    .granted(r#"{"http":[{"url":"http://SIGRANTED","private":true}]}"#),
    misdeed(
        "flood_http",
        "sends requests to a server that is not granted, without an end",
        "flood_http",
        r#"{"url":"http://SIGRANTED/"}"#,
        &["budget"],
    ),
    misdeed(
        "flood_calls",
        "calls a good tool without an end",
        "flood_calls",
        r#"{"tool":"flood_calls-ok","times":4000000}"#,
        &["budget"],
    )
    .granted(r#"{"tools":["flood_calls-ok"]}"#),
];
