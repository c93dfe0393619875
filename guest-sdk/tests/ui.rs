//! Code that the macros accept and refuse: `ui/pass` compiles and runs, each file in `ui/fail`
//! fails with the message next to it.

#[test]
fn the_macros_accept_tools_and_report_errors_in_the_rest() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
