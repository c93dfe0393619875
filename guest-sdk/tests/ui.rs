//! Code that the macros refuse: each file in `ui/fail` fails with the message next to it. What they accept is in the tests
//! beside this one: cases that fail are only checked, but for a case that runs, every dependency would be built again.

#[test]
fn the_macros_report_errors_at_their_places() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
}
