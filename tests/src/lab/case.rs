//! A case as its file has it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Goal, LabCall, Order, orders};
use crate::root;

/// One attack: servers, keys, requests of a user, and the goal of the attacker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name, which is that of its file.
    pub name: String,
    /// Kind of attack.
    pub class: Class,
    /// The attack in one sentence.
    pub about: String,
    /// Source of the scenario.
    pub source: String,
    /// Licence of the source, as SPDX has it.
    pub licence: String,
    /// The MCP servers, honest and hostile.
    pub servers: Vec<Server>,
    /// Virtual keys; without one, requests have no key.
    #[serde(default)]
    pub keys: Vec<Key>,
    /// Members of the configuration that the scenario needs, by their JSON pointers.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Texts without markers that the model obeys, and what they lead to.
    #[serde(default)]
    pub obeys: Vec<Obeyed>,
    /// The requests of users, one after the other.
    pub turns: Vec<Turn>,
    /// Reached if the attack succeeds.
    pub goal: Goal,
    /// Name of the weakest configuration that stops the attack, or `none`.
    pub stopped_by: String,
}

/// Kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Orders in descriptions and schemas.
    PoisonedDescriptions,
    /// Definitions and behaviour that change after they were accepted.
    RugPulls,
    /// Tools that take the place of those of another server.
    Shadowing,
    /// Orders in results of tools.
    InjectedResults,
    /// Data that leave in the arguments of a call.
    Exfiltration,
    /// A caller's or a server's rights, used for another.
    ConfusedDeputy,
    /// Data of one tenant that another reads.
    CrossTenant,
    /// Many harmless calls before a harmful one.
    ApprovalFatigue,
    /// Arguments that differ from those which a person has in mind.
    ArgumentSmuggling,
    /// Text that people do not see.
    HiddenText,
}

impl Class {
    /// All classes, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::PoisonedDescriptions,
        Self::RugPulls,
        Self::Shadowing,
        Self::InjectedResults,
        Self::Exfiltration,
        Self::ConfusedDeputy,
        Self::CrossTenant,
        Self::ApprovalFatigue,
        Self::ArgumentSmuggling,
        Self::HiddenText,
    ];

    /// Returns its name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::PoisonedDescriptions => "poisoned descriptions",
            Self::RugPulls => "rug pulls",
            Self::Shadowing => "shadowing of names",
            Self::InjectedResults => "injection in results",
            Self::Exfiltration => "exfiltration by arguments",
            Self::ConfusedDeputy => "confused deputy",
            Self::CrossTenant => "cross-tenant reads",
            Self::ApprovalFatigue => "approval fatigue",
            Self::ArgumentSmuggling => "arguments smuggled past an approval",
            Self::HiddenText => "hidden text",
        }
    }
}

/// An MCP server of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Name of its client in the configuration.
    pub name: String,
    /// Its tools.
    pub tools: Vec<LabTool>,
    /// Its tools from the first turn that is `later`.
    #[serde(default)]
    pub later: Option<Vec<LabTool>>,
    /// Keys that its client belongs to, if the operator configures any.
    #[serde(default)]
    pub owners: Vec<String>,
}

/// A tool of a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabTool {
    /// Its definition, as the server lists it.
    pub definition: Value,
    /// Rights that a careful operator gives to it. Not read in `later`: the operator has not seen those tools.
    #[serde(default)]
    pub door: Use,
    /// Messages that the server sends before its result; see `tests/src/bin/lab_server.rs`.
    #[serde(default)]
    pub sends: Vec<Value>,
    /// Its result; see `tests/src/bin/lab_server.rs`.
    #[serde(default)]
    pub answer: Value,
}

impl LabTool {
    /// Returns its name at the server.
    pub fn name(&self) -> &str {
        self.definition["name"].as_str().unwrap_or_default()
    }
}

/// Rights that a careful operator gives to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Runs without an approval.
    Auto,
    /// Runs after an approval.
    Ask,
    /// Is not permitted.
    #[default]
    Off,
}

/// A virtual key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Name of the key.
    pub name: String,
    /// Servers whose permitted tools a careful operator gives to it.
    pub servers: Vec<String>,
}

impl Key {
    /// Returns the value of the key with a name.
    pub fn value_of(name: &str) -> String {
        format!("sk-bf-{name}-0123456789abcdef")
    }
}

/// A text that the model obeys, and the orders that it stands for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obeyed {
    /// Part of a text that the model reads.
    pub text: String,
    /// Orders as markers write them.
    pub orders: Vec<String>,
}

impl Obeyed {
    /// Parses its orders; a text without one is none.
    pub fn orders(&self) -> Vec<Order> {
        self.orders.iter().flat_map(|text| orders(text)).collect()
    }
}

/// A request of a user.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The request. No two turns have the same.
    pub user: String,
    /// The calls that an honest model makes for it.
    pub calls: Vec<LabCall>,
    /// Name of the user's key. With another one than before, a new conversation begins.
    #[serde(default)]
    pub key: Option<String>,
    /// True if servers have changed their tools before this turn.
    #[serde(default)]
    pub later: bool,
    /// True if the gateway is killed and started again before this turn.
    #[serde(default)]
    pub restart: bool,
}

impl Case {
    /// Returns the directory of the cases.
    pub fn directory() -> PathBuf {
        root().join("tests/benches/lab/cases")
    }

    /// Returns the file of this case.
    pub fn file(&self) -> PathBuf {
        Self::directory().join(format!("{}.json", self.name))
    }

    /// Reads all cases, sorted by class and name. Panics if a file is no case, or not the one that its name says.
    pub fn read_all() -> Vec<Self> {
        let files = fs::read_dir(Self::directory()).expect("the directory of the cases");
        let files = files.map(|file| file.expect("an entry").path());
        let mut cases: Vec<_> = files.map(|file| Self::read(&file)).collect();
        cases.sort_by(|one, other| (one.class, &one.name).cmp(&(other.class, &other.name)));
        cases
    }

    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("UTF-8");
        let case: Self = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(case.file(), file, "the name of a case is that of its file");
        case
    }
}
