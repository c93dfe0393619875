//! Properties of the languages of scripts that the host needs. The executors handle everything else.
//!
//! A tool has the same name in every language, so that files and searches do not depend on the
//! language of a request: see [`airlock_core::script_names`].

mod texts;

use airlock_core::door::ScriptLanguage;

/// A language of scripts, as models see it.
pub(super) struct LanguageTexts {
    /// File name of scripts in messages.
    pub(super) file_name: &'static str,
    /// Description of the tool that runs scripts.
    pub(super) description: &'static str,
    /// Sentence at the end of each report of a successful run.
    pub(super) note: &'static str,
    /// Syntax with which a call waits for its result, in the documentation of a tool.
    pub(super) waits: &'static str,
    /// Effect of a failed call; `TOOL` stands for the tool.
    pub(super) fails: &'static str,
}

/// Returns the properties of a language.
pub(super) fn describe(language: ScriptLanguage) -> &'static LanguageTexts {
    match language {
        ScriptLanguage::Starlark => &texts::STARLARK,
        ScriptLanguage::Python => &texts::PYTHON,
    }
}

/// Returns the properties of a language whose scripts see the time at which their run began, if the
/// language has a clock at all.
pub(super) fn with_clock(language: ScriptLanguage) -> &'static LanguageTexts {
    match language {
        ScriptLanguage::Starlark => describe(language),
        ScriptLanguage::Python => &texts::PYTHON_WITH_CLOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_follow_the_setting_of_the_clock() {
        let frozen = "clock stands still at the start of the run (UTC)";
        let python = with_clock(ScriptLanguage::Python);
        for text in [python.description, python.note] {
            assert!(text.contains(frozen) && !text.contains("no clock"), "{text}");
            assert!(!text.contains("without clock"), "{text}");
        }
        let without = describe(ScriptLanguage::Python);
        assert!(without.description.contains("\n- no clock, randomness"));
        assert!(!without.description.contains(frozen) && without.note.contains("without clock"));
        assert_eq!(python.file_name, without.file_name);
        let starlark = with_clock(ScriptLanguage::Starlark).description;
        assert_eq!(starlark, describe(ScriptLanguage::Starlark).description);
        for text in [python.description, without.description, starlark] {
            assert!(!text.contains("\n\n\n") && !text.contains("  "), "{text}");
        }
    }
}
