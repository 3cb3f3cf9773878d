//! A clock that jumps: a library that is loaded before a program and adds to the time of day what a
//! file says. The monotonic clock stays as it is, as when a person or NTP sets the clock.

use std::fs;
use std::path::PathBuf;

use super::{DEADLINE, World};

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
  char text[32] = {0};
  const char *path = getenv("CLOCK_JUMP");
  if (!path) return 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  return count > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
"#;

pub struct Clock {
    library: String,
    jump: PathBuf,
}

impl Clock {
    /// `None` where there is no C compiler.
    pub fn new(world: &World) -> Option<Self> {
        let (source, library) = (world.put("clock.c", SOURCE), world.root().join("clock.so"));
        let library = library.to_str().unwrap().to_owned();
        let words = ["-shared", "-fPIC", "-O1", "-o", &library, &source];
        let compiled = world
            .start_program(
                "sh",
                &[
                    "-c",
                    "exec cc \"$@\"",
                    "cc",
                    words[0],
                    words[1],
                    words[2],
                    words[3],
                    words[4],
                    words[5],
                ],
            )
            .wait(DEADLINE);
        let clock = Self {
            library,
            jump: world.root().join("jump"),
        };
        clock.is_ahead_by(0);
        (compiled.code == 0).then_some(clock)
    }

    /// Returns the words in front of a program that has this clock.
    pub fn front(&self) -> Vec<String> {
        vec![
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library),
            format!("CLOCK_JUMP={}", self.jump.to_str().unwrap()),
        ]
    }

    /// Sets the clock so many seconds before the machine's own, or behind it.
    pub fn is_ahead_by(&self, seconds: i64) {
        let (new, text) = (self.jump.with_extension("new"), seconds.to_string());
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.jump).unwrap();
    }
}
