//! Runs a script natively and prints the median time in nanoseconds. The first argument is the file
//! of the script, the second the number of runs. Its tools return at once.

use std::{env, fs, time::Instant};

use airlock_executor::{Binding, Language as _, Request, Script, ToolAnswer, ToolError, Tools};
use airlock_starlark::Starlark;

struct Echo;

impl Tools for Echo {
    fn call(&self, _: Request) -> Result<ToolAnswer, ToolError> {
        Ok(ToolAnswer::Text("ok".into()))
    }
}

fn main() {
    let mut arguments = env::args().skip(1);
    let file = arguments.next().expect("a script");
    let times: usize =
        arguments.next().and_then(|times| times.parse().ok()).expect("how often to run it");
    // The tools that the benchmarks' scripts call.
    let tools = [("hostile", "ok"), ("bench", "read"), ("bench", "write"), ("noop", "ok")];
    let bindings = tools.map(|(namespace, name)| {
        Binding::in_namespace(namespace, name, format!("{namespace}-{name}"))
    });
    let source = fs::read_to_string(file).expect("the script can be read");
    let script = Script::new("code.star", source, bindings.to_vec().into());
    Starlark::prepare();
    let mut took: Vec<_> = (0..times)
        .map(|_| {
            let began = Instant::now();
            Starlark::run(&script, &Echo, &|_| ()).expect("the script ends well");
            began.elapsed().as_nanos()
        })
        .collect();
    took.sort_unstable();
    println!("{}", took[took.len() / 2]);
}
