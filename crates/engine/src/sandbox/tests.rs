use super::*;

fn confinement() -> SandboxSpec {
    SandboxSpec {
        level: SandboxLevel::Native,
        read: vec!["/usr".into()],
        write: vec![],
        shut: vec![],
        masked: vec![],
        credentials: vec![],
        layered: vec![],
        links: vec![],
        refused: vec![],
        hidden: vec![],
        network: SandboxNetwork::Off,
        unix_sockets: false,
        metadata: false,
        bounds: SandboxLimits::default(),
        proof: "/nowhere/proof.json".into(),
    }
}

fn read(text: &str) -> io::Result<SandboxSpec> {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("confinement.json");
    fs::write(&file, text).unwrap();
    SandboxSpec::read(&file)
}

#[test]
fn what_is_written_is_what_is_read() {
    let text = serde_json::to_string(&confinement()).unwrap();
    assert_eq!(read(&text).unwrap(), confinement());
}

#[test]
fn an_unknown_rung_key_or_network_confines_nothing_and_starts_nothing() {
    let text = serde_json::to_string(&confinement()).unwrap();
    for (known, unknown) in [
        ("\"native\"", "\"none\""),
        ("\"native\"", "\"off\""),
        ("\"off\"", "\"maybe\""),
        ("\"metadata\"", "\"meta\""),
        ("{\"level\"", "{\"extra\":1,\"level\""),
        ("\"processes\"", "\"process\""),
    ] {
        let changed = text.replacen(known, unknown, 1);
        assert_ne!(changed, text);
        assert!(read(&changed).is_err(), "{changed}");
    }
    assert!(read("").is_err());
    assert!(read("{}").is_err());
}

#[test]
fn a_run_without_a_proof_was_not_confined() {
    assert!(matches!(
        confinement().read_proof(),
        Err(Error::NotConfined { .. })
    ));
}

#[test]
fn what_the_part_around_shows_is_not_mounted_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let outer = dir.path().canonicalize().unwrap().join("tools");
    let (own, inner) = (outer.join("own"), outer.join("own/inner"));
    fs::create_dir_all(&inner).unwrap();
    let places = |confinement: &SandboxSpec| -> Vec<PathBuf> {
        let parts = root::root_parts(confinement).unwrap().into_iter();
        let places = parts.map(|part| part.at);
        places.filter(|at| at.starts_with(&outer)).collect()
    };
    let seen = SandboxSpec {
        read: vec![outer.clone(), own.clone(), inner.clone()],
        ..confinement()
    };
    assert_eq!(places(&seen), std::slice::from_ref(&outer));
    let written_between = SandboxSpec {
        write: vec![own.clone()],
        ..seen.clone()
    };
    assert_eq!(
        places(&written_between),
        [outer.clone(), own.clone(), inner.clone()]
    );
    let hidden_between = SandboxSpec {
        masked: vec![own.clone()],
        ..seen
    };
    assert_eq!(places(&hidden_between), [outer.clone(), own, inner]);
}

/// Returns a temporary directory with its canonical path.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::TempDir::new().unwrap();
    let real = dir.path().canonicalize().unwrap();
    (dir, real)
}

#[test]
fn a_layer_is_mounted_once_and_its_other_name_is_a_link() {
    let (_dir, place) = place();
    let (real, link) = (place.join("real"), place.join("link"));
    for part in ["git/hooks", "changes", "work"] {
        fs::create_dir_all(real.join(part)).unwrap();
    }
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let layered = SandboxSpec {
        read: vec![link.join("git")],
        shut: vec![link.join("git/hooks")],
        layered: vec![OverlayDir {
            dir: link.join("git"),
            lowers: Vec::new(),
            changes: real.join("changes"),
            work: real.join("work"),
        }],
        proof: place.join("proof.json"),
        ..confinement()
    };
    let parts = root::root_parts(&layered.canonical().unwrap()).unwrap();
    let to = real.clone();
    let linked = root::RootPart {
        at: link,
        what: root::RootPartKind::Link { to },
    };
    assert!(parts.contains(&linked), "{parts:?}");
    let layers = parts
        .iter()
        .filter(|part| matches!(part.what, root::RootPartKind::Overlay { .. }));
    assert_eq!(layers.count(), 1);
    let places = root::RootParts::new(&parts);
    assert!(places.is_writable(&real.join("git")));
    assert!(!places.is_writable(&real.join("git/hooks")));
}

