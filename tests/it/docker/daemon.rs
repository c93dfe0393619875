//! A Docker daemon of one test.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use airlock_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Name of the image.
pub(crate) const IMAGE: &str = "airlock-test:1";
/// Programs of busybox that the server uses.
const APPLETS: [&str; 18] = [
    "cat", "env", "grep", "id", "kill", "ls", "printf", "ps", "sed", "setsid", "sh", "sleep",
    "touch", "tr", "true", "echo", "mkdir", "test",
];

/// A daemon with a private socket, without networks. It is stopped with the value.
pub(crate) struct Daemon {
    directory: TempDir,
    daemon: Child,
}

impl Daemon {
    /// Starts a daemon and imports the image. Returns the reason if that is impossible here.
    pub(crate) async fn start() -> Result<Self, String> {
        let [dockerd, busybox] = ["dockerd", "busybox"]
            .map(|name| found(name).ok_or(format!("{name} is not installed")));
        let dockerd = dockerd?;
        let busybox = busybox?;
        let is_static = fs::read(&busybox).is_ok_and(|program| {
            // A dynamic program names its loader.
            !program[..program.len().min(8192)].windows(4).any(|bytes| bytes == b"/ld-")
        });
        if !is_static {
            return Err("busybox is not static: install busybox-static".into());
        }
        if !rustix::process::geteuid().is_root() {
            return Err("a Docker daemon needs root".into());
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = fs::File::create(directory.path().join("log")).expect("a file");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let daemon = Command::new(dockerd)
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--storage-driver=vfs", "--shutdown-timeout=1"])
            .args(["--data-root", &path("data"), "--exec-root", &path("exec")])
            .args(["--pidfile", &path("pid"), "--host", &format!("unix://{}", path("socket"))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it can be started");
        let mut this = Self { directory, daemon };
        if let Some(reason) = this.ended_or_ready().await {
            return Err(reason);
        }
        this.import(&busybox);
        Ok(this)
    }

    /// Waits until the daemon answers. Returns the end of its log if it has ended instead.
    async fn ended_or_ready(&mut self) -> Option<String> {
        let command = || self.command(&["version"]);
        let version = command();
        let daemon = &mut self.daemon;
        let mut version = version;
        let has_ended =
            wait::until_within(wait::COMPILED, "the Docker daemon to answer", async || {
                let status = version.stdout(Stdio::null()).stderr(Stdio::null()).status();
                match daemon.try_wait().expect("a child") {
                    Some(_) => Some(true),
                    None => status.is_ok_and(|status| status.success()).then_some(false),
                }
            })
            .await;
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let last = log.lines().next_back().unwrap_or_default();
        has_ended.then(|| format!("the Docker daemon does not run here: {last}"))
    }

    /// Imports an image with busybox and the server.
    fn import(&self, busybox: &Path) {
        let root = self.directory.path().join("root");
        for directory in ["bin", "tmp", "proc", "sys", "dev", "etc"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        fs::copy(busybox, root.join("bin/busybox")).expect("a copy");
        for applet in APPLETS {
            symlink("busybox", root.join("bin").join(applet)).expect("a link");
        }
        let server = root.join("server");
        fs::write(&server, include_str!("server.sh")).expect("a file");
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).expect("its owner");
        let archive = self.directory.path().join("image.tar");
        let packed = Command::new("tar")
            .arg("-C")
            .arg(&root)
            .arg("-cf")
            .arg(&archive)
            .arg(".")
            .status()
            .expect("tar is installed");
        assert!(packed.success());
        self.docker(&["import", &archive.display().to_string(), IMAGE]);
    }

    /// Returns the address for the configuration.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("socket").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg("--host").arg(self.host()).args(arguments);
        command
    }

    /// Runs the command line of Docker and returns its output. Panics if it fails.
    pub(crate) fn docker(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("docker is installed");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "docker {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Returns the names of all containers.
    pub(crate) fn containers(&self) -> Vec<String> {
        let names = self.docker(&["ps", "--all", "--format", "{{.Names}}"]);
        names.lines().map(str::to_owned).collect()
    }

    /// Returns a property of a container, by a template.
    pub(crate) fn inspect(&self, container: &str, template: &str) -> String {
        self.docker(&["inspect", "--format", template, container])
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let containers = self.command(&["ps", "--all", "--quiet"]).output();
        let containers = containers.map(|output| output.stdout).unwrap_or_default();
        for container in String::from_utf8_lossy(&containers).lines() {
            let _ = self.command(&["rm", "--force", container]).output();
        }
        // With SIGTERM it also ends its own helpers.
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        let _ = self.daemon.wait();
    }
}

/// Finds a program in `PATH`, and where Debian puts those of the administrator.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]);
    places.map(|place| Path::new(place).join(name)).find(|file| file.is_file())
}
