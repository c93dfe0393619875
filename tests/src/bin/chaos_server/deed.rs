//! The wrong ways to behave.

use std::{
    io::{self, Write as _},
    process, thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{children, dice::Dice, send};

/// Length of the longest line.
const LINE_BYTES: usize = 100 << 20;

/// One wrong way to respond to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed {
    /// Reads and responds no more.
    Hang,
    /// Ends with an error, or by a signal.
    Crash,
    /// Sends notifications, responses or requests without being asked, without an end.
    Flood,
    /// Sends a line of 100 MB in place of the response.
    LongLine,
    /// Sends lines that are not JSON-RPC, then the response.
    Malformed,
    /// Sends half of the response.
    Half,
    /// Sends the response to another request.
    WrongId,
    /// Sends the response twice.
    Twice,
    /// Sends the response and says that the tools have changed. The next list has other tools.
    Rename,
    /// Writes 1 MiB to stderr, then responds.
    Stderr,
    /// Starts processes that outlive the server, then responds.
    Fork,
    /// Sends the response byte by byte, slowly.
    Drip,
    /// Closes stdout and stays alive.
    Mute,
}

/// Makes the decisions of a whole life: to start late, to ignore SIGTERM, to have children, to end at
/// once.
pub(crate) fn at_start(dice: &mut Dice) {
    if dice.one_in(4) {
        children::ignore_term();
    }
    if dice.one_in(4) {
        children::start(dice);
    }
    if dice.one_in(8) {
        process::exit(7);
    }
    if dice.one_in(8) {
        thread::sleep(Duration::from_millis(dice.below(3_000)));
    }
}

impl Deed {
    /// Chooses how to respond to a request; `None` to respond well, which a server does often enough
    /// to be connected for a while.
    pub(crate) fn after(request: &Value, dice: &mut Dice) -> Option<Self> {
        let often = if request["method"] == "tools/call" { 3 } else { 10 };
        if !dice.one_in(often) {
            return None;
        }
        Some(match dice.below(30) {
            0..=2 => Self::Hang,
            3..=5 => Self::Crash,
            6..=7 => Self::Flood,
            8 => Self::LongLine,
            9..=11 => Self::Malformed,
            12..=13 => Self::Half,
            14..=16 => Self::WrongId,
            17..=19 => Self::Twice,
            20..=22 => Self::Rename,
            23 => Self::Stderr,
            24..=25 => Self::Fork,
            26..=27 => Self::Drip,
            _ => Self::Mute,
        })
    }

    /// Responds in this way.
    pub(crate) fn commit(self, dice: &mut Dice, answer: &Value) -> io::Result<()> {
        match self {
            Self::Hang => forever(),
            Self::Crash if dice.one_in(2) => process::abort(),
            Self::Crash => process::exit(i32::try_from(dice.below(100)).unwrap_or(1)),
            Self::Flood => flood(dice.below(5)),
            Self::LongLine => long_line(),
            Self::Malformed => malformed(dice).and_then(|()| send(answer)),
            Self::Half => half(dice, answer),
            Self::WrongId => {
                let mut other = answer.clone();
                other["id"] = match dice.below(4) {
                    0 => json!(1_000_000 + dice.below(1_000_000)),
                    1 => json!(dice.below(50)),
                    2 => json!("no such request"),
                    _ => Value::Null,
                };
                send(&other)
            }
            Self::Twice => send(answer).and_then(|()| send(answer)),
            Self::Stderr => {
                let line = "stderr ".repeat(146) + "\n";
                // A gateway that does not read it blocks this process.
                (0..1 << 10).try_for_each(|_| io::stderr().write_all(line.as_bytes()))?;
                send(answer)
            }
            Self::Fork => {
                children::start(dice);
                send(answer)
            }
            Self::Drip => drip(answer),
            Self::Mute => children::without_stdout(),
            Self::Rename => {
                send(answer)?;
                send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
            }
        }
    }
}

fn forever() -> ! {
    loop {
        thread::park();
    }
}

fn flood(kind: u64) -> io::Result<()> {
    let message = |id: u64| match kind {
        0 => {
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": id}})
        }
        1 => json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        2 => json!({"jsonrpc": "2.0", "id": id, "method": "ping"}),
        3 => json!({"jsonrpc": "2.0", "id": 1_000_000 + id, "result": {"content": []}}),
        _ => json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}),
    };
    (0..).try_for_each(|id| send(&message(id)))
}

fn long_line() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let part = vec![b'x'; 1 << 20];
    stdout.write_all(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":""#)?;
    for _ in 0..LINE_BYTES / part.len() {
        stdout.write_all(&part)?;
    }
    stdout.write_all(b"\"}]}}\n")?;
    stdout.flush()
}

fn malformed(dice: &mut Dice) -> io::Result<()> {
    const LINES: [&[u8]; 9] = [
        b"this is not JSON\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1\n",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}\n",
        b"[]\n",
        b"null\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":1e999}\n",
        b"\xff\xfe\x00\n",
        b"Content-Length: 7\r\n\r\n{\"a\":1}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":7,\"params\":[[[[[[[[]]]]]]]]}\n",
    ];
    let mut stdout = io::stdout().lock();
    for _ in 0..=dice.below(20) {
        let line = usize::try_from(dice.below(LINES.len() as u64)).unwrap_or(0);
        stdout.write_all(LINES[line])?;
    }
    let deep = "[".repeat(500) + &"]".repeat(500);
    writeln!(stdout, r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#)?;
    stdout.flush()
}

fn half(dice: &mut Dice, answer: &Value) -> io::Result<()> {
    let text = answer.to_string();
    let mut stdout = io::stdout().lock();
    stdout.write_all(&text.as_bytes()[..text.len() / 2])?;
    stdout.flush()?;
    match dice.below(3) {
        0 => process::exit(0),
        1 => forever(),
        // The rest of the line is the beginning of the next response.
        _ => Ok(()),
    }
}

fn drip(answer: &Value) -> io::Result<()> {
    for byte in answer.to_string().bytes().chain([b'\n']) {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&[byte])?;
        stdout.flush()?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
