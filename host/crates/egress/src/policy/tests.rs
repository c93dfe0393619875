use super::*;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts
        .iter()
        .map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
        .collect()
}

/// Returns a requested side with one request, `r`.
fn requests(rules: Vec<Rule>) -> Destinations {
    [("r".to_owned(), rules)].into()
}

fn decide(requested: Option<&[&str]>, granted: &[&str], url: &str) -> Result<Permit, MissingRule> {
    let requested = requested.map(|texts| requests(rules(texts)));
    let policy = Policy::new(requested, rules(granted), Bounds::PLUGIN).unwrap();
    policy.decide(&Target::parse(url).unwrap(), &Method::GET)
}

#[test]
fn a_request_is_permitted_only_if_a_rule_of_each_side_matches() {
    let wide = "https://*.x.com GET /**";
    let narrow = "https://api.x.com GET /v1/**";
    let inside = "https://api.x.com/v1/a";
    let outside = "https://api.x.com/v2";
    assert!(decide(Some(&[wide]), &[narrow], inside).is_ok());
    assert!(decide(Some(&[narrow]), &[wide], inside).is_ok());
    assert!(decide(None, &[narrow], inside).is_ok());
    assert_eq!(decide(Some(&[wide]), &[narrow], outside), Err(MissingRule::Grant));
    let excluded = MissingRule::Part { name: "r".to_owned(), excluded: ExcludedPart::Path };
    assert_eq!(decide(Some(&[narrow]), &[wide], outside), Err(excluded));
    assert_eq!(decide(None, &[narrow], outside), Err(MissingRule::Grant));
    assert_eq!(decide(Some(&[]), &[wide], inside), Err(MissingRule::Request));
    assert_eq!(decide(Some(&[wide]), &[], inside), Err(MissingRule::Grant));
    assert_eq!(
        Policy::closed().decide(&Target::parse(inside).unwrap(), &Method::GET),
        Err(MissingRule::Grant)
    );
}

#[test]
fn a_request_that_its_author_excludes_is_told_from_one_that_is_not_granted() {
    let requested: Destinations = [
        ("read", "https://api.x.com GET /v1/**"),
        ("send", "https://api.x.com POST /v1/send"),
        ("other", "https://*.y.com GET /**"),
    ]
    .map(|(name, rule)| (name.to_owned(), rules(&[rule])))
    .into();
    let v1 = "https://api.x.com/v1/a";
    // With and without a grant: none would help.
    for granted in [&[][..], &["https://api.x.com GET,POST,PUT /**"]] {
        assert_eq!(
            missing(&requested, granted, &Method::GET, "https://api.x.com/"),
            part("read", ExcludedPart::Path)
        );
        assert_eq!(
            missing(&requested, granted, &Method::POST, v1),
            part("send", ExcludedPart::Path)
        );
        assert_eq!(
            missing(&requested, granted, &Method::PUT, v1),
            part("read", ExcludedPart::Method)
        );
        assert_eq!(
            missing(&requested, granted, &Method::PUT, "https://a.y.com/"),
            part("other", ExcludedPart::Method)
        );
        for elsewhere in ["http://api.x.com/v1/a", "https://api.x.com:1/v1/a", "https://x.com"] {
            assert_eq!(
                missing(&requested, granted, &Method::GET, elsewhere),
                MissingRule::Request,
                "{elsewhere}"
            );
        }
    }
    assert_eq!(
        missing(&requested, &["https://api.x.com GET /v2/**"], &Method::GET, v1),
        MissingRule::Grant
    );
}

fn missing(requested: &Destinations, granted: &[&str], method: &Method, url: &str) -> MissingRule {
    let policy = Policy::new(Some(requested.clone()), rules(granted), Bounds::PLUGIN);
    let missing = policy.unwrap().decide(&Target::parse(url).unwrap(), method);
    missing.unwrap_err()
}

fn part(name: &str, excluded: ExcludedPart) -> MissingRule {
    MissingRule::Part { name: name.to_owned(), excluded }
}

#[test]
fn a_request_is_private_only_if_both_sides_have_a_private_rule() {
    let public = "http://x.com GET /**";
    let private = "http://x.com GET /** private";
    assert_eq!(is_private(Some(&[private]), &[private]), Ok(true));
    assert_eq!(is_private(Some(&[public, private]), &[private, public]), Ok(true));
    assert_eq!(is_private(Some(&[public]), &[private]), Ok(false));
    assert_eq!(is_private(Some(&[private]), &[public]), Ok(false));
    assert_eq!(is_private(None, &[private]), Ok(true));
    // `private` on a rule that does not match has no effect.
    assert_eq!(
        is_private(
            None,
            &[public, "http://y.com GET /** private", "http://x.com POST /** private"]
        ),
        Ok(false)
    );
}

fn is_private(requested: Option<&[&str]>, granted: &[&str]) -> Result<bool, MissingRule> {
    decide(requested, granted, "http://x.com/").map(|permit| permit.private)
}

#[test]
fn the_number_of_hosts_is_limited_if_one_side_names_them() {
    let wide = "https://*.x.com GET /**";
    let narrow = "https://a.x.com GET /**";
    assert!(any_host(Some(&[wide]), &[wide]) && any_host(None, &[wide]));
    assert!(!any_host(Some(&[narrow]), &[wide]) && !any_host(Some(&[wide]), &[wide, narrow]));
}

fn any_host(requested: Option<&[&str]>, granted: &[&str]) -> bool {
    decide(requested, granted, "https://a.x.com/").unwrap().any_host
}

