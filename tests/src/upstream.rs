//! The MCP server that misbehaves on request. Its modes are listed at the top of its source.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use crate::{Client, binary};

/// Returns the server over stdio, as a source of tools.
pub fn misbehaving<const N: usize>(name: &str, modes: [&str; N]) -> Client {
    Client::stdio(name, binary("misbehaving-server"), modes)
}

/// The server over HTTP, in its own process, which is killed with the value.
pub struct MisbehavingHttp {
    url: String,
    server: Child,
}

impl MisbehavingHttp {
    /// Starts the server on a port that the system chooses.
    pub fn start<const N: usize>(modes: [&str; N]) -> Self {
        let mut server = Command::new(binary("misbehaving-server"))
            .arg("http")
            .args(modes)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut url = String::new();
        let stdout = server.stdout.take().expect("piped above");
        BufReader::new(stdout).read_line(&mut url).expect("its first line is its URL");
        Self { url: url.trim_end().to_owned(), server }
    }

    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the source of tools that connects to it.
    pub fn client(&self, name: &str) -> Client {
        Client::http(name, &self.url)
    }
}

impl Drop for MisbehavingHttp {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
