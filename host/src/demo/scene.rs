//! One scene of the demo: its story, its checks and its measured values.

use serde_json::{Map, Value, json};

/// Outcome of one scene.
pub(super) struct Scene {
    /// Its name for machines.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// True if every check passed.
    pub(super) ok: bool,
    /// Events in order: the actor and the action.
    pub(super) story: Vec<(&'static str, String)>,
    /// Measured values.
    pub(super) facts: Map<String, Value>,
}

impl Scene {
    pub(super) fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, ok: true, story: Vec::new(), facts: Map::new() }
    }

    pub(super) fn tell(&mut self, who: &'static str, what: impl Into<String>) {
        self.story.push((who, what.into()));
    }

    pub(super) fn fact(&mut self, key: &str, value: impl Into<Value>) {
        self.facts.insert(key.to_owned(), value.into());
    }

    /// Checks a condition. If it does not hold, the scene fails with the message of `otherwise`.
    pub(super) fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.ok = false;
            self.tell("wrong", otherwise());
        }
    }

    /// Returns the scene as one JSON object.
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".to_owned(), self.name.into());
        object.insert("title".to_owned(), self.title.into());
        object.insert("ok".to_owned(), self.ok.into());
        object.extend(self.facts.clone());
        object.insert(
            "story".to_owned(),
            self.story.iter().map(|(who, what)| json!({"who": who, "what": what})).collect(),
        );
        object.into()
    }
}
