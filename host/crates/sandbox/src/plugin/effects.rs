//! Effects that the tools of a plugin declare. A call may use only the grants that an effect of its
//! tool covers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

airlock_strings::named_enum! {
    /// A kind of effect of a tool on the world outside its call. The names are those in `plugin.toml`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Effect {
        /// Reads granted directories.
        ReadFiles = "read_files",
        /// Changes granted directories. Includes [`Effect::ReadFiles`].
        WriteFiles = "write_files",
        /// Sends HTTP requests.
        Http = "http",
        /// Has secrets attached to HTTP requests, or reads secrets.
        Secret = "secret",
        /// Reads values that are kept between calls.
        ReadKv = "read_kv",
        /// Keeps values between calls. Includes [`Effect::ReadKv`].
        WriteKv = "write_kv",
        /// Calls other tools.
        CallTools = "call_tools",
    }
}

impl Effect {
    /// Returns whether it is an effect on key-value stores.
    pub fn is_on_stores(self) -> bool {
        matches!(self, Self::ReadKv | Self::WriteKv)
    }

    /// Returns the effect that this one includes.
    fn included(self) -> Option<Self> {
        match self {
            Self::WriteFiles => Some(Self::ReadFiles),
            Self::WriteKv => Some(Self::ReadKv),
            _ => None,
        }
    }
}

/// An effect as `plugin.toml` declares it: `http` is on every request of its kind, `http.api` on the
/// one of this name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeclaredEffect {
    /// Its kind.
    pub effect: Effect,
    /// Name of the request; `None` for every request of the kind.
    pub request: Option<String>,
}

/// The text names no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, expected an effect such as \"http\" or \"http.NAME\"")]
pub struct UnknownEffect {
    /// The text.
    pub found: String,
}

impl DeclaredEffect {
    /// Returns whether a tool that declares this effect has the other one too.
    pub fn includes(&self, other: &Self) -> bool {
        let is_kind = self.effect == other.effect || self.effect.included() == Some(other.effect);
        is_kind && (self.request.is_none() || self.request == other.request)
    }
}

impl From<Effect> for DeclaredEffect {
    fn from(effect: Effect) -> Self {
        Self { effect, request: None }
    }
}

impl FromStr for DeclaredEffect {
    type Err = UnknownEffect;

    fn from_str(text: &str) -> Result<Self, UnknownEffect> {
        let (kind, request) =
            text.split_once('.').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let effect = Effect::ALL.iter().copied().find(|effect| effect.name() == kind);
        let effect = effect.ok_or_else(|| UnknownEffect { found: text.to_owned() })?;
        Ok(Self { effect, request: request.map(str::to_owned) })
    }
}

impl TryFrom<String> for DeclaredEffect {
    type Error = UnknownEffect;

    fn try_from(text: String) -> Result<Self, UnknownEffect> {
        text.parse()
    }
}

impl From<DeclaredEffect> for String {
    fn from(effect: DeclaredEffect) -> Self {
        effect.to_string()
    }
}

impl fmt::Display for DeclaredEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.effect.name())?;
        self.request.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

/// Effects of one tool: those that it declares, and those that they include.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effects(BTreeMap<Effect, Reach>);

/// Requests that a tool has an effect on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Every request of the kind.
    All,
    /// The requests of these names.
    Named(BTreeSet<String>),
}

impl Effects {
    /// Returns the requests that the tool has an effect on; `None` if it does not have the effect at
    /// all.
    pub fn reach(&self, effect: Effect) -> Option<&Reach> {
        self.0.get(&effect)
    }

    /// Returns whether the tool has an effect on any request.
    pub fn contains(&self, effect: Effect) -> bool {
        self.0.contains_key(&effect)
    }

    /// Returns whether the tool has an effect on the request of this name.
    pub fn covers(&self, effect: Effect, request: &str) -> bool {
        match self.reach(effect) {
            None => false,
            Some(Reach::All) => true,
            Some(Reach::Named(names)) => names.contains(request),
        }
    }

    fn add(&mut self, effect: Effect, request: Option<&str>) {
        let reach = self.0.entry(effect).or_insert_with(|| Reach::Named(BTreeSet::new()));
        match (request, reach) {
            (None, reach) => *reach = Reach::All,
            (Some(name), Reach::Named(names)) => {
                names.insert(name.to_owned());
            }
            (Some(_), Reach::All) => {}
        }
    }
}

impl<E: Into<DeclaredEffect>> FromIterator<E> for Effects {
    /// Collects effects, with those that they include.
    fn from_iter<I: IntoIterator<Item = E>>(effects: I) -> Self {
        let mut all = Self::default();
        for DeclaredEffect { effect, request } in effects.into_iter().map(Into::into) {
            for effect in [Some(effect), effect.included()].into_iter().flatten() {
                all.add(effect, request.as_deref());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> DeclaredEffect {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn set(texts: &[&str]) -> Effects {
        texts.iter().map(|text| declared(text)).collect()
    }

    #[test]
    fn a_writing_effect_includes_the_reading_one_and_not_the_reverse() {
        for (writes, reads) in
            [(Effect::WriteFiles, Effect::ReadFiles), (Effect::WriteKv, Effect::ReadKv)]
        {
            assert!(Effects::from_iter([writes]).contains(reads));
            assert!(!Effects::from_iter([reads]).contains(writes));
            let named = set(&[&format!("{}.a", writes.name())]);
            assert!(named.covers(reads, "a") && !named.covers(reads, "b"));
        }
        assert!(declared("write_kv.a").includes(&declared("read_kv.a")));
        assert!(!declared("read_kv.a").includes(&declared("write_kv.a")));
    }

    #[test]
    fn an_effect_on_one_request_covers_that_one_and_an_effect_on_the_kind_covers_all() {
        let one = set(&["http.a", "http.b"]);
        assert!(one.covers(Effect::Http, "a") && one.covers(Effect::Http, "b"));
        assert!(one.contains(Effect::Http) && !one.covers(Effect::Http, "c"));
        for all in [set(&["http"]), set(&["http", "http.a"]), set(&["http.a", "http"])] {
            assert_eq!(all.reach(Effect::Http), Some(&Reach::All));
            assert!(all.covers(Effect::Http, "c") && !all.contains(Effect::Secret));
        }
        for (wide, narrow) in [("http", "http.a"), ("read_files", "read_files.*")] {
            assert!(declared(wide).includes(&declared(narrow)));
            assert!(!declared(narrow).includes(&declared(wide)));
        }
        assert!(!declared("http.a").includes(&declared("http.b")));
    }

    #[test]
    fn the_text_of_an_effect_is_the_one_that_is_parsed() {
        for effect in Effect::ALL {
            assert_eq!(declared(effect.name()), DeclaredEffect::from(effect));
        }
        for text in ["http", "http.api", "read_files.*", "call_tools.search"] {
            assert_eq!(declared(text).to_string(), text);
            assert_eq!(serde_json::to_value(declared(text)).expect("text"), text);
        }
        for text in ["", "network", "tools", ".api", "Http"] {
            let unknown = UnknownEffect { found: text.to_owned() };
            assert_eq!(text.parse::<DeclaredEffect>(), Err(unknown));
        }
    }
}
