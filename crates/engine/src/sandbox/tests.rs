use super::*;

fn confinement() -> Confinement {
    Confinement {
        rung: Rung::Native,
        read: vec!["/usr".into()],
        write: vec![],
        shut: vec![],
        masked: vec![],
        lent: vec![],
        layered: vec![],
        refused: vec![],
        hidden: vec![],
        network: Network::Off,
        metadata: false,
        bounds: Bounds::default(),
        proof: "/nowhere/proof.json".into(),
    }
}

fn read(text: &str) -> io::Result<Confinement> {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("confinement.json");
    fs::write(&file, text).unwrap();
    Confinement::read(&file)
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
        ("{\"rung\"", "{\"extra\":1,\"rung\""),
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
        confinement().proven(),
        Err(Error::NotConfined { .. })
    ));
}

#[test]
fn what_the_part_around_shows_is_not_mounted_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let outer = dir.path().canonicalize().unwrap().join("tools");
    let (own, inner) = (outer.join("own"), outer.join("own/inner"));
    fs::create_dir_all(&inner).unwrap();
    let places = |confinement: &Confinement| -> Vec<PathBuf> {
        let parts = root::parts(confinement).into_iter();
        let places = parts.map(|part| part.at);
        places.filter(|at| at.starts_with(&outer)).collect()
    };
    let seen = Confinement {
        read: vec![outer.clone(), own.clone(), inner.clone()],
        ..confinement()
    };
    assert_eq!(places(&seen), std::slice::from_ref(&outer));
    let written_between = Confinement {
        write: vec![own.clone()],
        ..seen.clone()
    };
    assert_eq!(
        places(&written_between),
        [outer.clone(), own.clone(), inner.clone()]
    );
    let hidden_between = Confinement {
        masked: vec![own.clone()],
        ..seen
    };
    assert_eq!(places(&hidden_between), [outer.clone(), own, inner]);
}

#[test]
fn a_layer_is_mounted_once_and_its_other_name_is_as_shut_as_the_real_one() {
    let dir = tempfile::TempDir::new().unwrap();
    let place = dir.path().canonicalize().unwrap();
    let (real, link) = (place.join("real"), place.join("link"));
    for part in ["git/hooks", "changes", "work"] {
        fs::create_dir_all(real.join(part)).unwrap();
    }
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let layered = Confinement {
        read: vec![link.join("git")],
        shut: vec![link.join("git/hooks")],
        layered: vec![Layered {
            dir: link.join("git"),
            changes: real.join("changes"),
            work: real.join("work"),
        }],
        ..confinement()
    };
    let parts = root::parts(&layered);
    let last = parts.last().unwrap();
    assert_eq!(last.at, link.join("git"));
    assert_eq!(
        last.what,
        root::What::Alias {
            of: real.join("git")
        }
    );
    let layers = parts
        .iter()
        .filter(|part| matches!(part.what, root::What::Layered { .. }));
    assert_eq!(layers.count(), 1);
    let places = root::Places::of(&parts);
    for name in [&real, &link] {
        assert!(places.is_writable(&name.join("git")));
        assert!(!places.is_writable(&name.join("git/hooks")));
    }
}
