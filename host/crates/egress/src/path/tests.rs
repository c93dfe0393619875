use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, path: &str) -> bool {
    Pattern::parse(pattern).unwrap().matches(&segments(path).unwrap())
}

#[test]
fn patterns_match_as_documented() {
    for (pattern, inside, outside) in [
        ("/", "/", "// /a"),
        ("/**", "/ /a /a/b // /a/", ""),
        ("/user", "/user /us%65r", "/ /users /user/ /User /user/x"),
        ("/repos/**", "/repos/ /repos/a /repos/a/b/c", "/repos /repository /x/repos/a"),
        ("/repos/*", "/repos/a /repos/a%20b /repos/...", "/repos /repos/ /repos/a/b /repos/a/"),
        ("/repos/*/issues", "/repos/a/issues", "/repos//issues /repos/a/b/issues /repos/issues"),
        ("/a/**/z", "/a/z /a/b/z /a/b/c/z /a/z/z /a//z", "/a /a/z/ /az /a/b/zz /b/a/z"),
        ("/**/raw/*", "/raw/x /a/raw/x /a/raw/raw/x", "/raw /raw/ /a/raw/x/y"),
        ("/a/**/b/**/c", "/a/b/c /a/x/b/y/z/c /a/b/b/c/c", "/a/c /a/c/b /a/b/c/d"),
        ("/v*/x", "/v1/x /v/x /v1.2/x", "/v1/v/x /w1/x"),
        ("/*.json", "/a.json /.json", "/a.jsonl /a/b.json"),
        ("/a*b*c", "/abc /aXbYc /abbc /abcbc", "/ab /acb /abcd"),
        ("/aa*aa", "/aaaa /aaXaa", "/aaa /aa"),
        ("/%2A", "/* /%2a", "/x"),
        ("/caf%C3%A9/a%2Cb", "/café/a,b /caf%c3%a9/a%2cb", "/cafe/a,b"),
        ("/a;b/c@d:e", "/a;b/c@d:e /%61;b/c@d:e", "/a%3Bb/c@d:e /a;b/c%40d:e /a;b/c@d%3ae"),
        ("/a%3bb", "/a%3Bb", "/a;b"),
        ("/v/*:run", "/v/x:run /v/x%3A:run", "/v/x%3Arun"),
        ("/*=", "/a= /==", "/a%3D /%3D"),
    ] {
        for path in inside.split(' ').filter(|path| !path.is_empty()) {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for path in outside.split(' ').filter(|path| !path.is_empty()) {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }
}

#[test]
fn ambiguous_paths_are_refused() {
    for (path, why) in [
        ("/a%2fb", BadPath::Slash),
        ("/a%2Fb", BadPath::Slash),
        ("/a%5cb", BadPath::Backslash),
        ("/a\\b", BadPath::Backslash),
        ("/%252e%252e/x", BadPath::Twice),
        ("/a%252fb", BadPath::Twice),
        ("/a%25%32%66b", BadPath::Twice),
        ("/%c0%ae%c0%ae/x", BadPath::Encoding),
        ("/a%c0%afb", BadPath::Encoding),
        ("/a%00", BadPath::Control),
        ("/a%0d%0aHost:x", BadPath::Control),
        ("/a%7f", BadPath::Control),
        ("/100%", BadPath::Escape),
        ("/100%zz", BadPath::Escape),
        ("/100%2", BadPath::Escape),
        ("/a/../b", BadPath::Dots),
        ("/a/%2e%2E", BadPath::Dots),
        ("/a/./b", BadPath::Dots),
        ("/a/..;/b", BadPath::Dots),
        ("/a/..%3bx=y/b", BadPath::Dots),
    ] {
        assert_eq!(segments(path), Err(why), "{path}");
    }
    for path in ["/a%25b", "/100%25", "/a..b/...", "/a;b=..", "/%E2%82%AC", "/a%20b", "/a+b"] {
        assert!(segments(path).is_ok(), "{path}");
    }
}

#[test]
fn an_invalid_pattern_is_refused_with_a_reason() {
    insta::assert_snapshot!(why("repos"), @"expected a `/` at the beginning");
    insta::assert_snapshot!(why(""), @"expected a `/` at the beginning");
    insta::assert_snapshot!(why("/a**"), @r#"expected `**` to be a whole segment, found "a**""#);
    insta::assert_snapshot!(why("/***"), @r#"expected `**` to be a whole segment, found "***""#);
    insta::assert_snapshot!(why("/a/**/**"), @"expected something between two `**`");
    insta::assert_snapshot!(why("/a?b=c"), @"expected only a path, found a `?` or `#`");
    insta::assert_snapshot!(why("/a%2fb"), @"an encoded slash cannot occur in a request");
    insta::assert_snapshot!(why("/a/../b"), @"a dot segment cannot occur in a request");
}

fn why(text: &str) -> String {
    Pattern::parse(text).unwrap_err().to_string()
}

#[test]
fn the_number_of_segments_is_limited_in_paths_and_patterns() {
    assert!(segments(&"/".repeat(MAX_SEGMENTS)).is_ok());
    assert_eq!(segments(&"/".repeat(MAX_SEGMENTS + 1)), Err(BadPath::Segments));
    assert!(Pattern::parse(&"/*".repeat(MAX_PARTS)).is_ok());
    assert_eq!(Pattern::parse(&"/*".repeat(MAX_PARTS + 1)), Err(BadPattern::Parts(MAX_PARTS + 1)));
}

#[test]
fn a_hostile_pattern_and_path_take_no_noticeable_time() {
    let pattern = Pattern::parse(&format!("/{}x", "**/a*a*a*a*a/".repeat(15))).unwrap();
    assert!(!pattern.matches(
        &segments(&"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(MAX_SEGMENTS)).unwrap()
    ));
}

#[test]
fn the_normal_form_escapes_what_a_path_cannot_hold_and_nothing_that_needs_no_escape() {
    for (path, normal) in [
        ("/", "/"),
        ("/%65cho", "/echo"),
        ("/%7euser/%41%2D%5f", "/~user/A-_"),
        ("/a%3bb;c/%2a*%2c,/%40@%3a:", "/a%3Bb;c/%2A*%2C,/%40@%3A:"),
        ("/a%20b/[x]|^\"", "/a%20b/%5Bx%5D%7C%5E%22"),
        ("/caf\u{e9}/%c3%a9", "/caf%C3%A9/%C3%A9"),
        ("//a//", "//a//"),
    ] {
        assert_eq!(normalized(path).as_deref(), Ok(normal), "{path}");
        assert_eq!(normalized(normal).as_deref(), Ok(normal), "{path}");
    }
    for path in ["/%", "/a%4", "/%zz"] {
        assert_eq!(normalized(path), Err(BadPath::Escape), "{path}");
    }
}

proptest! {
    #[test]
    fn normalizing_is_idempotent_and_keeps_the_decided_segments(path in "/([a-c./;,*:|é\"%]|%[0-9a-fA-F]{2}){0,16}") {
        if let Ok(normal) = normalized(&path) {
            prop_assert_eq!(normalized(&normal), Ok(normal.clone()));
            prop_assert_eq!(segments(&normal), segments(&path));
        }
    }

    #[test]
    fn a_printed_pattern_parses_to_the_same_pattern(texts in prop::collection::vec("([a-z*,/ é?;.~\"]|%[2-7][0-9A-Fa-f]){0,6}", 1..5)) {
        if let Ok(pattern) = Pattern::parse(&format!("/{}", texts.join("/"))) {
            let printed = pattern.to_string();
            prop_assert!(printed.is_ascii() && !printed.contains([' ', ',']));
            prop_assert_eq!(Pattern::parse(&printed), Ok(pattern));
        }
    }

    #[test]
    fn a_pattern_without_wildcards_matches_only_its_own_path(one in "(/([a-z*.é;]|%3[Bb]){0,3}){1,4}", other in "(/([a-z*.é;]|%3[Bb]){0,3}){1,4}") {
        let pattern = Pattern::parse(&one.replace('*', "%2A"));
        if let (Ok(one), Ok(other)) = (segments(&one), segments(&other)) {
            let pattern = pattern.unwrap();
            prop_assert!(pattern.matches(&one));
            prop_assert_eq!(pattern.matches(&other), one == other);
        }
    }
}
