//! Tests of bundles and their refs with several processes at once: nobody has a lease before a
//! ticket is claimed.

use super::*;

const NAME: &str = "refs/countersign/one/commits/x";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_bring_the_same_bundle_and_it_is_whole() {
    let ground = GitFixture::new().await;
    let (main, aside) = (ground.main().await, ground.dir.path().join("aside"));
    let packed = ground
        .repository
        .pack_commit(&main, None, 1 << 20, &aside)
        .await;
    let bytes = packed.unwrap().unwrap();
    let copy = ground.dir.path().join("copy");
    tool().ensure_empty_repository("main", &copy).await.unwrap();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (git, bytes, main) = (tool().repository_at(&copy), bytes.clone(), main.clone());
        all.spawn(async move { git.unpack_commit(bytes, &main, "refs/heads/main").await });
    }
    for brought in all.join_all().await {
        brought.unwrap();
    }
    assert_eq!(git(&copy, &["rev-parse", "main"]).trim(), main.as_str());
    git(&copy, &["fsck", "--strict"]);
    let packs = fs::read_dir(copy.join("objects/pack")).unwrap();
    let packs =
        packs.filter(|file| file.as_ref().unwrap().path().extension() == Some("pack".as_ref()));
    assert_eq!(packs.count(), 1, "one has taken it in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_ref_that_several_point_at_once_is_never_broken() {
    let ground = GitFixture::new().await;
    let main = ground.main().await;
    for round in 0..5 {
        let mut all = tokio::task::JoinSet::new();
        let name = format!("{NAME}{round}");
        for _ in 0..8 {
            let (git, main, name) = (ground.repository.clone(), main.clone(), name.clone());
            all.spawn(async move { git.share_ref(&name, &main, None).await });
        }
        for pointed in all.join_all().await {
            pointed.unwrap();
        }
        let now = ground.repository.read_ref(&name).await.unwrap();
        assert_eq!(now.as_ref(), Some(&main));
    }
    ground.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_mirror_that_was_cut_short_is_made_again() {
    let ground = GitFixture::new().await;
    let head = ground.change("t1", "x", "x").await;
    let base = ground.main().await;
    let (mirror, dir) = (ground.dir.path().join("m"), ground.dir.path().join("c"));
    let check_out = || {
        let (purpose, repository) = (CheckoutPurpose::Check, &ground.repository);
        repository.checkout(&head, &base, purpose, &mirror, &dir)
    };
    check_out().await.unwrap();
    let packs = || fs::read_dir(mirror.join("objects/pack")).unwrap();
    let names: Vec<PathBuf> = packs().map(|pack| pack.unwrap().path()).collect();
    assert!(names.len() >= 2, "{names:?}");
    for damaged in names.into_iter().chain([mirror.join("HEAD")]) {
        for length in [0, 10] {
            let file = fs::File::options().write(true).open(&damaged).unwrap();
            file.set_len(length).unwrap();
            let again = check_out().await;
            assert!(again.is_ok(), "{}: {again:?}", damaged.display());
            git(&mirror, &["fsck", "--full", "--strict"]);
            if damaged.ends_with("HEAD") {
                break;
            }
        }
    }
}

#[tokio::test]
async fn replicas_that_start_together_create_one_copy() {
    let dir = TempDir::new().unwrap();
    let copy = dir.path().join("repositories/one");
    let (tool, copy) = (tool(), &copy);
    let create = || tool.ensure_empty_repository("main", copy);
    // A killed process has left half of it.
    fs::create_dir_all(copy.with_extension("part").join("refs")).unwrap();
    let (a, b, c, d) = tokio::join!(create(), create(), create(), create());
    for created in [a, b, c, d] {
        created.unwrap();
    }
    let head = fs::read_to_string(copy.join("HEAD")).unwrap();
    assert_eq!(head, "ref: refs/heads/main\n");
    assert!(!copy.with_extension("part").exists());
}
