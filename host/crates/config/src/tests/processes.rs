//! Servers that are processes: `stdio_config` and `docker_config`.

use std::{any::Any, path::PathBuf, time::Duration};

use super::*;
use airlock_mcp_client::{
    Connector, Docker, Image, Mount, Network, Place, Process, ProcessLimits, Renewal,
};

/// Returns the settings of the transport of the only server.
fn transport<T: Connector + Clone>(file: &Value) -> T {
    let Source::Upstream(settings) = &good(file).clients[0].source else {
        panic!("an upstream server")
    };
    let transport: &dyn Any = &*settings.transport;
    transport.downcast_ref::<T>().expect("of this type").clone()
}

fn process(file: &Value) -> Process {
    transport(file)
}

fn stdio_with(key: &str, value: Value) -> Value {
    fs_with("stdio_config", with(json!({"command": "server"}), key, value))
}

fn docker_with(keys: &Value) -> Value {
    let mut config = json!({"command": ["server"]});
    for (key, value) in keys.as_object().expect("an object") {
        config[key] = value.clone();
    }
    clients(json!([{"name": "box", "connection_type": "docker", "docker_config": config}]))
}

fn docker(keys: &Value) -> Docker {
    transport(&docker_with(keys))
}

fn image(keys: &Value) -> Image {
    let Place::Own(image) = docker(keys).place else { panic!("a container of the gateway") };
    *image
}

#[test]
fn a_child_process_gets_the_listed_environment_and_basic_variables() {
    let file = clients(json!([{
        "name": "fs",
        "connection_type": "stdio",
        "stdio_config": {"command": "bin/server", "args": ["env.GOOD"], "envs": ["GOOD", "A=1", "B=env.GOOD_B", "C="]},
    }]));
    let process = process(&file);
    assert_eq!(
        (process.command.as_str(), process.args.as_slice()),
        ("/etc/airlock/bin/server", ["env.GOOD".to_owned()].as_slice())
    );
    let env: Vec<_> =
        process.env.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
    assert_eq!(
        env,
        [
            "A=1".to_owned(),
            format!("B={SECRET}-GOOD_B"),
            "C=".into(),
            format!("GOOD={SECRET}-GOOD"),
            "PATH=/usr/bin".into(),
        ]
    );
}

#[test]
fn a_configured_variable_wins_over_an_inherited_one() {
    let process = process(&stdio_with("envs", json!(["PATH=/opt/bin"])));
    let env: Vec<_> =
        process.env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("PATH", "/opt/bin")]);
}

#[test]
fn a_child_process_has_the_limits_and_paths_of_its_configuration() {
    let process = process(&fs_with(
        "stdio_config",
        json!({
            "command": "server",
            "cwd": "work",
            "limits": {"memory": "2GiB", "cpu_time": "10m", "open_files": 64, "processes": 32},
            "confine": {"read": ["/srv", "lib"], "write": ["work"], "required": false},
        }),
    ));
    assert_eq!(process.directory, Some("/etc/airlock/work".into()));
    let limits = ProcessLimits {
        memory_bytes: Some(2 << 30),
        cpu_time: Some(Duration::from_mins(10)),
        open_files: Some(64),
        processes: Some(32),
    };
    assert_eq!(process.limits, limits);
    let confinement = process.confinement.expect("it is confined");
    assert_eq!(confinement.read, [PathBuf::from("/srv"), "/etc/airlock/lib".into()]);
    assert_eq!(confinement.write, [PathBuf::from("/etc/airlock/work")]);
    assert!(!confinement.required);
}

#[test]
fn the_confinement_is_required_unless_written_otherwise() {
    let confined = process(&stdio_with("confine", json!({"read": ["/srv"]})));
    assert!(confined.confinement.is_some_and(|confinement| confinement.required));
    assert_eq!(process(&clients(json!([stdio("fs")]))).confinement, None);
    assert_snapshot!(error(&stdio_with("confine", json!({}))), @"mcp.client_configs[0].stdio_config.confine: names no path; list the paths that the process needs in `read` and `write`");
}

