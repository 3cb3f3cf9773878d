//! Rust, Go, the JVM, Ruby, PHP, .NET and other languages, and recipes of `make` and `just`.

use super::{ProjectSite, SetupPlan, SiteFindings, quote, workspace};

pub fn rust(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    if !site.has("Cargo.toml") {
        return;
    }
    found.language("Rust", "Cargo.toml");
    if !site.needs("cargo", "Cargo.toml needs it", found) {
        return;
    }
    let manifest: toml::Table = site.text("Cargo.toml").parse().unwrap_or_default();
    // In the root of a workspace with a package of its own, Cargo tests only that package.
    let all = if manifest.contains_key("workspace") {
        " --workspace"
    } else {
        ""
    };
    found.check("test", format!("cargo test{all}"));
    // A check with a missing program would make the base red, so it is not proposed.
    if (site.installed)("cargo-clippy") {
        let lint = format!("cargo clippy{all} --all-targets -- -D warnings");
        found.check("lint", lint);
    }
    if (site.installed)("cargo-fmt") {
        found.check("format", "cargo fmt --all --check");
    }
    let locked = if site.nearest(&["Cargo.lock"]).is_some() {
        " --locked"
    } else {
        ""
    };
    let caches = ["~/.cargo/registry", "~/.cargo/git", "target"];
    let fetch = SetupPlan::run(format!("cargo fetch{locked}"), &caches);
    // Cargo fetches by itself, and the user's own build results save the most time.
    found.setup(&site.below, vec![SetupPlan::own(&["target"]), fetch]);
}

pub fn go(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    let Some(file) = site.first(&["go.work", "go.mod"]) else {
        return;
    };
    found.language("Go", &file);
    if !site.needs("go", &format!("{file} needs it"), found) {
        return;
    }
    let packages = match file.as_str() {
        // `./...` does not reach into the modules of a workspace.
        "go.work" => work_modules(&site.text("go.work")),
        _ => "./...".to_owned(),
    };
    found.check("test", format!("go test {packages}"));
    let is_configured = site.has(".golangci.yml") || site.has(".golangci.yaml");
    if is_configured && (site.installed)("golangci-lint") {
        found.check("lint", "golangci-lint run");
    } else {
        found.check("lint", format!("go vet {packages}"));
    }
    let caches = ["~/go/pkg/mod", "~/.cache/go-build"];
    let plan = SetupPlan::run("go mod download", &caches);
    found.setup(&site.below, vec![plan]);
}

/// Returns the packages of all modules that a `go.work` uses.
fn work_modules(text: &str) -> String {
    let mut modules = Vec::new();
    let mut is_in_list = false;
    for line in text.lines() {
        // The file has its own syntax and no reader among our libraries; `use` is all that is
        // needed.
        let line = line.split("//").next().unwrap_or_default().trim();
        let module = match line.strip_prefix("use") {
            Some(rest) if rest.trim() == "(" => {
                is_in_list = true;
                continue;
            }
            Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim(),
            _ if line == ")" => {
                is_in_list = false;
                continue;
            }
            _ if is_in_list => line,
            _ => continue,
        };
        let module = module.trim_matches('"').trim_end_matches('/');
        if !module.is_empty() {
            modules.push(quote(&format!("{module}/...")));
        }
    }
    if modules.is_empty() {
        return "./...".to_owned();
    }
    modules.join(" ")
}

/// Maven and Gradle. A wrapper in the repository needs only Java.
pub fn jvm(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    let gradle = site.first(&[
        "build.gradle",
        "build.gradle.kts",
        "settings.gradle",
        "gradlew",
    ]);
    if let Some(file) = gradle {
        found.language("Java or Kotlin", &file);
        // `--no-daemon`: a daemon would outlive the check and be ended with it.
        if let Some(tool) = wrapper_or(site, "gradlew", "gradle", found) {
            let quiet = "--no-daemon --console=plain";
            found.check("test", format!("{tool} {quiet} test"));
            let caches = ["~/.gradle/caches", "~/.gradle/wrapper"];
            let plan = SetupPlan::run(format!("{tool} {quiet} testClasses"), &caches);
            found.setup(&site.below, vec![plan]);
        }
    } else if site.has("pom.xml") {
        found.language("Java", "pom.xml");
        if let Some(tool) = wrapper_or(site, "mvnw", "mvn", found) {
            let quiet = "--batch-mode --quiet";
            found.check("test", format!("{tool} {quiet} test"));
            let plan = SetupPlan::run(
                format!("{tool} {quiet} dependency:go-offline"),
                &["~/.m2/repository", "~/.m2/wrapper"],
            );
            found.setup(&site.below, vec![plan]);
        }
    }
}

