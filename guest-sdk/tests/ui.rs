//! What the macros accept and what they say of the rest: `ui/pass` compiles and runs, each file in
//! `ui/fail` fails with the message beside it.

#[test]
fn the_macros_accept_tools_and_say_what_is_wrong_with_the_rest() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
