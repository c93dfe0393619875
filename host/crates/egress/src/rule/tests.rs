use proptest::prelude::*;

use super::*;

const NONE: [&str; 0] = [];

fn rule(url: &str) -> Rule {
    Rule::new(url, &NONE, &NONE, false).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn lets_out(rule: &Rule, method: &Method, url: &str) -> bool {
    rule.matches(&Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")), method)
}

#[test]
fn rules_print_in_one_canonical_form() {
    insta::assert_snapshot!(printed("https://API.github.com:443", &[], &[], false), @"https://api.github.com GET,HEAD /**");
    insta::assert_snapshot!(
        printed("HTTPS://api.github.com./", &["POST", "GET", "GET"], &["/user", "/repos/**"], true),
        @"https://api.github.com GET,POST /repos/**,/user private"
    );
    insta::assert_snapshot!(printed("http://*.Bücher.de:8080", &["GET"], &[], false), @"http://*.xn--bcher-kva.de:8080 GET /**");
    insta::assert_snapshot!(printed("http://0x7f.1:80/v1", &["PUT"], &[], true), @"http://127.0.0.1 PUT /v1,/v1/** private");
    insta::assert_snapshot!(printed("http://[::FFFF:10.0.0.1]/v1/", &["GET"], &[], true), @"http://10.0.0.1 GET /v1/** private");
    insta::assert_snapshot!(printed("https://[2606:4700::1111]:8443", &["GET"], &["/"], false), @"https://[2606:4700::1111]:8443 GET /");
    insta::assert_snapshot!(printed("https://h.example", &["GET"], &["/a,b c/%2A/é"], false), @"https://h.example GET /a%2Cb%20c/%2A/%C3%A9");
    insta::assert_snapshot!(printed("https://h.example/a*b", &["GET"], &[], false), @"https://h.example GET /a%2Ab,/a%2Ab/**");
}

fn printed(url: &str, methods: &[&str], paths: &[&str], private: bool) -> String {
    Rule::new(url, methods, paths, private).unwrap().to_string()
}

#[test]
fn an_invalid_rule_is_refused_with_the_found_and_expected_text() {
    insta::assert_snapshot!(why("api.x.com", "GET", ""), @r#"found "api.x.com", expected a URL that begins with https:// or http://"#);
    insta::assert_snapshot!(why("ftp://x.com", "GET", ""), @r#"found "ftp://x.com", expected a URL that begins with https:// or http://"#);
    insta::assert_snapshot!(why("https://", "GET", ""), @r#"found "https://", expected a URL such as https://api.example.com: empty host"#);
    insta::assert_snapshot!(why("https://x.com:0", "GET", ""), @r#"found "https://x.com:0", expected a URL such as https://api.example.com: the port must not be 0"#);
    insta::assert_snapshot!(why("https://*", "GET", ""), @r#"found the host "*", expected a name, an address, or `*.` and a name"#);
    insta::assert_snapshot!(why("https://*.com", "GET", ""), @r#"found the host "com", expected at least two labels behind `*.`, as in *.example.com"#);
    insta::assert_snapshot!(why("https://*.127.0.0.1", "GET", ""), @r#"found the host "127.0.0.1", expected at least two labels behind `*.`, as in *.example.com"#);
    insta::assert_snapshot!(why("https://a.*.com", "GET", ""), @r#"found the host "a.*.com", expected a name, an address, or `*.` and a name"#);
    insta::assert_snapshot!(why("https://*.*.x.com", "GET", ""), @r#"found the host "*.x.com", expected a name, an address, or `*.` and a name"#);
    insta::assert_snapshot!(why("https://me:pw@x.com", "GET", ""), @r#"found a user or password in "https://me:pw@x.com", expected an origin and at most a path"#);
    insta::assert_snapshot!(why("https://x.com/?q", "GET", ""), @r#"found a query in "https://x.com/?q", expected an origin and at most a path"#);
    insta::assert_snapshot!(why("https://x.com/#f", "GET", ""), @r##"found a fragment in "https://x.com/#f", expected an origin and at most a path"##);
    insta::assert_snapshot!(why("https://x.com", "get", ""), @r#"found the method "get", expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE"#);
    insta::assert_snapshot!(why("https://x.com", "*", ""), @r#"found the method "*", expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE"#);
    insta::assert_snapshot!(why("https://x.com", "TRACE", ""), @r#"found the method "TRACE", expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE"#);
    insta::assert_snapshot!(why("https://x.com", "GET", "repos"), @r#"found the path "repos": expected a `/` at the beginning"#);
    insta::assert_snapshot!(why("https://x.com/v1", "GET", "/a"), @r#"found a path in "https://x.com/v1" and a list of paths, expected one of them"#);
    insta::assert_snapshot!(why("https://x.com/a%2fb", "GET", ""), @r#"found the path "/a%2fb": an encoded slash cannot occur in a request"#);
    insta::assert_snapshot!(why(&format!("https://x.com/{}", "a".repeat(1011)), "GET", ""), @"found 1025 bytes, expected at most 1024");
    let many = vec!["/a"; 33];
    insta::assert_snapshot!(Rule::new("https://x.com", &NONE, &many, false).unwrap_err(), @"found 33 paths, expected at most 32");
    insta::assert_snapshot!(Rule::new("https://x.com", &vec!["GET"; 17], &NONE, false).unwrap_err(), @"found 17 methods, expected at most 16");
    insta::assert_snapshot!("https://x.com GET".parse::<Rule>().unwrap_err(), @r#"found "https://x.com GET", expected "<origin> <METHOD,METHOD> <path,path>", and "private" after it where that is meant"#);
    assert!("https://x.com GET / public".parse::<Rule>().is_err());
    assert!("https://x.com  GET /".parse::<Rule>().is_err());
}

fn why(url: &str, method: &str, path: &str) -> String {
    let paths: &[&str] = if path.is_empty() { &[] } else { &[path] };
    Rule::new(url, &[method], paths, false).unwrap_err().to_string()
}

#[test]
fn a_rule_matches_its_host_in_every_spelling_and_no_other_host() {
    for (of, inside, outside) in [
        (
            "https://api.example.com",
            "https://api.example.com https://API.EXAMPLE.COM https://api.example.com. https://api.example.com:443/x https://%61pi.example.com",
            "http://api.example.com https://api.example.com:8443 https://example.com https://x.api.example.com https://api.example.com.evil.org https://apiXexample.com",
        ),
        (
            "https://*.example.com",
            "https://a.example.com https://a.b.example.com https://A.Example.Com. https://x-y.example.com",
            "https://example.com https://notexample.com https://example.com.evil.org https://a.example.org https://a.example.com:444 http://a.example.com",
        ),
        (
            "http://bücher.de",
            "http://xn--bcher-kva.de http://BÜCHER.de http://b%C3%BCcher.de",
            "http://bucher.de https://bücher.de",
        ),
        (
            "http://127.0.0.1:80",
            "http://127.0.0.1 http://127.1 http://2130706433 http://0x7f000001 http://0177.1 http://[::ffff:127.0.0.1] http://127.0.0.1.",
            "http://127.0.0.2 http://[::1] http://localhost http://127.0.0.1:81 http://[::127.0.0.1] http://127.0.0.1.nip.io",
        ),
        (
            "http://[::1]:9",
            "http://[::1]:9 http://[0:0::0:1]:9",
            "http://[::2]:9 http://127.0.0.1:9 http://[::1]",
        ),
        (
            "https://1.1.1.1",
            "https://1.1.1.1 https://1.1.257",
            "https://one.one.one.one https://1.1.1.2",
        ),
    ] {
        for url in inside.split(' ') {
            assert!(lets_out(&rule(of), &Method::GET, url), "{of} {url}");
        }
        for url in outside.split(' ') {
            assert!(!lets_out(&rule(of), &Method::GET, url), "{of} {url}");
        }
    }
}

#[test]
fn a_rule_without_methods_permits_get_and_head() {
    let rule = rule("https://x.com");
    for (method, expected) in
        [("GET", true), ("HEAD", true), ("POST", false), ("OPTIONS", false), ("PROPFIND", false)]
    {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(lets_out(&rule, &method, "https://x.com/"), expected, "{method}");
    }
    let post = Rule::new("https://x.com", &["POST"], &NONE, false).unwrap();
    assert!(
        lets_out(&post, &Method::POST, "https://x.com/")
            && !lets_out(&post, &Method::GET, "https://x.com/")
    );
}

#[test]
fn a_rule_without_paths_permits_the_path_of_its_url_and_below() {
    for (of, inside, outside) in [
        ("https://x.com", "/ /a /a/b/", ""),
        ("https://x.com/v1", "/v1 /v1/ /v1/a/b /v1/../v1/a", "/ /v10 /v1/../v2 /V1 /v2/v1"),
        ("https://x.com/v1/", "/v1/ /v1/a", "/v1 /v2"),
        ("https://x.com/a/../b", "/b /b/c", "/a /a/b"),
    ] {
        for path in inside.split(' ') {
            assert!(
                lets_out(&rule(of), &Method::GET, &format!("https://x.com{path}")),
                "{of} {path}"
            );
        }
        for path in outside.split(' ').filter(|path| !path.is_empty()) {
            assert!(
                !lets_out(&rule(of), &Method::GET, &format!("https://x.com{path}")),
                "{of} {path}"
            );
        }
    }
}

#[test]
fn the_missing_rule_permits_the_request_and_no_other_path() {
    for (method, url, told) in [
        ("GET", "https://H.example:443/a*b/c,d%20?q=1", "https://h.example GET /a%2Ab/c%2Cd%20"),
        ("DELETE", "http://[0::1]:8080/", "http://[::1]:8080 DELETE /"),
        ("GET", "http://[::ffff:10.0.0.1]//x/", "http://10.0.0.1 GET //x/"),
        ("POST", "http://bücher.de./x", "http://xn--bcher-kva.de POST /x"),
        ("PUT", "http://[64:ff9b::1.2.3.4]:443/", "http://[64:ff9b::102:304]:443 PUT /"),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let needed = Rule::needed(&Target::parse(url).unwrap(), &method, false);
        assert_eq!(needed, told, "{url}");
        let rule: Rule = needed.parse().unwrap();
        assert!(lets_out(&rule, &method, url) && rule.to_string() == needed, "{rule}");
        assert!(!lets_out(&rule, &method, &format!("{}/y", url.split('?').next().unwrap())));
    }
}

#[test]
fn the_missing_rule_is_bounded_whatever_the_path_holds() {
    let path = format!("/{}{}", "x".repeat(65), "/é".repeat(127));
    let url = format!("https://h.example{path}");
    for is_secret in [false, true] {
        let needed = Rule::needed(&Target::parse(&url).unwrap(), &Method::GET, is_secret);
        let rule: Rule = needed.parse().unwrap();
        assert!(needed.len() < 200 && lets_out(&rule, &Method::GET, &url), "{needed}");
    }
    let secret = Target::parse("https://h.example/a//b").unwrap();
    assert_eq!(Rule::needed(&secret, &Method::GET, true), "https://h.example GET /*//*");
}

#[test]
fn a_rule_contains_another_if_it_visibly_permits_everything_that_the_other_permits() {
    let wide = "https://*.example.com GET,POST /v1/**,/a*b";
    for (inside, is_inside) in [
        (wide, true),
        ("https://x.example.com GET /v1/a", true),
        ("https://*.x.example.com POST /v1/a/**", true),
        ("https://x.example.com GET /a*b", true),
        ("https://x.example.com GET /axb", false),
        ("https://example.com GET /v1/a", false),
        ("https://x.example.com:444 GET /v1/a", false),
        ("http://x.example.com GET /v1/a", false),
        ("https://x.example.com PUT /v1/a", false),
        ("https://x.example.com GET /v1/a,/v2", false),
        ("https://x.example.com GET /v1/a private", false),
    ] {
        assert_eq!(parsed(wide).contains(&parsed(inside)), is_inside, "{inside}");
    }
    let private = format!("{wide} private");
    assert!(parsed(&private).contains(&parsed(wide)));
}

#[test]
fn a_rule_for_an_address_that_no_request_would_reach_is_refused() {
    for text in
        ["http://10.0.0.1:80", "http://127.0.0.1:8080", "https://[::1]", "https://[fd00::1]"]
    {
        assert!(reachable(&format!("{text} GET /**")).is_err(), "{text}");
        assert!(reachable(&format!("{text} GET /** private")).is_ok(), "{text}");
    }
    assert!(reachable("https://8.8.8.8 GET /**").is_ok());
    assert!(reachable("https://localhost.example GET /**").is_ok());
    insta::assert_snapshot!(
        reachable("http://[::ffff:10.0.0.1] GET /**").unwrap_err(),
        @"found the private address 10.0.0.1, expected a public one, or `private` set to true beside it"
    );
    insta::assert_snapshot!(
        reachable("http://169.254.169.254 GET /** private").unwrap_err(),
        @"found the address 169.254.169.254, which no rule can permit, expected a public or a private one"
    );
}

fn reachable(text: &str) -> Result<Rule, String> {
    parsed(text).reachable().map_err(|bad| bad.to_string())
}

#[test]
fn rules_serialize_as_their_text() {
    let rule = Rule::new("https://x.com", &["GET"], &["/a/**"], true).unwrap();
    let stored = serde_json::to_string(&rule).unwrap();
    assert_eq!(stored, r#""https://x.com GET /a/** private""#);
    assert_eq!(serde_json::from_str::<Rule>(&stored).unwrap(), rule);
    assert!(serde_json::from_str::<Rule>(r#""https://* GET /""#).is_err());
}

fn parsed(text: &str) -> Rule {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn an_intersection_keeps_only_requests_that_both_rules_match() {
    for (one, other, both) in [
        ("https://a.com GET /**", "https://a.com GET /**", "https://a.com GET /**"),
        (
            "https://*.a.com GET /**",
            "https://x.a.com GET,POST /v1/**",
            "https://x.a.com GET /v1/**",
        ),
        ("https://*.a.com GET /**", "https://*.x.a.com GET /**", "https://*.x.a.com GET /**"),
        (
            "https://a.com GET,HEAD /**",
            "https://a.com GET,POST /v1/**,/user",
            "https://a.com GET /user,/v1/**",
        ),
        (
            "https://a.com GET /v1/**",
            "https://a.com GET /v1/**/x,/v1/",
            "https://a.com GET /v1/,/v1/**/x",
        ),
        ("https://a.com GET /a%2Cb/**", "https://a.com GET /a%2Cb/c", "https://a.com GET /a%2Cb/c"),
        ("http://127.0.0.1:8080 GET /", "http://127.1:8080 GET /", "http://127.0.0.1:8080 GET /"),
        ("https://a.com:8443 GET /**", "https://*.com.example GET /**", ""),
        ("https://a.com GET /**", "http://a.com GET /**", ""),
        ("https://a.com GET /**", "https://a.com:8443 GET /**", ""),
        ("https://*.a.com GET /**", "https://a.com GET /**", ""),
        ("https://*.a.com GET /**", "https://xa.com GET /**", ""),
        ("https://*.a.com GET /**", "https://*.xa.com GET /**", ""),
        ("https://a.com GET /**", "https://a.com POST /**", ""),
        ("https://a.com GET /v1/**", "https://a.com GET /v1,/v10/x,/v2/**", ""),
    ] {
        let expected = (!both.is_empty()).then(|| parsed(both));
        assert_eq!(parsed(one).intersect(&parsed(other)), expected, "{one} and {other}");
        assert_eq!(parsed(other).intersect(&parsed(one)), expected, "{other} and {one}");
    }
    let open = parsed("https://a.com GET /** private");
    let closed = parsed("https://a.com GET /**");
    assert_eq!(
        (open.intersect(&open), open.intersect(&closed)),
        (Some(open.clone()), Some(closed))
    );
}

#[test]
fn an_intersection_with_more_paths_than_a_rule_may_hold_is_none() {
    let kept = rule_with("a", "b", 16).intersect(&rule_with("b", "a", 16)).unwrap();
    assert_eq!(kept.to_string().parse(), Ok(kept));
    assert_eq!(rule_with("a", "b", 17).intersect(&rule_with("b", "a", 16)), None);
}

fn rule_with(wide: &str, below: &str, count: usize) -> Rule {
    let paths = [vec![format!("/{wide}/**")], paths_below(below, count)].concat();
    Rule::new("https://a.com", &["GET"], &paths, false).unwrap()
}

fn paths_below(below: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("/{below}/{index}")).collect()
}

#[test]
fn rules_share_a_host_only_with_the_same_scheme_and_port() {
    for (one, other, expected) in [
        ("https://a.com GET /a", "https://a.com POST /b", true),
        ("https://*.a.com GET /", "https://x.a.com GET /", true),
        ("https://*.a.com GET /", "https://a.com GET /", false),
        ("https://a.com GET /", "http://a.com GET /", false),
        ("https://a.com GET /", "https://a.com:8443 GET /", false),
    ] {
        assert_eq!(parsed(one).shares_host(&parsed(other)), expected, "{one} and {other}");
        assert_eq!(parsed(other).shares_host(&parsed(one)), expected, "{other} and {one}");
    }
}

proptest! {
    #[test]
    fn an_intersection_matches_no_request_that_one_of_the_rules_does_not(
        rules in prop::array::uniform2((
            "https?",
            "(\\*\\.)?(b\\.)?a\\.com(:8080)?",
            prop::sample::subsequence(vec!["GET", "POST", "PUT"], 1..3),
            prop::collection::vec("(/(a|b|a\\*|\\*\\*)){1,3}", 1..4),
        )),
        urls in prop::collection::vec("https?://(c\\.)?(b\\.)?a\\.com(:8080)?(/(a|b|ab|)){1,3}", 8),
    ) {
        let [one, other] = rules.map(|(scheme, host, methods, paths)| {
            Rule::new(&format!("{scheme}://{host}"), &methods, &paths, false)
        });
        if let (Ok(one), Ok(other)) = (one, other) {
            let both = one.intersect(&other);
            prop_assert_eq!(&both, &other.intersect(&one));
            for (url, method) in urls.iter().flat_map(|url| [(url, Method::GET), (url, Method::POST)]) {
                if both.as_ref().is_some_and(|both| lets_out(both, &method, url)) {
                    prop_assert!(lets_out(&one, &method, url) && lets_out(&other, &method, url));
                }
            }
        }
    }

    #[test]
    fn a_printed_rule_parses_to_the_same_rule(
        scheme in "https?",
        host in prop_oneof!["[a-zA-Zéß][a-zA-Z0-9é-]{0,5}(\\.[a-z]{2,4}){1,2}\\.?", "\\*\\.[a-z]{1,3}\\.[a-z]{2}", "[0-9]{1,3}(\\.[0-9]{1,3}){0,3}", "\\[[0-9a-f]{1,4}::[0-9a-f]{1,4}\\]"],
        port in prop::option::of(1u16..),
        methods in prop::collection::vec("[A-Z]{3,7}", 0..4),
        path in "(/[a-z%2Fé;*]{0,4}){0,2}",
        paths in prop::collection::vec("(/([a-z*%, é.]{0,5}|\\*\\*)){1,4}", 0..4),
        private: bool,
    ) {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        if let Ok(rule) = Rule::new(&format!("{scheme}://{host}{port}{path}"), &methods, &paths, private) {
            prop_assert_eq!(rule.to_string().parse(), Ok(rule));
        }
    }
}