#[test]
fn a_process_has_the_network_of_the_machine_unless_it_shall_have_none() {
    assert_eq!(process(&clients(json!([stdio("fs")]))).network, Network::Host);
    assert_eq!(process(&stdio_with("network", json!("host"))).network, Network::Host);
    assert_eq!(process(&stdio_with("network", json!("none"))).network, Network::None);
    assert_snapshot!(error(&stdio_with("network", json!("bridge"))), @r#"mcp.client_configs[0].stdio_config.network: found "bridge", expected "host" or "none""#);
}

#[test]
fn a_process_is_replaced_at_an_age_and_a_size_unless_each_call_has_its_own() {
    let keys = json!({"command": "server", "max_age": "6h", "max_memory": "512MiB"});
    let renewal = renewal(&fs_with("stdio_config", keys.clone()));
    let six_hours = Duration::from_hours(6);
    assert_eq!((renewal.max_age, renewal.max_memory_bytes), (Some(six_hours), Some(512 << 20)));
    for (key, good, bad) in [
        ("max_age", ["1s", "365days"], ["999ms", "366days"]),
        ("max_memory", ["1MiB", "1048576GiB"], ["1023KiB", "1048577GiB"]),
    ] {
        for value in good {
            self::renewal(&stdio_with(key, json!(value)));
        }
        for value in bad {
            let error = error(&stdio_with(key, json!(value)));
            assert!(error.contains("must be from"), "{key}: {error}");
        }
    }
    let per_call = json!([{
        "name": "fs", "connection_type": "stdio", "lifecycle": "per_call", "stdio_config": keys,
    }]);
    assert_snapshot!(error(&clients(per_call)), @r#"
    mcp.client_configs[0].stdio_config.max_age: belongs to a client whose `lifecycle` is not "per_call": a process of one call ends with it
    mcp.client_configs[0].stdio_config.max_memory: belongs to a client whose `lifecycle` is not "per_call": a process of one call ends with it
    "#);
}

#[test]
fn a_server_has_up_to_sixteen_processes_unless_each_call_has_its_own() {
    for (instances, others) in [(1, 0), (3, 2), (16, 15)] {
        let config = good(&stdio_with("instances", json!(instances)));
        let Source::Upstream(settings) = &config.clients[0].source else { panic!("a server") };
        assert_eq!(settings.others.len(), others);
        assert!(settings.others.iter().all(|other| other.is_same(&*settings.transport)));
    }
    for instances in [0, 17] {
        let error = error(&stdio_with("instances", json!(instances)));
        assert!(error.contains("must be from 1 to 16"), "{error}");
    }
    let per_call = json!([{
        "name": "fs", "connection_type": "stdio", "lifecycle": "per_call",
        "stdio_config": {"command": "server", "instances": 2},
    }]);
    assert_snapshot!(error(&clients(per_call)), @r#"mcp.client_configs[0].stdio_config.instances: belongs to a server whose processes serve several calls: with the `lifecycle` "per_call", each call has its own"#);
}

fn renewal(file: &Value) -> Renewal {
    let Source::Upstream(settings) = &good(file).clients[0].source else {
        panic!("an upstream server")
    };
    settings.renewal
}

#[test]
fn limits_of_a_process_are_bounded_at_both_ends() {
    for (key, good, bad) in [
        ("memory", json!(["16MiB", "1048576GiB"]), json!(["15MiB", "1048577GiB"])),
        ("cpu_time", json!(["1s", "3650days"]), json!(["999ms", "3651days"])),
        ("open_files", json!([16, 1_048_576]), json!([15, 1_048_577])),
        ("processes", json!([1, 4_194_304]), json!([0, 4_194_305])),
    ] {
        for value in good.as_array().expect("a list") {
            process(&limited(key, value));
        }
        for value in bad.as_array().expect("a list") {
            assert!(error(&limited(key, value)).contains("must be from"), "{key}: {value}");
        }
    }
}

fn limited(key: &str, value: &Value) -> Value {
    stdio_with("limits", with(json!({}), key, value.clone()))
}

#[test]
fn a_container_is_restricted_unless_written_otherwise() {
    let settings = docker(&json!({"image": "tools"}));
    assert_eq!(settings.host, "unix:///var/run/docker.sock");
    assert!(settings.env.is_empty(), "a container inherits nothing");
    let expected = Image {
        name: "tools".into(),
        pull: false,
        main: vec!["sleep".into(), "2147483647".into()],
        network: "none".into(),
        memory_bytes: 512 << 20,
        nano_cpus: None,
        pids: 256,
        read_only: true,
        mounts: vec![],
        keep: false,
    };
    assert_eq!(settings.place, Place::Own(Box::new(expected)));
    let open = image(&json!({
        "image": "registry.example/tools:1", "network": "tools", "memory": "1GiB", "cpus": 0.5,
        "pids_limit": 8, "read_only": false, "pull": true, "keep": true, "main": ["idle"],
        "mounts": [{"source": "/srv", "target": "/data"}],
    }));
    let mount = Mount { source: "/srv".into(), target: "/data".into(), read_only: true };
    assert_eq!((open.nano_cpus, open.mounts, open.pids), (Some(500_000_000), vec![mount], 8));
}

#[test]
fn a_container_is_either_existing_or_of_an_image() {
    let existing = docker(&json!({"container": "box-1", "host": "tcp://127.0.0.1:2375"}));
    assert_eq!(existing.place, Place::Existing("box-1".into()));
    assert_snapshot!(error(&docker_with(&json!({}))), @"mcp.client_configs[0].docker_config: needs either `image` or `container`, and not both");
    assert_snapshot!(error(&docker_with(&json!({"container": "a", "memory": "1GiB"}))), @"mcp.client_configs[0].docker_config.memory: belongs to a container that is created from an `image`");
}

#[test]
fn settings_of_a_container_that_cannot_work_are_refused() {
    for (key, value, problem) in [
        ("image", json!("../x"), "is not the name of an image"),
        ("image", json!("x?y"), "is not the name of an image"),
        ("network", json!("a b"), "is not a network mode"),
        ("command", json!([]), "is empty"),
        ("main", json!([]), "is empty"),
        ("host", json!("tcp://10.0.0.1:2375"), "with a loopback address"),
        ("host", json!("ssh://host"), "forward its socket"),
        ("host", json!("unix://relative"), "must be `unix:///PATH`"),
        ("cpus", json!(0.001), "must be from"),
        ("cpus", json!(1025), "must be from"),
        ("memory", json!("5MiB"), "must be from"),
        ("pids_limit", json!(0), "must be from"),
        ("mounts", json!([{"source": "x", "target": "/x"}]), "must be an absolute path"),
        ("mounts", json!([{"source": "/x", "target": "x"}]), "must be an absolute path"),
    ] {
        let found = error(&docker_with(&with(json!({"image": "tools"}), key, value.clone())));
        assert!(found.contains(problem), "{key} {value}: {found}");
    }
    assert!(error(&docker_with(&json!({"container": "-x"}))).contains("is not the name"));
}

#[test]
fn times_in_milliseconds_are_refused_with_the_key_that_has_them() {
    for (more, expected) in [
        (
            json!({"requestTimeoutMs": 30_000}),
            "requestTimeoutMs: this build has no times without a unit: use `request_timeout` of the client",
        ),
        (
            json!({"restart": {"backoffMs": 500}}),
            "backoffMs: this build has no times without a unit: use `restart.backoff` of the client",
        ),
    ] {
        let mut client = json!({"name": "box", "connection_type": "docker",
            "docker_config": {"image": "a", "command": ["b"]}});
        for (key, value) in more.as_object().expect("an object") {
            client[key] = value.clone();
        }
        let error = error(&clients(json!([client])));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn settings_of_a_server_are_refused_for_a_plugin() {
    let plugin = json!({"name": "box", "connection_type": "wasm", "wasm_config": {"component": "a.wasm"},
        "restart": {"max_attempts": 3}, "auth_type": "oauth", "framing": "lines", "protocol": "auto"});
    let error = error(&clients(json!([plugin])));
    for (key, owner) in [
        ("restart", "that of an MCP server"),
        ("auth_type", "\"http\" or \"sse\""),
        ("framing", "\"stdio\" or \"docker\""),
        ("protocol", "that of an MCP server"),
    ] {
        let expected = format!("[0].{key}: belongs to a client whose `connection_type` is {owner}");
        assert!(error.contains(&expected), "{error}");
    }
}