#[test]
fn a_path_that_is_not_canonical_confines_nothing_and_starts_nothing() {
    let bad = [
        "/usr/../usr",
        "/usr/",
        "usr",
        "/usr/./bin",
        "//usr",
        "/usr/..",
    ];
    for path in bad.map(PathBuf::from) {
        let one = vec![path.clone()];
        let known = confinement();
        let file = || CredentialMount {
            from: "/usr/a".into(),
            to: "/usr/b".into(),
        };
        let layer = || OverlayDir {
            dir: "/usr".into(),
            lowers: Vec::new(),
            changes: "/usr".into(),
            work: "/usr".into(),
        };
        let change = |apply: &dyn Fn(&mut SandboxSpec)| {
            let mut changed = known.clone();
            apply(&mut changed);
            changed
        };
        let specifications = [
            change(&|spec| spec.read = one.clone()),
            change(&|spec| spec.write = one.clone()),
            change(&|spec| spec.shut = one.clone()),
            change(&|spec| spec.masked = one.clone()),
            change(&|spec| spec.refused = one.clone()),
            change(&|spec| spec.hidden = one.clone()),
            change(&|spec| spec.proof = path.clone()),
            change(&|spec| {
                spec.credentials = vec![CredentialMount {
                    from: path.clone(),
                    ..file()
                }];
            }),
            change(&|spec| {
                spec.credentials = vec![CredentialMount {
                    to: path.clone(),
                    ..file()
                }];
            }),
            change(&|spec| {
                spec.layered = vec![OverlayDir {
                    dir: path.clone(),
                    ..layer()
                }];
            }),
            change(&|spec| {
                spec.layered = vec![OverlayDir {
                    changes: path.clone(),
                    ..layer()
                }];
            }),
            change(&|spec| {
                spec.layered = vec![OverlayDir {
                    lowers: vec![path.clone()],
                    ..layer()
                }];
            }),
            change(&|spec| {
                spec.layered = vec![OverlayDir {
                    work: path.clone(),
                    ..layer()
                }];
            }),
            change(&|spec| {
                spec.links = vec![Symlink {
                    at: path.clone(),
                    to: "x".into(),
                }];
            }),
        ];
        for (number, one) in specifications.iter().enumerate() {
            let text = serde_json::to_string(one).unwrap();
            assert!(read(&text).is_err(), "{number}: {text}");
        }
    }
}

#[test]
fn what_is_written_down_is_canonical_whatever_was_given() {
    let (_dir, place) = place();
    for part in ["home", "repository", "probe", "own"] {
        fs::create_dir_all(place.join(part)).unwrap();
    }
    fs::write(place.join("probe/F.sh"), "#!/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("probe", place.join("other")).unwrap();
    let given = SandboxSpec {
        read: vec![
            place.join("repository/../probe/F.sh"),
            place.join("./other/F.sh"),
            place.join("probe/"),
            place.join("dangling"),
        ],
        write: vec![place.join("home/../own")],
        proof: place.join("home/../own/proof.json"),
        ..confinement()
    };
    let file = given.write().unwrap();
    let written = SandboxSpec::read(&file).unwrap();
    assert_eq!(
        written.read,
        [place.join("probe"), place.join("probe/F.sh")]
    );
    assert_eq!(written.write, [place.join("own")]);
    let link = Symlink {
        at: place.join("other"),
        to: "probe".into(),
    };
    assert_eq!(written.links, [link]);
    let gone = SandboxSpec {
        write: vec![place.join("gone")],
        ..given
    };
    assert!(matches!(gone.write(), Err(Error::NotConfined { .. })));
}

// Nothing is mounted if a mount point would have to be created in a directory of the person's.
#[test]
fn a_mount_point_that_is_missing_or_of_another_kind_is_refused() {
    let (_dir, place) = place();
    let at = |name: &str| place.join(name);
    for part in ["shown/dir", "own"] {
        fs::create_dir_all(at(part)).unwrap();
    }
    for file in ["shown/file", "own/file", "credentials"] {
        fs::write(at(file), "").unwrap();
    }
    std::os::unix::fs::symlink(at("credentials"), at("shown/link")).unwrap();
    let credentials = |to: PathBuf| {
        let confinement = SandboxSpec {
            read: vec![at("shown")],
            write: vec![at("own")],
            credentials: vec![CredentialMount {
                from: at("credentials"),
                to,
            }],
            ..confinement()
        };
        root::root_parts(&confinement).map_err(|error| error.to_string())
    };
    assert!(credentials(at("own/file")).is_ok());
    assert!(
        credentials(at("elsewhere/file")).is_ok(),
        "in a root of our own"
    );
    for (to, why) in [
        ("own/missing", "would have to be created"),
        ("shown/missing", "would have to be created"),
        ("shown/dir", "is a directory"),
        ("shown/file/below", "would have to be created"),
        ("shown/link", "symbolic link"),
    ] {
        let refused = credentials(at(to)).unwrap_err();
        assert!(refused.contains(why), "{to}: {refused}");
    }
}

// Sockets and pipes lead to processes outside.
#[test]
fn a_socket_that_is_named_is_not_shown() {
    let (_dir, place) = place();
    let socket = place.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let named = SandboxSpec {
        read: vec![socket.clone()],
        ..confinement()
    };
    let parts = root::root_parts(&named).unwrap();
    assert!(!parts.iter().any(|part| part.at == socket));
}
