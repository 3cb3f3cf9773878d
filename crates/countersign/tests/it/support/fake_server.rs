//! Serves the fakes of the forge crate on loopback, so that the program talks to them.

use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use forge::WireRequest;

use super::forge::{field, read};
use crate::fakes::{Fake, Served};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that a fake looks at.
const HEADERS: [&str; 3] = ["authorization", "private-token", "if-none-match"];

/// Starts a server for a fake, and returns its address.
pub fn serve<F: Fake + 'static>(fake: F) -> (String, Arc<Served<F>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let fake = Arc::new(Served(Mutex::new(fake)));
    let served = Arc::clone(&fake);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Ok((head, body)) = read(&mut stream) else {
                continue;
            };
            let mut words = head.split(' ');
            let (method, target) = (words.next().unwrap(), words.next().unwrap());
            let headers = HEADERS.into_iter().filter_map(|name| {
                let value = field(&head, name);
                (!value.is_empty()).then(|| (name, value.to_owned()))
            });
            let method = METHODS.into_iter().find(|known| *known == method);
            let request = WireRequest {
                method: method.unwrap(),
                url: target.to_owned(),
                headers: headers.collect(),
                body,
                is_write: false,
            };
            let reply = served.answer(&request);
            let head = format!(
                "HTTP/1.1 {} .\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                reply.status,
                reply.body.len()
            );
            // A client that goes away is no concern of the test.
            drop(stream.write_all(&[head.as_bytes(), &reply.body].concat()));
        }
    });
    (url, fake)
}
