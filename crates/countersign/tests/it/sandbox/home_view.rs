//! A run sees only the named parts of a person's home: no secret next to them, no socket, no lock.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use engine::sandbox::SandboxLevel;
use rustix::fs::{FlockOperation, flock};

use super::homes::{Home, levels};

/// Files that hold somebody's secrets, in and around the directories of tools.
const SECRETS: &[&str] = &[
    ".aws/credentials",
    ".cargo/.npmrc",
    ".cargo/config.toml",
    ".cargo/credentials.toml",
    ".cargo/registry/credentials.toml",
    ".claude/settings.json",
    ".config/mise/config.toml",
    ".config/gh/hosts.yml",
    ".dotnet/key.pem",
    ".dotnet/tools/.env",
    ".git-credentials",
    ".local/bin/.env",
    ".local/lib/key.pem",
    ".local/lib/node_modules/x/.npmrc",
    ".local/share/mise/settings.toml",
    ".local/share/pnpm/global/.npmrc",
    ".local/share/uv/credentials/credentials.toml",
    ".local/share/uv/tools/credentials/token",
    ".local/state/x",
    ".netrc",
    ".npmrc",
    ".nvm/.npmrc",
    ".nvm/versions/node/v1/.npmrc",
    ".nvm/versions/node/v1/etc/npmrc",
    ".pyenv/.pypirc",
    ".pyenv/versions/3/pip.conf",
    ".rustup/secret",
    ".ssh/id_ed25519",
    "go/.netrc",
    "go/pkg/secret",
    "notes.txt",
    "sdk/.env",
    "work/app/.env",
    "work/app/bin/.env.local",
    "work/app/bin/key.pem",
    "work/other/file",
];

fn person() -> Home {
    let mut home = Home::new();
    for name in SECRETS {
        home.put(name, "TOP-SECRET -----BEGIN PRIVATE KEY-----\n");
    }
    for (name, text) in [
        (".cargo/bin/tool", "SHOWN\n"),
        (".cargo/registry/cache", "SHOWN\n"),
        (".nvm/versions/node/v1/lib/cacert.pem", "SHOWN\n"),
        ("work/app/bin/tool", "SHOWN\n"),
        ("sdk/file", "SHOWN\n"),
        ("single", "SHOWN\n"),
    ] {
        home.put(name, text);
    }
    home.on_path("work/app/bin");
    // None of these is a directory of tools.
    home.path.push(home.at(""));
    home.path.push(home.root());
    home.path.push(home.root().join("data"));
    home.show = vec![home.at("sdk"), home.at("single")];
    home
}

#[test]
fn no_secret_in_or_beside_a_tool_is_readable_on_any_level() {
    for level in levels() {
        let home = person();
        let all: Vec<String> = SECRETS
            .iter()
            .map(|name| home.at(name).display().to_string())
            .collect();
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        let (_, said) = home.run(level, Path::new("/bin/cat"), &words);
        assert!(
            !said.contains("TOP-SECRET"),
            "{} as {}: {said}",
            level.0,
            level.1
        );
        // A check that could not fail would prove nothing.
        assert!(fs::read_to_string(&all[0]).unwrap().contains("TOP-SECRET"));
        let shown = [
            ".cargo/bin/tool",
            ".cargo/registry/cache",
            ".nvm/versions/node/v1/lib/cacert.pem",
            "work/app/bin/tool",
            "sdk/file",
            "single",
        ];
        let shown = shown.map(|name| home.at(name).display().to_string());
        let words: Vec<&str> = shown.iter().map(String::as_str).collect();
        let (code, said) = home.run(level, Path::new("/bin/cat"), &words);
        assert_eq!(code, Some(0), "{} as {}: {said}", level.0, level.1);
        assert_eq!(said, "SHOWN\n".repeat(shown.len()));
        let search = ["-r", "TOP-SECRET", home.root().to_str().unwrap()].map(str::to_owned);
        let words: Vec<&str> = search.iter().map(String::as_str).collect();
        let (_, said) = home.run(level, Path::new("/bin/grep"), &words);
        assert!(
            !said.contains("PRIVATE KEY"),
            "{} as {}: {said}",
            level.0,
            level.1
        );
    }
}

