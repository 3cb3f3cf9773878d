//! A `PostgreSQL` of a test's own, which it may stop and start.

use crate::support::{Ran, World, skip, told};

/// A server of this test's own, which it may stop.
pub struct Database<'a> {
    pub world: &'a World,
}

impl<'a> Database<'a> {
    /// None, and said so, where no server is there to be tried.
    pub fn start(world: &'a mut World) -> Option<Self> {
        if told("COUNTERSIGN_TEST_POSTGRES").is_none() {
            skip::lacks("COUNTERSIGN_TEST_POSTGRES names no server");
            return None;
        }
        let state = world.root().display().to_string();
        world.variables.push(("CARGO_TARGET_DIR".to_owned(), state));
        let ran = call(world, "start").ends_with(0);
        let (_, address) = ran.out.lines().next().unwrap().split_once('=').unwrap();
        world.database = Some(address.trim_matches('\'').to_owned());
        Some(Self { world })
    }

    pub fn halt(&self) {
        call(self.world, "halt").ends_with(0);
    }

    pub fn again(&self) {
        call(self.world, "again").ends_with(0);
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        call(self.world, "stop");
    }
}

fn call(world: &World, verb: &str) -> Ran {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");
    world.shell("bash", &format!("exec bash {script} {verb}"))
}
