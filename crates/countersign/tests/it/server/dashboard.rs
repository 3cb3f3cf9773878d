//! Login to the dashboard, its sessions, and forms that other sites send.

use crate::support::clock::Clock;
use crate::support::server::{Reply, Server};
use crate::support::{World, skip};

/// A browser: it keeps its cookie and the token of its forms.
pub struct Browser<'a> {
    server: &'a Server<'a>,
    cookie: String,
    pub form_token: String,
}

impl<'a> Browser<'a> {
    /// Logs in with a login code or a token.
    #[track_caller]
    pub fn log_in(server: &'a Server<'a>, secret: &str) -> Self {
        let reply = log_in(server, secret).is(303);
        let mut browser = Self {
            server,
            cookie: cookie_of(&reply),
            form_token: String::new(),
        };
        let page = browser.get("/settings").is(200);
        browser.form_token = field(&page.body, "form_token");
        browser
    }

    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    pub fn get(&self, path: &str) -> Reply {
        self.server
            .send("GET", path, &[("Cookie", &self.cookie)], "")
    }

    /// Sends a form, as a browser does.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let origin = format!("http://{}", self.server.address);
        let own = [("form_token", self.form_token.as_str())];
        self.post_as(
            path,
            &[&own, fields].concat(),
            &[("Origin", origin.as_str())],
        )
    }

    pub fn post_as(&self, path: &str, fields: &[(&str, &str)], more: &[(&str, &str)]) -> Reply {
        let headers = [&[("Cookie", self.cookie.as_str()), FORM][..], more].concat();
        self.server.send("POST", path, &headers, &encoded(fields))
    }
}

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

fn encoded(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        let byte = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        text.bytes().map(byte).collect()
    };
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    pairs.join("&")
}

fn log_in(server: &Server<'_>, secret: &str) -> Reply {
    let body = encoded(&[("secret", secret), ("next", "/board")]);
    server.send("POST", "/login", &[FORM], &body)
}

#[track_caller]
fn cookie_of(reply: &Reply) -> String {
    let line = reply
        .head
        .lines()
        .find(|line| line.to_lowercase().starts_with("set-cookie:"));
    let line = line.unwrap_or_else(|| panic!("no cookie: {}", reply.head));
    let pair = line.split_once(": ").unwrap().1.split(';').next().unwrap();
    pair.to_owned()
}

/// The value of a hidden field.
#[track_caller]
pub fn field(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let rest = page
        .split_once(&mark)
        .unwrap_or_else(|| panic!("no field {name}: {page}"))
        .1;
    rest.split('"').next().unwrap().to_owned()
}

fn code_of(world: &World) -> String {
    let link = world.json(&["open"])["login"].as_str().unwrap().to_owned();
    link.split_once('#').unwrap().1.to_owned()
}

#[test]
fn a_login_link_works_once_and_opens_the_inbox() {
    let world = World::new();
    let server = Server::start(&world);
    let code = code_of(&world);
    let first = log_in(&server, &code).is(303);
    assert!(
        first.head.to_lowercase().contains("location: /board"),
        "{}",
        first.head
    );
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(first.head.contains(part), "{}", first.head);
    }
    assert!(
        !first.head.contains("Secure"),
        "loopback without TLS: {}",
        first.head
    );
    let second = log_in(&server, &code).is(401);
    assert!(
        second.body.contains("A login link works once"),
        "{}",
        second.body
    );
    let browser = Browser::log_in(&server, &code_of(&world));
    let page = browser.get("/").is(200);
    assert!(
        page.body.contains("Nothing waits for a person."),
        "{}",
        page.body
    );
    // Neither the code nor the session is a token for programs, and the server keeps no secret.
    let cookie = browser.cookie.split_once('=').unwrap().1.to_owned();
    for secret in [code.as_str(), cookie.as_str()] {
        server.rest_as(secret, "GET", "/api/v1/status", "").is(401);
    }
    log_in(&server, &cookie).is(401);
    assert!(
        !world
            .json(&["token", "list"])
            .to_string()
            .contains("session")
    );
}