fn wrapper_or(
    site: &ProjectSite<'_>,
    wrapper: &str,
    program: &str,
    found: &mut SiteFindings,
) -> Option<String> {
    // The wrapper has the version that the project wants.
    if site.has(wrapper) {
        let has_java = site.needs("java", &format!("{wrapper} needs it"), found);
        return has_java.then(|| format!("./{wrapper}"));
    }
    let because = format!("there is no {wrapper} in the repository");
    site.needs(program, &because, found)
        .then(|| program.to_owned())
}

/// Languages that need a test command only: name, alternative files (one must exist), program and
/// test command.
const PLAIN: &[(&str, &[&str], &str, &str)] = &[
    ("Deno", &["deno.json", "deno.jsonc"], "deno", "deno test"),
    ("Elixir", &["mix.exs"], "mix", "mix test"),
    ("Swift", &["Package.swift"], "swift", "swift test"),
    ("Zig", &["build.zig"], "zig", "zig build test"),
    ("Dart", &["pubspec.yaml"], "dart", "dart test"),
    ("Haskell", &["stack.yaml"], "stack", "stack test"),
    ("Scala", &["build.sbt"], "sbt", "sbt test"),
];

pub fn plain(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    for (language, files, program, test) in PLAIN {
        if let Some(file) = site.first(files) {
            found.language(language, &file);
            if site.needs(program, &format!("{file} needs it"), found) {
                found.check("test", *test);
            }
        }
    }
}

pub fn ruby(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    let Some(file) = site.first(&["Gemfile", "Rakefile", ".rspec"]) else {
        return;
    };
    found.language("Ruby", &file);
    // Without a Gemfile nothing says which gems the tests need.
    if !site.has("Gemfile") {
        return;
    }
    if !site.needs("bundle", "Gemfile needs it", found) {
        return;
    }
    let path = "BUNDLE_PATH=vendor/bundle";
    // A setup that changes the lock file would leave a change in every checkout.
    let frozen = if site.has("Gemfile.lock") {
        " BUNDLE_FROZEN=true"
    } else {
        ""
    };
    let run = format!("{path}{frozen} bundle install --quiet");
    found.setup(&site.below, vec![SetupPlan::run(run, &["vendor/bundle"])]);
    if site.has(".rspec") || site.has("spec") {
        found.check("test", format!("{path} bundle exec rspec"));
    } else if site.has("Rakefile") {
        found.check("test", format!("{path} bundle exec rake"));
    }
}

pub fn php(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    let Some(file) = site.first(&["composer.json", "phpunit.xml", "phpunit.xml.dist"]) else {
        return;
    };
    found.language("PHP", &file);
    if !site.has("composer.json") || !site.needs("composer", "composer.json needs it", found) {
        return;
    }
    let plan = SetupPlan::run(
        "composer install --no-interaction --no-progress --prefer-dist",
        &["vendor", "~/.cache/composer"],
    );
    found.setup(&site.below, vec![plan]);
    let manifest = serde_json::from_str(&site.text("composer.json"));
    let manifest: serde_json::Value = manifest.unwrap_or_default();
    let has_phpunit = site.has("phpunit.xml") || site.has("phpunit.xml.dist");
    // The project's own word for its tests comes before a guess.
    if !manifest["scripts"]["test"].is_null() {
        found.check("test", "composer test");
    } else if has_phpunit {
        found.check("test", "vendor/bin/phpunit");
    }
}

pub fn dotnet(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    if !workspace::has_dotnet_project(&site.dir()) {
        return;
    }
    found.language(".NET", "*.sln or *.csproj");
    if !site.needs("dotnet", "the project files need it", found) {
        return;
    }
    let locked = if site.has("packages.lock.json") {
        " --locked-mode"
    } else {
        ""
    };
    let run = format!("dotnet restore{locked}");
    found.setup(
        &site.below,
        vec![SetupPlan::run(run, &["~/.nuget/packages"])],
    );
    // The setup has restored already, and a check may be without a network.
    found.check("test", "dotnet test --no-restore");
}

/// Adds recipes of a Makefile or a justfile for checks that no language has added.
pub fn recipes(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    for (file, runner) in [
        ("Makefile", "make"),
        ("justfile", "just"),
        ("Justfile", "just"),
    ] {
        let text = site.text(file);
        for name in ["test", "lint"] {
            let mut lines = text.lines();
            let target = |line: &str| {
                // `tests:` and `test-all:` are other targets.
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.trim_start().starts_with(':'))
            };
            let because = format!("{file} needs it");
            if lines.any(target) && site.needs(runner, &because, found) {
                found.check(name, format!("{runner} {name}"));
            }
        }
    }
}