/// Tries every way to the sockets and pipes that it is given, and says what it reached.
const KNOCK: &str = r#"
import os, socket, sys
stream, datagram, pipe = sys.argv[1:4]
def tried(name, body):
    try:
        body(); print("REACHED", name)
    except OSError as error:
        print("refused", name, error)
tried("stream", lambda: socket.socket(socket.AF_UNIX).connect(stream))
tried("seqpacket", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(stream))
tried("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", datagram))
tried("datagram of a pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", datagram))
tried("raw of a pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", datagram))
tried("connected pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect(datagram))
tried("link", lambda: (os.symlink(stream, "s"), socket.socket(socket.AF_UNIX).connect("s")))
def read():
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    if os.read(fd, 1) == b"": raise OSError("nobody writes")
tried("pipe", read)
print("END")
"#;

#[test]
fn no_socket_or_pipe_in_a_shown_directory_leads_to_anybody() {
    for level in levels() {
        let home = Home::new();
        home.put(".cargo/bin/tool", "");
        let at = |name: &str| home.at(&format!(".cargo/bin/{name}"));
        let listener = UnixListener::bind(at("stream")).unwrap();
        let datagrams = UnixDatagram::bind(at("datagram")).unwrap();
        listener.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        for name in ["stream", "datagram", "pipe"] {
            let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            fs::set_permissions(at(name), all).unwrap();
        }
        // Held open on both ends, with something in it to be stolen.
        let mut writer = File::options()
            .read(true)
            .write(true)
            .open(at("pipe"))
            .unwrap();
        std::io::Write::write_all(&mut writer, b"secret").unwrap();
        let places = ["stream", "datagram", "pipe"].map(|name| at(name).display().to_string());
        let mut words = vec!["-I", "-c", KNOCK];
        words.extend(places.iter().map(String::as_str));
        let (code, said) = home.run(level, Path::new("/usr/bin/python3"), &words);
        let column = format!("{} as {}: {said}", level.0, level.1);
        assert_eq!(code, Some(0), "{column}");
        assert!(said.contains("END"), "{column}");
        assert!(!said.contains("REACHED"), "{column}");
        assert!(listener.accept().is_err(), "{column}");
        assert!(datagrams.recv(&mut [0; 8]).is_err(), "{column}");
    }
}

/// Takes every kind of lock on the files it is given, says so and waits.
const LOCK: &str = r#"
import fcntl, sys
held = []
for name in sys.argv[1:]:
    for take in (lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB), lambda f: fcntl.fcntl(f, 1024, fcntl.F_RDLCK)):
        try:
            f = open(name); held.append(f); take(f)
        except OSError as error:
            print("refused", name, error, file=sys.stderr)
print("up", flush=True)
sys.stdin.read()
"#;

#[test]
fn a_lock_inside_holds_up_nobody_outside() {
    for level in levels() {
        let home = Home::new();
        let mut locks = vec![
            home.put(".cargo/registry/.package-cache", ""),
            home.put(".cargo/.package-cache", ""),
            home.put("go/pkg/mod/cache/lock", ""),
            home.put(".local/share/uv/tools/.lock", ""),
        ];
        if level.0 == SandboxLevel::Native {
            // Through an overlay every file is the run's own.
            locks.push(home.put(".cargo/bin/cargo", ""));
        }
        let mut words = vec!["-I", "-c", LOCK];
        let names: Vec<String> = locks
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        words.extend(names.iter().map(String::as_str));
        let mut child = home.start(level, Path::new("/usr/bin/python3"), &words);
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "{} as {}", level.0, level.1);
        for path in &locks {
            let file = File::options().write(true).open(path).unwrap();
            let got = flock(&file, FlockOperation::NonBlockingLockExclusive);
            assert!(
                got.is_ok(),
                "{} as {}: {}",
                level.0,
                level.1,
                path.display()
            );
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
