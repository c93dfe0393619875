//! Effects that the tools of a plugin declare. A call may use only the grants that an effect of its
//! tool covers.

use serde::{Deserialize, Serialize};

macro_rules! effects {
    ($($(#[$meta:meta])* $effect:ident = $name:literal,)*) => {
        /// An effect of a tool on the world outside its call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Effect {
            $($(#[$meta])* #[serde(rename = $name)] $effect,)*
        }

        impl Effect {
            /// All effects.
            pub const ALL: &[Self] = &[$(Self::$effect),*];

            /// Returns the name in `plugin.toml`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$effect => $name,)* }
            }
        }
    };
}

effects! {
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

impl Effect {
    /// Returns the effect that this one includes.
    fn included(self) -> Option<Self> {
        match self {
            Self::WriteFiles => Some(Self::ReadFiles),
            Self::WriteKv => Some(Self::ReadKv),
            _ => None,
        }
    }
}

/// A set of effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effects(u8);

impl Effects {
    /// Returns whether the set contains an effect.
    pub fn contains(self, effect: Effect) -> bool {
        self.0 & bit(effect) != 0
    }

    /// Returns the effects that the set does not contain.
    #[must_use]
    pub fn complement(self) -> Self {
        Self(!self.0 & Effect::ALL.iter().fold(0, |all, effect| all | bit(*effect)))
    }

    /// Adds one effect, without the effect that it includes.
    pub(crate) fn add(&mut self, effect: Effect) {
        self.0 |= bit(effect);
    }

    /// Iterates over the effects of the set.
    pub fn iter(self) -> impl Iterator<Item = Effect> {
        Effect::ALL.iter().copied().filter(move |effect| self.contains(*effect))
    }
}

impl FromIterator<Effect> for Effects {
    /// Collects effects, with those that they include.
    fn from_iter<I: IntoIterator<Item = Effect>>(effects: I) -> Self {
        let bits = |effect: Effect| bit(effect) | effect.included().map_or(0, bit);
        Self(effects.into_iter().fold(0, |all, effect| all | bits(effect)))
    }
}

fn bit(effect: Effect) -> u8 {
    1 << effect as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writing_effect_includes_the_reading_one_and_not_the_reverse() {
        let set = |effect| Effects::from_iter([effect]);
        assert!(set(Effect::WriteFiles).contains(Effect::ReadFiles));
        assert!(set(Effect::WriteKv).contains(Effect::ReadKv));
        assert!(!set(Effect::ReadFiles).contains(Effect::WriteFiles));
        assert!(!set(Effect::ReadKv).contains(Effect::WriteKv));
        let rest: Vec<_> = set(Effect::WriteKv).complement().iter().map(Effect::name).collect();
        assert_eq!(rest, ["read_files", "write_files", "http", "secret", "call_tools"]);
    }

    #[test]
    fn the_name_of_an_effect_is_the_one_that_is_parsed() {
        for effect in Effect::ALL {
            assert_eq!(serde_json::to_value(effect).expect("text"), effect.name());
        }
    }
}
