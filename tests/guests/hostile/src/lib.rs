//! A guest that misbehaves: one tool per misdeed, and `ok`, which does nothing wrong.

use std::{
    hint::black_box,
    io::Write as _,
    sync::atomic::{AtomicU32, Ordering},
};

use airlock_guest::{Context, Error, http::Request, log, plugin, serde_json::Value, tool, tools};

plugin!(
    ok,
    spin,
    hoard,
    take,
    trap,
    recurse,
    huge_result,
    flood_calls,
    flood_host,
    flood_log,
    remember,
    relay,
    fail,
    reach_out,
    read,
    write,
    scribble,
    drip,
    leave,
    fetch,
    flood_http
);

/// Answers at once.
#[tool(read_only, idempotent, open_world = false)]
pub fn ok() -> &'static str {
    "ok"
}

/// Computes for ever.
#[tool]
fn spin() -> String {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Takes memory, and touches it, until there is no more.
#[tool]
fn hoard() -> String {
    let mut hoard = Vec::new();
    loop {
        hoard.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Takes `mebibytes` of memory and gives them back.
#[tool]
fn take(mebibytes: usize) -> String {
    format!("took {}", black_box(vec![1_u8; mebibytes << 20]).len() >> 20)
}

/// Breaks off.
#[tool]
fn trap() -> String {
    panic!("a secret of the guest: /etc/shadow")
}

/// Recurses without an end.
#[tool]
fn recurse() -> String {
    descend(1).to_string()
}

// Neither a tail call nor a sum, so that no compiler makes a loop of it. It has no locals in linear
// memory, so that it uses up the host's stack.
#[expect(unconditional_recursion, reason = "that is the misdeed")]
fn descend(depth: u64) -> u64 {
    descend(depth.wrapping_add(1)).rotate_left(1).wrapping_add(depth)
}

/// Answers with `bytes` bytes.
#[tool(read_only)]
fn huge_result(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// Calls `tool` `times` times, and answers with how often that worked and what the last call said.
#[tool]
fn flood_calls(tool: String, times: u32) -> String {
    let mut worked = 0;
    let mut last = String::new();
    for _ in 0..times {
        match tools::call(&tool, &Value::Object(airlock_guest::serde_json::Map::new())) {
            Ok(_) => worked += 1,
            Err(error) => last = error.to_string(),
        }
    }
    format!("{worked} worked; {last}")
}

/// Asks the host `times` times how long the call may still run.
#[tool]
fn flood_host(times: u32, context: &Context) -> &'static str {
    for _ in 0..times {
        black_box(context.remaining());
    }
    "done"
}

/// Logs `lines` lines of `bytes` bytes.
#[tool]
fn flood_log(lines: u32, bytes: usize) -> &'static str {
    let line = "x".repeat(bytes);
    for _ in 0..lines {
        log::write(log::Level::Info, &line, &[]);
    }
    "done"
}

/// Counts its calls, as far as it can remember them.
#[tool]
fn remember() -> String {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    (CALLS.fetch_add(1, Ordering::Relaxed) + 1).to_string()
}

/// Calls another tool and hands on its answer.
#[tool]
fn relay(
    /// Full name.
    tool: String,
    /// Its arguments.
    arguments: Value,
    /// A file that is written before the call.
    file: Option<String>,
) -> Result<String, Error> {
    if let Some(file) = file {
        std::fs::write(file, "relayed")?;
    }
    let output = tools::call(&tool, &arguments)?;
    Ok(output.first_text().unwrap_or_default().to_owned())
}

/// Fails in an orderly way.
#[tool]
fn fail() -> Result<String, Error> {
    Err(Error::not_found("there is no such thing").with_code("no_such_thing"))
}

/// Tries what it was not granted, and answers with what worked.
#[tool]
fn reach_out() -> String {
    let mut reached = Vec::new();
    if std::fs::read_dir("/").is_ok_and(|entries| entries.count() > 0) {
        reached.push("the root directory");
    }
    if std::fs::read("/etc/passwd").is_ok() || std::fs::read("../../../../etc/passwd").is_ok() {
        reached.push("/etc/passwd");
    }
    if std::fs::write("/tmp/airlock-escaped", "x").is_ok() {
        reached.push("/tmp");
    }
    if std::env::vars().next().is_some() {
        reached.push("the environment");
    }
    if std::env::args().next().is_some() {
        reached.push("the command line");
    }
    if std::net::TcpStream::connect("127.0.0.1:22").is_ok()
        || std::net::TcpListener::bind("127.0.0.1:0").is_ok()
    {
        reached.push("the network");
    }
    if reached.is_empty() { "nothing".to_owned() } else { reached.join(", ") }
}

/// Reads a file, by any path that it likes.
#[tool]
fn read(path: String) -> Result<String, Error> {
    Ok(std::fs::read_to_string(path)?)
}

/// Writes a file, by any path that it likes.
#[tool]
fn write(path: String, text: String) -> Result<&'static str, Error> {
    std::fs::write(path, text)?;
    Ok("written")
}

/// Writes files of 64 KiB into the scratch directory without an end, whatever comes of it.
#[tool]
fn scribble() -> String {
    let text = vec![b'x'; 64 << 10];
    let mut name = 0_u64;
    loop {
        name += 1;
        let _ = black_box(std::fs::write(format!("/tmp/{name}"), &text));
    }
}

/// Writes one byte to a file in the scratch directory, `times` times.
#[tool]
fn drip(times: u32) -> Result<&'static str, Error> {
    let mut file = std::fs::File::create("/tmp/drip")?;
    for _ in 0..times {
        file.write_all(b"x")?;
    }
    Ok("done")
}

/// Ends the program instead of answering.
#[tool]
fn leave() -> String {
    std::process::exit(3)
}

/// Fetches a page.
#[tool]
fn fetch(url: String) -> Result<String, Error> {
    Ok(Request::get(url).send()?.ok()?.text())
}

/// Fetches a page again and again, whatever comes of it.
#[tool]
fn flood_http(url: String) -> String {
    loop {
        let _ = black_box(Request::get(&url).send());
    }
}
