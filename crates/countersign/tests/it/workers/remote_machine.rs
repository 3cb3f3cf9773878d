//! A machine that reaches the server and nothing else.

use std::fs;
use std::path::PathBuf;

use crate::support::server::Server;
use crate::support::{Running, World};

/// Somebody else's machine: its own home, its own data directory, a token of the role `service`.
pub struct Machine<'a> {
    pub world: &'a World,
    pub url: &'a str,
    pub name: &'a str,
    pub token: String,
    /// More of its environment, `NAME=VALUE`.
    pub variables: Vec<String>,
}

impl<'a> Machine<'a> {
    pub fn new(world: &'a World, server: &'a Server<'_>, name: &'a str) -> Self {
        fs::create_dir_all(world.root().join(format!("{name}-home"))).unwrap();
        Self {
            world,
            url: &server.url,
            name,
            token: server.token(name, "service", &[]),
            variables: Vec::new(),
        }
    }

    /// The same with this in its environment.
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.variables.push(format!("{name}={value}"));
        self
    }

    pub fn data(&self) -> PathBuf {
        self.world.root().join(self.name)
    }

    /// A worker whose paths of repositories are another machine's.
    pub fn worker(&self, words: &[&str]) -> Running {
        let root = self.world.root();
        let crew = format!("scripted:{}", root.join("crew.json").display());
        let home = root.join(format!("{}-home", self.name));
        let home = format!("HOME={}", home.display());
        let token = format!("COUNTERSIGN_TOKEN={}", self.token);
        let data = self.data().display().to_string();
        let mut all = vec![home.as_str(), &token];
        all.extend(self.variables.iter().map(String::as_str));
        all.push(env!("CARGO_BIN_EXE_countersign"));
        all.extend(["--data-dir", &data, "--server", self.url, "worker"]);
        all.extend(["--name", self.name, "--elsewhere"]);
        all.extend(["--builder", &crew, "--reviewer", &crew]);
        all.extend(words);
        self.world.start_program("env", &all)
    }
}
