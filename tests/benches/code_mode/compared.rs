//! Scripts on two gateways that differ in one setting: rules about arguments, and manifests.
//!
//! A script that is not analysed would be refused by the rules, so none of the times is that of a fallback.

use std::{fmt::Write as _, time::Duration};

use airlock::{door::View, tool::Trust};
use airlock_tests::{
    Setup,
    bench::{
        latency::{median_added, median_micros},
        report::{Aim, Cell, Table},
    },
};
use serde_json::json;

use super::{
    LANGUAGES,
    stage::{EXECUTE, Kept, run, run_until_pending},
};

/// Size of the long script, in bytes.
const LONG_BYTES: usize = 8 << 10;
/// Column with the ratio to the gateway without the setting.
const RATIO: &str = "ratio";

/// Setting in which two gateways differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptComparison {
    /// Rules of information flow that are about arguments: scripts run to their ends.
    ArgumentRules,
    /// A manifest in place of single calls: scripts run until an approval is pending.
    Manifests,
}

/// A script that both gateways run, in both languages.
struct ComparedScript {
    name: &'static str,
    source: String,
    /// Measured in every such round.
    every: usize,
    /// By the language.
    measured: [ComparedTimes; LANGUAGES.len()],
}

/// Measurements without and with the setting.
#[derive(Default)]
struct ComparedTimes {
    /// Times by round.
    times: [Vec<Duration>; 2],
    /// Fuel of a script that runs to its end.
    fuel: [u64; 2],
}

impl ScriptComparison {
    /// Measures the scripts with `only` in their names; `None` if there are none.
    pub(crate) async fn measure(self, rounds: usize, only: &str) -> Option<Table> {
        let mut scripts = self.scripts();
        scripts.retain(|script| script.name.contains(only));
        if scripts.is_empty() {
            return None;
        }
        let mut views = Vec::new();
        let mut gateways = Vec::new();
        for language in LANGUAGES {
            for is_set in [false, true] {
                let kept = self.start(language, is_set).await;
                views.push(kept.view("web,desk"));
                gateways.push(kept);
            }
        }
        // On a worker, as requests are.
        let measured = tokio::spawn(self.run_rounds(scripts, views, rounds));
        let scripts = measured.await.expect("no panic in it");
        for gateway in gateways {
            gateway.stop().await;
        }
        Some(self.table(&scripts))
    }

    fn scripts(self) -> Vec<ComparedScript> {
        match self {
            Self::ArgumentRules => vec![
                script("rules, 1 call", 1, "page = web.read()\nresult = 1"),
                script(
                    "rules, 10 calls",
                    1,
                    "page = web.read()\nfor _ in range(9):\n    desk.send(to='desk', body=str(page))\nresult = 1",
                ),
                script("rules, 8 KB of loops and dicts", 8, long_script()),
            ],
            Self::Manifests => vec![
                script("manifest, 1 call", 8, "desk.send(to='desk', body='0')\nresult = 1"),
                script(
                    "manifest, 10 calls",
                    8,
                    "for n in range(10):\n    desk.send(to='desk', body=str(n))\nresult = 1",
                ),
            ],
        }
    }

    /// Starts a gateway with the untrusted server `web`, and with `desk`, whose calls need an approval if approvals
    /// are measured.
    async fn start(self, language: &str, is_set: bool) -> Kept {
        let has_journal = self == Self::Manifests;
        let kept = Kept::start(
            language,
            has_journal,
            |setup| {
                if is_set { self.set(setup) } else { setup }
            },
        );
        let kept = kept.await;
        let reads = json!({
            "name": "read", "description": "Does nothing.", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        });
        let sends = json!({
            "name": "send", "description": "Does nothing.",
            "inputSchema": {
                "type": "object",
                "properties": {"to": {"type": "string"}, "body": {"type": "string"}},
                "required": ["to", "body"],
            },
        });
        kept.publish("web", Trust::Untrusted, true, json!([reads]));
        kept.publish("desk", Trust::Trusted, self == Self::ArgumentRules, json!([sends]));
        kept
    }

    fn set(self, setup: Setup) -> Setup {
        match self {
            Self::ArgumentRules => {
                let rule = json!({
                    "tools": ["desk-*"], "from": ["web"], "arguments": ["to"], "decision": "deny",
                });
                setup.set("/mcp/information_flow/sinks", json!([rule]))
            }
            Self::Manifests => setup.set("/mcp/tool_manager_config/code_mode_approval", "manifest"),
        }
    }

