//! Which lines a grant is for.

use super::{Grant, LockLine, LockLines, everything};

/// Returns whether a grant is for the last of these lines, beside the others.
fn is_granted(lines: &[&str], grant: &Grant) -> bool {
    let texts: Vec<_> = lines.iter().map(|&line| line.to_owned()).collect();
    let last = lines.last().expect("a line");
    LockLines::new(&texts, grant).are_granted(&LockLine::parse(last))
}

fn with_slot() -> Grant {
    Grant { slots: [("find".to_owned(), "web-find".to_owned())].into(), ..Grant::default() }
}

#[test]
fn a_line_is_granted_by_the_request_that_it_is_about() {
    for line in ["slot.find Finds pages.", "slot.find"] {
        assert!(is_granted(&[line], &with_slot()), "{line}");
        assert!(!is_granted(&[line], &Grant::default()), "{line}");
    }
    assert!(!is_granted(&["slot.other"], &with_slot()));
    // Any directory stands for those that are granted.
    assert!(is_granted(&["files.* read_only"], &everything()));
    assert!(!is_granted(&["files.* read_only"], &Grant::default()));
}

#[test]
fn an_import_and_a_limit_need_no_consent_and_a_line_that_is_not_known_does() {
    for line in ["import wasi:http/types@0.2.0", "limits.memory 64MiB"] {
        assert!(!is_granted(&[line], &everything()), "{line}");
    }
    for line in ["unknown.x a lot", "effect unknown of sum"] {
        assert!(is_granted(&[line], &Grant::default()), "{line}");
    }
}

#[test]
fn an_effect_is_granted_if_one_of_its_requests_is() {
    for (request, effect) in [
        ("secret.token in header x-key to api", "secret"),
        ("tools text-count", "call_tools"),
        ("files.data read_write", "write_files"),
        ("kv.notes 1KiB", "read_kv"),
        ("http.api https://api.example.com GET /**", "http"),
    ] {
        let effect = format!("effect {effect} of sum");
        assert!(is_granted(&[request, &effect], &everything()), "{effect}");
        assert!(!is_granted(&[request, &effect], &Grant::default()), "{effect}");
        assert!(!is_granted(&[&effect], &everything()), "{effect} without its request");
    }
    let effect = "effect call_tools.find of sum";
    assert!(is_granted(&["slot.find", effect], &with_slot()));
    assert!(!is_granted(&["slot.find", effect], &everything()));
}