#[test]
fn without_a_session_pages_lead_to_the_login_and_forms_are_refused() {
    let world = World::new();
    let server = Server::start(&world);
    for path in [
        "/",
        "/board",
        "/tickets",
        "/tickets/x",
        "/agents",
        "/queues",
        "/costs",
        "/log",
        "/settings",
    ] {
        let reply = server.send("GET", path, &[], "").is(303);
        assert!(reply.head.contains("/login?next="), "{}", reply.head);
    }
    for path in [
        "/tickets/x/cancel",
        "/pauses",
        "/settings/tokens",
        "/logout",
    ] {
        server.send("POST", path, &[FORM], "why=x").is(401);
    }
    server
        .send("GET", "/pages/events?topic=board", &[], "")
        .is(401);
    let forged = [("Cookie", "cs=cs_00")];
    server.send("GET", "/", &forged, "").is(303);
    for role in ["builder", "reviewer", "verifier", "service"] {
        let token = server.token(&format!("a-{role}"), role, &[]);
        let reply = log_in(&server, &token).is(403);
        assert!(reply.body.contains("opens no session"), "{}", reply.body);
    }
    let page = server.send("GET", "/login", &[], "").is(200);
    assert!(page.body.contains("Login code or token"));
}

#[test]
fn a_session_ends_by_logout_by_revocation_and_with_its_token() {
    let world = World::new();
    let server = Server::start(&world);
    let token = server.token("ada", "human", &[]);
    let (one, two) = (
        Browser::log_in(&server, &token),
        Browser::log_in(&server, &token),
    );
    one.post("/logout", &[]).is(303);
    one.get("/").is(303);
    two.get("/").is(200);
    let list = world.json(&["token", "list"]);
    let items = list["items"].as_array().unwrap();
    let id = items.iter().find(|item| item["agent"] == "ada").unwrap()["id"].clone();
    world
        .call(&["token", "revoke", id.as_str().unwrap()])
        .ends_with(0);
    two.get("/").is(303);
    let admin = Browser::log_in(&server, &code_of(&world));
    let other = Browser::log_in(&server, &code_of(&world));
    let page = other.get("/settings").is(200).body;
    let own = page.split("this one").nth(1).unwrap();
    let action = own.split_once("action=\"/settings/sessions/").unwrap().1;
    let session = action.split('/').next().unwrap();
    admin
        .post(&format!("/settings/sessions/{session}/revoke"), &[])
        .is(303);
    other.get("/").is(303);
    let log = world.json(&["log", "--limit", "100"]).to_string();
    assert!(log.contains("logged in to the dashboard"), "{log}");
}

#[test]
fn a_session_ends_half_a_day_after_the_last_visit_and_after_a_week_at_most() {
    const HOUR: i64 = 3600;
    let world = World::new();
    let Some(clock) = Clock::new(&world) else {
        return skip::lacks("a C compiler (cc) for a clock that jumps");
    };
    let front = clock.front();
    let front: Vec<&str> = front.iter().map(String::as_str).collect();
    let server = Server::start_behind(&world, &front, &[]);
    let token = server.token("ada", "human", &[]);
    let (used, idle) = (
        Browser::log_in(&server, &token),
        Browser::log_in(&server, &token),
    );
    for visit in 1..=15 {
        clock.is_ahead_by(visit * 11 * HOUR);
        used.get("/").is(200);
        // An open page that only listens is no visit.
        let status = if visit == 1 { 400 } else { 401 };
        idle.get("/pages/events?topic=nothing").is(status);
    }
    clock.is_ahead_by(7 * 24 * HOUR + 60);
    used.get("/").is(303);
}