    /// Measures each script once a round in each language, on both gateways. `views` has those without and with the
    /// setting, by language.
    async fn run_rounds(
        self,
        mut scripts: Vec<ComparedScript>,
        views: Vec<View>,
        rounds: usize,
    ) -> Vec<ComparedScript> {
        for round in 0..rounds {
            for script in &mut scripts {
                if round % script.every > 0 {
                    continue;
                }
                for (views, measured) in views.chunks(2).zip(&mut script.measured) {
                    // The order changes from round to round.
                    let first = measured.times[0].len() % 2;
                    for at in [first, 1 - first] {
                        let (took, fuel) = self.step(&views[at], &script.source, at == 1).await;
                        measured.times[at].push(took);
                        measured.fuel[at] = fuel;
                    }
                }
            }
        }
        scripts
    }

    /// Measures a script once. Returns its time and its fuel, without that of a script that stops.
    async fn step(self, view: &View, source: &str, is_set: bool) -> (Duration, u64) {
        // Leaves the code and the memory of the executor warm.
        run(view, "pass").await;
        match self {
            Self::ArgumentRules => run(view, source).await,
            Self::Manifests => {
                let (took, waiting) = run_until_pending(view, source).await;
                assert_eq!(waiting == EXECUTE, is_set, "{source}: {waiting} waits");
                (took, 0)
            }
        }
    }

    fn table(self, scripts: &[ComparedScript]) -> Table {
        let mut table = match self {
            Self::ArgumentRules => Table::new(
                "rules about arguments",
                &["without", "with", "added p50", RATIO, "fuel", "fuel with", "fuel ratio"],
            ),
            Self::Manifests => Table::new(
                "until an approval is pending",
                &["calls", "manifest", "added p50", RATIO],
            ),
        };
        for script in scripts {
            for (language, measured) in LANGUAGES.iter().zip(&script.measured) {
                let name = format!("{}, {language}", script.name);
                let mut cells = measured.time_cells();
                if self == Self::ArgumentRules {
                    cells.extend(measured.fuel_cells());
                }
                table.row(name, cells).aim(RATIO, self.aim());
            }
        }
        table
    }

    /// Returns the bound that `code_mode.md` sets on the ratio: the project has no aim for it.
    fn aim(self) -> Aim {
        match self {
            Self::ArgumentRules => Aim::AtMost(1.5),
            Self::Manifests => Aim::AtMost(2.0),
        }
    }
}

impl ComparedTimes {
    fn time_cells(&self) -> Vec<Cell> {
        let [without, with] = &self.times;
        let ratio = median_micros(with) / median_micros(without);
        vec![
            Cell::Time(median_micros(without)),
            Cell::Time(median_micros(with)),
            Cell::Added(median_added(with, without)),
            Cell::Ratio(ratio),
        ]
    }

    fn fuel_cells(&self) -> [Cell; 3] {
        let [without, with] = self.fuel;
        let [base, own] = self.fuel.map(|fuel| {
            f64::from(u32::try_from(fuel).expect("these scripts burn less than four billion"))
        });
        [Cell::Count(without), Cell::Count(with), Cell::Ratio(own / base)]
    }
}

fn script(name: &'static str, every: usize, source: impl Into<String>) -> ComparedScript {
    ComparedScript { name, source: source.into(), every, measured: Default::default() }
}

/// Returns a script of 8 KB whose blocks group the same orders by their teams, and which reads and sends at last.
fn long_script() -> String {
    let mut source = "orders = {}
for n in range(10):
    lines = [n, n + 1, n + 2]
    orders['order ' + str(n)] = {'id': n, 'lines': lines, 'open': n % 3 > 0}
total = 0
"
    .to_owned();
    let mut block = 0;
    while source.len() < LONG_BYTES {
        block += 1;
        let written = write!(
            source,
            "teams_{block} = {{}}
for name in orders:
    order = orders[name]
    if order['open']:
        team = 'team ' + str(order['id'] % 4)
        if team not in teams_{block}:
            teams_{block}[team] = {{'count': 0, 'lines': []}}
        teams_{block}[team]['count'] += 1
        teams_{block}[team]['lines'].append(order['lines'][0] + {block})
for group in teams_{block}.values():
    total += len(group['lines']) + group['count']
"
        );
        written.expect("a text can be written to");
    }
    source + "page = web.read()\ndesk.send(to='desk', body=str(page) + str(total))\nresult = total"
}
