//! A real terminal to run the program on: what it writes is kept as it came, keys can be pressed,
//! and its modes looked at afterwards.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{DEADLINE, World, code_of, reached, until};

pub struct Terminal {
    child: Child,
    keys: File,
    /// Held open, so that the modes can be looked at after the program has gone.
    own: File,
    heard: Arc<Mutex<Heard>>,
}

/// Output of a program, as bytes and as a screen.
struct Heard {
    bytes: Vec<u8>,
    screen: vt100::Parser,
}

impl World {
    /// Starts Countersign on a terminal of this size.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program from outside, as a person does"
    )]
    pub fn on_terminal(
        &self,
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
        words: &[&str],
    ) -> Terminal {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name: CString = ptsname(&main, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let size = Winsize {
            ws_col: columns,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&main, size).unwrap();
        let own = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        let end = || own.try_clone().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .args(Self::words(words))
            .current_dir(&self.repository)
            .env_clear()
            .env("PATH", self.path())
            .env("HOME", self.root().join("home"))
            .env("USER", "ada")
            .env("COUNTERSIGN_DATA_DIR", &self.data)
            .envs(
                self.database
                    .iter()
                    .map(|url| ("COUNTERSIGN_DATABASE", url)),
            )
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .envs(variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let main = File::from(main);
        let heard = Heard {
            bytes: Vec::new(),
            screen: vt100::Parser::new(rows, columns, 1000),
        };
        let heard = listen(main.try_clone().unwrap(), heard);
        Terminal {
            child,
            keys: main,
            own,
            heard,
        }
    }
}

/// Reads until the terminal is gone.
fn listen(mut main: File, heard: Heard) -> Arc<Mutex<Heard>> {
    let heard = Arc::new(Mutex::new(heard));
    let ours = heard.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = main.read(&mut buffer) {
            let mut heard = ours.lock().unwrap();
            heard.bytes.extend(&buffer[..length]);
            heard.screen.process(&buffer[..length]);
        }
    });
    heard
}

impl Terminal {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// All that was written, escape sequences and all.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap().bytes).into_owned()
    }

    /// All that was written, without what moves and colours it.
    pub fn text(&self) -> String {
        let escape =
            regex::Regex::new("\u{1b}(?:\\[[0-9;?]*[a-zA-Z]|\\][^\u{1b}]*\u{1b}\\\\)").unwrap();
        escape.replace_all(&self.raw(), "").into_owned()
    }

    /// Returns the text on the screen now.
    pub fn screen(&self) -> String {
        self.heard.lock().unwrap().screen.screen().contents()
    }

    #[track_caller]
    pub fn shows(&self, text: &str) {
        let seen = reached(DEADLINE, || self.screen().contains(text));
        assert!(seen, "it never showed {text:?}:\n{}", self.screen());
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize {
            ws_col: columns,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.own, size).unwrap();
        let mut heard = self.heard.lock().unwrap();
        heard.screen.screen_mut().set_size(rows, columns);
    }

    /// Lines are edited and echoed, as a shell wants them.
    pub fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.own).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// The exit code, once it has ended and all is heard.
    #[track_caller]
    pub fn ends(&mut self) -> i32 {
        let mut ended = None;
        until("the program on the terminal ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        // Its last output may still be on its way to us.
        self.own.write_all(b"~the end~").unwrap();
        until("all is heard", || self.raw().contains("~the end~"));
        ended.map_or(-1, code_of)
    }
}

/// One that a failed test left behind.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