#[test]
fn forms_of_other_sites_change_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let browser = Browser::log_in(&server, &code_of(&world));
    let why = ("why", "because");
    let token = ("form_token", browser.form_token.as_str());
    let own = format!("http://{}", server.address);
    let cancel = "/tickets/greet/cancel";
    for (fields, headers) in [
        (vec![why, token], vec![("Origin", "http://evil.example")]),
        (vec![why, token], vec![("Origin", "null")]),
        (vec![why, token], vec![("Host", "evil.example")]),
        (vec![why, token], vec![("Sec-Fetch-Site", "cross-site")]),
        (vec![why, token], vec![("Sec-Fetch-Site", "same-site")]),
        (vec![why], vec![("Origin", own.as_str())]),
        (
            vec![why, ("form_token", "cs_0")],
            vec![("Origin", own.as_str())],
        ),
    ] {
        browser.post_as(cancel, &fields, &headers).is(403);
    }
    // Another session's token is no token for this one, and a page read changes nothing.
    let other = Browser::log_in(&server, &code_of(&world));
    let foreign = [why, ("form_token", other.form_token.as_str())];
    browser
        .post_as(cancel, &foreign, &[("Origin", &own)])
        .is(403);
    browser.get(cancel).is(405);
    assert_eq!(server.stage("greet"), "queued");
    browser.post(cancel, &[why]).is(303);
    assert_eq!(server.stage("greet"), "cancelled");
}

#[test]
fn a_viewer_reads_and_changes_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let token = server.token("vic", "viewer", &[]);
    let browser = Browser::log_in(&server, &token);
    let page = browser.get("/tickets/greet").is(200).body;
    assert!(
        page.contains("read-only") && !page.contains("Cancel this ticket"),
        "{page}"
    );
    browser
        .post("/tickets/greet/cancel", &[("why", "x")])
        .is(403);
    browser
        .post("/pauses", &[("scope", "queue"), ("name", "build")])
        .is(403);
    browser
        .post("/settings/tokens", &[("agent", "x"), ("role", "admin")])
        .is(403);
    server.rest_as(&token, "GET", "/api/v1/tickets", "").is(200);
    server.rest_as(&token, "GET", "/api/v1/tokens", "").is(403);
    let body = r#"{"why": "x"}"#;
    server
        .rest_as(&token, "POST", "/api/v1/tickets/greet/cancel", body)
        .is(403);
    assert_eq!(server.stage("greet"), "queued");
}

#[test]
fn every_page_has_the_policy_and_assets_have_a_tag() {
    let world = World::new();
    let server = Server::start(&world);
    let browser = Browser::log_in(&server, &code_of(&world));
    for path in [
        "/",
        "/board",
        "/tickets",
        "/epics",
        "/agents",
        "/queues",
        "/costs",
        "/log",
        "/settings",
        "/tickets/none",
        "/login",
        "/assets/dashboard.css",
    ] {
        let reply = browser.get(path);
        let head = reply.head.to_lowercase();
        assert!(
            head.contains(
                "content-security-policy: default-src 'self'; script-src 'self'; style-src 'self'"
            ),
            "{path}: {head}"
        );
        assert!(head.contains("x-content-type-options: nosniff"), "{path}");
        for inline in [" style=\"", "<style", "onclick=", "hx-on", "javascript:"] {
            assert!(
                path.starts_with("/assets") || !reply.body.contains(inline),
                "{path}: {inline}"
            );
        }
    }
    browser.get("/tickets/none").is(404);
    let mut bytes = 0;
    for file in [
        "dashboard.css",
        "dashboard.js",
        "live.js",
        "htmx.min.js",
        "hx-sse.min.js",
    ] {
        let path = format!("/assets/{file}");
        let first = server.send("GET", &path, &[], "").is(200);
        bytes += first.body.len();
        let tag = first
            .head
            .lines()
            .find_map(|line| line.strip_prefix("etag: "))
            .unwrap()
            .to_owned();
        server
            .send("GET", &path, &[("If-None-Match", &tag)], "")
            .is(304);
    }
    assert!(bytes < 100_000, "{bytes}");
    server.send("GET", "/assets/../Cargo.toml", &[], "").is(404);
}
