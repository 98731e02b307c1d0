// A RakNet peer on the crate rust-raknet. A server echoes every message, reliably.
// Usage: raknet-peer PORT|HOST:PORT client|server

use rust_raknet::{error::Result, RaknetListener, RaknetSocket, Reliability};
use std::net::SocketAddr;
use std::{env, process, sync::Arc};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().collect();
    let at = if args[1].contains(':') { args[1].clone() } else { format!("127.0.0.1:{}", args[1]) };
    let address: SocketAddr = at.parse().expect("address");
    if args[2] == "server" {
        tokio::spawn(obey(None));
        return serve(address).await;
    }
    let server = Arc::new(RaknetSocket::connect(&address).await?);
    tell("connected");
    tokio::spawn(obey(Some(server.clone())));
    while let Ok(message) = server.recv().await {
        received(&message);
    }
    tell("disconnected");
    std::future::pending().await
}

async fn serve(address: SocketAddr) -> Result<()> {
    let mut listener = RaknetListener::bind(&address).await?;
    listener.listen().await;
    tell("listening");
    loop {
        let client = listener.accept().await?;
        tell("joined");
        tokio::spawn(async move {
            while let Ok(message) = client.recv().await {
                received(&message);
                if client.send(&message, Reliability::ReliableOrdered).await.is_err() {
                    break;
                }
            }
            tell("left");
        });
    }
}

// obey executes orders until stdin ends. A server has none.
async fn obey(server: Option<Arc<RaknetSocket>>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = lines.next_line().await.expect("order") {
        let server = server.as_ref().expect("a client");
        if field(&order, "do") == "send" {
            let reliable = order.contains("\"reliable\":true");
            let mode = if reliable { Reliability::ReliableOrdered } else { Reliability::Unreliable };
            server.send(&bytes_of(field(&order, "payload")), mode).await.expect("send");
        } else {
            server.close().await.expect("goodbye");
        }
    }
    process::exit(0);
}

// field returns the text of a field of a flat JSON object without escapes.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let key = format!("\"{name}\":\"");
    let rest = &line[line.find(&key).expect(name) + key.len()..];
    &rest[..rest.find('"').expect("end of text")]
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

fn received(message: &[u8]) {
    let hex: String = message.iter().map(|b| format!("{b:02x}")).collect();
    println!("{{\"event\":\"received\",\"payload\":\"{hex}\"}}");
}

fn tell(event: &str) {
    println!("{{\"event\":\"{event}\"}}");
}
