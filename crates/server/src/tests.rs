//! Makes the tables of `docs/server.md` from the tools of each role and from the table of routes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use app::operations::questions::Method;
use expect_test::expect_file;
use flow::Role;

use crate::mcp::tool_access::tools_of_role;
use crate::web::api::{RouteAccess, routes};

fn assert_table(name: &str, table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.md");
    let text = fs::read_to_string(&page).unwrap();
    let begin = format!("<!-- {name}:begin -->\n");
    let end = format!("<!-- {name}:end -->");
    let (before, rest) = text.split_once(&begin).expect(name);
    let (_, after) = rest.split_once(&end).expect(name);
    expect_file![page].assert_eq(&format!("{before}{begin}{table}{end}{after}"));
}

#[test]
fn the_tools_of_each_role_are_in_the_document() {
    let roles = [
        Role::Builder,
        Role::Reviewer,
        Role::Verifier,
        Role::Human,
        Role::Service,
        Role::Admin,
    ];
    let mut names: Vec<&str> = Vec::new();
    for name in roles.iter().flat_map(|role| tools_of_role(*role)) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let heads: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    let mut table = format!("| tool | {} |\n|---|", heads.join(" | "));
    table.push_str(&"---|".repeat(roles.len()));
    table.push('\n');
    for name in names {
        write!(table, "| `{name}` |").unwrap();
        for role in roles {
            let may = tools_of_role(role).contains(&name);
            table.push_str(if may { " ✓ |" } else { " |" });
        }
        table.push('\n');
    }
    assert_table("mcp-tools", &table);
}

#[test]
fn the_routes_are_in_the_document() {
    let mut table = "| method | path | does | open to |\n|---|---|---|---|\n".to_owned();
    for route in routes() {
        let method = match route.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        };
        let access = match route.access {
            RouteAccess::People => "people, programs, administrators",
            RouteAccess::Administrators => "administrators",
            RouteAccess::Anyone => "everybody",
        };
        let summary = route.summary.trim_end_matches('.');
        writeln!(
            table,
            "| {method} | `{}` | {summary} | {access} |",
            route.path
        )
        .unwrap();
    }
    assert_table("rest-routes", &table);
}
