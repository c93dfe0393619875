//! An MCP server over stdio (2025-11-25) that behaves at random: well for a while, then in one of many
//! wrong ways, for `make chaos`.
//!
//! `chaos-server SEED` is one such server; the same seed makes the same decisions in each life, and
//! each life of one seed makes others, because the process counts its lives in the file
//! `CHAOS_LIVES/SEED`. `chaos-server good` never misbehaves and has the tool `echo`. The variable
//! `CHAOS_MARK` is passed on to every child, so that what is left of them can be found.
//!
//! It writes JSON-RPC by hand, because no library would send such messages.

#[path = "chaos_server/children.rs"]
mod children;
#[path = "chaos_server/deed.rs"]
mod deed;
#[path = "chaos_server/dice.rs"]
mod dice;

use std::{
    env, fs,
    io::{self, BufRead as _, Write as _},
    path::Path,
    thread,
};

use serde_json::{Value, json};

use self::{deed::Deed, dice::Dice};

/// Tools of a server that behaves well.
const TOOLS: u64 = 12;

fn main() -> io::Result<()> {
    let seed = env::args().nth(1).unwrap_or_default();
    if seed == children::SLEEPER {
        children::sleep(env::args().nth(2).is_some());
    }
    let Ok(seed) = seed.parse::<u64>() else { return Server::good().run() };
    let life = live_again(seed);
    Server::wild(Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(life))).run()
}

/// Counts the lives of a seed. Returns the number of earlier ones.
fn live_again(seed: u64) -> u64 {
    let Some(directory) = env::var_os("CHAOS_LIVES") else { return 0 };
    let file = Path::new(&directory).join(seed.to_string());
    let life = fs::read_to_string(&file).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    // A life that is counted wrong makes other decisions, which is as good.
    let _ = fs::write(file, (life + 1).to_string());
    life
}

struct Server {
    /// `None` for a server that behaves well.
    dice: Option<Dice>,
    /// Version of the definitions; a change of the list raises it.
    edition: u64,
    listed: u64,
}

impl Server {
    fn good() -> Self {
        Self { dice: None, edition: 0, listed: 0 }
    }

    fn wild(dice: Dice) -> Self {
        Self { dice: Some(dice), edition: 0, listed: 0 }
    }

    fn run(mut self) -> io::Result<()> {
        if let Some(dice) = &mut self.dice {
            deed::at_start(dice);
        }
        for line in io::stdin().lock().lines() {
            let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
            let Some(id) = message.get("id").filter(|_| message["method"].is_string()) else {
                continue;
            };
            let answer = self.answer(&message, id);
            match self.dice.as_mut().and_then(|dice| Deed::after(&message, dice)) {
                Some(deed) => self.misbehave(deed, &answer)?,
                None => send(&answer)?,
            }
        }
        // A server that ignores the end of its input has to be killed.
        while self.dice.as_mut().is_some_and(|dice| dice.one_in(3)) {
            thread::park();
        }
        Ok(())
    }

    fn misbehave(&mut self, deed: Deed, answer: &Value) -> io::Result<()> {
        let dice = self.dice.as_mut().expect("only a wild server chooses a deed");
        if matches!(deed, Deed::Rename) {
            self.edition += 1;
        }
        deed.commit(dice, answer)
    }

    fn answer(&mut self, message: &Value, id: &Value) -> Value {
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "chaos", "version": "1"},
            }),
            "ping" => json!({}),
            "tools/list" => self.list(),
            "tools/call" => {
                let text = message["params"]["arguments"]["text"].as_str().unwrap_or("nothing");
                json!({"content": [{"type": "text", "text": text}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return json!({"jsonrpc": "2.0", "id": id, "error": error});
            }
        };
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    }

    fn list(&mut self) -> Value {
        self.listed += 1;
        let echo =
            json!({"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}});
        let Some(dice) = &mut self.dice else { return json!({"tools": [echo]}) };
        // After the first list, one in four is empty or cut short.
        let count = match dice.below(8) {
            0 if self.listed > 1 => 0,
            1 if self.listed > 1 => 1 + dice.below(TOOLS - 1),
            _ => TOOLS,
        };
        let edition = self.edition;
        let tool = |index: u64| {
            // Some are renamed, some get another description or schema, by the edition.
            let name = if index.is_multiple_of(3) {
                format!("t{index}_{edition}")
            } else {
                format!("t{index}")
            };
            let schema = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 100 + edition}}});
            json!({"name": name, "description": format!("Edition {edition} of tool {index}."), "inputSchema": schema})
        };
        let tools: Vec<_> = std::iter::once(echo)
            .chain((1..count).map(tool))
            .take(usize::try_from(count).unwrap_or(0))
            .collect();
        json!({"tools": tools})
    }
}

/// Writes one message and its line break.
fn send(message: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, message)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