/// Returns a policy that grants three destinations to a plugin, two of them with the same host,
/// for a tool that declares some of them.
fn narrowed(declared: &[&str]) -> Policy {
    let destinations = [
        ("read", "https://api.x.com GET /**"),
        ("write", "https://api.x.com GET,POST /v1/** private"),
        ("other", "https://*.y.com GET /**"),
    ];
    let all = rules(&destinations.map(|(_, rule)| rule));
    let destinations = destinations.map(|(name, rule)| (name.to_owned(), rules(&[rule])));
    let policy = Policy::new(Some(requests(all.clone())), all, Bounds::PLUGIN).unwrap();
    let declared = declared.iter().map(|name| (*name).to_owned()).collect();
    policy.narrowed(&Arc::new(destinations.into()), &declared)
}

fn declaration(name: &str) -> MissingRule {
    MissingRule::Declaration(name.to_owned())
}

#[test]
fn a_tool_that_declares_some_destinations_reaches_no_other_and_learns_which_one_to_declare() {
    let v1 = "https://api.x.com/v1/a";
    assert!(decide_declared(&["read"], &Method::GET, v1).is_ok());
    assert_eq!(decide_declared(&["read"], &Method::POST, v1), Err(declaration("write")));
    assert!(decide_declared(&["write"], &Method::POST, v1).is_ok());
    assert_eq!(
        decide_declared(&["write"], &Method::GET, "https://api.x.com/"),
        Err(declaration("read"))
    );
    for declared in [&["read", "write"][..], &[]] {
        let other = decide_declared(declared, &Method::GET, "https://a.y.com/");
        assert_eq!(other, Err(declaration("other")), "{declared:?}");
    }
    // A destination outside the requests is refused as ever.
    for declared in [&["other"][..], &["read"]] {
        let outside = decide_declared(declared, &Method::GET, "https://z.com/");
        assert_eq!(outside, Err(MissingRule::Request), "{declared:?}");
    }
}

fn decide_declared(declared: &[&str], method: &Method, url: &str) -> Result<Permit, MissingRule> {
    narrowed(declared).decide(&Target::parse(url).unwrap(), method)
}

#[test]
fn a_request_is_within_every_declared_destination_that_has_a_rule_for_it() {
    let plugin = narrowed(&["read", "other"]);
    let destinations = plugin.scope.as_ref().unwrap().destinations.clone();
    let whole = Policy { scope: None, ..plugin.clone() };
    let v1 = "https://api.x.com/v1/a";
    assert_eq!(within(&destinations, &whole, &Method::GET, v1), "read write");
    assert_eq!(within(&destinations, &whole, &Method::POST, v1), "write");
    assert_eq!(within(&destinations, &plugin, &Method::GET, v1), "read");
    assert_eq!(within(&destinations, &plugin, &Method::GET, "https://a.y.com/"), "other");
}

fn within(destinations: &Destinations, policy: &Policy, method: &Method, url: &str) -> String {
    let target = Target::parse(url).unwrap();
    policy.destinations_of(destinations, &target, method).join(" ")
}

#[test]
fn a_tool_has_only_the_private_networks_and_the_host_patterns_of_its_destinations() {
    let v1 = "https://api.x.com/v1/a";
    assert!(!permit(&["read"], v1).private);
    assert!(permit(&["write"], v1).private && permit(&["read", "write"], v1).private);
    assert!(permit(&["other"], "https://a.y.com/").any_host && !permit(&["read"], v1).any_host);
}

fn permit(declared: &[&str], url: &str) -> Permit {
    narrowed(declared).decide(&Target::parse(url).unwrap(), &Method::GET).unwrap()
}

#[test]
fn a_credential_goes_only_to_a_declared_destination_of_its_audience() {
    // Both destinations permit the request; only one is of the audience.
    assert_eq!(check(&["read"], &["write"]), Err(declaration("write")));
    assert_eq!(check(&["write"], &["write"]), Ok(()));
    assert_eq!(check(&["read"], &["read", "write"]), Ok(()));
    // The operator chose this host for a destination without one.
    assert_eq!(check(&["other"], &["other"]), Ok(()));
    assert_eq!(check(&["read"], &["other"]), Err(declaration("other")));
    assert_eq!(check(&["other"], &["open", "other"]), Err(declaration("open")));
    assert_eq!(check(&["read"], &[]), Ok(()));
}

fn check(declared: &[&str], audience: &[&str]) -> Result<(), MissingRule> {
    let audience = audience.iter().map(|name| (*name).to_owned()).collect();
    let target = Target::parse("https://api.x.com/v1/a").unwrap();
    narrowed(declared).check_audience(&audience, &target, &Method::GET)
}

#[test]
fn more_than_64_rules_on_one_side_are_refused() {
    assert!(Policy::new(Some(two_destinations(32, 32)), many(64), Bounds::PLUGIN).is_ok());
    for (requested, granted) in [(two_destinations(32, 33), 1), (two_destinations(1, 0), 65)] {
        let error = Policy::new(Some(requested), many(granted), Bounds::PLUGIN).unwrap_err();
        assert_eq!(error.to_string(), "found 65 rules, expected at most 64");
    }
}

fn many(count: usize) -> Vec<Rule> {
    vec!["https://x.com GET /".parse().unwrap(); count]
}

fn two_destinations(of_one: usize, of_other: usize) -> Destinations {
    [("one".to_owned(), many(of_one)), ("other".to_owned(), many(of_other))].into()
}
