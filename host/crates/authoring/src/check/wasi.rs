//! Finds calls of Rust's standard library that always fail in a component without WASI. Such a
//! component has no file system to open, and its build does not fail for that.

use crate::{Check, CheckOutcome, Finding};
use airlock_compile::data_contains;
use airlock_sandbox::LoadError;

const CHECK: &str = "no call was found in its code that always fails without WASI";

/// Message of the errors with which the standard library answers for what its target does not have.
/// The linker keeps it only if the code contains such a call; if the code drops the error, the
/// message can be missing.
const UNSUPPORTED: &[u8] = b"operation not supported on this platform";

/// Warns if such a call is found in a component without WASI. The call may be in a part of a crate that
/// no tool reaches; a call whose error the code drops may not be found.
pub(super) fn check(wasm: &[u8], imports: &[String]) -> Result<Check, LoadError> {
    let has_wasi = imports.iter().any(|import| import.starts_with("wasi:"));
    let is_found = !has_wasi && data_contains(wasm, UNSUPPORTED)?;
    Ok(Check::unless(CHECK, CheckOutcome::Warn, is_found.then(finding)))
}

fn finding() -> Finding {
    let found = "it is built without WASI and contains calls of Rust's standard library, such as those of `std::fs` and \
         `std::thread`, that always return \"operation not supported on this platform\" there";
    Finding::from(found).write(
        "for files, [request.files.NAME] or [request.scratch], with which it is built with WASI; nothing if \
         no tool makes such a call",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(component: &str, imports: &[&str]) -> CheckOutcome {
        let wasm = wat::parse_str(component).expect("a component");
        let imports: Vec<_> = imports.iter().map(ToString::to_string).collect();
        check(&wasm, &imports).expect("it is read").outcome
    }

    #[test]
    fn a_call_without_wasi_is_found_by_its_message_and_one_with_wasi_is_none() {
        let call = with_data("a fileoperation not supported on this platformanother");
        assert_eq!(checked(&call, &[]), CheckOutcome::Warn);
        assert_eq!(checked(&call, &["airlock:host/log@0.1.0"]), CheckOutcome::Warn);
        assert_eq!(checked(&call, &["wasi:filesystem/types@0.2.3"]), CheckOutcome::Pass);
        assert_eq!(checked(&with_data("operation not supported"), &[]), CheckOutcome::Pass);
        let outside =
            "(component (@custom \"airlock:tools\" \"operation not supported on this platform\"))";
        assert_eq!(checked(outside, &[]), CheckOutcome::Pass, "it is no code");
    }

    fn with_data(text: &str) -> String {
        format!("(component (core module (memory 1) (data (i32.const 0) \"{text}\")))")
    }
}
